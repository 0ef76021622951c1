#!/usr/bin/env python3
"""Write golden files of the stage "entropy", by an encoder that was written from docs/codec-formats.md alone.

    encode_entropy.py FOLDER    writes the files of CASES that are not there yet; what is there stays

To add some, add to CASES. decode.py and the library's tests then check the files.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import random
import sys


class Model:
    def __init__(self):
        self.bounds, self.step = [2048 * i for i in range(17)], 32767

    def learn(self, value):
        for i in range(1, 16):
            aim = 8 * i if i <= value else 32768 - 8 * (16 - i)
            self.bounds[i] += (aim - self.bounds[i]) * self.step // 65536
        self.step = max(self.step - self.step * self.step // 65536, 688)


class Encoder:
    def __init__(self):
        self.low, self.range, self.packed = 0, 2**64 - 1, 0  # low: the whole number; packed: how many of its bytes are

    def put(self, model, value):
        share = self.range // 2**15
        self.low += share * model.bounds[value]
        self.range = share * (model.bounds[value + 1] - model.bounds[value])
        if self.range < 2**32:
            self.low, self.range, self.packed = self.low * 2**32, self.range * 2**32, self.packed + 4
        model.learn(value)

    def end(self):
        for k in range(1, 9):
            unit = 2**(64 - 8 * k)
            w = -(-self.low // unit) * unit
            if w + unit <= self.low + self.range:
                return (w // unit).to_bytes(self.packed + k, "big")
        raise AssertionError("eight bytes always do")


def pack(plain):
    encoder, models, kind = Encoder(), {}, 0
    for byte in plain:
        encoder.put(models.setdefault(kind, Model()), byte // 16)
        encoder.put(models.setdefault((kind, byte // 16), Model()), byte % 16)
        kind = 2 if byte == 255 else 1 if byte == 121 or byte in range(243, 255) else 0
    return encoder.end()


def like_3lc(rng, count):
    """A magnitude, then values among long zeros, with their rests."""
    plain = [0x0a, 0xd7, 0x23, 0x3c]
    for _ in range(count):
        zeros = int(rng.expovariate(1 / 80))
        plain += [255] * (zeros // 14)
        plain += [(121 if zeros % 14 == 1 else 241 + zeros % 14)] if zeros % 14 > 0 else []
        plain += [121 + rng.choice((-81, -27, -9, -3, -1, 1, 3, 9, 27, 81))]
    return plain


def drawn(seed, count):
    return random.Random(seed).choices(range(256), k=count)


# Name: what it is for, and the bytes.
CASES = {
    "one": ("One byte, which takes no fewer.", [121]),
    "zero": ("The least number: low stays 0.", [0] * 40),
    "highest": ("The highest one: each nibble takes the last share.", [255] * 300),
    "carry": ("A carry through two bytes that are packed already.", drawn(2710, 30)),
    "last_carry": ("A carry by the last bytes.", [0xde, 0x76, 0xbc, 0xda]),
    "3lc": ("Like a message of 3lc.", like_3lc(random.Random(1), 60)),
    "values": ("Each value of a byte, after each kind of byte.", [b for v in range(256) for b in (v, 255, v, 121, v, 7)]),
    "drawn": ("Bytes without any order, which grow a little.", drawn(2, 200)),
}


def words(values):
    out, at = [], 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at]:
            end += 1
        out.append(f"{end - at}*{values[at]:02x}" if end - at > 1 else f"{values[at]:02x}")
        at = end
    lines = [" ".join(out[at:at + 32]) for at in range(0, len(out), 32)]
    return "\n    ".join(lines)


def main(folder):
    for name, (about, plain) in CASES.items():
        path = os.path.join(folder, f"entropy_{name}.txt")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(f"# {about}\nstage entropy\nplain {words(plain)}\npacked {words(pack(plain))}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
