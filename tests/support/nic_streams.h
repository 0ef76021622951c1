/* TCP connections between two hosts with offload NICs, whose bytes are known. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_STREAMS_H
#define NIC_STREAMS_H

#include "nic_world.h"

enum { NIC_BOUND = 10, NIC_STREAMS = 16 };

/** A connection; both ends send `bytes` at once. 0 leaves a member to the system. */
typedef struct nic_stream_plan {
    bool marked;    /* floats by the NIC; else bytes */
    bool six;       /* IPv6 */
    bool odd;       /* writes end anywhere, also within a float */
    bool fast_open; /* the first bytes travel in the SYN, where the kernel can */
    int from;       /* the host that connects */
    int mss, room;  /* TCP_MAXSEG, SO_RCVBUF */
    uint8_t tos;    /* of an unmarked connection */
    uint16_t port;  /* of the end that connects */
    size_t bytes;
} nic_stream_plan;

/** What arrived on marked connections, in floats. */
typedef struct nic_tally {
    uint64_t rounded; /* as fedcodec_bursts_round has it, and not as it was */
    uint64_t same;    /* which rounding does not change */
    uint64_t raw;     /* as it was, though rounding changes it */
    uint64_t mixed;   /* bytes of both: a segment that was sent again was cut elsewhere */
} nic_tally;

/**
 * Open `count` connections, send everything, and read it to the end. Each byte must be the one
 * that was sent; on a marked connection also that of the rounded value. The test fails, naming
 * `what`, if another byte arrives, or if none does for stall_ms.
 *
 * midway  called once, when half of all bytes have arrived; NULL is allowed
 */
nic_tally nic_streams_run(nic_world *w, const char *what, const nic_stream_plan *plans,
                          size_t count, int64_t stall_ms, void (*midway)(nic_world *w));

#endif
