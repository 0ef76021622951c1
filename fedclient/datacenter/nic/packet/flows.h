/* The connections (flows) that a NIC knows: a hash table of fixed size. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FLOWS_H
#define FEDNIC_FLOWS_H

#include "fed/error.h"
#include "fedclient/datacenter/nic/packet/headers.h"

/* Family, VLANs, addresses and ports (the host's first), as words for the hash. */
enum { FLOW_KEY_WORDS = 6 };
typedef struct fednic_flow_key {
    uint64_t word[FLOW_KEY_WORDS];
} fednic_flow_key;

typedef struct fednic_flow {
    fednic_flow_key key;
    uint32_t next;         /* next flow of the bucket, or of the list of free entries */
    uint32_t older, newer; /* neighbours in the list `list`, which is ordered by use */
    uint8_t list;

    uint32_t own_isn, peer_isn;
    bool own_known;    /* own_isn is valid: the host's SYN has passed */
    bool offered;      /* the peer's last SYN had a NIC's option: peer_isn is valid */
    bool agreed;       /* the peer's SYN or its answer had the option: the peer has a NIC */
    bool proved;       /* a compressed segment was acknowledged */
    bool coded_any;    /* first_coded is valid: a compressed segment was sent */
    bool sent_any;     /* sent_end is valid: data was sent */
    uint8_t offers;    /* this host's SYNs and answers that were sent with the option */
    uint8_t doubts;    /* times that compressed segments seemed not to arrive */
    uint64_t raw_left; /* payload bytes still to be sent uncompressed */
    uint8_t repeats;   /* times in a row that the bytes at `repeated` were sent again */
    uint32_t repeated; /* a TCP sequence number, as the next two */
    uint32_t sent_end;
    uint32_t first_coded;

    int64_t begun_ms, used_ms;
    uint64_t sent_plain, sent_coded, received_plain, received_coded;
} fednic_flow;

typedef struct fednic_flows fednic_flows;

/** max: most flows, at least 1. Errors: FED_ENOMEM; FED_EIO no random bytes for the hash's key */
fed_status fednic_flows_new(uint32_t max, fednic_flows **flows, fed_error *err) FED_CHECKED;
void fednic_flows_free(fednic_flows *flows); /* NULL is allowed */

/** The key of a segment from this side. */
fednic_flow_key fednic_flow_key_of(const uint8_t *data, const fednic_segment *s, fednic_side from);

/** NULL: no such flow. */
fednic_flow *fednic_flows_find(fednic_flows *flows, const fednic_flow_key *key);

/** Enter a new flow, whose key must not be known. If the table is full, another flow is dropped:
 * one that seems to end, or one in its handshake if there are many of these, or else the least
 * recently used one. So a flood of SYNs that has a quarter of the table drops no working flow. */
fednic_flow *fednic_flows_enter(fednic_flows *flows, const fednic_flow_key *key, int64_t now_ms);

/** Note that a flow was used. works: the flow is past its handshake. */
void fednic_flows_use(fednic_flows *flows, fednic_flow *flow, bool works, int64_t now_ms);

/** Note that a flow seems to end, so that it is dropped before others. */
void fednic_flows_age(fednic_flows *flows, fednic_flow *flow);

void fednic_flows_drop(fednic_flows *flows, fednic_flow *flow);

uint32_t fednic_flows_count(const fednic_flows *flows);

void fednic_flows_each(const fednic_flows *flows,
                       void (*use)(void *user, const fednic_flow_report *flow), void *user);

#endif
