/* What a bad line does to one frame: it cuts segments, completes checksums, changes headers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAD_FRAMES_H
#define BAD_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_net.h>

#include "fed/rng.h"

enum { BAD_FRAME = 65535 + 256 };

typedef struct bad_frame {
    struct virtio_net_hdr offload;
    uint8_t *data; /* room for BAD_FRAME bytes; begins with the Ethernet header */
    size_t len;
} bad_frame;

/** Where the parts of a frame lie, as indices of its bytes. */
typedef struct bad_parts {
    uint8_t family; /* 4 or 6; 0: the frame is not a whole IP packet */
    bool tcp;       /* the packet is a whole TCP segment, whose data begins at `payload` */
    size_t ip, transport, payload, end;
} bad_parts;

bad_parts bad_frame_parts(const bad_frame *frame);

/** Return the sum of a TCP packet's pseudo-header. With NEEDS_CSUM, Linux leaves this sum in the
 * checksum field. */
uint16_t bad_frame_pseudo(const bad_frame *frame, const bad_parts *parts);

/** Write the checksum that Linux has left to the network card. The frame must be one packet. */
void bad_frame_complete(bad_frame *frame);

/** Is the TCP checksum right? With NEEDS_CSUM set, the field must hold the sum of the
 * pseudo-header, otherwise the checksum of all bytes. */
bool bad_frame_whole(const bad_frame *frame, const bad_parts *parts);

/** Set bits of the type of service (IPv4) or traffic class (IPv6): tos = (tos & keep) | set.
 * IPv4's header checksum is updated. */
void bad_frame_set_tos(bad_frame *frame, const bad_parts *parts, uint8_t keep, uint8_t set);

/**
 * Cut a TCP segment into segments of `least` to `most` bytes of payload, each with a complete
 * checksum; the last may be shorter. The frame may be one that Linux has left uncut for the card
 * (segmentation offload). With most = 0, the pieces have the frame's gso_size. As with a real card,
 * a frame stays whole if its checksum is wrong, if it is not TCP, or if SYN, RST or URG is set.
 *
 * piece   room for the pieces; it must not be `frame`
 * use     called for each piece in order, or for the whole `frame`
 */
typedef void bad_use(void *user, bad_frame *frame);
void bad_frame_cut(bad_frame *frame, uint32_t least, uint32_t most, fed_rng *rng, bad_frame *piece,
                   bad_use *use, void *user);

#endif
