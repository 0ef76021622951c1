"""Golden messages of the codec ring: coder and reader of docs/codec-formats.md#ring, written from the
document alone.

    ring.py ROOT            exit status 1 if a file of tests/vectors/ring is missing or differs
    ring.py ROOT --write    writes missing files; existing files are not changed

A file has lines of a word and its numbers: `round` b, n, cohort, task, round, devices, seed; `p` and
`clip`, the hexadecimal digits of binary64 and f32; then for each device `values`, n floats as the
digits of their bits, and `message`, bytes; at last `change`, n floats: what the coordinator makes of
the sum. In place of the system's random bytes device d has stream (d, 0) of the seed.
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import math
import os
import struct
import sys

from decode_random import philox_block

CASES = {
    "few": dict(b=5, n=27, cohort=4, task=1, round=1, devices=3, seed=9, p=1.0, clip=1.0),
    "blocks": dict(b=4, n=1500, cohort=13, task=7, round=3, devices=2, seed=9, p=1.0, clip=0.5),
    "part": dict(b=8, n=900, cohort=520, task=2, round=12, devices=2, seed=3, p=0.1, clip=2.0),
    "wide": dict(b=16, n=64, cohort=30000, task=1 << 40, round=5, devices=2, seed=4, p=1.0, clip=1.0),
}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def number(key, stream, j):
    return philox_block((key & 0xFFFFFFFF, key >> 32), (j // 4, 0, stream, 0))[j % 4]


class Ring:
    def __init__(self, c):
        self.n, self.most = c["n"], (1 << (c["b"] - 1)) - 1
        self.k = max(1, min(self.n, math.ceil(c["p"] * self.n)))
        self.block = next((b for b in (1024, 256) if b * -(-self.k // b) <= 1.02 * self.k), 64)
        self.fields = self.block * -(-self.k // self.block)
        self.clip = c["clip"]
        self.step = f32(4.5 * self.clip / (math.sqrt(self.k) * self.most))
        long = self.clip / self.step
        root = math.sqrt(self.fields)
        self.reach = math.sqrt(long * long + self.fields / 4 + 3.7169221888498383 * (long + root / 2))
        self.width = 1
        while (1 << (self.width - 1)) <= c["cohort"] * self.most:
            self.width += 1
        draw = hashlib.sha256(b"ring" + struct.pack("<QI", c["task"], c["round"])).digest()
        self.key = struct.unpack("<Q", draw[:8])[0]

    def place(self, i):
        begin, end = i * self.n // self.k, (i + 1) * self.n // self.k
        return i if self.k == self.n else begin + ((end - begin) * number(self.key, 0, i) >> 32)

    def sign(self, f):
        return -1 if number(self.key, 1, f // 32) >> f % 32 & 1 else 1

    def rotate(self, v, rounded):
        step = len(v) // 2
        while step > 0:
            for i in range(len(v)):
                if not i & step:
                    v[i], v[i + step] = rounded(v[i] + v[i + step]), rounded(v[i] - v[i + step])
            step //= 2
        return v

    def slots(self, h):  # (field, value's number) of a block
        blocks = self.fields // self.block
        return [(h * self.block + j, j * blocks + h) for j in range(self.block)]

    def encode(self, x, words):
        sent = [x[self.place(i)] for i in range(self.k)]
        squares = 0.0
        for v in sent:
            squares += v * v
        norm = math.sqrt(squares)
        factor = self.clip / norm if norm > self.clip else 1.0
        scale = factor / (self.step * math.sqrt(self.block))
        while True:
            levels = []
            for h in range(self.fields // self.block):
                v = [f32(self.sign(f) * (sent[i] * scale)) if i < self.k else 0.0 for f, i in self.slots(h)]
                for level in self.rotate(v, f32):
                    q = math.floor(level + next(words) / 4294967296.0)
                    levels.append(max(-self.most, min(self.most, q)))
            if sum(q * q for q in levels) <= self.reach * self.reach:
                bits = sum((q & (1 << self.width) - 1) << f * self.width for f, q in enumerate(levels))
                return bits.to_bytes(self.fields * self.width // 8, "little")

    def change(self, messages):
        mask, half = (1 << self.width) - 1, 1 << (self.width - 1)
        bits = [int.from_bytes(m, "little") for m in messages]
        sums = [sum(b >> f * self.width & mask for b in bits) & mask for f in range(self.fields)]
        change = [0.0] * self.n
        for h in range(self.fields // self.block):
            slots = self.slots(h)
            v = [(sums[f] ^ half) - half for f, _ in slots]
            for (f, i), r in zip(slots, self.rotate(v, int)):
                if i < self.k:
                    value = r * self.step * self.sign(f) / (math.sqrt(self.block) * len(messages))
                    change[self.place(i)] = f32(value)
        return change


def stream(seed, device):
    j = 0
    while True:
        yield philox_block((seed, 0), (j // 4, 0, device, 0))[j % 4]
        j += 1


def digits(values):
    return " ".join(struct.pack(">f", v).hex() for v in values)


def lines_of(c):
    ring, messages = Ring(c), []
    yield "round " + " ".join(str(c[w]) for w in ("b", "n", "cohort", "task", "round", "devices", "seed"))
    yield "p " + struct.pack(">d", c["p"]).hex()
    yield "clip " + struct.pack(">f", c["clip"]).hex()
    for device in range(c["devices"]):
        words = stream(c["seed"] + 1, device)
        x = [f32((next(words) / 2**32 - 0.5) * c["clip"] / math.sqrt(c["n"]) * (2 + 4 * device)) for _ in range(c["n"])]
        messages.append(ring.encode(x, stream(c["seed"], device)))
        yield "values " + digits(x)
        yield "message " + messages[-1].hex()
    yield "change " + digits(ring.change(messages))


def main(root, write):
    failed = 0
    for name, case in CASES.items():
        path = os.path.join(root, "tests/vectors/ring", name + ".txt")
        text = "\n".join(lines_of(case)) + "\n"
        if write and not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        if not os.path.exists(path) or open(path, encoding="ascii").read() != text:
            print(f"{path} is missing, or is not what the document says")
            failed += 1
    print(f"{len(CASES)} rounds of ring, {failed} failures")
    return 1 if failed > 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] == ["--write"]))
