// Compares the packet level in Verilog, compiled by verilator, with the NIC in C.
/* SPDX-License-Identifier: Apache-2.0 */

// packet_harness FRAMES SEED GOLDEN: sends the golden frames of the folder GOLDEN, then FRAMES
// random frames through nic_tx and through nic_rx: segments of marked connections, and frames of
// other kinds, damaged and cut short, with random idle cycles and backpressure. Each frame that
// leaves must be what the NIC in C makes of it. Then it measures beats per cycle. At a difference
// it prints what and where, and exits with 1. Compiled with the parameters -DBOUND=E, -DTABLE=BITS,
// -DMOST=BEATS.

#include <fstream>
#include <map>
#include <memory>

#include "Vnic_rx.h"
#include "Vnic_tx.h"
extern "C" {
#include "fedclient/datacenter/nic/packet/packet_nic.h"
}
#include "packet_bench.hpp"
#include "verilated.h"

namespace {

constexpr size_t BYTES = 32 * size_t{MOST};  // length of the longest frame that is coded

void keep_frame(void *user, const fednic_frame *frame) {
    Bytes &out = *static_cast<Bytes *>(user);
    out.assign(frame->data, frame->data + frame->len);
    if ((frame->offload.flags & 1) != 0) {  // the host or a device completes the checksum
        finish_sum(out, TCP);
    }
}

class NicInC {
  public:
    NicInC() {
        fednic_nic_options options = {};
        options.e = BOUND;
        options.mtu = 65535;
        fed_error error;
        if (fednic_nic_new(&options, &nic, &error) != FED_OK) {
            fail("the NIC in C cannot be made");
        }
    }
    ~NicInC() { fednic_nic_free(nic); }
    NicInC(const NicInC &) = delete;
    NicInC &operator=(const NicInC &) = delete;

    Bytes take(fednic_side from, const Bytes &bytes) {
        Bytes out;
        fednic_frame frame = {bytes.data(), bytes.size(), {}};
        fednic_nic_take(nic, from, &frame, now++, keep_frame, &out);
        return out;
    }

  private:
    fednic_nic *nic = nullptr;
    int64_t now = 0;
};

// Return the bytes of the table's key, the lowest bits first.
Bytes key_of(const Flow &flow) {
    Bytes key(38);
    put16(&key[0], flow.host_port);
    put16(&key[2], flow.peer_port);
    Bytes both = flow.host;
    both.insert(both.end(), flow.peer.begin(), flow.peer.end());
    std::copy(both.begin(), both.end(), key.begin() + 4);
    const unsigned vlan = flow.vlans != 0 ? 0x1000 + 7 : 0;
    key[36] = static_cast<uint8_t>((flow.v6 ? 1 : 0) | vlan << 1);
    key[37] = static_cast<uint8_t>(vlan >> 7);
    return key;
}

unsigned place_of(const Bytes &key) {
    unsigned place = 0;
    for (size_t bit = 0; bit < 302; bit++) {
        place ^= (key[bit / 8] >> bit % 8 & 1U) << bit % TABLE;
    }
    return place;
}

class World {
  public:
    explicit World(uint64_t seed) : random{seed} {
        for (int i = 0; i < 48; i++) {
            flows.push_back(random_flow(random));
        }
    }

    // Open all connections, so that both NICs in C know each other.
    std::vector<Case> begin() {
        std::vector<Case> cases;
        for (Flow &flow : flows) {
            open(flow, cases);
        }
        return cases;
    }
    Case to_wire();
    Case to_host();
    Case to_host_of(const Bytes &frame, const char *what);

    Random random;

  private:
    void open(Flow &flow, std::vector<Case> &cases);
    Bytes data(Flow &flow, Shape &shape);
    Bytes odd_frame(const char **what);
    void damage(Bytes &frame);
    bool stands(const Flow &flow) {
        auto found = table.find(place_of(key_of(flow)));
        return found != table.end() && found->second == key_of(flow);
    }

    std::vector<Flow> flows;
    std::map<unsigned, Bytes> table;  // nic_tx's table: each flow's key by its place
    NicInC sender, receiver;
};

void World::open(Flow &flow, std::vector<Case> &cases) {
    flow.isn = static_cast<uint32_t>(random.next());
    flow.next = flow.isn + 1;
    Shape mine, theirs;
    mine.seq = flow.isn;
    theirs.from_peer = true;
    theirs.seq = 77;
    theirs.options = {0xfd, 4, 0xfe, 0xd1};
    const bool answers = random.one_in(2);
    mine.flags = answers ? SYN | ACK : SYN;
    mine.ack = answers ? theirs.seq + 1 : 0;
    theirs.flags = answers ? SYN : SYN | ACK;
    theirs.ack = answers ? 0 : mine.seq + 1;
    if (answers) {
        sender.take(FEDNIC_WIRE, segment(flow, theirs, {}));
    }
    const Bytes syn = segment(flow, mine, {});
    sender.take(FEDNIC_HOST, syn);
    if (!answers) {
        sender.take(FEDNIC_WIRE, segment(flow, theirs, {}));
    }
    table[place_of(key_of(flow))] = key_of(flow);
    cases.push_back({syn, syn, "SYN"});
}

Bytes World::data(Flow &flow, Shape &shape) {
    size_t len;
    const size_t most = BYTES - 150;
    switch (random.below(6)) {
    case 0: len = 1 + random.below(100); break;
    case 1: len = 4 * (1 + random.below(400)); break;
    case 2: len = random.below(most); break;
    default: len = 1448; break;
    }
    len = std::min(len, most);
    shape.seq = flow.next;
    shape.tos = static_cast<uint8_t>(0x28 | random.below(4));
    shape.flags = static_cast<uint8_t>(ACK | (random.one_in(4) ? PSH : 0));
    shape.tcp_options = random.one_in(2) ? 3 : static_cast<unsigned>(random.below(11));
    shape.bad_sum = random.one_in(16);
    const bool whole = !random.one_in(4); // not whole: it may end within a float
    len = whole ? (len + 3) / 4 * 4 : len;
    flow.next += static_cast<uint32_t>(len);
    return floats(random, len, static_cast<unsigned>(random.below(5)));
}

Bytes World::odd_frame(const char **what) {
    Flow &flow = flows[random.below(flows.size())];
    Shape shape;
    Bytes payload = data(flow, shape);
    Bytes frame;
    size_t flags_at = 0;
    switch (random.below(12)) {
    case 0:
        *what = "unmarked";
        shape.tos = static_cast<uint8_t>(random.one_in(2) ? 0 : random.next());
        if ((shape.tos & 0xfc) == 0x28) {
            shape.tos = 0;
        }
        return segment(flow, shape, payload);
    case 1:
        *what = "random bytes";
        frame.resize(1 + random.below(random.one_in(4) ? 4000 : 120));
        for (uint8_t &byte : frame) {
            byte = random.byte();
        }
        return frame;
    case 2: *what = "fragment"; shape.piece = random.one_in(2) ? 0x2000 : 0x4001; break;
    case 3: *what = "may be cut"; shape.piece = random.one_in(2) ? 0 : 0xc000; break;
    case 4: *what = "IPv4 options"; shape.ip_options = 1 + random.below(10) % 10; break;
    case 5: *what = "two VLANs"; shape.vlans = 2; break;
    case 6: {
        const uint8_t flags[] = {RST, URG, FIN, RST | ACK, URG | PSH};
        *what = "flags";
        shape.flags = static_cast<uint8_t>(ACK | flags[random.below(5)]);
        break;
    }
    case 7: {
        Flow other = random_flow(random);
        *what = "unknown connection";
        return segment(other, shape, payload);
    }
    case 8:
        *what = "bytes after the packet";
        frame = segment(flow, shape, payload);
        frame.resize(frame.size() + 1 + random.below(40), 0x77);
        return frame;
    case 9:
        *what = "too long";
        return segment(flow, shape, floats(random, BYTES - 30 + random.below(2 * BYTES), 3));
    case 10:
        *what = "cut short";
        frame = segment(flow, shape, payload);
        frame.resize(1 + random.below(frame.size()));
        return frame;
    default:
        *what = "damaged headers";
        frame = segment(flow, shape, payload);
        flags_at = tcp_of(frame) + 13;
        for (int i = 0; i < 3; i++) {
            frame[random.below(std::min<size_t>(frame.size(), 80))] = random.byte();
        }
        frame[flags_at] &= static_cast<uint8_t>(~SYN); // a SYN would begin another connection
        return frame;
    }
    return segment(flow, shape, payload);
}

// Return the type of service, without ECN, of an IP frame.
unsigned service_of(const Bytes &frame) {
    const size_t ip = ip_of(frame);
    return (frame[ip] >> 4 == 6 ? get16(&frame[ip]) >> 4 : frame[ip + 1]) & 0xfcU;
}

bool within_limits(const Bytes &frame) {
    if (frame.size() > BYTES || frame.size() < 54) {
        return false;
    }
    const size_t at = get16(&frame[12]) == 0x8100 ? 18 : 14;
    const uint32_t type = get16(&frame[at - 2]);
    if (type == 0x86dd) {
        return frame.size() == at + 40 + get16(&frame[at + 4]);
    }
    return type == 0x0800 && frame[at] == 0x45 && frame.size() == at + get16(&frame[at + 2]);
}

Case World::to_wire() {
    const char *what = "marked";
    if (random.one_in(200)) {
        std::vector<Case> opened;
        open(flows[random.below(flows.size())], opened);
        return opened[0];
    }
    Bytes frame;
    bool known = false;
    if (random.one_in(3)) {
        frame = odd_frame(&what);
        for (const Flow &flow : flows) { // a damaged address makes the flow unknown
            known = known || (stands(flow) && frame.size() >= 54 &&
                              std::search(frame.begin(), frame.end(), flow.host.begin(),
                                          flow.host.end()) != frame.end());
        }
    } else {
        Flow &flow = flows[random.below(flows.size())];
        Shape shape;
        Bytes payload = data(flow, shape);
        frame = segment(flow, shape, payload);
        known = stands(flow);
    }
    Bytes out = sender.take(FEDNIC_HOST, frame);
    const bool coded = known && out.size() < frame.size() && within_limits(frame);
    return {frame, coded ? out : frame, what};
}

void World::damage(Bytes &frame) {
    const size_t tcp = tcp_of(frame), payload = tcp + (frame[tcp + 12] >> 4) * 4U;
    switch (random.below(6)) {
    case 0: put16(&frame[payload], get16(&frame[payload]) + 1 - 2 * random.below(2)); break;
    case 1: frame[payload + 2] = static_cast<uint8_t>(random.below(6)); break;
    case 2: frame[payload + 3] = static_cast<uint8_t>(1 << random.below(8)); break;
    case 3: frame[payload + random.below(frame.size() - payload)] ^= 1; break;
    case 4: put16(&frame[payload], static_cast<uint32_t>(random.next())); break;
    default: {
        frame.resize(payload + 1 + random.below(frame.size() - payload + 8), 0);
        const size_t ip = ip_of(frame);
        const bool v6 = frame[ip] >> 4 == 6;
        put16(&frame[ip + (v6 ? 4 : 2)],
              static_cast<uint32_t>(frame.size() - (v6 ? ip + 40 : ip)));
        finish_ip_sum(frame);
        break;
    }
    }
    if (!random.one_in(4)) {
        finish_sum(frame, TWISTED);
    }
}

Case World::to_host() {
    Bytes frame;
    const char *what = "compressed";
    if (random.one_in(3)) {
        frame = odd_frame(&what);
        if (random.one_in(2)) {
            frame = sender.take(FEDNIC_HOST, frame);
        }
    } else {
        Flow &flow = flows[random.below(flows.size())];
        Shape shape;
        Bytes payload = data(flow, shape);
        frame = sender.take(FEDNIC_HOST, segment(flow, shape, payload));
        if (random.one_in(8)) {
            what = "one byte of the headers damaged";
            frame[random.below(70)] ^= static_cast<uint8_t>(1U << random.below(8));
            return to_host_of(frame, what);
        }
        if (service_of(frame) == 0x2c && random.one_in(3)) {
            what = "compressed and damaged";
            damage(frame);
        }
    }
    return to_host_of(frame, what);
}

Case World::to_host_of(const Bytes &frame, const char *what) {
    const Bytes out = receiver.take(FEDNIC_WIRE, frame);
    // The NIC in C recognises compressed segments by the checksum alone, nic_rx also by the DSCP.
    const bool coded = within_limits(frame) && service_of(frame) == 0x2c && out.size() <= BYTES;
    return {frame, coded ? out : frame, what};
}

template <typename Unit>
void check(const char *name, Bench<Unit> &bench, World &world, Case (World::*next)(),
           uint64_t frames) {
    std::map<std::string, uint64_t> kinds, changed;
    for (uint64_t done = 0; done < frames;) {
        std::vector<Case> cases;
        for (int i = 0; i < 200; i++, done++) {
            cases.push_back((world.*next)());
            kinds[cases.back().what]++;
            changed[cases.back().what] += cases.back().in != cases.back().out ? 1 : 0;
        }
        const uint64_t idle = world.random.one_in(3) ? 0 : world.random.below(220);
        const uint64_t busy = world.random.one_in(3) ? 0 : world.random.below(220);
        bench.send(cases, idle, busy, world.random);
    }
    for (const auto &kind : kinds) {
        std::printf("%s: %s: %llu frames, %llu changed\n", name, kind.first.c_str(),
                    static_cast<unsigned long long>(kind.second),
                    static_cast<unsigned long long>(changed[kind.first]));
    }
}

Bytes golden(const std::string &path) {
    std::ifstream file(path);
    Bytes bytes;
    for (unsigned byte; file >> std::hex >> byte;) {
        bytes.push_back(static_cast<uint8_t>(byte));
    }
    if (bytes.empty()) {
        fail(path + ": cannot be read");
    }
    return bytes;
}

// Return the SYN of a segment's connection, whose ISN is 1000.
Bytes syn_of(Bytes frame) {
    const size_t ip = ip_of(frame), tcp = tcp_of(frame);
    const bool v6 = frame[ip] >> 4 == 6;
    frame.resize(tcp + (frame[tcp + 12] >> 4) * 4U);
    put16(&frame[ip + (v6 ? 4 : 2)], static_cast<uint32_t>(frame.size() - (v6 ? tcp : ip)));
    put32(&frame[tcp + 4], 1000);
    frame[tcp + 13] = SYN;
    finish_ip_sum(frame);
    finish_sum(frame, TCP);
    return frame;
}

void golden_frames(const std::string &folder, Bench<Vnic_tx> &tx, Bench<Vnic_rx> &rx,
                   Random &random) {
    std::ifstream cases(folder + "/cases");
    std::string name, rest;
    unsigned e, count = 0;
    for (; cases >> name >> e; count++) {
        std::getline(cases, rest);
        const Bytes host = golden(folder + "/" + name + ".host");
        const Bytes wire = golden(folder + "/" + name + ".wire");
        const Bytes peer = golden(folder + "/" + name + ".peer");
        const bool coded = wire.size() < host.size() && within_limits(host);
        if (e == BOUND) {
            const Bytes syn = syn_of(host);
            tx.send({{syn, syn, "SYN"}, {host, coded ? wire : host, "golden"}}, 0, 0, random);
        }
        rx.send({{wire, coded ? peer : wire, "golden"}}, 0, 0, random);
    }
    if (count == 0) {
        fail(folder + "/cases: cannot be read");
    }
    std::printf("%u golden frames agree\n", count);
}

// Measure beats per cycle on the host's side, without idle cycles and backpressure.
void speed(const char *what, uint8_t tos, unsigned kind, size_t payload, Bench<Vnic_tx> &tx,
           Bench<Vnic_rx> &rx, Random &random) {
    NicInC sender, receiver;
    Flow flow = random_flow(random);
    flow.v6 = false;
    flow.host.resize(4);
    flow.peer.resize(4);
    flow.vlans = 0;
    Shape shape;
    shape.seq = flow.isn;
    shape.flags = SYN;
    const Bytes syn = segment(flow, shape, {});
    sender.take(FEDNIC_HOST, syn);
    Shape answer;
    answer.from_peer = true;
    answer.flags = SYN | ACK;
    answer.ack = flow.isn + 1;
    answer.options = {0xfd, 4, 0xfe, 0xd1};
    sender.take(FEDNIC_WIRE, segment(flow, answer, {}));
    tx.send({{syn, syn, "SYN"}}, 0, 0, random);
    std::vector<Case> out, in;
    shape.flags = ACK;
    shape.tos = tos;
    shape.tcp_options = 3;
    for (int i = 0; i < 300; i++) {
        shape.seq = flow.next;
        const Bytes frame = segment(flow, shape, floats(random, payload, kind));
        flow.next += static_cast<uint32_t>(payload);
        const Bytes coded = sender.take(FEDNIC_HOST, frame);
        out.push_back({frame, coded.size() < frame.size() ? coded : frame, what});
        in.push_back({out.back().out, receiver.take(FEDNIC_WIRE, out.back().out), what});
    }
    const Pace t = tx.send(out, 0, 0, random), r = rx.send(in, 0, 0, random);
    std::printf("| %s, payload %zu | %.3f | %.3f | %.3f |\n", what, payload,
                static_cast<double>(t.in_beats) / static_cast<double>(t.in_cycles),
                static_cast<double>(r.out_beats) / static_cast<double>(r.out_cycles),
                static_cast<double>(t.out_beats) / static_cast<double>(t.in_beats));
    if (kind != 2 && (t.in_beats != t.in_cycles || r.out_beats != r.out_cycles)) {
        fail(std::string(what) + ": the stream stalls");
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        fail("usage: packet_harness FRAMES SEED GOLDEN");
    }
    const uint64_t frames = std::strtoull(argv[1], nullptr, 10);
    Bench<Vnic_tx> tx;
    Bench<Vnic_rx> rx;
    World world(std::strtoull(argv[2], nullptr, 10));
    golden_frames(argv[3], tx, rx, world.random);
    tx.send(world.begin(), 0, 0, world.random);
    check("nic_tx", tx, world, &World::to_wire, frames);
    check("nic_rx", rx, world, &World::to_host, frames);
    if (MOST >= 288) {
        std::printf("| frames | beats a cycle, out | in | beats on the wire |\n");
        std::printf("|---|---|---|---|\n");
        for (size_t payload : {size_t{1448}, size_t{8948}}) {
            speed("compressible", 0x28, 3, payload, tx, rx, world.random);
            speed("incompressible", 0x28, 2, payload, tx, rx, world.random);
            speed("unmarked", 0, 3, payload, tx, rx, world.random);
        }
    }
    std::printf("packet_harness: %llu frames each way agree\n",
                static_cast<unsigned long long>(frames));
    return 0;
}
