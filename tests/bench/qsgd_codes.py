#!/usr/bin/env python3
"""Compare the bytes of qsgd's levels in fixed bits, in the paper's Elias code, and at the theoretical least (their entropy):

    qsgd_codes.py AFTER.safetensors BEFORE.safetensors TENSOR

The difference of the tensors is the update. Buckets have 512 values; each has a scale of 4 bytes, which is counted. The norm is
the largest value or the 2-norm. Printed are bytes, and the error of one message, relative to the update's 2-norm.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import random
import struct
import sys
from collections import Counter

BUCKET, SCALE_BITS = 512, 32


def tensor(path, name):
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin, end = head[name]["data_offsets"]
        file.seek(begin, 1)
        return struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))


def elias(number):
    """Return the bits of Elias' recursive code of a number of at least 1."""
    bits = 1
    while number > 1:
        bits += number.bit_length()
        number = number.bit_length() - 1
    return bits


def draw(bucket, levels, by_largest):
    """Round a bucket randomly to levels; return the levels, and the sum of the squared errors."""
    norm = max(map(abs, bucket)) if by_largest else math.sqrt(sum(x * x for x in bucket))
    chosen, error = [], 0.0
    for x in bucket:
        a = abs(x) / norm * levels if norm > 0 else 0.0
        level = int(a) + (random.random() < a % 1)
        chosen.append(-level if x < 0 else level)
        error += (level * norm / levels - abs(x)) ** 2
    return chosen, error


def sparse_bits(chosen):
    """Return the bits of the paper's code. A level that is not 0 has its distance from the last such level, its sign and its magnitude."""
    bits, last = 0, -1
    for i, level in enumerate(chosen):
        if level:
            bits += elias(i - last) + 1 + elias(abs(level))
            last = i
    return bits


def row(update, levels, by_largest):
    buckets = [update[at:at + BUCKET] for at in range(0, len(update), BUCKET)]
    drawn = [draw(bucket, levels, by_largest) for bucket in buckets]
    scales = SCALE_BITS * len(buckets)
    every = [level for chosen, _ in drawn for level in chosen]
    fixed = scales + len(every) * (2 * levels).bit_length()
    sparse = scales + sum(sparse_bits(chosen) for chosen, _ in drawn)
    dense = scales + sum(elias(abs(level) + 1) + (level != 0) for level in every)
    least = scales + sum(-c * math.log2(c / len(every)) for c in Counter(every).values())
    error = math.sqrt(sum(e for _, e in drawn) / sum(x * x for x in update))
    return fixed, min(sparse, dense), least, error


def main(after, before, name):
    update = [a - b for a, b in zip(tensor(after, name), tensor(before, name))]
    random.seed(1)
    print("| norm | levels of a sign | fixed bits | Elias | entropy | error |\n|---|---|---|---|---|---|")
    for by_largest, levels in ((True, 1), (True, 7), (True, 127), (False, 4), (False, 16), (False, 64)):
        fixed, coded, least, error = row(update, levels, by_largest)
        print(f"| {'largest' if by_largest else '2-norm'} | {levels} | {fixed / 8:,.0f} | {coded / 8:,.0f} | {least / 8:,.0f} | {error:.3f} |")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
