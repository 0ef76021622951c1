"""Decoders of codecs that draw random numbers: for decode.py, written from docs/codec-formats.md alone."""
# SPDX-License-Identifier: Apache-2.0
import math

from decode_reader import SIGN, Reader, bits_of, float_of, is_finite, require


def philox_block(key, counter):
    """Return four random numbers of Philox4x32-10 (Salmon et al., 2011)."""
    x, (k0, k1), mask = list(counter), key, 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [p1 >> 32 ^ x[1] ^ k0, p1 & mask, p0 >> 32 ^ x[3] ^ k1, p0 & mask]
        k0, k1 = k0 + 0x9E3779B9 & mask, k1 + 0xBB67AE85 & mask
    return x


def decode_randk(message, n):
    reader = Reader(message)
    values, k = [0] * n, reader.varint()
    require(k <= n and (k > 0 or n == 0), "a bad number of values")
    draw = reader.f32() if k > 0 else 0  # an integer, read by its four bytes
    for i in range(k):
        begin, end = i * n // k, (i + 1) * n // k
        word = philox_block((draw, 0), (i // 4, 0, 0, 0))[i % 4]
        value = reader.f32()
        require(is_finite(value) and value != SIGN, "a value that is not finite, or -0")
        values[begin + ((end - begin) * word >> 32)] = value
    reader.end()
    return values


def levels(reader, n, bits):
    """Read n numbers in two's complement, and the zeros up to the end of the byte."""
    codes = [reader.bits(bits) for _ in range(n)]
    reader.end_of_bits(0)
    reader.end()
    require(1 << (bits - 1) not in codes, "the code that no level has")
    return [code - (code >> (bits - 1) << bits) for code in codes]


def buckets(reader, n, head):
    """Return for each bucket its head, its levels, and the largest level that there can be."""
    bits, shift = reader.u8(), reader.u8()
    require(2 <= bits <= 8 and 6 <= shift <= 13, "bad bits, or a bad shift")
    starts = range(0, n, 2**shift)
    heads = [head() for _ in starts]
    level = levels(reader, n, bits)
    return [(heads[k], level[start:start + 2**shift], 2**(bits - 1) - 1) for k, start in enumerate(starts)]


def decode_qsgd(message, n):
    reader, values = Reader(message), []
    for scale, level, most in buckets(reader, n, reader.f32):
        largest = max(map(abs, level))
        require(scale < SIGN, "a negative scale, or NaN")
        if scale > 0:
            require(scale >= 0x00800000 and is_finite(scale), "a bad scale")
            require(most * float_of(scale) <= float_of(0x7F7FFFFF), "a scale whose multiple is infinite")
        require(largest == (most if scale > 0 else 0), "a bucket without its largest level")
        values += [bits_of(one * float_of(scale)) for one in level]
    return values


def decode_natural(message, n):
    reader, values = Reader(message), []
    for top, level, most in buckets(reader, n, reader.u8):
        least = max(1, top - most + 1)
        require(top < 255, "a top that is no float's")
        require(top - least <= max(map(abs, level)) <= top - least + 1, "levels of another top")
        values += [least + abs(one) - 1 << 23 | (SIGN if one < 0 else 0) if one else 0 for one in level]
    return values


MAGNITUDES = {1: (1,), 2: (464, 1546), 3: (251, 774, 1376, 2204), 4: (131, 397, 673, 965, 1286, 1657, 2119, 2798)}


def eden_widths(n, shift):
    """Return the width of each bucket."""
    widths = [2**shift] * (n >> shift)
    rest = n % 2**shift
    return widths + ([max(8, 1 << (rest - 1).bit_length())] if rest else [])


def eden_signs(draw, stream, n):
    words = (word for b in range(n // 128 + 1) for word in philox_block((draw, 0), (b, 0, stream, 0)))
    return [word >> k & 1 for word in words for k in range(32)][:n]


def rounded(value):
    return float_of(bits_of(value))


def hadamard(values):
    if len(values) == 1:
        return values
    half = len(values) // 2
    pairs = list(zip(values[:half], values[half:]))
    return hadamard([rounded(a + b) for a, b in pairs]) + hadamard([rounded(a - b) for a, b in pairs])


def eden_turned_back(buckets, draw, twice):
    """Rotate the buckets back, and return their values in one list."""
    size = sum(map(len, buckets))
    for stream in (1, 0) if twice else (0,):
        signs = iter(eden_signs(draw, stream, size))
        buckets = [[-value if next(signs) else value for value in hadamard(bucket)] for bucket in buckets]
    return [value for bucket in buckets for value in bucket]


def eden_all(reader, bits, widths, limit):
    """Read a message in which all values are sent: the scales, and the buckets before they are rotated back."""
    scales = [reader.f32() for _ in widths]
    table = MAGNITUDES[bits] + tuple(-one for one in MAGNITUDES[bits])
    buckets = []
    for scale, width in zip(scales, widths):
        codes = [reader.bits(bits) for _ in range(width)]
        require(scale == 0 and not any(codes) or 0x00800000 <= scale < SIGN, "a bad scale")
        require(is_finite(scale) and float_of(scale) <= limit(width), "a scale that is too large")
        buckets.append([table[code] for code in codes])
    reader.end_of_bits(0)
    reader.end()
    return list(map(float_of, scales)), buckets


def eden_scales(reader, widths, shift, one_scale, limit):
    """Return the scale of each bucket, 0 for one that is not sent."""
    if one_scale:
        scale, sent = reader.f32(), [reader.bit() for _ in widths]
        reader.end_of_bits(0)
        require(scale == 0 if not any(sent) else 0x00800000 <= scale < SIGN and is_finite(scale), "a bad scale")
        require(float_of(scale) <= limit(2**shift), "a scale that is too large")
        return [float_of(scale) * bit for bit in sent]
    base = reader.u8() | reader.u8() << 8
    marks = [reader.u8() for _ in widths]
    require(base == 0 if not any(marks) else base == 7 or base > 7 and max(marks) == 255, "a bad base")
    require(all(base + mark < 0x7F8 for mark in marks), "a scale that is not finite")
    scales = [float_of(base + mark << 20) if mark else 0.0 for mark in marks]
    require(all(scale <= limit(width) for scale, width in zip(scales, widths)), "a scale that is too large")
    return scales


def eden_few(reader, widths, shift, one_scale, limit, positions):
    """Read a message in which few values are sent: the scales, and the buckets before they are rotated back."""
    most = reader.u8() | reader.u8() << 8
    require(most % 2 == 1 and most < 2**shift, "a bad number of values")
    scales = eden_scales(reader, widths, shift, one_scale, limit)
    sent = [1 + 2 * (most * width >> shift + 1) if scale else 0 for scale, width in zip(scales, widths)]
    signs = [reader.bit() for _ in range(sum(sent))]
    reader.end_of_bits(1)
    values = [0] * sum(widths)
    if any(sent):
        for place, sign in zip(list(positions(reader, sum(sent), reader.u8(), len(values))), signs):
            values[place] = -1 if sign else 1
    reader.end()
    buckets = [values[k << shift:][:width] for k, width in enumerate(widths)]
    require([len(bucket) - bucket.count(0) for bucket in buckets] == sent, "a bucket with other values")
    return scales, buckets


def decode_eden(message, n, positions):
    reader = Reader(message)
    flags, shift = reader.u8(), reader.u8()
    bits, twice, few, one_scale = flags & 7, flags & 8, flags & 16, flags & 32
    require(flags < 64 and 1 <= bits <= (1 if few else 4) and 6 <= shift <= 10, "bad flags, or a bad shift")
    require(few or not one_scale, "one scale for all values")
    draw, widths = reader.f32(), eden_widths(n, shift)  # the draw is an integer, read by its four bytes
    limit = lambda width: 2.0**115 / width**(2 if twice else 1)
    scales, buckets = (eden_few(reader, widths, shift, one_scale, limit, positions) if few
                       else eden_all(reader, bits, widths, limit))
    values = eden_turned_back(buckets, draw, twice)
    product = [scale * value for scale, part in zip(scales, eden_split(values, widths)) for value in part]
    return [bits_of(value + 0.0) for value in product[:n]]


def eden_split(values, widths):
    """Return the buckets of a list of values."""
    starts = [sum(widths[:k]) for k in range(len(widths))]
    return [values[start:start + width] for start, width in zip(starts, widths)]


def powersgd_numbers(reader, form, count):
    if form == 0:
        return [float_of(reader.f32()) for _ in range(count)]
    return [float_of(int.from_bytes(reader.bytes(2), "little") << 16) for _ in range(count)]


def rounded(value):
    """Round to binary32; a value that is too large becomes infinite."""
    try:
        return float_of(bits_of(value))
    except OverflowError:
        return math.copysign(math.inf, value)


def powersgd_product(p, q):
    """Return the bits of the sum of products of one row of P and one of Q. The sum begins with +0."""
    total = 0.0
    for a, b in zip(p, q):
        total = rounded(total + rounded(a * b))
    require(math.isfinite(total), "a value that is not finite")
    return bits_of(total)


def decode_powersgd(message, n):
    reader = Reader(message)
    rank = reader.u8()
    if rank == 0:
        reader.end()
        return [0] * n
    if rank == 255:
        values = [reader.f32() for _ in range(n)]
        reader.end()
        require(all(map(is_finite, values)) and any(value & ~SIGN for value in values), "bad values")
        return values
    form, rows = reader.u8(), reader.f32()  # the number of rows is an integer, read by its four bytes
    require(rank <= 32 and form <= 1 and rows > 0 and n % rows == 0, "a bad rank, form or number of rows")
    require(len(message) < 1 + 4 * n, "a product that is not shorter than the values")
    columns = n // rows
    require(len(message) == 6 + (4 >> form) * rank * (rows + columns), "another length")
    p = [powersgd_numbers(reader, form, rows) for _ in range(rank)]
    q = [powersgd_numbers(reader, form, columns) for _ in range(rank)]
    reader.end()
    return [powersgd_product(a, b) for a in zip(*p) for b in zip(*q)]
