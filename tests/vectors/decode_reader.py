"""What decoders read a message with, and how they refuse it: for decode.py."""
# SPDX-License-Identifier: Apache-2.0
import struct

INFINITY, SIGN = 0x7F800000, 0x80000000  # of a binary32 number's bits


class Refused(Exception):
    """The document says that a decoder must refuse this message."""


def require(condition, why):
    if not condition:
        raise Refused(why)


class Reader:
    """Bytes in order; after bits() the rest is read as a bit stream."""

    def __init__(self, message):
        self.message = message
        self.at = 0
        self.bit_at = 0

    def bytes(self, count):
        require(len(self.message) - self.at >= count, "the message ends too early")
        self.at += count
        return self.message[self.at - count:self.at]

    def rest(self):
        return self.bytes(len(self.message) - self.at)

    def u8(self):
        return self.bytes(1)[0]

    def f32(self):
        return struct.unpack("<I", self.bytes(4))[0]

    def varint(self):
        value = 0
        for k in range(10):
            byte = self.u8()
            value |= (byte & 127) << 7 * k
            if byte < 128:
                require(byte > 0 or k == 0, "a varint in a longer form")
                require(value < 1 << 64, "a varint past 64 bits")
                return value
        raise Refused("a varint of more than ten bytes")

    def bit(self):
        byte = self.at + self.bit_at // 8
        require(byte < len(self.message), "the bits end too early")
        value = self.message[byte] >> (7 - self.bit_at % 8) & 1
        self.bit_at += 1
        return value

    def bits(self, count):
        value = 0
        for _ in range(count):
            value = 2 * value + self.bit()
        return value

    def end_of_bits(self, padding):
        """The rest of the last byte must be bits of this kind."""
        while self.bit_at % 8 != 0:
            require(self.bit() == padding, "wrong padding")
        self.at += self.bit_at // 8
        self.bit_at = 0

    def end(self):
        require(self.at == len(self.message), "bytes behind the end")


def is_finite(bits):
    return bits & INFINITY != INFINITY


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_of(value):
    """Of a number in binary64, rounded to binary32: to nearest, ties to even."""
    return struct.unpack("<I", struct.pack("<f", value))[0]
