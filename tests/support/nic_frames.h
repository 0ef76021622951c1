/* Frames of TCP segments for tests of the NIC, made and checked without the NIC's code. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_FRAMES_H
#define NIC_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedclient/datacenter/nic/packet/packet_nic.h"

/* Constants of TCP, IP and struct virtio_net_hdr, repeated here to be independent of the NIC's. */
enum { SEG_FIN = 1, SEG_SYN = 2, SEG_RST = 4, SEG_PSH = 8, SEG_ACK = 16, SEG_URG = 32 };
enum { SEG_CWR = 128 };
enum { FRAME_NEEDS_CSUM = 1, FRAME_TCPV4 = 1, FRAME_TCPV6 = 4, FRAME_ECN = 0x80 };
enum { FRAME_ROOM = FEDNIC_FRAME };

/** The wanted frame. Fields that are 0 leave out options, tags and padding. */
typedef struct nic_shape {
    uint8_t family;
    uint8_t vlans;    /* number of VLAN tags, 0 to 2 */
    uint8_t ip_words; /* length of IPv4's options, in 4-byte words */
    uint8_t tos;      /* type of service or traffic class, with ECN */
    uint8_t flags;
    uint8_t protocol;  /* protocol number in the pseudo-header; 0: TCP's */
    bool may_cut;      /* IPv4 without the flag DF (don't fragment) */
    bool partial;      /* the checksum field holds the pseudo-header's sum only (NEEDS_CSUM) */
    bool backwards;    /* the frame goes from the second host to the first */
    uint16_t gso_size; /* payload bytes of the pieces that the NIC must cut; 0: none */
    uint16_t id;
    uint16_t port;
    uint16_t padding; /* number of bytes after the IP packet */
    uint32_t seq, ack;
    const uint8_t *options;
    uint8_t option_words;
} nic_shape;

/** Build a frame with this shape and payload in `memory`, which has FRAME_ROOM bytes. */
fednic_frame nic_frame(const nic_shape *shape, const void *payload, size_t len, uint8_t *memory);

/** The places of a frame's parts, as offsets in bytes. */
typedef struct nic_parts {
    size_t ip, tcp, payload, payload_len;
    uint8_t family, tos, flags;
    uint16_t id;
    uint32_t seq;
} nic_parts;

/** Check lengths, checksums and the offload header of a frame. protocol: the protocol number in the
 * pseudo-header. On an error, print a line on stderr and return false. */
bool nic_frame_read(const fednic_frame *frame, uint8_t protocol, nic_parts *parts);

/** Copy a frame to `memory`, which has FRAME_ROOM bytes, and complete a partial checksum. */
fednic_frame nic_frame_completed(const fednic_frame *frame, uint8_t *memory);

typedef struct nic_heap {
    size_t count;
    fednic_frame frame[256];
    uint8_t *memory; /* 256 * FRAME_ROOM bytes */
} nic_heap;

nic_heap *nic_heap_new(void);
void nic_heap_free(nic_heap *heap);

/** A fednic_emit function that appends a copy to `user`, a nic_heap. Aborts if that is full. */
void nic_heap_keep(void *user, const fednic_frame *frame);

#endif
