/* The software NIC: it takes frames of a host and of its line, and passes them on unchanged,
 * compressed or restored. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_NIC_H
#define FEDNIC_NIC_H

#include "fed/error.h"
#include "fedclient/datacenter/nic/packet/frame.h"

/*
 * INCEPTIONN's NIC in software (section VI). It has no socket, no clock and no thread of its own.
 * The program fednic gives it frames of a TAP device and of a packet socket; tests and fuzzers
 * give it any bytes. The format of compressed segments is in docs/nic-format.md.
 *
 * It compresses TCP segments of a connection on three conditions. The segment is marked: its DSCP
 * is FEDNIC_MARKED. The connection's SYN was marked. And both ends have a NIC: a NIC adds an
 * option to a marked SYN, and to the answer of a SYN that has one. A segment that would not become
 * shorter keeps its length, but its values are rounded too. All other frames are forwarded
 * unchanged, also those that the NIC does not understand.
 */

typedef struct fednic_nic_options {
    int e; /* INCEPTIONN's error bound is 2^-e; e is 1 to 15 */
    /* most connections that are known at once; 0: 16,384. If there are more, the least
     * recently used is forgotten */
    uint32_t flows;
    /* MTU of the host's device, which limits the segments that are restored; 0: 1,500 */
    uint32_t mtu;
} fednic_nic_options;

typedef struct fednic_nic fednic_nic;

/** Errors: FED_EINVAL an option is out of range; FED_ENOMEM */
fed_status fednic_nic_new(const fednic_nic_options *options, fednic_nic **nic,
                          fed_error *err) FED_CHECKED;
void fednic_nic_free(fednic_nic *nic); /* NULL is allowed */

/**
 * Handle a frame that came from `from`. The frames to send on the other side are given to emit in
 * their order: one frame, or several for a super-segment. No frame is held back or dropped.
 *
 * now_ms milliseconds of a clock that never goes back emit may read the frame until it returns;
 * the frame may be the caller's own memory
 */
typedef void fednic_emit(void *user, const fednic_frame *frame);
void fednic_nic_take(fednic_nic *nic, fednic_side from, const fednic_frame *frame, int64_t now_ms,
                     fednic_emit *emit, void *user);

/** Counters of one direction since the NIC began. Bytes are TCP payload, except `bytes`. */
typedef struct fednic_counts {
    uint64_t frames, bytes; /* all frames, and their bytes with headers */
    /* frames that were compressed (from the host) or restored (from the wire) */
    uint64_t coded_frames;
    uint64_t plain_bytes; /* payload of the coded frames, uncompressed */
    uint64_t coded_bytes; /* payload of the coded frames, compressed */
    /* marked frames that were not compressed, because they would not become shorter */
    uint64_t grown_frames;
    /* values that are divided between two segments, and so not compressed */
    uint64_t split_floats;
    /* frames with the mark of compressed ones that cannot be restored, and were forwarded */
    uint64_t bad_frames;
} fednic_counts;

void fednic_nic_count(const fednic_nic *nic, fednic_side from, fednic_counts *counts);

/** Call `use` for each known connection, in no particular order. */
void fednic_nic_flows(const fednic_nic *nic,
                      void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
