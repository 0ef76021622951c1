"""Decode every golden message with a second implementation, written from docs/codec-formats.md and
sharing no code with the library. If it succeeds, the document is enough to write a decoder, and the
library does what the document says.

    decode.py ROOT      exit status 1 on a difference, or where a codec of the document has no
                        decoder here

A new codec takes one function, (message, n) to the bits of n values, and one line in DECODERS; a
second stage one of (packed, plain_len) to the message, and one in STAGES. A vector whose codec has
no section in the document is counted as not covered.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys

from decode_random import decode_eden, decode_natural, decode_powersgd, decode_qsgd, decode_randk
from decode_reader import SIGN, Reader, Refused, bits_of, float_of, is_finite, require


def decode_float32(message, n):
    reader = Reader(message)
    values = [reader.f32() for _ in range(n)]
    reader.end()
    require(all(map(is_finite, values)), "a value that is not finite")
    return values


def unpack_runs(data, wanted):
    unpacked = []
    before = 0  # the byte before, if it stood for a run; else 0
    for byte in data:
        is_run = byte == 121 or byte >= 243
        require(not is_run or before in (0, 255), "a run that could have been longer")
        unpacked += [121] * (byte - 241) if byte >= 243 else [byte]
        before = byte if is_run else 0
    require(len(unpacked) == wanted, "bytes for another number of values")
    return unpacked


def unpack_digits(m, packed, n):
    """Return the values of bytes that hold five digits each."""
    require(all(byte <= 242 for byte in packed), "a byte past 242")
    digits = [byte // power % 3 for power in (81, 27, 9, 3, 1) for byte in packed]
    require(all(digit == 1 for digit in digits[n:]), "padding that is not 1")
    require(any(digit != 1 for digit in digits), "only zeros, and yet an m")
    return [(m | SIGN, 0, m)[digit] for digit in digits[:n]]


def decode_3lc(message, n):
    reader = Reader(message)
    m = reader.f32()
    require(m < SIGN and is_finite(m), "a bad m")
    if m == 0:
        reader.end()
        return [0] * n
    packed, digit_bytes = reader.rest(), (n + 4) // 5
    if len(packed) != digit_bytes:
        packed = unpack_runs(packed, digit_bytes)
    return unpack_digits(m, packed, n)


def golomb_gaps(reader, count, b):
    for _ in range(count):
        ones = 0
        while reader.bit() == 1:
            ones += 1
        yield (ones << b) + reader.bits(b)
    reader.end_of_bits(1)


def rans_slots(reader, detail):
    """Return for each of the 4096 slots its symbol, the symbol's first slot, and the symbol's number of slots."""
    weights, length = [], 0
    for _ in range(reader.bits(7) + 1):
        ones = 0
        while reader.bit() == 1:
            ones += 1
        length += (ones + 1) // 2 if ones % 2 else -(ones // 2)
        require(0 <= length <= 14, "a bad length of a weight")
        low = min(max(length - 1, 0), detail)
        weights.append(((1 << low | reader.bits(low)) << (length - 1 - low)) if length > 0 else 0)
    reader.end_of_bits(1)
    require(len(weights) <= 124 and weights[-1] > 0, "a bad last symbol")
    used, total = sum(weight > 0 for weight in weights), sum(weights)
    starts = [sum(weight > 0 for weight in weights[:s]) + sum(weights[:s]) * (4096 - used) // total
              for s in range(len(weights) + 1)]
    sizes = [end - start for start, end in zip(starts, starts[1:])]
    return [(s, starts[s], size) for s, size in enumerate(sizes) for _ in range(size)]


def rans_gaps(reader, count, detail):
    slots = rans_slots(reader, detail)
    x = int.from_bytes(reader.bytes(4), "little")
    require(x >= 1 << 16, "a bad first state")

    def refill(x):
        return x << 16 | int.from_bytes(reader.bytes(2), "little") if x < 1 << 16 else x

    for _ in range(count):
        symbol, first, size = slots[x % 4096]
        x = refill(size * (x // 4096) + x % 4096 - first)
        low, extra, done = 0, max(symbol // 4 - 1, 0), 0
        while done < extra:
            bits = min(16, extra - done)
            low |= x % (1 << bits) << done
            x = refill(x >> bits)
            done += bits
        yield symbol if symbol < 4 else (4 + symbol % 4) << extra | low
    require(x == 1 << 16, "a bad last state")


class RangeDecoder:
    def __init__(self, data):
        self.data, self.at = data, 0
        self.low, self.high = 0, (1 << 32) - 1

    def bit(self, p):
        value = int.from_bytes((self.data[self.at:] + bytes(4))[:4], "big")
        middle = self.low + ((self.high - self.low) * p >> 16)
        bit = int(value <= middle)
        if bit:
            self.high = middle
        else:
            self.low = middle + 1
        while self.low >> 24 == self.high >> 24:
            self.low = self.low << 8 & 0xFFFFFFFF
            self.high = self.high << 8 & 0xFFFFFFFF | 255
            self.at += 1
        return bit

    def end(self):
        for c in range(5):
            unit = 1 << (32 - 8 * c)
            v = (self.low + unit - 1) // unit * unit
            if v + unit - 1 <= self.high:
                break
        require(self.at <= len(self.data), "too few bytes")
        require(self.data[self.at:] == v.to_bytes(5, "big")[1:1 + c], "a bad end")


class Model:
    def __init__(self, a, b):
        self.fast = self.slow = 1 << 15 if b == 0 else 65535 if a == b else (a << 16) // b
        self.seen = 12

    def decode(self, decoder):
        bit = decoder.bit(min(max((self.fast + self.slow) // 2, 64), 65472))
        self.fast = self.moved(self.fast, bit, min(self.seen, 30))
        self.slow = self.moved(self.slow, bit, self.seen)
        self.seen = min(self.seen + 1, 254)
        return bit

    @staticmethod
    def moved(estimate, bit, t):
        step = 131072 // (2 * t + 3)
        if bit:
            return estimate + ((65535 - estimate) * step >> 16)
        return estimate - (estimate * step >> 16)


def range_gaps(reader, count, n):
    one = 1 << 32
    q, t = [one - (count << 32) // n], [one]
    for i in range(31):
        t.append(t[i] * q[i] >> 32)
        q.append(q[i] * q[i] >> 32)
    t.append(0)
    decoder, models = RangeDecoder(reader.rest()), {}

    def decode(key, a, b):
        return models.setdefault(key, Model(a, b)).decode(decoder)

    for _ in range(count):
        e = 0
        for h in (16, 8, 4, 2, 1):
            e += h * decode((h, e), t[e + h] - t[e + 2 * h], t[e] - t[e + 2 * h])
        v = 1
        for k in range(e):
            if k < 2:
                expected = q[e - 1 - k]
                v = 2 * v + decode(("v", e, v), expected, one + expected)
            else:
                v = 2 * v + decoder.bit(1 << 15)
        yield v - 1
    decoder.end()


def positions(reader, count, how, n):
    code, parameter = how >> 5, how & 31
    require(code == 0 or code == 1 and parameter <= 7 or how == 64, "an unknown code of positions")
    gaps = (golomb_gaps, rans_gaps, range_gaps)[code]
    found = -1
    for gap in gaps(reader, count, n if code == 2 else parameter):
        found += gap + 1
        require(found < n, "a position past the end")
        yield found
    reader.end()


FORMS = {97: "bfloat16", 98: "int8"}


def decode_values(reader, form, count):
    """Read the values of a sparse codec, and return their bits."""
    if form == "float32":
        sent = [reader.f32() for _ in range(count)]
    elif form == "bfloat16":
        sent = [struct.unpack("<H", reader.bytes(2))[0] << 16 for _ in range(count)]
    else:
        sent = decode_levels(reader, reader.f32(), count)
    require(all(is_finite(value) and value & ~SIGN for value in sent), "a bad value")
    return sent


def decode_dgc(message, n):
    reader = Reader(message)
    values = [0] * n
    count = reader.varint()
    require(count <= n, "more positions than values")
    if count > 0:
        form, how = "float32", reader.u8()
        if how in FORMS:
            form, how = FORMS[how], reader.u8()
        sent = decode_values(reader, form, count)
        for position, value in zip(list(positions(reader, count, how, n)), sent):
            values[position] = value
    reader.end()
    return values


def decode_stc(message, n):
    reader = Reader(message)
    values = [0] * n
    count = reader.varint()
    require(count <= n, "more positions than values")
    if count > 0:
        how, mu = reader.u8(), reader.f32()
        require(0 < mu < SIGN and is_finite(mu), "a bad mu")
        signs = [reader.bit() for _ in range(count)]
        reader.end_of_bits(1)
        for position, sign in zip(list(positions(reader, count, how, n)), signs):
            values[position] = mu | sign << 31
    reader.end()
    return values


def decode_sbc(message, n):
    reader = Reader(message)
    values = [0] * n
    count = reader.varint()
    require(count <= n, "more positions than values")
    if count > 0:
        how, mu = reader.u8(), reader.f32()
        require(is_finite(mu) and mu not in (0, SIGN), "a bad mu")
        for position in positions(reader, count, how, n):
            values[position] = mu
    reader.end()
    return values


def decode_float16(message, n):
    reader = Reader(message)
    words = [struct.unpack("<H", reader.bytes(2))[0] for _ in range(n)]
    reader.end()
    require(all(word & 0x7C00 != 0x7C00 for word in words), "a number that is not finite")
    return [bits_of(struct.unpack("<e", struct.pack("<H", word))[0]) for word in words]


def decode_bfloat16(message, n):
    reader = Reader(message)
    values = [struct.unpack("<H", reader.bytes(2))[0] << 16 for _ in range(n)]
    reader.end()
    require(all(map(is_finite, values)), "a number that is not finite")
    return values


def decode_levels(reader, scale, n):
    least, most = float.fromhex("0x1p-126"), float.fromhex("0x1.020406p+121")
    require(least <= float_of(scale) <= most, "a bad scale")
    levels = struct.unpack(f"{n}b", reader.bytes(n))
    require(n > 0 and max(map(abs, levels)) == 127, "levels whose largest is not 127")
    return [bits_of(level * float_of(scale)) for level in levels]


def decode_int8(message, n):
    reader = Reader(message)
    scale = reader.f32()
    values = decode_levels(reader, scale, n) if scale != 0 else [0] * n
    reader.end()
    return values


def decode_stoch3(message, n):
    reader = Reader(message)
    m = reader.f32()
    require(m < SIGN and is_finite(m), "a bad m")
    packed = reader.bytes((n + 4) // 5 if m > 0 else 0)
    reader.end()
    return unpack_digits(m, packed, n) if m > 0 else [0] * n


def decode_onebit(message, n):
    reader = Reader(message)
    up, down = reader.f32(), reader.f32()
    negative = [reader.bit() for _ in range(n)]
    reader.end_of_bits(0)
    reader.end()
    require(up < SIGN and is_finite(up), "a bad up")
    require(up == 0 or 0 in negative, "an up of no value")
    require(is_finite(down) and (down > SIGN if 1 in negative else down == 0), "a bad down")
    return [down if bit else up for bit in negative]


def decode_topk(message, n):
    reader = Reader(message)
    sent = [reader.bit() for _ in range(n)]
    reader.end_of_bits(0)
    name, form = message[reader.at:reader.at + 4], "float32"
    if name[1:] == b"\x00\xc0\x7f" and name[0] in FORMS:
        form = FORMS[reader.bytes(4)[0]]
        require(any(sent), "a form of no values")
    carried = iter(decode_values(reader, form, sum(sent)) if any(sent) else [])
    reader.end()
    return [next(carried) if bit else 0 for bit in sent]


def decode_twobit(message, n):
    reader = Reader(message)
    t = reader.f32()
    require(0 < t < SIGN and is_finite(t), "a bad t")
    codes = [reader.bits(2) for _ in range(n)]
    reader.end_of_bits(0)
    reader.end()
    require(1 not in codes, "the bits 01")
    return [(0, None, t | SIGN, t)[code] for code in codes]


def decode_trunc(message, n):
    reader = Reader(message)
    b = reader.u8()
    require(1 <= b <= 31, "a bad b")
    values = [reader.bits(32 - b) << b for _ in range(n)]
    reader.end_of_bits(0)
    reader.end()
    require(all(map(is_finite, values)), "a value that is not finite")
    return values


def inceptionn_value(reader, tag, exponents):
    """Read one value. Remove from exponents each e with which the value would have got another tag."""
    if tag == 0:
        return 0
    if tag == 3:
        bits = reader.f32()
        require(is_finite(bits) and abs(float_of(bits)) >= 1, "a bad value of tag 3")
        return bits
    width = 8 * tag
    word = int.from_bytes(reader.bytes(tag), "little")
    point = width - 1
    integer, sign = word & (1 << point) - 1, word >> point
    k = point - integer.bit_length() + 1 if integer > 0 else width
    if tag == 1:
        exponents &= {e for e in exponents if e >= k and (integer == 0 or e <= 2 * k - 1)}
    else:
        exponents &= {e for e in exponents if e >= 2 * k}
    return bits_of(integer / 2.0 ** point) | sign << 31


def decode_inceptionn(message, n):
    reader = Reader(message)
    plane = reader.bytes((n + 3) // 4)
    tags = [byte >> shift & 3 for byte in plane for shift in (0, 2, 4, 6)]
    require(not any(tags[n:]), "a tag past the last value")
    exponents = set(range(1, 16))
    values = [inceptionn_value(reader, tag, exponents) for tag in tags[:n]]
    reader.end()
    require(exponents, "values that no single e allows")
    return values


DECODERS = {
    1: decode_float32,
    2: decode_3lc,
    3: decode_sbc,
    4: decode_float16,
    5: decode_bfloat16,
    6: decode_int8,
    7: decode_stoch3,
    8: decode_onebit,
    9: decode_topk,
    10: decode_dgc,
    11: decode_stc,
    12: decode_twobit,
    13: decode_inceptionn,
    14: decode_trunc,
    15: decode_randk,
    16: decode_qsgd,
    17: decode_natural,
    18: lambda message, n: decode_eden(message, n, positions),
    19: decode_dgc,  # threshold's messages are dgc's
    20: decode_powersgd,
}


def unpack_stage_runs(packed, plain_len):
    reader, plain, after_run = Reader(packed), bytearray(), False
    while reader.at < len(packed):
        byte, count = reader.u8(), 1
        if byte == 255:
            require(not after_run, "a run that could have been longer")
            count += reader.varint()
        require(count <= plain_len - len(plain), "more bytes than plain_len")
        plain += bytes([byte]) * count
        after_run = byte == 255
    require(len(plain) == plain_len, "fewer bytes than plain_len")
    return bytes(plain)


def check_zstd_frame(packed, plain_len):
    """Check that packed is one Zstandard frame (RFC 8878) and nothing else, with plain_len in its head."""
    reader = Reader(packed)
    require(reader.bytes(4) == b"\x28\xb5\x2f\xfd", "no Zstandard frame")
    head = reader.u8()
    size_flag, is_single, has_checksum = head >> 6, head >> 5 & 1, head & 4
    require(head & 3 == 0, "a dictionary")
    require(size_flag > 0 or is_single, "no content size")
    reader.bytes(1 - is_single)
    content_size = int.from_bytes(reader.bytes(1 << size_flag), "little")
    require(content_size + (256 if size_flag == 1 else 0) == plain_len, "another content size")
    is_last = False
    while not is_last:
        block = int.from_bytes(reader.bytes(3), "little")
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        reader.bytes(1 if kind == 1 else size)
    reader.bytes(4 if has_checksum else 0)
    reader.end()


def unpack_stage_zstd(packed, plain_len):
    check_zstd_frame(packed, plain_len)
    done = subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True, check=False)
    require(done.returncode == 0 and len(done.stdout) == plain_len, "a bad Zstandard frame")
    return done.stdout


class NibbleModel:
    def __init__(self):
        self.bounds, self.step = [2048 * i for i in range(17)], 32767

    def learn(self, value):
        for i in range(1, 16):
            aim = 8 * i if i <= value else 32768 - 8 * (16 - i)
            self.bounds[i] += (aim - self.bounds[i]) * self.step >> 16
        self.step = max(self.step - (self.step ** 2 >> 16), 688)


class NibbleDecoder:
    def __init__(self, packed):
        self.packed, self.at = packed, 8
        self.code, self.low, self.range = int.from_bytes((packed + bytes(8))[:8], "big"), 0, (1 << 64) - 1

    def nibble(self, model):
        share, bounds = self.range >> 15, model.bounds
        value = max(v for v in range(16) if share * bounds[v] <= self.code)
        self.low += share * bounds[value]
        self.code -= share * bounds[value]
        self.range = share * (bounds[value + 1] - bounds[value])
        require(self.code < self.range, "no nibble has this number")
        if self.range < 1 << 32:
            word = (self.packed[self.at:] + bytes(4))[:4]
            self.code = self.code << 32 | int.from_bytes(word, "big")
            self.low <<= 32
            self.range <<= 32
            self.at += 4
        model.learn(value)
        return value

    def end(self):
        """Check the packed bytes' end. self.low has all bits of the coded number, not only the last 64."""
        for k in range(1, 9):
            unit = 1 << 64 - 8 * k
            w = (self.low + unit - 1) // unit * unit
            if w + unit <= self.low + self.range:
                break
        require(self.packed == w.to_bytes(self.at, "big")[:self.at - 8 + k], "a bad end")


def unpack_stage_entropy(packed, plain_len):
    decoder, models = NibbleDecoder(packed), {}
    plain, kind = bytearray(), 0

    def nibble(*key):
        return decoder.nibble(models.setdefault(key, NibbleModel()))

    for _ in range(plain_len):
        high = nibble(kind)
        byte = 16 * high + nibble(kind, high)
        plain.append(byte)
        kind = 2 if byte == 255 else 1 if byte == 121 or byte >= 243 else 0
    decoder.end()
    return bytes(plain)


# For each stage its id and the function that unpacks it; None: the program that this needs is not installed.
STAGES = {
    "runs": (1, unpack_stage_runs),
    "zstd": (2, unpack_stage_zstd if shutil.which("zstd") else None),
    "entropy": (3, unpack_stage_entropy),
}


FLOAT32 = 1


def decode_frame(reader, n, codec, stage):
    """Return the values of a frame. It must have n of them, be of this codec (an id) and, if it is packed by a stage, of this
    stage (a name)."""
    head = reader.u8()
    require(head % 64 == codec, "another codec")
    require(reader.varint() == n, "another number of values")
    data = reader.bytes(reader.varint())
    if head >= 64:
        stage_id, unpack = STAGES.get(stage, (0, None))
        require(head // 64 == stage_id, "another stage")
        packed = Reader(data)
        plain_len = packed.varint()
        require(len(data) < plain_len <= 5 * n + 64, "a bad plain_len")
        data = unpack(packed.rest(), plain_len)
    return DECODERS[codec](data, n)


def decode_envelope(message, sizes, statistics, task_small, codec, stage):
    """Return the values of tensors of these sizes, one after the other. The last tensors, as many as statistics says, are statistics."""
    reader = Reader(message)
    version = 3 if statistics > 0 else 2
    require(reader.bytes(3) == bytes([0xfe, 0xdc, version]), f"no envelope of version {version}")
    last, sizes = sum(sizes[len(sizes) - statistics:]), sizes[:len(sizes) - statistics]
    small, frames = reader.varint(), reader.varint()
    group = sum(size for size in sizes if size < task_small)
    require(small == (task_small if group > 0 else 0), "another small")
    own_frames = sum(size >= small for size in sizes)
    require(frames == own_frames + (small > 0) + (last > 0), "another number of frames")
    own = [decode_frame(reader, size, codec, stage) if size >= small else None for size in sizes]
    grouped = iter(decode_frame(reader, group, codec, stage) if small > 0 else [])
    as_they_are = decode_frame(reader, last, FLOAT32, "") if last > 0 else []
    reader.end()
    return [value for size, values in zip(sizes, own)
            for value in (values if values is not None else itertools.islice(grouped, size))
            ] + as_they_are


PATCH_BLOCK = 65536


def patch_words(reader, n):
    """Return the words of a patch's block of n values."""
    how, body = reader.u8(), Reader(reader.bytes(reader.varint()))
    require(how < 3, "a block of another kind")
    if how == 0:
        words = [body.f32() for _ in range(n)]
        body.end()
        return words
    top = body.f32() if how == 2 else 0
    detail = 0
    while detail < 7 and n >= 2048 << 2 * detail:
        detail += 1
    numbers_below = list(rans_gaps(body, n, detail))
    body.end()
    return [(top - v) % (1 << 32) if how == 2 else v for v in numbers_below]


def in_order(bits):
    """Turn a float's bits into its place in the order of all floats, or the place into bits."""
    return bits ^ 0x7FFFFFFF if bits >= SIGN else bits


def decode_patch(message, start):
    """Return the bits of the values that the patch makes of values with the bits in start."""
    reader, values = Reader(message), []
    for at in range(0, len(start), PATCH_BLOCK):
        block = start[at:at + PATCH_BLOCK]
        for bits, word in zip(block, patch_words(reader, len(block))):
            difference = -(word + 1 >> 1) if word % 2 else word >> 1
            values.append(in_order((in_order(bits) + difference) % (1 << 32)))
    reader.end()
    require(all(is_finite(bits) for bits in values), "a value that is not finite")
    return values


def documented_codecs(root):
    """Return {name: id} of the document's sections that begin with "Codec id"."""
    with open(os.path.join(root, "docs/codec-formats.md"), encoding="utf-8") as file:
        sections = re.findall(r"^## (\S+)\n+Codec id (\d+)\.", file.read(), re.MULTILINE)
    return {name: int(codec_id) for name, codec_id in sections}


WORDS = ("spec", "small", "tensors", "statistics", "input", "message", "decoded", "residual", "stage", "plain",
         "packed", "from", "to", "patch")


def read_vector(path):
    """Return the data after each word of a vector's file; "COUNT*WORD" is COUNT times the word, '#' begins a comment."""
    fields, current = {}, None
    with open(path, encoding="ascii") as file:
        words = [word for line in file if not line.startswith("#") for word in line.split()]
    for word in words:
        if word in WORDS:
            current = fields.setdefault(word, [])
        else:
            count, _, repeated = word.rpartition("*")
            current += [repeated] * int(count or 1)
    return fields


def numbers(vector, word):
    return [int(digits, 16) for digits in vector[word]]


def check_values(vector, decode):
    """Return what is wrong with a vector that decode(message, n) reads, or None."""
    wanted = numbers(vector, "decoded")
    try:
        decoded = decode(bytes(numbers(vector, "message")), len(wanted))
    except Refused as refused:
        return f"refused: {refused}"
    for i, (is_bits, should) in enumerate(zip(decoded, wanted)):
        if is_bits != should:
            return f"value {i} is {is_bits:08x}; the vector has {should:08x}"
    if len(decoded) != len(wanted):
        return f"{len(decoded)} values; the vector has {len(wanted)}"
    return None


def check_packed(vector, unpack):
    """Return what is wrong with a vector of a second stage, or None."""
    plain = bytes(numbers(vector, "plain"))
    try:
        unpacked = unpack(bytes(numbers(vector, "packed")), len(plain))
    except Refused as refused:
        return f"refused: {refused}"
    return None if unpacked == plain else "the packed bytes unpack to other bytes than \"plain\""


def check_patch(vector):
    """Return what is wrong with a patch, or None."""
    wanted = numbers(vector, "to")
    start = [0] * len(wanted) if vector["from"] == ["none"] else numbers(vector, "from")
    try:
        values = decode_patch(bytes(numbers(vector, "patch")), start)
    except Refused as refused:
        return f"refused: {refused}"
    return None if values == wanted else "the patch makes other values than \"to\""


class Report:
    """Counts the vectors that were checked or skipped, and keeps the failures."""

    def __init__(self):
        self.checked, self.skipped, self.failures = 0, {}, []

    def add(self, name, problem):
        self.checked += 1
        self.failures += [f"{name}: {problem}"] if problem else []

    def skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1


def check_vector(name, vector, ids, report):
    codec, _, stage = vector.get("spec", [""])[0].partition("+")
    stage = vector.get("stage", [stage])[0]
    codec = codec.split(":")[0]
    if "patch" in vector:
        report.add(name, check_patch(vector))
    elif stage and stage not in STAGES:
        report.add(name, f"stage {stage}: write its decoder into STAGES")
    elif stage and STAGES[stage][1] is None:
        report.skip(f"stage {stage}, whose program is not installed")
    elif "plain" in vector:
        report.add(name, check_packed(vector, STAGES[stage][1]))
    elif codec not in ids:
        report.skip(f"codec {codec}, which docs/codec-formats.md does not have")
    elif ids[codec] not in DECODERS:
        report.add(name, f"codec {codec} is documented: write its decoder into DECODERS")
    elif "tensors" in vector:
        sizes, small = numbers(vector, "tensors"), numbers(vector, "small")[0]
        statistics = numbers(vector, "statistics")[0] if "statistics" in vector else 0
        report.add(name, check_values(vector, lambda message, _: decode_envelope(
            message, sizes, statistics, small, ids[codec], stage)))
    else:
        report.add(name, check_values(vector, DECODERS[ids[codec]]))


def main(root):
    report, ids = Report(), documented_codecs(root)
    for kind in ("codecs", "envelopes", "stages", "patches"):
        folder = os.path.join(root, "tests/vectors", kind)
        for name in sorted(os.listdir(folder)):
            check_vector(f"{kind}/{name}", read_vector(os.path.join(folder, name)), ids, report)
    for failure in report.failures:
        print(failure)
    for why, count in report.skipped.items():
        print(f"not covered: {count} of {why}")
    failed = len(report.failures)
    print(f"{report.checked} vectors decoded from the document alone, {failed} failures")
    return 1 if failed > 0 or report.checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
