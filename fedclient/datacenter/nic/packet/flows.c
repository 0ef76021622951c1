/* A hash table of flows in fixed memory. Its hash has a secret key, so that nobody can send packets
 * that all fall into one bucket. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/flows.h"

#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"

#define NONE UINT32_MAX

/* The lists: flows that seem to end, are in their handshake (YOUNG), or are past it (WORKING). */
enum { ENDED, YOUNG, WORKING, LISTS };

typedef struct use_list {
    uint32_t oldest, newest, count;
} use_list;

struct fednic_flows {
    uint64_t secret[2];
    uint32_t max, used; /* used: number of array entries that were ever used */
    uint32_t unused;    /* first entry of the list of free entries */
    uint32_t mask;      /* buckets - 1 */
    use_list lists[LISTS];
    fednic_flow *flow;
    uint32_t *bucket;
};

/* SipHash-1-3 (Aumasson, Bernstein, 2012). */

static uint64_t rotate(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

static void mix(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint32_t *bucket_of(const fednic_flows *flows, const fednic_flow_key *key) {
    const uint64_t *k = flows->secret;
    uint64_t v[4] = {k[0] ^ UINT64_C(0x736f6d6570736575), k[1] ^ UINT64_C(0x646f72616e646f6d),
                     k[0] ^ UINT64_C(0x6c7967656e657261), k[1] ^ UINT64_C(0x7465646279746573)};
    for (size_t i = 0; i < FLOW_KEY_WORDS; i++) {
        v[3] ^= key->word[i];
        mix(v);
        v[0] ^= key->word[i];
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        mix(v);
    }
    return &flows->bucket[(v[0] ^ v[1] ^ v[2] ^ v[3]) & flows->mask];
}

static uint32_t number(const fednic_flows *flows, const fednic_flow *flow) {
    return (uint32_t)(flow - flows->flow);
}

static void unlink_use(fednic_flows *flows, fednic_flow *flow) {
    use_list *list = &flows->lists[flow->list];
    *(flow->older == NONE ? &list->oldest : &flows->flow[flow->older].newer) = flow->newer;
    *(flow->newer == NONE ? &list->newest : &flows->flow[flow->newer].older) = flow->older;
    list->count--;
}

static void link_newest(fednic_flows *flows, fednic_flow *flow, uint8_t which) {
    use_list *list = &flows->lists[which];
    flow->list = which;
    flow->newer = NONE;
    flow->older = list->newest;
    *(list->newest == NONE ? &list->oldest : &flows->flow[list->newest].newer) =
        number(flows, flow);
    list->newest = number(flows, flow);
    list->count++;
}

fed_status fednic_flows_new(uint32_t max, fednic_flows **flows, fed_error *err) {
    uint32_t buckets = 1;
    while (buckets < max && buckets < UINT32_C(1) << 31) {
        buckets *= 2;
    }
    fednic_flows *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->flow = calloc(max, sizeof *f->flow);
        f->bucket = malloc(buckets * sizeof *f->bucket);
    }
    if (f == NULL || f->flow == NULL || f->bucket == NULL) {
        fednic_flows_free(f);
        return fed_fail(err, FED_ENOMEM,
                        "Out of memory for a table of %u connections: ask for fewer",
                        (unsigned)max);
    }
    fed_status status = fed_random(f->secret, sizeof f->secret);
    if (status != FED_OK) {
        fednic_flows_free(f);
        return fed_fail(err, status, "The system gave no random bytes for the table's hash");
    }
    memset(f->bucket, 0xff, buckets * sizeof *f->bucket);
    f->max = max;
    f->mask = buckets - 1;
    f->unused = NONE;
    for (size_t k = 0; k < LISTS; k++) {
        f->lists[k] = (use_list){.oldest = NONE, .newest = NONE};
    }
    *flows = f;
    return FED_OK;
}

void fednic_flows_free(fednic_flows *flows) {
    if (flows != NULL) {
        free(flows->flow);
        free(flows->bucket);
        free(flows);
    }
}

/* The key: two addresses of 16 bytes each, two ports, two VLANs, the family. */
fednic_flow_key fednic_flow_key_of(const uint8_t *data, const fednic_segment *s, fednic_side from) {
    const size_t size = s->family == 4 ? 4 : 16;
    const uint8_t *source = data + s->ip + (s->family == 4 ? 12 : 8), *ports = data + s->tcp;
    const uint8_t *peer = source + size, *peer_port = ports + 2;
    if (from == FEDNIC_WIRE) {
        const uint8_t *other = source;
        source = peer;
        peer = other;
        peer_port = ports;
        ports += 2;
    }
    uint8_t bytes[8 * FLOW_KEY_WORDS] = {0};
    memcpy(bytes, source, size);
    memcpy(bytes + 16, peer, size);
    memcpy(bytes + 32, ports, 2);
    memcpy(bytes + 34, peer_port, 2);
    fednic_put16(bytes + 36, s->vlan[0]);
    fednic_put16(bytes + 38, s->vlan[1]);
    bytes[40] = s->family;
    fednic_flow_key key;
    memcpy(key.word, bytes, sizeof bytes);
    return key;
}

fednic_flow *fednic_flows_find(fednic_flows *flows, const fednic_flow_key *key) {
    if (fednic_flows_count(flows) == 0) {
        return NULL;
    }
    uint32_t k = *bucket_of(flows, key);
    while (k != NONE && memcmp(&flows->flow[k].key, key, sizeof *key) != 0) {
        k = flows->flow[k].next;
    }
    return k == NONE ? NULL : &flows->flow[k];
}

void fednic_flows_drop(fednic_flows *flows, fednic_flow *flow) {
    uint32_t *at = bucket_of(flows, &flow->key);
    while (*at != number(flows, flow)) {
        at = &flows->flow[*at].next;
    }
    *at = flow->next;
    unlink_use(flows, flow);
    flow->next = flows->unused;
    flows->unused = number(flows, flow);
}

static void make_room(fednic_flows *flows) {
    const use_list *lists = flows->lists;
    bool young = lists[YOUNG].count > flows->max / 4 || lists[WORKING].count == 0;
    int from = lists[ENDED].count > 0 ? ENDED : young ? YOUNG : WORKING;
    fednic_flows_drop(flows, &flows->flow[lists[from].oldest]);
}

fednic_flow *fednic_flows_enter(fednic_flows *flows, const fednic_flow_key *key, int64_t now_ms) {
    if (flows->unused == NONE && flows->used == flows->max) {
        make_room(flows);
    }
    uint32_t k = flows->unused;
    if (k != NONE) {
        flows->unused = flows->flow[k].next;
    } else {
        k = flows->used++;
    }
    fednic_flow *flow = &flows->flow[k];
    uint32_t *bucket = bucket_of(flows, key);
    *flow = (fednic_flow){.key = *key, .next = *bucket, .begun_ms = now_ms, .used_ms = now_ms};
    *bucket = k;
    link_newest(flows, flow, YOUNG);
    return flow;
}

void fednic_flows_use(fednic_flows *flows, fednic_flow *flow, bool works, int64_t now_ms) {
    flow->used_ms = now_ms;
    uint8_t list = works ? WORKING : flow->list;
    if (flows->lists[list].newest != number(flows, flow)) {
        unlink_use(flows, flow);
        link_newest(flows, flow, list);
    }
}

void fednic_flows_age(fednic_flows *flows, fednic_flow *flow) {
    unlink_use(flows, flow);
    link_newest(flows, flow, ENDED);
}

uint32_t fednic_flows_count(const fednic_flows *flows) {
    return flows->lists[ENDED].count + flows->lists[YOUNG].count + flows->lists[WORKING].count;
}

static fednic_flow_report report_of(const fednic_flow *flow) {
    uint8_t bytes[8 * FLOW_KEY_WORDS];
    memcpy(bytes, flow->key.word, sizeof bytes);
    fednic_flow_report report = {.family = bytes[40],
                                 .host_port = fednic_get16(bytes + 32),
                                 .peer_port = fednic_get16(bytes + 34),
                                 .agreed = flow->agreed,
                                 .begun_ms = flow->begun_ms,
                                 .used_ms = flow->used_ms,
                                 .sent_plain = flow->sent_plain,
                                 .sent_coded = flow->sent_coded,
                                 .received_plain = flow->received_plain,
                                 .received_coded = flow->received_coded};
    memcpy(report.host, bytes, sizeof report.host);
    memcpy(report.peer, bytes + 16, sizeof report.peer);
    return report;
}

void fednic_flows_each(const fednic_flows *flows,
                       void (*use)(void *user, const fednic_flow_report *flow), void *user) {
    for (size_t list = 0; list < LISTS; list++) {
        for (uint32_t k = flows->lists[list].newest; k != NONE; k = flows->flow[k].older) {
            fednic_flow_report report = report_of(&flows->flow[k]);
            use(user, &report);
        }
    }
}
