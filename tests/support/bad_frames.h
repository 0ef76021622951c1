/* What a bad line does to one frame: it cuts segments, completes checksums, changes headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAD_FRAMES_H
#define BAD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_net.h>

#include "fed/rng.h"

enum { BAD_FRAME = 65535 + 256 }; /* most bytes of a frame */

typedef struct bad_frame {
    struct virtio_net_hdr offload; /* what Linux says of it, as a packet socket gives it */
    uint8_t *data;                 /* room for BAD_FRAME bytes, from the Ethernet header on */
    size_t len;
} bad_frame;

/** Where the parts of a frame lie, as indices of its bytes. */
typedef struct bad_parts {
    uint8_t family; /* 4, 6; 0: it is no whole IP packet */
    bool tcp;       /* tcp and payload hold; the packet is no fragment */
    size_t ip, transport, payload, end;
} bad_parts;

bad_parts bad_frame_parts(const bad_frame *frame);

/** The sum of a TCP packet's pseudo-header, as TCP's checksum field holds it under NEEDS_CSUM. */
uint16_t bad_frame_pseudo(const bad_frame *frame, const bad_parts *parts);

/** Write the checksum that Linux has left to the device: as a network card does, whatever stands in
 * the field. Only for a frame that is one packet. */
void bad_frame_complete(bad_frame *frame);

/** The packet's TCP checksum is that of its bytes, or of its pseudo-header under NEEDS_CSUM. */
bool bad_frame_whole(const bad_frame *frame, const bad_parts *parts);

/** Set bits of ToS or traffic class: tos = (tos & keep) | set. IPv4's header checksum follows. */
void bad_frame_set_tos(bad_frame *frame, const bad_parts *parts, uint8_t keep, uint8_t set);

/**
 * Cut a TCP segment, or a segment of many, into segments of `least` to `most` bytes of payload;
 * most = 0: into those that Linux would send, gso_size. Each piece has its whole checksum. A
 * device that cuts segments checks them first: one whose checksum is wrong stays as it is, as do
 * frames that are no TCP, and segments with SYN, RST or URG.
 *
 * piece   room for the pieces; not `frame`
 * use     called for each piece in their order, or for `frame`
 */
typedef void bad_use(void *user, bad_frame *frame);
void bad_frame_cut(bad_frame *frame, uint32_t least, uint32_t most, fed_rng *rng, bad_frame *piece,
                   bad_use *use, void *user);

#endif
