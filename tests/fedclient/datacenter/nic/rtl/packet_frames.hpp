/* Frames for the tests of the NIC in Verilog: TCP segments of marked connections, and others. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACKET_FRAMES_H
#define PACKET_FRAMES_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

using Bytes = std::vector<uint8_t>;

struct Random {
    uint64_t state;
    uint64_t next() {  // splitmix64
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    uint64_t below(uint64_t n) { return next() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
    uint8_t byte() { return static_cast<uint8_t>(next()); }
};

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, URG = 32 };
enum { TCP = 6, TWISTED = 253 };

struct Flow {
    bool v6;
    int vlans;
    Bytes host, peer;
    uint16_t host_port, peer_port;
    uint32_t isn, next;
};

inline void put16(uint8_t *at, uint32_t value) {
    at[0] = static_cast<uint8_t>(value >> 8);
    at[1] = static_cast<uint8_t>(value);
}
inline void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value);
}
inline uint32_t get16(const uint8_t *at) { return static_cast<uint32_t>(at[0]) << 8 | at[1]; }

inline uint16_t sum_of(const uint8_t *data, size_t len, uint64_t sum = 0) {
    for (size_t i = 0; i + 1 < len; i += 2) {
        sum += get16(data + i);
    }
    sum += len % 2 != 0 ? static_cast<uint64_t>(data[len - 1]) << 8 : 0;
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<uint16_t>(sum);
}

// The headers of a frame. With the defaults it is a valid segment.
struct Shape {
    uint8_t tos = 0x28, flags = ACK;
    unsigned tcp_options = 0, ip_options = 0;  // number of 32-bit words
    uint16_t piece = 0x4000;                   // IPv4's flags and offset
    int vlans = -1;                            // number of VLAN tags; -1: as many as the flow has
    bool from_peer = false;
    bool bad_sum = false;
    uint32_t seq = 0, ack = 0;
    Bytes options;  // TCP options, instead of tcp_options words of no operation
};

// Return the offset of IP's header in a frame.
inline size_t ip_of(const Bytes &frame) {
    size_t at = 14;
    while (get16(&frame[at - 2]) == 0x8100 || get16(&frame[at - 2]) == 0x88a8) {
        at += 4;
    }
    return at;
}
inline size_t tcp_of(const Bytes &frame) {
    size_t ip = ip_of(frame);
    return ip + (frame[ip] >> 4 == 6 ? 40U : (frame[ip] & 15U) * 4U);
}

// Write TCP's checksum. The frame must end where its segment ends.
inline void finish_sum(Bytes &frame, uint16_t protocol) {
    const size_t ip = ip_of(frame), tcp = tcp_of(frame), len = frame.size() - tcp;
    const bool v6 = frame[ip] >> 4 == 6;
    put16(&frame[tcp + 16], 0);
    uint16_t sum = sum_of(&frame[ip + (v6 ? 8 : 12)], v6 ? 32 : 8, protocol + len);
    put16(&frame[tcp + 16], 0xffffU & ~sum_of(&frame[tcp], len, sum));
}

inline void finish_ip_sum(Bytes &frame) {
    const size_t ip = ip_of(frame);
    if (frame[ip] >> 4 == 4) {
        put16(&frame[ip + 10], 0);
        put16(&frame[ip + 10], 0xffffU & ~sum_of(&frame[ip], (frame[ip] & 15U) * 4U));
    }
}

inline Bytes segment(const Flow &flow, const Shape &shape, const Bytes &payload) {
    Bytes f = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    const int vlans = shape.vlans < 0 ? flow.vlans : shape.vlans;
    for (int i = 0; i < vlans; i++) {
        const uint8_t type = i + 1 < vlans ? 0xa8 : 0x00;
        f.insert(f.end(), {static_cast<uint8_t>(type != 0 ? 0x88 : 0x81), type, 0x20,
                           static_cast<uint8_t>(7 + i)});
    }
    const Bytes options =
        shape.options.empty() ? Bytes(4 * size_t{shape.tcp_options}, 1) : shape.options;
    const size_t tcp_len = 20 + options.size() + payload.size();
    f.push_back(flow.v6 ? 0x86 : 0x08);
    f.push_back(flow.v6 ? 0xdd : 0x00);
    const size_t ip = f.size(), ip_len = flow.v6 ? 40 : 20 + 4 * size_t{shape.ip_options};
    f.resize(ip + ip_len, 1);
    const Bytes &from = shape.from_peer ? flow.peer : flow.host;
    const Bytes &to = shape.from_peer ? flow.host : flow.peer;
    if (flow.v6) {
        put32(&f[ip], 0x60000000U | static_cast<uint32_t>(shape.tos) << 20 | 0x12345);
        put16(&f[ip + 4], static_cast<uint32_t>(tcp_len));
        f[ip + 6] = TCP;
        f[ip + 7] = 64;
    } else {
        f[ip] = static_cast<uint8_t>(0x45 + shape.ip_options);
        f[ip + 1] = shape.tos;
        put16(&f[ip + 2], static_cast<uint32_t>(ip_len + tcp_len));
        put16(&f[ip + 4], shape.seq * 7);
        put16(&f[ip + 6], shape.piece);
        f[ip + 8] = 64;
        f[ip + 9] = TCP;
    }
    std::copy(from.begin(), from.end(), f.begin() + static_cast<long>(ip) + (flow.v6 ? 8 : 12));
    std::copy(to.begin(), to.end(), f.begin() + static_cast<long>(ip) + (flow.v6 ? 24 : 16));
    const size_t tcp = f.size();
    f.resize(tcp + 20);
    put16(&f[tcp], shape.from_peer ? flow.peer_port : flow.host_port);
    put16(&f[tcp + 2], shape.from_peer ? flow.host_port : flow.peer_port);
    put32(&f[tcp + 4], shape.seq);
    put32(&f[tcp + 8], shape.ack);
    f[tcp + 12] = static_cast<uint8_t>((5 + options.size() / 4) << 4);
    f[tcp + 13] = shape.flags;
    put16(&f[tcp + 14], 500);
    f.insert(f.end(), options.begin(), options.end());
    f.insert(f.end(), payload.begin(), payload.end());
    finish_ip_sum(f);
    finish_sum(f, TCP);
    if (shape.bad_sum) {
        f[tcp + 17] ^= 0x21;
    }
    return f;
}

inline Flow random_flow(Random &random) {
    Flow flow;
    flow.v6 = random.one_in(3);
    flow.vlans = random.one_in(3) ? 1 : 0;
    flow.host.resize(flow.v6 ? 16 : 4);
    flow.peer.resize(flow.v6 ? 16 : 4);
    for (size_t i = 0; i < flow.host.size(); i++) {
        flow.host[i] = random.byte();
        flow.peer[i] = random.byte();
    }
    flow.host_port = static_cast<uint16_t>(random.next());
    flow.peer_port = static_cast<uint16_t>(random.next());
    flow.isn = static_cast<uint32_t>(random.next());
    flow.next = flow.isn + 1;
    return flow;
}

// Return floats as bytes. kind: 0: zeros; 1: any bits; 2: at least 1; 3: like gradients; 4: a mix.
inline Bytes floats(Random &random, size_t len, unsigned kind) {
    Bytes bytes(len + 4);
    for (size_t i = 0; i < len; i += 4) {
        const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53 - 0.5;
        const unsigned now = kind == 4 ? static_cast<unsigned>(random.below(4)) : kind;
        const float value = now == 0 ? 0.0F : now == 2 ? static_cast<float>(unit * 100 + 200)
                            : static_cast<float>(unit * (random.one_in(8) ? 0.9 : 0.01));
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        bits = now == 1 ? static_cast<uint32_t>(random.next()) : bits;
        std::memcpy(&bytes[i], &bits, sizeof bits);
    }
    bytes.resize(len);
    return bytes;
}

#endif
