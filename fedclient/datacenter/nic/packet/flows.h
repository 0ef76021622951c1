/* The connections that a NIC knows: a hash table of fixed size. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FLOWS_H
#define FEDNIC_FLOWS_H

#include "fed/error.h"
#include "fedclient/datacenter/nic/packet/headers.h"

/* Family, VLANs, addresses and ports, as the host's end sees them; as words, for the hash. */
enum { FLOW_KEY_WORDS = 6 };
typedef struct fednic_flow_key {
    uint64_t word[FLOW_KEY_WORDS];
} fednic_flow_key;

typedef struct fednic_flow {
    fednic_flow_key key;
    uint32_t next;         /* of its bucket, or of the unused ones */
    uint32_t older, newer; /* in its list */
    uint8_t list;

    uint32_t own_isn, peer_isn;
    bool own_known;    /* own_isn: the host's SYN has passed */
    bool offered;      /* peer_isn: the peer's SYN had a NIC's option, and is not answered yet */
    bool agreed;       /* the peer's SYN or its answer had the option: there is a NIC */
    bool proved;       /* a compressed segment was acknowledged */
    bool coded_any;    /* first_coded: one was sent */
    bool sent_any;     /* sent_end: data was sent */
    uint8_t offers;    /* own SYNs and answers with the option */
    uint8_t doubts;    /* times that compressed segments seemed not to arrive, in a row */
    uint64_t raw_left; /* bytes of payload that will not be compressed, therefore */
    uint8_t repeats;   /* times in a row that the same bytes were sent again, from repeated on */
    uint32_t repeated; /* TCP's numbers, as the next two */
    uint32_t sent_end;
    uint32_t first_coded;

    int64_t begun_ms, used_ms;
    uint64_t sent_plain, sent_coded, received_plain, received_coded;
} fednic_flow;

typedef struct fednic_flows fednic_flows;

/** Room for `max` flows; at least 1. Errors: FED_ENOMEM; FED_EIO no entropy for the hash's key */
fed_status fednic_flows_new(uint32_t max, fednic_flows **flows, fed_error *err) FED_CHECKED;
void fednic_flows_free(fednic_flows *flows); /* NULL is allowed */

/** The key of a segment that came from `from`. */
fednic_flow_key fednic_flow_key_of(const uint8_t *data, const fednic_segment *s, fednic_side from);

/** NULL: not known. */
fednic_flow *fednic_flows_find(fednic_flows *flows, const fednic_flow_key *key);

/**
 * A new flow; the key must not be known. Without room another one goes. First those that have
 * ended, the longest ended before the others. Then the longest unused of those in their handshake,
 * if these are more than a quarter. Else the longest unused of the others: so a flood of SYNs
 * drives out no connection at work.
 */
fednic_flow *fednic_flows_enter(fednic_flows *flows, const fednic_flow_key *key, int64_t now_ms);

/** A flow was used. works: it is past its handshake. */
void fednic_flows_use(fednic_flows *flows, fednic_flow *flow, bool works, int64_t now_ms);

/** A flow seems to end: it goes before those that don't. */
void fednic_flows_age(fednic_flows *flows, fednic_flow *flow);

/** Forget a flow. */
void fednic_flows_drop(fednic_flows *flows, fednic_flow *flow);

uint32_t fednic_flows_count(const fednic_flows *flows);

/** Call `use` for each flow. */
void fednic_flows_each(const fednic_flows *flows,
                       void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
