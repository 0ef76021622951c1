/* The software NIC: takes a host's and a line's frames, and passes them on unchanged, compressed or
 * restored. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_NIC_H
#define FEDNIC_NIC_H

#include "fed/error.h"
#include "fedclient/datacenter/nic/packet/frame.h"

/* INCEPTIONN's NIC in software (section VI), without sockets, clock and threads. The program fednic
 * gives it frames of a TAP device and of a packet socket; tests and fuzzers give it any bytes.
 * docs/nic-format.md defines compressed segments. It compresses TCP segments of a connection only
 * on three conditions. The segment is marked: its DSCP is FEDNIC_MARKED. The connection's SYN was
 * marked. And both ends have a NIC: a NIC adds an option to a marked SYN, and to the answer of a
 * SYN that has one. A segment that would not become shorter keeps its length, but its values are
 * rounded too. All other frames are forwarded unchanged, also those that the NIC does not
 * understand. */

typedef struct fednic_nic_options {
    int e; /* INCEPTIONN's error bound is 2^-e; e is 1 to 15 */
    /* most connections known at once; 0: 16,384 */
    uint32_t flows;
    uint32_t mtu; /* MTU of the host's device; limits restored segments; 0: 1,500 */
} fednic_nic_options;

typedef struct fednic_nic fednic_nic;

/** Errors: FED_EINVAL an option is out of range; FED_ENOMEM */
fed_status fednic_nic_new(const fednic_nic_options *options, fednic_nic **nic,
                          fed_error *err) FED_CHECKED;
void fednic_nic_free(fednic_nic *nic); /* NULL is allowed */

/** Handle a frame that came from `from`. The frames to send on the other side are given to emit in
 * their order: one, or several for a super-segment. No frame is held back or dropped. emit may read
 * a frame, which may be the caller's own memory, until it returns. now_ms: a monotonic clock. */
typedef void fednic_emit(void *user, const fednic_frame *frame);
void fednic_nic_take(fednic_nic *nic, fednic_side from, const fednic_frame *frame, int64_t now_ms,
                     fednic_emit *emit, void *user);

/** Counters of one direction since the start. Bytes are TCP payload, except `bytes`. */
typedef struct fednic_counts {
    uint64_t frames, bytes; /* all frames, and their bytes with headers */
    uint64_t coded_frames;  /* frames compressed (from the host) or restored (from the wire) */
    uint64_t plain_bytes;   /* payload of the coded frames, uncompressed */
    uint64_t coded_bytes;   /* payload of the coded frames, compressed */
    uint64_t grown_frames;  /* frames that were sent rounded, not compressed */
    uint64_t split_floats;  /* values divided between two segments, and so not compressed */
    uint64_t bad_frames;    /* marked or compressed frames that could not be restored */
} fednic_counts;

void fednic_nic_count(const fednic_nic *nic, fednic_side from, fednic_counts *counts);

/** Call `use` for each known connection, in no particular order. */
void fednic_nic_flows(const fednic_nic *nic,
                      void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
