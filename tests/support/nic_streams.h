/* TCP connections with known bytes between two hosts with offload NICs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_STREAMS_H
#define NIC_STREAMS_H

#include "nic_world.h"

enum { NIC_BOUND = 10, NIC_STREAMS = 16 };

/** One connection. Both ends send `bytes` bytes at the same time. mss, room, tos, port: 0 is the
 * system's default. */
typedef struct nic_stream_plan {
    bool marked; /* the NIC treats the payload as floats; false: as plain bytes */
    bool six;
    bool odd;       /* a write may end within a float */
    bool fast_open; /* TCP Fast Open, where the kernel supports it */
    int from;       /* the host that connects */
    int mss, room;  /* TCP_MAXSEG and SO_RCVBUF */
    uint8_t tos;
    uint16_t port;
    size_t bytes;
} nic_stream_plan;

/** Numbers of floats that arrived on marked connections. */
typedef struct nic_tally {
    uint64_t rounded; /* changed by rounding (fedcodec_bursts_round) */
    uint64_t same;    /* unchanged by rounding */
    uint64_t raw;     /* not rounded, but rounding would change them */
    uint64_t mixed;   /* some bytes rounded and some not */
} nic_tally;

/**
 * Open `count` connections, send all bytes and receive them. Each byte must arrive as it was sent,
 * or on a marked connection as the rounded value has it. The test fails with the text `what` if a
 * byte is wrong, or if none arrives for stall_ms.
 *
 * midway called once, when half of all bytes have arrived; may be NULL
 */
nic_tally nic_streams_run(nic_world *w, const char *what, const nic_stream_plan *plans,
                          size_t count, int64_t stall_ms, void (*midway)(nic_world *w));

#endif
