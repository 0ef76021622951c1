/* The card: frames of a host and of its line go in; they come out as they were, compressed or
 * restored. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_CARD_H
#define FEDNIC_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * INCEPTIONN's network card in software (section VI). It has no socket, no clock and no thread of
 * its own: fednic gives it the frames of a TAP device and of a packet socket, tests and fuzzers
 * give it any bytes. Format of what it sends: docs/nic-format.md.
 *
 * It compresses TCP segments of a connection on three conditions. The segment is marked: its DSCP
 * is FEDNIC_MARKED. The connection's SYN was marked. And both ends have a card: a card adds an
 * option to a marked SYN, and to the answer of a SYN that has one.
 * All other frames leave as the bytes that came: what the card does not understand, it forwards.
 */

enum {
    FEDNIC_MARKED = 0x28,     /* IP's ToS without ECN: the paper's mark, DSCP 10 */
    FEDNIC_COMPRESSED = 0x2c, /* DSCP 11: a card has compressed it */
    FEDNIC_TOS = 0xfc,        /* the DSCP's bits of ToS */
    FEDNIC_FRAME = 65535 + 64 /* most bytes of a frame that a card can take or make */
};

/** What Linux says about a frame beside its bytes; the members of struct virtio_net_hdr that a card
 * needs, in host order. All 0: the checksum is written, and the frame is one packet. */
typedef struct fednic_offload {
    uint8_t flags;    /* VIRTIO_NET_HDR_F_NEEDS_CSUM: TCP's checksum is that of the pseudo-header
                          * only; somebody below completes it. _F_DATA_VALID: it was checked */
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

typedef struct fednic_card_options {
    int e; /* INCEPTIONN's bound is 2^-e, 1 to 15 */
    uint32_t
        flows;    /* connections that are known at once; 0: 16,384. The longest unused goes first */
    uint32_t mtu; /* of the host's device: payload of restored segments; 0: 1,500 */
} fednic_card_options;

typedef struct fednic_card fednic_card;

/** Errors: FED_EINVAL an option is out of range; FED_ENOMEM */
fed_status fednic_card_new(const fednic_card_options *options, fednic_card **card,
                           fed_error *err) FED_CHECKED;
void fednic_card_free(fednic_card *card); /* NULL is allowed */

/**
 * A frame came from `from`; what leaves on the other side is given to emit, frame after frame in
 * their order: one frame, or for a segment of many, several compressed ones. Nothing is ever held
 * back, and no frame is dropped.
 *
 * now_ms  of a clock that never goes back
 * emit    the frame is emit's to read until it returns; it may be the caller's own memory
 */
typedef void fednic_emit(void *user, const fednic_frame *frame);
void fednic_card_take(fednic_card *card, fednic_side from, const fednic_frame *frame,
                      int64_t now_ms, fednic_emit *emit, void *user);

/** Counters since the card began; of one direction. Bytes are TCP payload. */
typedef struct fednic_counts {
    uint64_t frames, bytes; /* all; bytes: of whole frames */
    uint64_t coded_frames;  /* compressed (from the host), restored (from the wire) */
    uint64_t plain_bytes;   /* of these: payload as the host has it */
    uint64_t coded_bytes;   /* and as it is on the wire */
    uint64_t grown_frames;  /* marked, and sent as they were: they would not be shorter */
    uint64_t split_floats;  /* values that a segment's border cut: sent as they were */
    uint64_t bad_frames;    /* with the card's mark, and yet not of its format: forwarded */
} fednic_counts;

void fednic_card_count(const fednic_card *card, fednic_side from, fednic_counts *counts);

/** A connection whose SYN was marked. */
typedef struct fednic_flow_report {
    uint8_t family;             /* 4, 6 */
    uint8_t host[16], peer[16]; /* addresses; of family 4 in the first four bytes */
    uint16_t host_port, peer_port;
    bool agreed; /* the other end has a card too */
    int64_t begun_ms, used_ms;
    uint64_t sent_plain, sent_coded; /* bytes of payload, before and after this card */
    uint64_t received_plain, received_coded;
} fednic_flow_report;

/** Call `use` for each connection that is known, in no order. */
void fednic_card_flows(const fednic_card *card,
                       void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
