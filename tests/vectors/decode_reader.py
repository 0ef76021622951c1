"""The reader by which decode.py's decoders read a message, and the way in which they refuse one."""
# SPDX-License-Identifier: Apache-2.0
import struct

INFINITY, SIGN = 0x7F800000, 0x80000000  # as bits of a binary32 number


class Refused(Exception):
    """The document says that a decoder must refuse this message."""


def require(condition, why):
    if not condition:
        raise Refused(why)


class Reader:
    """Reads a message's bytes in order. After bit() or bits(), end_of_bits() must come before the next byte."""

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
        """Check that the rest of the last byte consists of this bit."""
        while self.bit_at % 8 != 0:
            require(self.bit() == padding, "wrong padding")
        self.at += self.bit_at // 8
        self.bit_at = 0

    def end(self):
        require(self.at == len(self.message), "bytes after the message's end")


def is_finite(bits):
    return bits & INFINITY != INFINITY


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_of(value):
    """Return the bits of a binary64 number, rounded to binary32: to nearest, ties to even."""
    return struct.unpack("<I", struct.pack("<f", value))[0]
