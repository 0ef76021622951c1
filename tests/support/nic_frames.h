/* Frames of TCP segments for tests of the NIC: built, and checked by plain sums of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIC_FRAMES_H
#define NIC_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedclient/datacenter/nic/packet/packet_nic.h"

/* Numbers of TCP, IP and struct virtio_net_hdr: written here once more, apart from the NIC's. */
enum { SEG_FIN = 1, SEG_SYN = 2, SEG_RST = 4, SEG_PSH = 8, SEG_ACK = 16, SEG_URG = 32 };
enum { SEG_CWR = 128 };
enum { FRAME_NEEDS_CSUM = 1, FRAME_TCPV4 = 1, FRAME_TCPV6 = 4, FRAME_ECN = 0x80 };
enum { FRAME_ROOM = FEDNIC_FRAME };

/** What a frame shall be. All 0 but family: Ethernet, IP and TCP without options, seq 0. */
typedef struct nic_shape {
    uint8_t family;    /* 4, 6 */
    uint8_t vlans;     /* 0 to 2 */
    uint8_t ip_words;  /* IPv4's options, in words */
    uint8_t tos;       /* with ECN */
    uint8_t flags;     /* TCP's */
    uint8_t protocol;  /* in the pseudo-header; 0: TCP's own */
    bool may_cut;      /* IPv4 without DF */
    bool partial;      /* the checksum is that of the pseudo-header, NEEDS_CSUM */
    bool backwards;    /* from the second host to the first */
    uint16_t gso_size; /* over 0: a super-segment */
    uint16_t id;       /* IPv4's */
    uint16_t port;     /* of the first host */
    uint16_t padding;  /* bytes after the IP packet */
    uint32_t seq, ack;
    const uint8_t *options; /* TCP's, of 4 * option_words bytes */
    uint8_t option_words;
} nic_shape;

/** A frame of a shape, with a payload, at memory of FRAME_ROOM bytes. */
fednic_frame nic_frame(const nic_shape *shape, const void *payload, size_t len, uint8_t *memory);

/** Where a frame's parts lie; the test's own reading of it. */
typedef struct nic_parts {
    size_t ip, tcp, payload, payload_len;
    uint8_t family, tos, flags;
    uint16_t id;
    uint32_t seq;
} nic_parts;

/** Read a frame whose lengths, IP checksum, TCP checksum (with this protocol number in the
 * pseudo-header) and offload members must be right: what Linux takes from a TAP device or a packet
 * socket. False, and a line on stderr: something is wrong. */
bool nic_frame_read(const fednic_frame *frame, uint8_t protocol, nic_parts *parts);

/** Copy a frame to memory of FRAME_ROOM bytes; complete a partial checksum there, as Linux does: it
 * is over all bytes from csum_start on. */
fednic_frame nic_frame_completed(const fednic_frame *frame, uint8_t *memory);

/** Copies of emitted frames. */
typedef struct nic_heap {
    size_t count;
    fednic_frame frame[256];
    uint8_t *memory; /* of 256 * FRAME_ROOM bytes */
} nic_heap;

nic_heap *nic_heap_new(void);
void nic_heap_free(nic_heap *heap);

/** A fednic_emit: keeps a copy in the nic_heap `user`; fails when it is full. */
void nic_heap_keep(void *user, const fednic_frame *frame);

#endif
