/* The NIC: frames of a host and of its line go in; they come out as they were, compressed or
 * restored. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_NIC_H
#define FEDNIC_NIC_H

#include "fed/error.h"
#include "fedclient/datacenter/nic/packet/frame.h"

/*
 * INCEPTIONN's NIC in software (section VI). It has no socket, no clock and no thread of
 * its own: fednic gives it the frames of a TAP device and of a packet socket, tests and fuzzers
 * give it any bytes. Format of what it sends: docs/nic-format.md.
 *
 * It compresses TCP segments of a connection on three conditions. The segment is marked: its DSCP
 * is FEDNIC_MARKED. The connection's SYN was marked. And both ends have a NIC: a NIC adds an
 * option to a marked SYN, and to the answer of a SYN that has one.
 * A segment that would not become shorter keeps its length; its values are rounded all the same.
 * All other frames leave as the bytes that came: what the NIC does not understand, it forwards.
 */

typedef struct fednic_nic_options {
    int e; /* INCEPTIONN's bound is 2^-e, 1 to 15 */
    uint32_t
        flows;    /* connections that are known at once; 0: 16,384. The longest unused goes first */
    uint32_t mtu; /* of the host's device: payload of restored segments; 0: 1,500 */
} fednic_nic_options;

typedef struct fednic_nic fednic_nic;

/** Errors: FED_EINVAL an option is out of range; FED_ENOMEM */
fed_status fednic_nic_new(const fednic_nic_options *options, fednic_nic **nic,
                          fed_error *err) FED_CHECKED;
void fednic_nic_free(fednic_nic *nic); /* NULL is allowed */

/**
 * A frame came from `from`; what leaves on the other side is given to emit, frame after frame in
 * their order: one frame, or for a segment of many, several compressed ones. Nothing is ever held
 * back, and no frame is dropped.
 *
 * now_ms  of a clock that never goes back
 * emit    the frame is emit's to read until it returns; it may be the caller's own memory
 */
typedef void fednic_emit(void *user, const fednic_frame *frame);
void fednic_nic_take(fednic_nic *nic, fednic_side from, const fednic_frame *frame, int64_t now_ms,
                     fednic_emit *emit, void *user);

/** Counters since the NIC began; of one direction. Bytes are TCP payload. */
typedef struct fednic_counts {
    uint64_t frames, bytes; /* all; bytes: of whole frames */
    uint64_t coded_frames;  /* compressed (from the host), restored (from the wire) */
    uint64_t plain_bytes;   /* of these: payload as the host has it */
    uint64_t coded_bytes;   /* and as it is on the wire */
    uint64_t grown_frames;  /* marked, and sent as long as they were: they would not be shorter */
    uint64_t split_floats;  /* values that a segment's border cut: sent as they were */
    uint64_t bad_frames;    /* with the NIC's mark, and yet not of its format: forwarded */
} fednic_counts;

void fednic_nic_count(const fednic_nic *nic, fednic_side from, fednic_counts *counts);

/** Call `use` for each connection that is known, in no order. */
void fednic_nic_flows(const fednic_nic *nic,
                      void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
