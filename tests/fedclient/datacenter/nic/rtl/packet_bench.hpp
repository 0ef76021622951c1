/* Drives nic_tx or nic_rx as verilator has compiled it: frames in, frames out, compared. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACKET_BENCH_H
#define PACKET_BENCH_H

#include <cstdio>
#include <cstdlib>
#include <string>

#include "packet_frames.hpp"

[[noreturn]] inline void fail(const std::string &what) {
    std::printf("packet_harness: %s\n", what.c_str());
    std::exit(1);
}

// A frame for the input, the expected output, and a remark for errors: what the frame tests.
struct Case {
    Bytes in, out;
    const char *what;
};

struct Pace {
    uint64_t in_beats = 0, in_cycles = 0;    // cycles: from the first to the last beat
    uint64_t out_beats = 0, out_cycles = 0;
};

template <typename Unit>
class Bench {
  public:
    Bench() {
        unit.rst = 1;
        unit.s_tvalid = unit.m_tready = 0;
        tick();
        tick();
        unit.rst = 0;
    }

    // Send all frames. idle: in how many of 256 cycles no beat is offered. busy: in how many of 256
    // cycles none is taken.
    Pace send(const std::vector<Case> &cases, uint64_t idle, uint64_t busy, Random &random) {
        Pace pace;
        size_t sent = 0, at = 0, received = 0;
        uint64_t cycle = 0, first_in = 0, first_out = 0, quiet = 0;
        bool offered = false;
        Bytes got;
        while (received < cases.size()) {
            if (!offered && sent < cases.size() && random.below(256) >= idle) {
                offer(cases[sent].in, at);
                offered = true;
            }
            unit.s_tvalid = offered;
            unit.m_tready = random.below(256) >= busy;
            unit.clk = 0;
            unit.eval();
            const bool in = unit.s_tvalid && unit.s_tready, out = unit.m_tvalid && unit.m_tready;
            stable();
            if (out) {
                take(got);
                first_out = pace.out_beats++ == 0 ? cycle : first_out;
                pace.out_cycles = cycle + 1 - first_out;
                if (unit.m_tlast) {
                    compare(cases, received, got);
                    got.clear();
                    received++;
                }
            }
            if (in) {
                first_in = pace.in_beats++ == 0 ? cycle : first_in;
                pace.in_cycles = cycle + 1 - first_in;
                offered = false;
                at += 32;
                if (at >= cases[sent].in.size()) {
                    at = 0;
                    sent++;
                }
            }
            quiet = in || out ? 0 : quiet + 1;
            if (quiet > 5000) {
                fail("the unit hangs at frame " + std::to_string(received) + " of " +
                     std::to_string(cases.size()) + ": " + cases[received].what);
            }
            unit.clk = 1;
            unit.eval();
            cycle++;
        }
        settle();
        return pace;
    }

  private:
    void tick() {
        unit.clk = 0;
        unit.eval();
        unit.clk = 1;
        unit.eval();
    }
    void settle() {
        unit.s_tvalid = 0;
        unit.m_tready = 1;
        for (int i = 0; i < 50; i++) {
            tick();
            if (unit.m_tvalid) {
                fail("a beat came after the last frame");
            }
        }
        held = false;
    }
    uint8_t *bytes_of(void *wide) { return static_cast<uint8_t *>(wide); }
    // Check AXI-stream's rule: an offered beat does not change until it is taken.
    void stable() {
        if (held && (!unit.m_tvalid || unit.m_tlast != held_last || unit.m_tkeep != held_keep ||
                     std::memcmp(held_data, bytes_of(&unit.m_tdata), 32) != 0)) {
            fail("a beat changed while it waited");
        }
        held = unit.m_tvalid && !unit.m_tready;
        held_last = unit.m_tlast;
        held_keep = unit.m_tkeep;
        std::memcpy(held_data, bytes_of(&unit.m_tdata), 32);
    }
    void offer(const Bytes &frame, size_t at) {
        const size_t left = frame.size() - at, n = left < 32 ? left : 32;
        std::memset(bytes_of(&unit.s_tdata), 0xa5, 32);  // bytes without tkeep may be anything
        std::memcpy(bytes_of(&unit.s_tdata), frame.data() + at, n);
        unit.s_tkeep = n == 32 ? 0xffffffffU : (1U << n) - 1;
        unit.s_tlast = left <= 32;
    }
    void take(Bytes &got) {
        size_t n = 0;
        while (n < 32 && (unit.m_tkeep >> n & 1) != 0) {
            n++;
        }
        if (n == 0 || (n < 32 && ((unit.m_tkeep >> n) != 0 || !unit.m_tlast))) {
            fail("m_tkeep has holes, or a beat within a frame is not full");
        }
        got.insert(got.end(), bytes_of(&unit.m_tdata), bytes_of(&unit.m_tdata) + n);
    }
    void compare(const std::vector<Case> &cases, size_t number, const Bytes &got) {
        const Bytes &wanted = cases[number].out;
        if (got == wanted) {
            return;
        }
        size_t i = 0;
        while (i < got.size() && i < wanted.size() && got[i] == wanted[i]) {
            i++;
        }
        fail("frame " + std::to_string(number) + " (" + cases[number].what + ", " +
             std::to_string(cases[number].in.size()) + " bytes) differs at byte " +
             std::to_string(i) + ": " + std::to_string(got.size()) + " bytes, expected " +
             std::to_string(wanted.size()));
    }

    Unit unit;
    bool held = false, held_last = false;
    uint32_t held_keep = 0;
    uint8_t held_data[32];
};

#endif
