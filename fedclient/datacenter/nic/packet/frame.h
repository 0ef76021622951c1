/* What a NIC takes and gives: a frame with what Linux says about it, and a connection's report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FRAME_H
#define FEDNIC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FEDNIC_MARKED = 0x28,     /* IP's ToS without ECN: the paper's mark, DSCP 10 */
    FEDNIC_COMPRESSED = 0x2c, /* DSCP 11: a NIC has compressed it */
    FEDNIC_TOS = 0xfc,        /* the DSCP's bits of ToS */
    FEDNIC_FRAME = 65535 + 64 /* most bytes of a frame that a NIC can take or make */
};

/** What Linux says about a frame beside its bytes; the members of struct virtio_net_hdr that a NIC
 * needs, in host order. All 0: the checksum is written, and the frame is one packet. */
typedef struct fednic_offload {
    /* VIRTIO_NET_HDR_F_NEEDS_CSUM: TCP's checksum is that of the pseudo-header only; somebody below
     * completes it. _F_DATA_VALID: it was checked */
    uint8_t flags;
    uint8_t gso_type; /* VIRTIO_NET_HDR_GSO_NONE, _TCPV4, _TCPV6, with _ECN: many segments in one */
    uint16_t hdr_len; /* bytes before the payload */
    uint16_t gso_size;   /* payload of a segment */
    uint16_t csum_start; /* from where the checksum is over, and where in there it lies */
    uint16_t csum_offset;
} fednic_offload;

typedef struct fednic_frame {
    const uint8_t *data; /* from the Ethernet header on, without FCS */
    size_t len;          /* at most FEDNIC_FRAME */
    fednic_offload offload;
} fednic_frame;

typedef enum fednic_side { FEDNIC_HOST, FEDNIC_WIRE } fednic_side;

/** A connection whose SYN was marked. */
typedef struct fednic_flow_report {
    uint8_t family;             /* 4, 6 */
    uint8_t host[16], peer[16]; /* addresses; of family 4 in the first four bytes */
    uint16_t host_port, peer_port;
    bool agreed; /* the other end has a NIC too */
    int64_t begun_ms, used_ms;
    uint64_t sent_plain, sent_coded; /* bytes of payload, before and after this NIC */
    uint64_t received_plain, received_coded;
} fednic_flow_report;

#endif
