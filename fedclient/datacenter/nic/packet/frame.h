/* The data that a NIC takes and gives: a frame with Linux's offload data, and a connection's
 * report. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FRAME_H
#define FEDNIC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FEDNIC_MARKED = 0x28,     /* ToS without the ECN bits: DSCP 10, INCEPTIONN's mark */
    FEDNIC_COMPRESSED = 0x2c, /* DSCP 11: a NIC has compressed the segment */
    FEDNIC_TOS = 0xfc,        /* the bits of ToS that are the DSCP */
    FEDNIC_FRAME = 65535 + 64 /* most bytes of a frame that a NIC can take or make */
};

/** The members of Linux's struct virtio_net_hdr that a NIC needs, in host byte order. All 0: the
 * checksum is complete, and the frame is one packet. */
typedef struct fednic_offload {
    /* VIRTIO_NET_HDR_F_NEEDS_CSUM: TCP's checksum field covers only the pseudo-header, and is
     * completed later. VIRTIO_NET_HDR_F_DATA_VALID: the checksum was verified */
    uint8_t flags;
    /* VIRTIO_NET_HDR_GSO_NONE, or _TCPV4 or _TCPV6, also with _ECN: a super-segment to be cut */
    uint8_t gso_type;
    uint16_t hdr_len;  /* bytes before the payload */
    uint16_t gso_size; /* payload bytes of each segment of a super-segment */
    /* the checksum covers the bytes from csum_start on; its field lies csum_offset bytes after
     * csum_start */
    uint16_t csum_start;
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
    uint8_t family;             /* 4 or 6, for IPv4 or IPv6 */
    uint8_t host[16], peer[16]; /* addresses; an IPv4 address is in the first four bytes */
    uint16_t host_port, peer_port;
    bool agreed; /* the other end has a NIC too */
    int64_t begun_ms, used_ms;
    uint64_t sent_plain, sent_coded; /* bytes of payload, before and after this NIC */
    uint64_t received_plain, received_coded;
} fednic_flow_report;

#endif
