#!/usr/bin/env python3
"""Write golden messages of the codecs that draw random numbers, by encoders that were written from docs/codec-formats.md alone.

    encode_random.py FOLDER    writes the files of CASES that are not there yet; what is there stays

To add some, add to CASES. decode.py and the library's tests then check the files. Needs the package xxhash, for XXH3.
"""
# SPDX-License-Identifier: Apache-2.0
import math
import os
import random
import struct
import sys

import xxhash
from decode_random import MAGNITUDES, eden_signs, eden_widths, hadamard, philox_block


def f32(value):
    return struct.pack("<f", value)


def rounded(value):
    return struct.unpack("<f", f32(value))[0]


def varint(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def digest(values):
    return xxhash.xxh3_64_intdigest(b"".join(map(f32, values)))


def randk_places(draw, n, k):
    for i in range(k):
        begin, end = i * n // k, (i + 1) * n // k
        yield begin + (end - begin) * philox_block((draw, 0), (i // 4, 0, 0, 0))[i % 4] // 2**32


def randk(values, p, seed):
    """The message, what arrives, and what stays."""
    n = len(values)
    k = max(1, math.ceil(p * n)) if n > 0 else 0
    message, decoded, residual = varint(k), [0.0] * n, list(values)
    if k > 0:
        draw = digest(values) % 2**32 ^ seed
        while any(values) and not any(values[place] for place in randk_places(draw, n, k)):
            draw = (draw + 1) % 2**32
        message += struct.pack("<I", draw)
        for place in randk_places(draw, n, k):
            decoded[place], residual[place] = values[place] + 0.0, 0.0
            message += f32(decoded[place])
    return message, decoded, residual


def next_float(value, step):
    """The float above (step 1) or below (-1) one that is greater than 0."""
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", f32(value))[0] + step))[0]


def lots_of(values, seed):
    """A number below 2**16 for each value: the halves of stoch3's random numbers."""
    low, high = digest(values) % 2**32, digest(values) >> 32
    blocks = 32 * ((len(values) + 255) // 256)
    words = [word for b in range(blocks) for word in philox_block((seed, 0), (b, 0, low, high))]
    return [words[i // 256 * 128 + i % 128] >> i // 128 % 2 * 16 & 0xFFFF for i in range(len(values))]


def packed(levels, bits):
    text = "".join(format(level % 2**bits, f"0{bits}b") for level in levels)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at:at + 8], 2) for at in range(0, len(text), 8))


def qsgd_levels(values, lots, s):
    """A bucket's scale, its levels, and what arrives."""
    largest = max(map(abs, values))
    scale = rounded(largest / s)
    if s * scale > 3.4028234663852886e38:
        scale = next_float(scale, -1)
    if scale < 2.0**-126:
        return 0.0, [0] * len(values), [0.0] * len(values)
    inverse = rounded(s / largest)
    if rounded(inverse * largest) < s:
        inverse = next_float(inverse, 1)
    levels = []
    for value, lot in zip(values, lots):
        a = min(rounded(abs(value) * inverse), s)
        level = math.trunc(a) + (lot + 0.5 < (a - math.trunc(a)) * 2**16)
        levels.append(-level if value < 0 else level)
    return scale, levels, [rounded(level * scale) + 0.0 for level in levels]


def qsgd(values, bits, bucket, seed):
    lots, heads, levels, decoded = lots_of(values, seed), b"", [], []
    for at in range(0, len(values), bucket):
        scale, level, value = qsgd_levels(values[at:at + bucket], lots[at:], 2 ** (bits - 1) - 1)
        heads, levels, decoded = heads + f32(scale), levels + level, decoded + value
    message = bytes([bits, bucket.bit_length() - 1]) + heads + packed(levels, bits)
    return message, decoded, [0.0] * len(values)


def natural_level(value, lot, least, top):
    bits = struct.unpack("<I", f32(abs(value)))[0]
    if bits >= least << 23:
        level = min((bits + 128 * lot + 64) // 2**23, top) - least + 1
    else:
        level = int(lot + 0.5 < abs(value) * 2.0 ** (127 - least) * 2**16)
    return -level if value < 0 else level


def natural(values, bits, bucket, seed):
    lots, heads, levels, decoded = lots_of(values, seed), b"", [], []
    for at in range(0, len(values), bucket):
        some = values[at:at + bucket]
        top = min((struct.unpack("<I", f32(max(map(abs, some))))[0] + 2**23 - 1) // 2**23, 254)
        least = max(1, top - 2 ** (bits - 1) + 2)
        level = [natural_level(value, lot, least, top) for value, lot in zip(some, lots[at:])]
        heads, levels = heads + bytes([top]), levels + level
        decoded += [math.copysign(2.0 ** (least + abs(one) - 128), one) if one else 0.0 for one in level]
    message = bytes([bits, bucket.bit_length() - 1]) + heads + packed(levels, bits)
    return message, decoded, [0.0] * len(values)


def rotated(values):
    """The Hadamard transform, each sum rounded to binary32."""
    if len(values) == 1:
        return values
    half = len(values) // 2
    pairs = list(zip(values[:half], values[half:]))
    return rotated([rounded(a + b) for a, b in pairs]) + rotated([rounded(a - b) for a, b in pairs])


def in_parts(terms):
    parts = [0.0] * 16
    for i, term in enumerate(terms):
        parts[i % 16] += term
    total = 0.0
    for part in parts:
        total += part
    return total


def eden_bucket(values, signs, width, bits):
    """A bucket's scale, and its codes."""
    exponent = struct.unpack("<I", f32(max(map(abs, values))))[0] >> 23
    if exponent == 0:
        return 0.0, [0] * width
    v = [value * 2.0 ** (128 - exponent) for value in values]
    square = in_parts(x * x for x in v)
    v = rotated([-x if sign else x for x, sign in zip(v, signs)] + [0.0] * (width - len(v)))
    table = MAGNITUDES[bits]
    limits = [rounded((a + b) / 2048 * math.sqrt(square)) for a, b in zip(table, table[1:])]
    numbers = [sum(abs(x) > limit for limit in limits) for x in v]
    products = in_parts(rounded(abs(x) * table[number]) for x, number in zip(v, numbers))
    scale = rounded(min(square / products * 2.0 ** (exponent - 128), 2.0**115 / width))
    return scale, [number + (x < 0) * 2 ** (bits - 1) for x, number in zip(v, numbers)]


def eden(values, bits, bucket, seed):
    n, shift = len(values), bucket.bit_length() - 1
    draw, at = digest(values) % 2**32 ^ seed, 0
    signs, heads, codes, decoded = eden_signs(draw, n), b"", [], []
    for width in eden_widths(n, shift):
        some = values[at:at + bucket]
        scale, code = eden_bucket(some, signs[at:], width, bits)
        table = MAGNITUDES[bits] + tuple(-one for one in MAGNITUDES[bits])
        sums = hadamard([table[one] for one in code])
        decoded += [rounded(-one * scale if sign else one * scale) + 0.0 for one, sign, _ in zip(sums, signs[at:], some)]
        heads, codes, at = heads + f32(scale), codes + code, at + len(some)
    message = bytes([bits, shift]) + struct.pack("<I", draw) + heads + packed(codes, bits)
    return message, decoded, [0.0] * n


def narrowed(value, form):
    """To binary32, or on to bfloat16: to nearest, ties to even."""
    bits = struct.unpack("<I", f32(value))[0]
    if form == 1:
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def powersgd_sum(products):
    """Products in 16 parts, which are added in pairs; each sum in binary32."""
    parts = [0.0] * 16
    for j, product in enumerate(products):
        parts[j % 16] = rounded(parts[j % 16] + product)
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [rounded(a + b) for a, b in zip(parts[:half], parts[half:])]
    return parts[0]


def orthonormal(columns, form):
    """P's columns, without those that are left out."""
    kept = []
    for column in columns:
        before = math.sqrt(in_parts(a * a for a in column))
        for other in kept + kept:
            s = rounded(in_parts(a * b for a, b in zip(column, other)))
            column = [rounded(a - rounded(s * b)) for a, b in zip(column, other)]
        length = math.sqrt(in_parts(a * a for a in column))
        if length > 2.0**-16 * before:
            kept.append([rounded(a / length) for a in column])
    return [[narrowed(a, form) for a in column] for column in kept]


def powersgd_factors(matrix, rank, power, form):
    """The columns of P and of Q."""
    bits = struct.unpack("<I", f32(max(abs(value) for row in matrix for value in row)))[0]
    up, columns = 2.0 ** (127 - (bits >> 23)), len(matrix[0])
    words = [word for b in range(rank * columns // 4 + 1) for word in philox_block((bits, 0), (b, 0, 0, 0))]
    drawn = [rounded(word - (word >> 31 << 32)) * 2.0**-31 * up for word in words]
    q = [drawn[k * columns:(k + 1) * columns] for k in range(rank)]
    for step in range(power):
        q = [[rounded(a * (up if step else 1)) for a in column] for column in q]
        p = orthonormal([[powersgd_sum(rounded(a * b) for a, b in zip(row, column)) for row in matrix] for column in q], form)
        q = []
        for column in p:
            sums = [0.0] * columns
            for a, row in zip(column, matrix):
                sums = [rounded(total + rounded(a * value)) for total, value in zip(sums, row)]
            q.append(sums)
    return p, [[narrowed(a, form) for a in column] for column in q]


def powersgd(values, rank, power, form, rows):
    n, most = len(values), max(map(abs, values), default=0.0)
    rows = rows or max((k for k in range(1, math.isqrt(n) + 1) if n % k == 0), default=0)
    rows = rows if rows and n % rows == 0 else n
    columns = n // rows if rows else 0
    if most > 0 and 6 + (4 >> form) * rank * (rows + columns) >= 1 + 4 * n:
        return b"\xff" + b"".join(map(f32, values)), values, [0.0] * n
    if not 2.0**-100 <= most < 2.0**90:
        return b"\0", [0.0] * n, values
    matrix = [values[at:at + columns] for at in range(0, n, columns)]
    p, q = powersgd_factors(matrix, rank, power, form)
    message = bytes([len(p), form]) + struct.pack("<I", rows)
    message += b"".join(f32(a)[2 * form:] for column in p + q for a in column)
    decoded = []
    for a in zip(*p):
        for b in zip(*q):
            decoded.append(0.0)
            for c, d in zip(a, b):
                decoded[-1] = rounded(decoded[-1] + rounded(c * d))
    return message, decoded, [rounded(a - b) for a, b in zip(values, decoded)]


def gauss(seed, count):
    rng = random.Random(seed)
    return [rounded(rng.gauss(0, 1)) for _ in range(count)]


# Name: what it is for, the spec, the encoder with its parameters, the values.
CASES = {
    "randk_empty": ("No values.", "randk", (randk, 0.01, 1), []),
    "randk_one": ("One value.", "randk", (randk, 0.01, 1), [-2.5]),
    "randk_gauss": ("A tenth of the values.", "randk:p=0.1", (randk, 0.1, 1), gauss(1, 300)),
    "randk_seed": ("Another seed, other places.", "randk:p=0.1,seed=4294967295", (randk, 0.1, 2**32 - 1), gauss(1, 300)),
    "randk_uneven": ("Stretches of two lengths.", "randk:p=0.4,seed=7", (randk, 0.4, 7), gauss(2, 33)),
    "randk_all": ("All values, and a count of two bytes.", "randk:p=1", (randk, 1, 1), gauss(3, 130)),
    "randk_zeros": ("Zeros of both signs, which are sent as +0.", "randk:p=0.5", (randk, 0.5, 1), [0.0, -0.0] * 8),
    "randk_spike": ("One value that is not 0: places that find it.", "randk", (randk, 0.01, 1), [0.0] * 71 + [3e38] + [-0.0] * 60),
}

CASES |= {
    "qsgd_empty": ("No values.", "qsgd", (qsgd, 4, 512, 1), []),
    "qsgd_one": ("One value, which has the last level.", "qsgd", (qsgd, 4, 512, 1), [-2.5]),
    "qsgd_gauss": ("Two buckets, the second one short.", "qsgd:bucket=64", (qsgd, 4, 64, 1), gauss(4, 101)),
    "qsgd_2": ("Levels -1, 0 and 1; another seed.", "qsgd:bits=2,bucket=64,seed=4294967295", (qsgd, 2, 64, 2**32 - 1), gauss(5, 130)),
    "qsgd_3": ("Levels of three bits, which cross bytes.", "qsgd:bits=3,seed=7", (qsgd, 3, 512, 7), gauss(6, 61)),
    "qsgd_lots": ("More values than share their random numbers.", "qsgd:bits=2,bucket=64", (qsgd, 2, 64, 1), gauss(8, 300)),
    "qsgd_8": ("Levels of a byte.", "qsgd:bits=8,bucket=8192", (qsgd, 8, 8192, 1), gauss(7, 70)),
    "qsgd_huge": ("The largest floats, and a scale that had to shrink.", "qsgd:bits=8", (qsgd, 8, 512, 1), [3.4028234663852886e38, -3e38, 1e38, 1.0]),
    "qsgd_buckets": ("A bucket of zeros of both signs, one of denormals, one with a value.", "qsgd:bits=5,bucket=64", (qsgd, 5, 64, 1),
                     [0.0, -0.0] * 32 + [1e-40] * 64 + [-0.0] * 9 + [0.75, 0.3]),
}

CASES |= {
    "natural_empty": ("No values.", "natural", (natural, 8, 512, 1), []),
    "natural_one": ("One value, between two powers.", "natural", (natural, 8, 512, 1), [-2.5]),
    "natural_gauss": ("Two buckets, the second one short.", "natural:bucket=64", (natural, 8, 64, 1), gauss(9, 101)),
    "natural_2": ("One power of each sign; another seed.", "natural:bits=2,bucket=64,seed=4294967295", (natural, 2, 64, 2**32 - 1), gauss(10, 300)),
    "natural_4": ("Seven powers, and values below them.", "natural:bits=4", (natural, 4, 512, 1), [x**5 for x in map(rounded, range(-8, 9))]),
    "natural_huge": ("Values over the largest power.", "natural:bits=3", (natural, 3, 512, 1), [3.4028234663852886e38, -3e38, 1.5e38, 1.0]),
    "natural_buckets": ("A bucket of zeros of both signs, one of denormals, one of powers.", "natural:bits=5,bucket=64", (natural, 5, 64, 1),
                        [0.0, -0.0] * 32 + [rounded(1e-38), rounded(-3e-39)] * 32 + [2.0**-k for k in range(20)]),
}

CASES |= {
    "eden_empty": ("No values.", "eden", (eden, 1, 1024, 1), []),
    "eden_one": ("One value, which eight codes stand for.", "eden", (eden, 1, 1024, 1), [-2.5]),
    "eden_gauss": ("DRIVE: two buckets, the second one of 64 codes for 37 values.", "eden:bucket=64", (eden, 1, 64, 1), gauss(11, 101)),
    "eden_2": ("Two bits; another seed; more signs than one block.", "eden:bits=2,bucket=128,seed=4294967295", (eden, 2, 128, 2**32 - 1), gauss(12, 290)),
    "eden_3": ("Three bits.", "eden:bits=3,seed=7", (eden, 3, 1024, 7), gauss(13, 30)),
    "eden_4": ("Four bits.", "eden:bits=4", (eden, 4, 1024, 1), gauss(14, 130)),
    "eden_huge": ("A scale that had to shrink.", "eden:bits=2", (eden, 2, 1024, 1), [3.4028234663852886e38, -3e38, 1e38, 1.0]),
    "eden_buckets": ("A bucket of zeros of both signs, one of denormals, one of a value.", "eden:bits=4,bucket=64", (eden, 4, 64, 1),
                     [0.0, -0.0] * 32 + [rounded(1e-40)] * 64 + [-0.0] * 9 + [0.75]),
}

CASES |= {
    "powersgd_empty": ("No values.", "powersgd", (powersgd, 2, 1, 0, 0), []),
    "powersgd_zeros": ("Zeros of both signs.", "powersgd", (powersgd, 2, 1, 0, 0), [0.0, -0.0] * 20),
    "powersgd_vector": ("A prime number of values: they travel as they are.", "powersgd", (powersgd, 2, 1, 0, 0), gauss(21, 16) + [-0.0]),
    "powersgd_gauss": ("10 rows of 12 columns, rank 2.", "powersgd", (powersgd, 2, 1, 0, 0), gauss(22, 120)),
    "powersgd_rows": ("5 rows of 40 columns, an odd rank.", "powersgd:rank=3,rows=5", (powersgd, 3, 1, 0, 5), gauss(23, 200)),
    "powersgd_power": ("Three steps of iteration.", "powersgd:rank=4,power=3", (powersgd, 4, 3, 0, 0), gauss(24, 400)),
    "powersgd_bfloat16": ("Numbers of two bytes.", "powersgd:rank=3,power=2,values=bfloat16", (powersgd, 3, 2, 1, 0), gauss(25, 144)),
    "powersgd_dependent": ("A matrix of rank 1, of which no more is sent.", "powersgd:rank=3", (powersgd, 3, 1, 0, 0),
                           [float(2**(i % 3) * 3**(j % 4)) for i in range(10) for j in range(11)]),
    "powersgd_spike": ("A value alone.", "powersgd", (powersgd, 2, 1, 0, 0), [0.0] * 71 + [-7.0] + [-0.0] * 72),
    "powersgd_huge": ("A matrix that waits: its sums could be infinite.", "powersgd:rank=1", (powersgd, 1, 1, 0, 0), [2.0**90] + [1.0] * 35),
    "powersgd_large": ("The largest magnitudes that are sent, and a step more.", "powersgd:rank=1,power=2", (powersgd, 1, 2, 0, 0),
                       [x * 2.0**87 for x in gauss(26, 36)]),
    "powersgd_small": ("Magnitudes near the smallest that are sent.", "powersgd:rank=2", (powersgd, 2, 1, 0, 0), [x * 2.0**-100 for x in gauss(27, 100)]),
}


def words(items):
    out, at = [], 0
    while at < len(items):
        end = at
        while end < len(items) and items[end] == items[at]:
            end += 1
        out.append(f"{end - at}*{items[at]}" if end - at > 1 else items[at])
        at = end
    return " ".join(out)


def main(folder):
    for name, (about, spec, (encode, *parameters), values) in CASES.items():
        path = os.path.join(folder, f"{name}.txt")
        if os.path.exists(path):
            continue
        message, decoded, residual = encode(values, *parameters)
        lines = [f"# {about}", f"spec {spec}", "input " + words([f32(value)[::-1].hex() for value in values]),
                 "message " + words([f"{byte:02x}" for byte in message])]
        for word, floats in (("decoded", decoded), ("residual", residual)):
            lines.append(f"{word} " + words([f32(value)[::-1].hex() for value in floats]))
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(line.rstrip() for line in lines) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
