"""Write golden messages of sbc, dgc and stc with rANS and range positions, by an encoder that was
written from docs/codec-formats.md alone.

    encode.py FOLDER    writes the files of CASES that are not there yet; what is there stays

To add some, add to CASES. Each sends all its values that are not 0 (sbc: that are positive), so
there is nothing to choose; decode.py and the library's tests then check the files.
"""
# SPDX-License-Identifier: Apache-2.0
import math
import os
import random
import struct
import sys

ONE = 1 << 32


class Bits:
    """A bit stream, filled with ones."""

    def __init__(self):
        self.text = ""

    def put(self, value, count):
        self.text += format(value, "b").zfill(count)[-count:] if count > 0 else ""

    def unary(self, ones):
        self.text += "1" * ones + "0"

    def bytes(self):
        text = self.text + "1" * (-len(self.text) % 8)
        return bytes(int(text[at:at + 8], 2) for at in range(0, len(text), 8))


def rice_len(gaps):
    return min(-(-sum((gap >> b) + 1 + b for gap in gaps) // 8) for b in range(32))


def symbol_of(gap):
    """Symbol, number of further bits, and these."""
    if gap < 4:
        return gap, 0, 0
    e = gap.bit_length() - 1
    return 4 * (e - 1) + (gap >> e - 2) % 4, e - 2, gap % (1 << e - 2)


def rounded(weight, detail):
    unit = 1 << max(weight.bit_length() - 1 - detail, 0)
    return (weight + unit // 2) // unit * unit


def put_weights(weights, detail):
    bits, before = Bits(), 0
    bits.put(len(weights) - 1, 7)
    for weight in weights:
        length = weight.bit_length()
        bits.unary(2 * (length - before) - 1 if length > before else 2 * (before - length))
        kept = min(max(length - 1, 0), detail)
        bits.put(weight >> max(length - 1 - kept, 0), kept)
        before = length
    return bits.bytes()


def rans(gaps, _n):
    detail = 0
    while detail < 7 and len(gaps) >= 2048 << 2 * detail:
        detail += 1
    weights = [0] * (max(symbol_of(gap)[0] for gap in gaps) + 1)
    for gap in gaps:
        weights[symbol_of(gap)[0]] += 1
    most = max(weights)
    if most > 8191:
        weights = [max(weight * 8191 // most, 1) if weight > 0 else 0 for weight in weights]
    weights = [rounded(weight, detail) for weight in weights]
    spare, total = 4096 - sum(weight > 0 for weight in weights), sum(weights)
    starts = [sum(weight > 0 for weight in weights[:s]) + sum(weights[:s]) * spare // total
              for s in range(len(weights) + 1)]
    x, words = 1 << 16, []

    def push(slot, size, bits):
        nonlocal x
        if x >= size << 32 - bits:
            words.append(x % 65536)
            x >>= 16
        x = (x // size << bits) + x % size + slot

    for gap in reversed(gaps):
        symbol, count, low = symbol_of(gap)
        if count > 16:
            push(low >> 16, 1, count - 16)
        push(low % 65536, 1, min(count, 16))
        push(starts[symbol], starts[symbol + 1] - starts[symbol], 12)
    tail = b"".join(struct.pack("<H", word) for word in reversed(words))
    return 32 + detail, put_weights(weights, detail) + struct.pack("<I", x) + tail


class RangeEncoder:
    def __init__(self, count, n):
        self.low, self.high, self.out, self.models = 0, ONE - 1, bytearray(), {}
        self.q, self.t = [ONE - count * ONE // n], [ONE]
        for i in range(31):
            self.t.append(self.t[i] * self.q[i] >> 32)
            self.q.append(self.q[i] ** 2 >> 32)
        self.t.append(0)

    def bit(self, bit, p=1 << 15):
        middle = self.low + ((self.high - self.low) * p >> 16)
        self.low, self.high = (self.low, middle) if bit else (middle + 1, self.high)
        while self.low >> 24 == self.high >> 24:
            self.out.append(self.low >> 24)
            self.low, self.high = self.low % (1 << 24) << 8, self.high % (1 << 24) << 8 | 255

    def modelled(self, bit, key, a, b):
        first = 1 << 15 if b == 0 else 65535 if a == b else (a << 16) // b
        fast, slow, seen = self.models.get(key, (first, first, 12))
        self.bit(bit, min(max((fast + slow) // 2, 64), 65472))
        moved = []
        for estimate, t in ((fast, min(seen, 30)), (slow, seen)):
            step = 131072 // (2 * t + 3)
            up, down = (65535 - estimate) * step >> 16, estimate * step >> 16
            moved.append(estimate + up if bit else estimate - down)
        self.models[key] = (*moved, min(seen + 1, 254))

    def gap(self, gap):
        v = gap + 1
        e, begin = v.bit_length() - 1, 0
        for h in (16, 8, 4, 2, 1):
            end = self.t[begin + 2 * h]
            bit = e // h % 2
            self.modelled(bit, (h, begin), self.t[begin + h] - end, self.t[begin] - end)
            begin += h * bit
        for k in range(e):
            bit = v >> e - 1 - k & 1
            if k < 2:
                a = self.q[e - 1 - k]
                self.modelled(bit, ("v", e, v >> e - k), a, ONE + a)
            else:
                self.bit(bit)

    def end(self):
        for c in range(5):
            unit = 1 << 32 - 8 * c
            v = -(-self.low // unit) * unit
            if v + unit - 1 <= self.high:
                return bytes(self.out) + v.to_bytes(5, "big")[1:1 + c]


def range_code(gaps, n):
    encoder = RangeEncoder(len(gaps), n)
    for gap in gaps:
        encoder.gap(gap)
    return 64, encoder.end()


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def f32(value):
    return struct.pack("<f", value)


def encode(codec, code, p, values):
    """The message of values, and what it stands for."""
    sent = [i for i, value in enumerate(values) if value > 0 or value < 0 and codec != "sbc"]
    gaps = [after - before - 1 for before, after in zip([-1] + sent, sent)]
    how, packed = code(gaps, len(values))
    assert len(packed) < rice_len(gaps), "rice would be taken"
    assert len(sent) <= math.ceil(p * len(values)), "not all would be sent"
    magnitude = sum(abs(values[i]) for i in sent) / len(sent)
    mu = struct.unpack("<f", f32(magnitude))[0]
    signs = Bits()
    for i in sent:
        signs.put(int(values[i] < 0), 1)
    middle = {"sbc": f32(mu), "stc": f32(mu) + signs.bytes(),
              "dgc": b"".join(f32(values[i]) for i in sent)}[codec]
    decoded = [0.0] * len(values)
    for i in sent:
        decoded[i] = values[i] if codec == "dgc" else mu if values[i] > 0 else -mu
    return varint(len(sent)) + bytes([how]) + middle + packed, decoded


# ---- the tensors: a generator of gaps each, of values that are multiples of 1/4 ----

def mostly_short(rng):
    return rng.randrange(2) if rng.random() < 0.9 else rng.randrange(40, 90)


def bimodal(rng):
    return rng.choice((0, 0, 0, 97, 97, 97, 97, 500))


def constant(_rng):
    return 20


def wide(rng):
    return int(2 ** (10 * rng.random())) - 1


def far(rng):
    return 0 if rng.random() < 0.97 else rng.randrange(1 << 18, 1 << 19) // 4


def very_far(rng):
    return 0 if rng.random() < 0.995 else 600000


def clusters(rng):
    return 0 if rng.random() < 0.97 else rng.randrange(90)


CASES = {  # name: spec without pos, values, gaps
    "short": ("p=0.4", 3000, mostly_short),
    "two_gaps": ("p=0.1", 4000, bimodal),
    "one_gap": ("p=0.1", 2000, constant),
    "wide": ("p=0.1", 20000, wide),
    "detail_1": ("p=0.5", 6000, clusters),
    "farther": ("p=0.001", 700000, very_far),
    "detail_2": ("p=0.5", 24000, clusters),
    "far": ("p=0.01", 400000, far),
}


def tensor(name, n, gap):
    rng = random.Random(name)
    values, at, k = [0.0] * n, gap(rng), 0
    while at < n:
        k += 1
        values[at] = -0.25 if k // 20 % 9 == 0 else 0.5 * (1 + k // 64 % 3)
        at += gap(rng) + 1
    return values


def words(values):
    out, at = [], 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at]:
            end += 1
        out.append(f"{end - at}*{values[at]}" if end - at > 1 else values[at])
        at = end
    return " ".join(out)


def text(codec, pos, name, p, values, code):
    message, decoded = encode(codec, code, float(p[2:]), values)
    residual = [value - y for value, y in zip(values, decoded)]
    lines = [f"# Gaps: {name.replace('_', ' ')}.", f"spec {codec}:{p},pos={pos}"]
    for word, floats in (("input", values), ("decoded", decoded), ("residual", residual)):
        lines.append(f"{word} " + words([f32(value)[::-1].hex() for value in floats]))
    lines.insert(3, "message " + words([f"{byte:02x}" for byte in message]))
    return "\n".join(lines) + "\n"


def main(folder):
    for number, (name, (p, n, gap)) in enumerate(CASES.items()):
        for pos, code in (("rans", rans), ("range", range_code)):
            codec = ("sbc", "stc", "dgc")[(number + (pos == "range")) % 3]
            path = os.path.join(folder, f"{codec}_{pos}_{name}.txt")
            if os.path.exists(path):
                continue
            content = text(codec, pos, name, p, tensor(name, n, gap), code)
            with open(path, "w", encoding="ascii") as file:
                file.write(content)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
