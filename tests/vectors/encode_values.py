"""Write golden messages of topk, dgc and threshold with their values as bfloat16 and int8, by an encoder that was written
from docs/codec-formats.md alone.

    encode_values.py FOLDER    writes the files of CASES that are not there yet; what is there stays

To add some, add to CASES. decode.py and the library's tests then check the files. Positions are in Golomb's code.
"""
# SPDX-License-Identifier: Apache-2.0
import fractions
import math
import os
import random
import struct
import sys

from encode import Bits, f32, varint, words

NAMES = {"bfloat16": 97, "int8": 98}
LARGEST = struct.unpack("<f", struct.pack("<I", 0x7F7F0000))[0]


def rounded(value):
    return struct.unpack("<f", f32(value))[0]


def bfloat16(value):
    """The nearest one, ties to even, by exact fractions."""
    exact = fractions.Fraction(value)
    unit = fractions.Fraction(2) ** max(math.frexp(value)[1] - 8, -133)
    return max(-LARGEST, min(LARGEST, float(round(exact / unit) * unit)))


def arriving(values, form):
    """What a receiver gets of each value, and the scale of int8."""
    if form == "float32":
        return values, None
    if form == "bfloat16":
        return [bfloat16(value) for value in values], None
    largest = max(map(abs, values), default=0.0)
    scale = min(rounded(largest / 127), float.fromhex("0x1.020406p+121"))
    if scale < 2.0**-126:
        return [0.0] * len(values), 0.0
    inverse = rounded(127 / largest)
    return [rounded(round(rounded(value * inverse)) * scale) for value in values], scale


def packed(values, sent, form, scale):
    if form == "float32":
        return b"".join(map(f32, values))
    if form == "bfloat16":
        return b"".join(f32(value)[2:] for value in sent)
    return f32(scale) + b"".join(struct.pack("b", round(value / scale)) for value in sent)


def chosen(values, codec, number):
    if codec == "threshold":
        return [i for i, value in enumerate(values) if abs(value) >= rounded(number)]
    k = max(1, math.ceil(number * len(values))) if values else 0
    order = sorted((i for i, value in enumerate(values) if value), key=lambda i: (-abs(values[i]), i))
    return sorted(order[:k])


def golomb(places, p):
    phi = (math.sqrt(5) + 1) / 2
    ratio = math.log(phi - 1) / math.log1p(-p) if p < 1 else 0.0
    b = min(max(1 + math.floor(math.log2(ratio)), 0), 31) if ratio > 0 else 0
    bits = Bits()
    for before, place in zip([-1] + places, places):
        gap = place - before - 1
        bits.unary(gap >> b)
        bits.put(gap % (1 << b), b)
    return b, bits.bytes()


def encode(values, codec, number, form):
    """The message, what arrives, and what stays."""
    places = chosen(values, codec, number)
    sent, scale = arriving([values[i] for i in places], form)
    places, sent = [i for i, value in zip(places, sent) if value], [value for value in sent if value]
    decoded, residual = [0.0] * len(values), list(values)
    for i, value in zip(places, sent):
        decoded[i], residual[i] = value, rounded(values[i] - value)
    body = packed([values[i] for i in places], sent, form, scale) if places else b""
    if codec == "topk":
        flags = [int(i in places) for i in range(len(values))] + [0] * (-len(values) % 8)
        text = "".join(map(str, flags))
        head = bytes(int(text[at:at + 8], 2) for at in range(0, len(text), 8))
        if places and form != "float32":
            head += struct.pack("<I", 0x7FC00000 + NAMES[form])
        return head + body, decoded, residual
    if not places:
        return varint(0), decoded, residual
    b, gaps = golomb(places, len(places) / len(values) if codec == "threshold" else number)
    name = b"" if form == "float32" else bytes([NAMES[form]])
    return varint(len(places)) + name + bytes([b]) + body + gaps, decoded, residual


def gauss(seed, count):
    rng = random.Random(seed)
    return [rounded(rng.gauss(0, 1)) for _ in range(count)]


TIES = [1.00390625, -1.01171875, 1.0, 3.0, -127.0, 63.5, 0.5, -0.5, 1.5]
HUGE = [rounded(value) for value in (3.4028234663852886e38, -3.4e38, 1.0, 2e36, -1e-45)]
TINY = [rounded(value) for value in (1e-40, -3e-41, 0.0, 5e-41, -0.0)]

# Name: what it is for, the codec, p or t, the form of the values, the values.
CASES = {}
for _codec, _number in (("topk", 0.25), ("dgc", 0.25), ("threshold", 1.5)):
    for _form in NAMES:
        CASES |= {
            f"{_codec}_{_form}": ("Some of many.", _codec, _number, _form, gauss(21, 200)),
            f"{_codec}_{_form}_empty": ("No values.", _codec, _number, _form, []),
        }
for _codec, _number in (("topk", 1.0), ("dgc", 0.5), ("threshold", 1e-6)):
    for _form in NAMES:
        CASES |= {
            f"{_codec}_{_form}_ties": ("Half way between two.", _codec, _number, _form, TIES + [0.0] * 9),
            f"{_codec}_{_form}_huge": ("Values that are clamped, and some that would arrive as 0.", _codec, _number, _form,
                                       HUGE + [0.0] * 5),
            f"{_codec}_{_form}_tiny": ("Denormals.", _codec, _number, _form, TINY * 2),
        }
CASES |= {
    "threshold_values": ("Values as they are; just the threshold is sent.", "threshold", 0.5, "float32",
                         [0.25, 0.5, -0.5, 0.0, 0.49999997, -3.0, 0.125] * 3),
    "threshold_all": ("All values, whose positions take a bit each.", "threshold", 0.001, "float32", [1.0, -2.0, 0.5] * 7),
    "threshold_none": ("No value is large enough.", "threshold", 16.0, "float32", gauss(22, 40)),
    "threshold_empty": ("No values.", "threshold", 0.001, "float32", []),
    "threshold_many": ("A count of two bytes.", "threshold", 0.1, "float32", gauss(23, 170)),
}


def main(folder):
    for name, (about, codec, number, form, values) in CASES.items():
        path = os.path.join(folder, f"{name}.txt")
        if os.path.exists(path):
            continue
        message, decoded, residual = encode(values, codec, number, form)
        spec = f"{codec}:{'t' if codec == 'threshold' else 'p'}={number:f}"
        spec += "" if form == "float32" else f",values={form}"
        lines = [f"# {about}", f"spec {spec}", "input " + words([f32(value)[::-1].hex() for value in values]),
                 "message " + words([f"{byte:02x}" for byte in message])]
        for word, floats in (("decoded", decoded), ("residual", residual)):
            lines.append(f"{word} " + words([f32(value)[::-1].hex() for value in floats]))
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(line.rstrip() for line in lines) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
