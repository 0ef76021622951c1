"""Golden bursts (docs/codec-formats.md#bursts), by a coder that was written from the document alone.

    bursts.py ROOT            exit status 1 if a file of tests/vectors/bursts is missing or differs
    bursts.py ROOT --write    writes missing files; existing files are not changed

One line of *.values and of *.decoded is one float, the eight hexadecimal digits of its bits. One
line of *.bursts is one burst, two digits a byte. There is nothing else, so Verilog's $readmemh
reads them as they are: 32-bit words, and bytes.

    eE.values     what is encoded with this E: each class, the ends of each power of two, every
                  class at every place in a burst, gradients of several scales, bits that are no
                  gradient; the last burst is not full
    eE.bursts     what an encoder makes of it
    eE.decoded    what a decoder makes of that: the values on the other side
    any.bursts    random tags and payloads, most of which no encoder makes
    any.decoded   what a decoder makes of them
"""
# SPDX-License-Identifier: Apache-2.0
import os
import random
import sys
from fractions import Fraction

BURST = 8
# For each e the number of values, modulo 8: how full the last burst is.
LAST = {6: 1, 8: 3, 10: 5, 15: 7}
COUNT = 2000
WIDTHS = (0, 1, 2, 4)  # bytes, by tag


def magnitude(bits):
    """Return the magnitude of a float with these bits; None: it is infinite, or not a number."""
    exponent, mantissa = bits >> 23 & 255, bits & (1 << 23) - 1
    if exponent == 255:
        return None
    return (mantissa + ((1 << 23) if exponent > 0 else 0)) * Fraction(2) ** (max(exponent, 1) - 150)


def bits_of(sign, fraction):
    """Return the bits of the float that is exactly this fraction, which is below 1 and needs no denormal; 0 has no sign."""
    if fraction == 0:
        return 0
    exponent = 127
    while fraction < 1:
        fraction, exponent = 2 * fraction, exponent - 1
    mantissa = (fraction - 1) * (1 << 23)
    assert mantissa.denominator == 1
    return sign << 31 | exponent << 23 | int(mantissa)


def encode_value(bits, e):
    """Return the tag and the payload of a value."""
    a, sign = magnitude(bits), bits >> 31
    if a is None or a >= 1:
        return 3, bits.to_bytes(4, "little")
    if a < Fraction(1, 2 ** e):
        return 0, b""
    if a < Fraction(1, 2 ** (e // 2)):
        return 1, bytes([128 * sign + int(a * 2 ** 7)])
    return 2, (32768 * sign + int(a * 2 ** 15)).to_bytes(2, "little")


def decode_value(tag, payload):
    number = int.from_bytes(payload, "little")
    if tag in (0, 3):
        return number
    point = 8 * tag - 1
    return bits_of(number >> point, Fraction(number % (1 << point), 1 << point))


def burst_of(tags, payloads):
    vector = sum(tag << 2 * k for k, tag in enumerate(tags))
    return vector.to_bytes(2, "little") + b"".join(payloads)


def values_for(e):
    rng = random.Random(e)
    sign = 1 << 31
    # Each power of two from 2^-18 to 2^2, and the floats just below and just above it.
    values = [(exponent << 23) + step + s for exponent in range(109, 130) for step in (-1, 0, 1) for s in (0, sign)]
    values += [bits + s for s in (0, sign) for bits in (
        0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF)]
    values += [0] * (-len(values) % BURST)
    kinds = (0x2F000000, (126 - e // 2 << 23) + 0x123456, 0x3F5A5A5A, 0x40490FDB)
    for kind in kinds:  # a burst of this kind; then bursts of each other kind, with one value of this kind at each place
        values += [kind] * BURST
        values += [kind if place == k else other | sign
                   for other in kinds if other != kind for k in range(BURST) for place in range(BURST)]
    gradients = (COUNT - 250 - len(values)) // 4
    for scale in (0, 4, 8, 12):  # spread over the powers of two at and under 2^-scale
        for _ in range(gradients):
            down = scale + 1 + rng.getrandbits(2)
            values.append(rng.getrandbits(1) << 31 | 127 - down << 23 | rng.getrandbits(23))
    values += [0] * 40
    while len(values) < COUNT + LAST[e]:
        values.append(rng.getrandbits(32))
    return values


def any_bursts():
    rng = random.Random(16)
    for _ in range(250):
        tags = [rng.getrandbits(2) for _ in range(BURST)]
        yield tags, [bytes(rng.getrandbits(8) if rng.getrandbits(2) else 0 for _ in range(WIDTHS[tag])) for tag in tags]


def lines_of(words):
    return "".join(f"{word:08x}\n" for word in words)


def decoded_lines(bursts, count):
    return lines_of([decode_value(tag, payload) for tags, payloads in bursts
                     for tag, payload in zip(tags, payloads)][:count])


def burst_lines(bursts):
    return "".join(burst_of(*burst).hex(" ") + "\n" for burst in bursts)


def files():
    """Yield the name and the text of each file."""
    for e in LAST:
        values = values_for(e)
        coded = [encode_value(bits, e) for bits in values]
        bursts = [tuple(zip(*coded[at:at + BURST])) for at in range(0, len(coded), BURST)]
        yield f"e{e}.values", lines_of(values)
        yield f"e{e}.bursts", burst_lines(bursts)
        yield f"e{e}.decoded", decoded_lines(bursts, len(values))
    bursts = list(any_bursts())
    yield "any.bursts", burst_lines(bursts)
    yield "any.decoded", decoded_lines(bursts, BURST * len(bursts))


def compare(root, folder, wanted, write):
    """Compare a folder's files with these names and texts. Returns an exit status."""
    wrong = 0
    for name, text in wanted:
        path = os.path.join(root, "tests", "vectors", folder, name)
        if write and not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        with open(path, encoding="ascii") as file:
            if file.read() != text:
                print(f"{path}: the file differs from what this coder makes")
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(compare(sys.argv[1], "bursts", files(), "--write" in sys.argv))
