// Compares the Verilog engines, compiled by verilator, with the C codec, bit for bit.
/* SPDX-License-Identifier: Apache-2.0 */

// rtl_harness BURSTS SEED VECTORS: sends the golden vectors of the folder VECTORS
// (tests/vectors/bursts.py), then BURSTS random bursts through each engine, in packets of random
// lengths, some of them malformed, with random idle cycles and backpressure. Then it measures
// bursts per cycle. At a difference it prints what and where, and exits with 1. Compiled with the
// parameter E as -DBOUND=E, and the decompressor's width as -DWIDTH=BITS.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vnic_compress.h"
#include "Vnic_decompress.h"
#include "fedcodec/bursts.h"
#include "verilated.h"

namespace {

constexpr size_t BEAT = WIDTH / 8;  // bytes of a beat of the decompressor
constexpr size_t BURST = 8;
constexpr int PATIENCE = 2000;      // cycles without a transfer until the test fails

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
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

struct Packet {
    Bytes in, out;
    uint32_t count = 0;
    bool bad = false;    // the codec refuses the packet: only m_error must be right
};

[[noreturn]] void fail(const std::string &what) {
    std::printf("rtl_harness: %s\n", what.c_str());
    std::exit(1);
}

template <typename Wide>
uint8_t *bytes_of(Wide &wide) {  // verilator has words in the machine's order: little-endian
    return reinterpret_cast<uint8_t *>(&wide);
}

template <typename Engine>
void sides_in(Engine &, const Packet &) {}
template <>
void sides_in(Vnic_decompress &engine, const Packet &packet) {
    engine.s_count = static_cast<uint16_t>(packet.count);
}

void sides_out(Vnic_compress &engine, const Packet &packet, size_t number) {
    if (engine.m_bytes != (packet.out.size() & 0xffff)) {
        fail("packet " + std::to_string(number) + ": m_bytes is " + std::to_string(engine.m_bytes) +
             ", not " + std::to_string(packet.out.size()));
    }
}
void sides_out(Vnic_decompress &engine, const Packet &packet, size_t number) {
    if ((engine.m_error != 0) != packet.bad) {
        fail("packet " + std::to_string(number) + ": m_error is " + std::to_string(engine.m_error));
    }
}

struct Counts {
    uint64_t cycles = 0, in = 0, out = 0;  // cycles: from the first to the last beat of the input
    uint64_t stalls = 0;                   // number of cycles in which an offered beat waited
    uint64_t gaps = 0;  // cycles without an output beat, between the first and the last
};

// Send packets and compare the output. idle: in how many of 256 cycles no beat is offered. busy: in
// how many of 256 cycles none is taken.
template <typename Engine, size_t WIDE>
class Bench {
  public:
    Bench() { reset(); }

    Counts send(const std::vector<Packet> &packets, unsigned idle, unsigned busy, Random &random) {
        Counts counts;
        size_t sent = 0, at = 0, received = 0;
        Bytes got;
        uint64_t first_out = 0, last_out = 0, first_in = 0, cycle = 0;
        int quiet = 0;
        bool offered = false, held = false;
        uint8_t held_data[WIDE], held_keep[4];
        bool held_last = false;
        // The output of a packet that is too long ends before all of its input was taken.
        while (received < packets.size() || sent < packets.size()) {
            if (!offered && sent < packets.size() && random.below(256) >= idle) {
                offer(packets[sent], at);
                offered = true;
            }
            engine.s_tvalid = offered;
            engine.m_tready = random.below(256) >= busy;
            engine.clk = 0;
            engine.eval();
            const bool in = engine.s_tvalid && engine.s_tready;
            const bool out = engine.m_tvalid && engine.m_tready;
            if (held && (!engine.m_tvalid || engine.m_tlast != held_last ||
                         std::memcmp(held_data, bytes_of(engine.m_tdata), WIDE) != 0 ||
                         std::memcmp(held_keep, &engine.m_tkeep, WIDE / 8) != 0)) {
                fail("a beat changed while it waited");
            }
            held = engine.m_tvalid && !engine.m_tready;
            if (held) {
                std::memcpy(held_data, bytes_of(engine.m_tdata), WIDE);
                std::memcpy(held_keep, &engine.m_tkeep, WIDE / 8);
                held_last = engine.m_tlast;
            }
            if (out) {
                if (received == packets.size()) {
                    fail("a beat came after the last packet");
                }
                take(got);
                first_out = counts.out == 0 ? cycle : first_out;
                last_out = cycle;
                counts.out++;
                if (engine.m_tlast) {
                    compare(packets[received], got, received);
                    got.clear();
                    received++;
                }
            }
            if (in) {
                first_in = counts.in == 0 ? cycle : first_in;
                counts.cycles = cycle + 1 - first_in;
                counts.in++;
                offered = false;
                at += WIDE;
                if (at >= packets[sent].in.size()) {
                    at = 0;
                    sent++;
                }
            }
            counts.stalls += engine.s_tvalid && !engine.s_tready;
            quiet = in || out ? 0 : quiet + 1;
            if (quiet > PATIENCE) {
                fail("the engine hangs: packet " + std::to_string(received) + " does not end");
            }
            engine.clk = 1;
            engine.eval();
            cycle++;
        }
        engine.s_tvalid = 0;
        counts.gaps = last_out + 1 - first_out - counts.out;
        settle();
        return counts;
    }

  private:
    void tick() {
        engine.clk = 0;
        engine.eval();
        engine.clk = 1;
        engine.eval();
    }
    void reset() {
        engine.rst = 1;
        engine.s_tvalid = 0;
        engine.m_tready = 0;
        tick();
        tick();
        engine.rst = 0;
    }
    void settle() {
        engine.m_tready = 1;
        for (int i = 0; i < 8; i++) {
            tick();
            if (engine.m_tvalid) {
                fail("a beat came after the last packet");
            }
        }
    }
    void offer(const Packet &packet, size_t at) {
        const size_t left = packet.in.size() - at, n = left < WIDE ? left : WIDE;
        uint64_t keep = n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
        // Bytes without tkeep may be anything.
        std::memset(bytes_of(engine.s_tdata), 0xa5, WIDE);
        std::memcpy(bytes_of(engine.s_tdata), packet.in.data() + at, n);
        std::memcpy(&engine.s_tkeep, &keep, WIDE / 8);
        engine.s_tlast = left <= WIDE;
        if (at == 0) {
            sides_in(engine, packet);
        }
    }
    void take(Bytes &got) {
        uint64_t keep = 0;
        std::memcpy(&keep, &engine.m_tkeep, WIDE / 8);
        size_t n = 0;
        while (n < WIDE && (keep >> n & 1) != 0) {
            n++;
        }
        if ((keep >> n) != 0 || (n < WIDE && !engine.m_tlast)) {
            fail("m_tkeep has holes, or a beat within a packet is not full");
        }
        got.insert(got.end(), bytes_of(engine.m_tdata), bytes_of(engine.m_tdata) + n);
    }
    void compare(const Packet &packet, const Bytes &got, size_t number) {
        sides_out(engine, packet, number);
        if (packet.bad || got == packet.out) {
            return;
        }
        size_t i = 0;
        while (i < got.size() && i < packet.out.size() && got[i] == packet.out[i]) {
            i++;
        }
        fail("packet " + std::to_string(number) + " differs at byte " + std::to_string(i) + ": " +
             std::to_string(got.size()) + " bytes, expected " + std::to_string(packet.out.size()));
    }

    Engine engine;
};

float with_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

float gauss(Random &random) {  // a sum of six, so nearly normally distributed
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        sum += random.unit() - 0.5;
    }
    return static_cast<float>(sum * 1.4);
}

// Return one of BORDERS, or a float next to it, with either sign.
float border(Random &random) {
    static const double BORDERS[] = {0x1p-15, 0x1p-7, 0x1p-5, 0x1p-4, 0x1p-8, 0x1p-10, 0x1p-1,
                                     1, 2, 0x1p-126, 0x1p-149, 0, INFINITY, 0x1p-3, 0x1p127};
    uint32_t bits;
    const float value = static_cast<float>(BORDERS[random.below(sizeof BORDERS / sizeof *BORDERS)]);
    std::memcpy(&bits, &value, sizeof bits);
    bits += static_cast<uint32_t>(random.below(5)) - 2;
    return with_bits(bits ^ static_cast<uint32_t>(random.below(2) << 31));
}

float of_class(unsigned tag, Random &random) {
    const float sign = random.below(2) != 0 ? -1.0F : 1.0F;
    const double low[] = {0, std::ldexp(1, -BOUND), std::ldexp(1, -(BOUND / 2)), 1};
    const double high[] = {low[1], low[2], 1, 1000};
    return sign * static_cast<float>(low[tag] + (high[tag] - low[tag]) * random.unit() * 0.999);
}

enum Kind { BITS, CLASSES, LARGE, BORDERS, MOST_32, SPARSE, GAUSS, LONG, SHORT, KINDS };

void fill(std::vector<float> &values, Kind kind, Random &random) {
    const double scale = std::pow(10, -6 + 5 * random.unit());  // 10^-6 to 0.1
    for (size_t i = 0; i < values.size(); i++) {
        switch (kind) {
        case BITS: values[i] = with_bits(static_cast<uint32_t>(random.next())); break;
        case CLASSES: values[i] = of_class(random.below(4) & 3, random); break;
        case GAUSS: values[i] = static_cast<float>(gauss(random) * scale); break;
        case LARGE: values[i] = static_cast<float>(gauss(random) * 100 * scale); break;
        case BORDERS: values[i] = border(random); break;
        case MOST_32: values[i] = of_class(i % 8 == 5 ? 2 : 3, random); break;
        case SPARSE: values[i] = of_class(random.below(16) == 0 ? 3 : 0, random); break;
        case LONG: values[i] = of_class(3, random); break;
        default: values[i] = of_class(random.below(64) != 0 ? 0 : 1, random); break;
        }
    }
}

Packet to_compress(const std::vector<float> &values) {
    Packet packet;
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    packet.count = static_cast<uint32_t>(values.size());
    packet.in.assign(bytes, bytes + 4 * values.size());
    packet.out.resize(fedcodec_bursts_bound(values.size()));
    size_t len = 0;
    if (fedcodec_bursts_encode(BOUND, values.data(), values.size(), packet.out.data(),
                               packet.out.size(), &len) != values.size()) {
        fail("the codec does not encode all values");
    }
    packet.out.resize(len);
    return packet;
}

Packet to_decompress(const Bytes &bytes, uint32_t count) {
    Packet packet;
    packet.count = count;
    packet.in = bytes;
    packet.out.resize(4 * size_t{count});
    packet.bad = count == 0 || fedcodec_bursts_decode(bytes.data(), bytes.size(), packet.out.data(),
                                                      count) != FED_OK;
    return packet;
}

Packet damaged(const Packet &good, Random &random) {
    Bytes bytes = good.in;
    uint32_t count = good.count;
    switch (random.below(5)) {
    case 0: bytes.resize(1 + random.below(bytes.size())); break;
    case 1: bytes.resize(bytes.size() + 1 + random.below(3 * BEAT), 0x5a); break;
    case 2: count = static_cast<uint32_t>(random.below(2 * size_t{count} + 2)); break;
    case 3:
        for (uint8_t &byte : bytes) {
            byte = static_cast<uint8_t>(random.next());
        }
        break;
    default: bytes[random.below(bytes.size())] ^= static_cast<uint8_t>(1 + random.below(255)); break;
    }
    return to_decompress(bytes, count);
}

size_t random_length(Random &random) {
    switch (random.below(8)) {
    case 0: return 1 + random.below(9);
    case 1: return 365;  // 1,460 bytes, an Ethernet frame's TCP payload
    default: return 1 + random.below(400);
    }
}

struct Both {
    Bench<Vnic_compress, 32> compress;
    Bench<Vnic_decompress, BEAT> decompress;
};

uint64_t bursts_of(size_t values) { return (values + BURST - 1) / BURST; }

void random_bursts(Both &both, uint64_t bursts, Random &random) {
    for (uint64_t done = 0; done < bursts;) {
        std::vector<Packet> in, out;
        for (int i = 0; i < 64; i++) {
            std::vector<float> values(random_length(random));
            fill(values, static_cast<Kind>(random.below(KINDS)), random);
            in.push_back(to_compress(values));
            out.push_back(to_decompress(in.back().out, in.back().count));
            if (random.below(8) == 0) {
                out.push_back(damaged(out.back(), random));
            }
            done += bursts_of(values.size());
        }
        const unsigned idle = random.below(3) == 0 ? 0 : static_cast<unsigned>(random.below(200));
        const unsigned busy = random.below(3) == 0 ? 0 : static_cast<unsigned>(random.below(200));
        both.compress.send(in, idle, busy, random);
        both.decompress.send(out, idle, busy, random);
    }
}

// Measure without idle cycles and backpressure.
void speed(Both &both, const char *what, Kind kind, size_t most, Random &random) {
    std::vector<Packet> in, out;
    uint64_t beats = 0;
    for (int i = 0; i < 2000; i++) {
        std::vector<float> values(most == 0 ? 360 : 1 + random.below(most));
        fill(values, kind, random);
        in.push_back(to_compress(values));
        out.push_back(to_decompress(in.back().out, in.back().count));
        beats += bursts_of(values.size());
    }
    Counts c = both.compress.send(in, 0, 0, random);
    Counts d = both.decompress.send(out, 0, 0, random);
    const uint64_t out_cycles = d.out + d.gaps;
    std::printf("| %s | %.3f | %.3f |\n", what,
                static_cast<double>(c.in) / static_cast<double>(c.cycles),
                static_cast<double>(d.out) / static_cast<double>(out_cycles));
    const uint64_t waits = c.stalls + (WIDTH == 256 ? d.gaps : 0);
    if (c.in != beats || (kind != LONG && waits != 0)) {
        fail(std::string(what) + ": " + std::to_string(c.stalls) + " stalls of the compressor, " +
             std::to_string(d.gaps) + " gaps of the decompressor");
    }
}

// Read a file of tests/vectors/bursts: hexadecimal digits, two for a byte or eight for a float.
Bytes golden(const std::string &path) {
    Bytes bytes;
    FILE *file = std::fopen(path.c_str(), "r");
    if (file == nullptr) {
        fail(path + ": cannot be read");
    }
    char word[16];
    while (std::fscanf(file, "%15s", word) == 1) {
        const unsigned long bits = std::strtoul(word, nullptr, 16);
        for (size_t i = 0; i < std::strlen(word) / 2; i++) {
            bytes.push_back(static_cast<uint8_t>(bits >> 8 * i));
        }
    }
    std::fclose(file);
    return bytes;
}

Packet golden_packet(const Bytes &in, const Bytes &out, size_t floats) {
    Packet packet;
    packet.in = in;
    packet.out = out;
    packet.count = static_cast<uint32_t>(floats / 4);
    return packet;
}

void golden_vectors(Both &both, const std::string &folder, Random &random) {
    const std::string name = folder + "/e" + std::to_string(BOUND);
    const Bytes values = golden(name + ".values"), bursts = golden(name + ".bursts");
    const Bytes decoded = golden(name + ".decoded"), any = golden(folder + "/any.decoded");
    both.compress.send({golden_packet(values, bursts, values.size())}, 0, 0, random);
    both.decompress.send({golden_packet(bursts, decoded, decoded.size()),
                          golden_packet(golden(folder + "/any.bursts"), any, any.size())},
                         0, 0, random);
    std::printf("golden vectors: %zu values, and %zu of any tags\n", values.size() / 4, any.size() / 4);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        fail("usage: rtl_harness BURSTS SEED VECTORS");
    }
    const uint64_t bursts = std::strtoull(argv[1], nullptr, 10);
    Random random{std::strtoull(argv[2], nullptr, 10)};
    static Both both;
    golden_vectors(both, argv[3], random);
    random_bursts(both, bursts, random);
    std::printf("%llu random bursts through both engines, bit for bit as the C codec\n\n",
                static_cast<unsigned long long>(bursts));
    std::printf("| floats | compressor, bursts a cycle | decompressor, beats a cycle |\n|---|---|---|\n");
    speed(both, "all become 0 or one byte", SHORT, 0, random);
    speed(both, "gradients, packets of 360", GAUSS, 0, random);
    speed(both, "32 bytes a burst, packets of 360", MOST_32, 0, random);
    speed(both, "32 bytes a burst, packets of 1 to 24", MOST_32, 24, random);
    speed(both, "sparse, packets of 1 to 24", SPARSE, 24, random);
    speed(both, "incompressible, 34 bytes a burst", LONG, 0, random);
    return 0;
}
