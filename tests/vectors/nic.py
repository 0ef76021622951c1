"""Golden frames of the offload NIC, by a NIC that was written from docs/nic-format.md alone.

    nic.py ROOT            exit status 1 if a file of tests/vectors/nic is missing or differs
    nic.py ROOT --write    writes missing files; existing files are not changed

Files hold one frame each, from the Ethernet header on, as bytes of two hexadecimal digits, 16 a line:
Verilog's $readmemh reads them.

    NAME.host     a marked segment of the host; its checksum is complete
    NAME.wire     what a NIC sends
    NAME.peer     what the other NIC makes of that, with its checksum completed
    cases         NAME, e, family, VLAN tags, options of IP in words, port of the host: one case a line

The connection is that of 10.0.0.1, or fd00::1 (in full: fd, zeros, 01), and the port in `cases`, to
10.0.0.2, or fd00::2, port 7000. The host's ISN is 1000 in each.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import random
import struct
import sys

import bursts

ISN = 1000
MARKED, COMPRESSED = 0x28, 0x2C
FIN, PSH, ACK, CWR = 1, 8, 16, 128
TIMESTAMPS = bytes([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2])


def total(data):
    """Return the one's complement sum of 16-bit words, as RFC 1071 defines it."""
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f">{len(data) // 2}H", data))
    while value > 0xFFFF:
        value = (value & 0xFFFF) + (value >> 16)
    return value


class Packet:
    """The fields of a TCP segment's frame."""

    def __init__(self, family, port, payload, seq, tos=MARKED, vlans=0, ip_words=0, options=b"", flags=ACK):
        self.family, self.port, self.payload, self.seq, self.tos = family, port, payload, seq, tos
        self.vlans, self.ip_words, self.options, self.flags = vlans, ip_words, options, flags
        self.protocol = 6  # in the pseudo-header

    def ethernet(self):
        tags = [struct.pack(">HH", 0x8100 if k + 1 == self.vlans else 0x88A8, 100 + k) for k in range(self.vlans)]
        return b"\x22" * 12 + b"".join(tags) + struct.pack(">H", 0x0800 if self.family == 4 else 0x86DD)

    def addresses(self):
        if self.family == 4:
            return bytes([10, 0, 0, 1, 10, 0, 0, 2])
        return b"\xfd" + bytes(14) + b"\1" + b"\xfd" + bytes(14) + b"\2"

    def ip(self, length):
        if self.family == 6:
            return struct.pack(">IHBB", 6 << 28 | self.tos << 20, length, 6, 64) + self.addresses()
        size = 20 + 4 * self.ip_words
        head = struct.pack(">BBHHHBB", 0x40 | size // 4, self.tos, size + length, 7, 0x4000, 64, 6)
        rest = self.addresses() + b"\1" * (size - 20)
        return head + struct.pack(">H", 0xFFFF ^ total(head + b"\0\0" + rest)) + rest

    def frame(self):
        size = 20 + len(self.options)
        head = struct.pack(">HHIIBBH", self.port, 7000, self.seq, 78, size // 4 << 4, self.flags, 512)
        rest = b"\0\0" + self.options + self.payload
        length = size + len(self.payload)
        pseudo = self.addresses() + struct.pack(">HH", self.protocol, length)
        checksum = 0xFFFF ^ total(pseudo + head + b"\0\0" + rest)
        return self.ethernet() + self.ip(length) + head + struct.pack(">H", checksum) + rest

    def like(self, payload, tos=None, protocol=6):
        other = Packet(self.family, self.port, payload, self.seq, self.tos if tos is None else tos, self.vlans,
                       self.ip_words, self.options, self.flags)
        other.protocol = protocol
        return other


def split(plain, seq):
    """Split a payload into its lead, the bits of its whole floats, and its tail."""
    lead = min(-(seq - ISN - 1) % 4, len(plain))
    n = (len(plain) - lead) // 4
    end = lead + 4 * n
    return plain[:lead], list(struct.unpack(f"<{n}I", plain[lead:end])), plain[end:]


def compress(packet, e):
    """Return the packet that a NIC sends for this one."""
    lead, values, tail = split(packet.payload, packet.seq)
    coded = [bursts.encode_value(bits, e) for bits in values]
    coded += [(0, b"")] * (-len(coded) % bursts.BURST)
    body = b"".join(bursts.burst_of(*zip(*coded[at:at + bursts.BURST])) for at in range(0, len(coded), bursts.BURST))
    payload = struct.pack(">HBB", len(packet.payload), len(lead), 0) + lead + body + tail
    if len(payload) < len(packet.payload):
        return packet.like(payload, COMPRESSED | packet.tos & 3, 253)
    return packet.like(rounded(packet, e))


def rounded(packet, e):
    lead, values, tail = split(packet.payload, packet.seq)
    return lead + struct.pack(f"<{len(values)}I", *(bursts.decode_value(*bursts.encode_value(v, e)) for v in values)) + tail


def floats(rng, n):
    """Return the bytes of n floats from -2^-5 to 2^-5, some of them larger."""
    return b"".join(struct.pack("<f", rng.uniform(-1, 1) * 2.0 ** rng.choice((-5, -5, -6, -9, -12, 0, 3))) for _ in range(n))


def cases():
    """Yield name, e and packet of each case."""
    rng = random.Random(22)
    for k, lead in enumerate((0, 1, 2, 3)):  # each case has a tail, too
        yield f"lead{lead}", 10, Packet(4, 40000 + k, floats(rng, 60)[4 - lead if lead else 0:-1 - k], ISN + 5 - lead)
    full = floats(rng, 362)
    yield "full", 10, Packet(4, 40010, full, ISN + 1, options=TIMESTAMPS, flags=ACK | PSH)
    yield "full6", 8, Packet(6, 40011, full[:1440], ISN + 1, options=TIMESTAMPS, tos=MARKED | 2)
    yield "options", 6, Packet(4, 40012, full[:400], ISN + 401, ip_words=3, flags=ACK | FIN)
    yield "vlan", 15, Packet(4, 40013, full[:804], ISN + 9, vlans=1, tos=MARKED | 1)
    yield "vlans", 10, Packet(6, 40014, full[:804], ISN + 9, vlans=2, tos=MARKED | 3, flags=ACK | CWR)
    yield "zeros", 10, Packet(4, 40015, bytes(1460), ISN + 1)
    yield "jumbo", 10, Packet(4, 40016, floats(rng, 2237), ISN + 1, options=TIMESTAMPS)
    yield "wraps", 10, Packet(4, 40017, floats(rng, 30), 2 ** 32 - 6)
    yield "short", 10, Packet(4, 40018, floats(rng, 2), ISN + 1)
    yield "grows", 10, Packet(4, 40019, b"".join(struct.pack("<f", rng.uniform(1, 9)) for _ in range(100)) + full[:40], ISN + 1)
    yield "inside", 10, Packet(6, 40020, b"\x01\x02", ISN + 2)
    bits = b"".join(struct.pack("<I", rng.getrandbits(32) & ~(1 << 30)) for _ in range(360))
    yield "bits", 10, Packet(6, 40021, bits, ISN + 1)
    odd = struct.pack("<6I", 0x7F800000, 0xFF800001, 0x7FC00000, 0x80000000, 1, 0x3F800000)
    yield "odd", 10, Packet(4, 40022, odd + bytes(200) + odd, ISN + 1)


def text_of(frame):
    return "".join(frame[at:at + 16].hex(" ") + "\n" for at in range(0, len(frame), 16))


def files():
    """Yield the name and the text of each file."""
    lines = ""
    for name, e, packet in cases():
        sent = compress(packet, e)
        yield f"{name}.host", text_of(packet.frame())
        yield f"{name}.wire", text_of(sent.frame())
        yield f"{name}.peer", text_of(packet.like(rounded(packet, e)).frame())
        lines += f"{name} {e} {packet.family} {packet.vlans} {packet.ip_words} {packet.port}\n"
    yield "cases", lines


if __name__ == "__main__":
    sys.exit(bursts.compare(sys.argv[1], "nic", files(), "--write" in sys.argv))
