/* Token buckets in a hash table of peers. The table forgets idle peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_limits.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_LEAST = 64, REQUESTS_PER_S = 100 };

static void fill(const http_limits_rules *rules, http_limits_peer *peer, int64_t now_ms) {
    const double s = now_ms > peer->filled_ms ? (double)(now_ms - peer->filled_ms) / 1000.0 : 0;
    const http_limits_peer old = *peer;
    peer->filled_ms = now_ms;
    peer->requests = old.requests + s * rules->requests_per_s;
    peer->bytes = old.bytes + s * rules->bytes_per_s;
    peer->failures = old.failures + s * rules->failures_per_s;
    peer->requests =
        peer->requests < rules->requests_burst ? peer->requests : rules->requests_burst;
    peer->bytes = peer->bytes < rules->bytes_burst ? peer->bytes : rules->bytes_burst;
    peer->failures =
        peer->failures < rules->failures_burst ? peer->failures : rules->failures_burst;
}

static void begin(const http_limits_rules *rules, http_limits_peer *peer, int64_t now_ms) {
    peer->filled_ms = now_ms;
    peer->requests = rules->requests_burst;
    peer->bytes = rules->bytes_burst;
    peer->failures = rules->failures_burst;
}

void http_limits_open(http_limits *limits, const http_limits_rules *rules) {
    *limits = (http_limits){.rules = *rules};
    begin(rules, &limits->crowd, 0);
}

/* Many devices may share an address, so an address may send more requests than a device. An address
 * may fail 10 times at once, for example with wrong tokens, and then once in 6 seconds. */
void http_limits_usual(uint32_t requests_per_s, uint32_t connections, http_limits *device,
                       http_limits *address, http_limits *all) {
    enum { CONNECTIONS = 16, UPLOADS = 4, UPLOADS_OF_ALL = 256 };
    const double rate = requests_per_s != 0 ? requests_per_s : REQUESTS_PER_S;
    http_limits_rules rules = {.requests_per_s = rate,
                               .requests_burst = rate * 10,
                               .bytes_per_s = 32e6,
                               .bytes_burst = 256e6,
                               .failures_per_s = 1.0 / 6,
                               .failures_burst = 10,
                               .connections = connections != 0 ? connections : CONNECTIONS,
                               .uploads = UPLOADS};
    http_limits_open(device, &rules);
    rules.requests_per_s = rate * 10;
    rules.requests_burst = rate * 100;
    rules.connections = UINT32_MAX; /* libmicrohttpd limits the connections of an address */
    http_limits_open(address, &rules);
    rules.requests_per_s = rate * 256;
    rules.requests_burst = rate * 256;
    rules.uploads = UPLOADS_OF_ALL;
    http_limits_open(all, &rules);
}

/* After a restart all devices connect at once, and many may share an address, so the bursts are
 * large. */
void http_limits_handshakes(uint32_t requests_per_s, bool tickets, http_limits *address,
                            http_limits *all) {
    const double rate = (requests_per_s != 0 ? requests_per_s : REQUESTS_PER_S) * (tickets ? 2 : 1);
    http_limits_rules rules = {.requests_per_s = rate * 2,
                               .requests_burst = rate * 20,
                               .bytes_burst = 1,
                               .failures_burst = 1,
                               .connections = UINT32_MAX,
                               .uploads = 1};
    http_limits_open(address, &rules);
    rules.requests_per_s = rate * 5;
    rules.requests_burst = rate * 40;
    http_limits_open(all, &rules);
}

void http_limits_free(http_limits *limits) {
    for (size_t k = 0; k < limits->slot_count; k++) {
        for (http_limits_peer *p = limits->slots[k], *next = NULL; p != NULL; p = next) {
            next = p->next;
            free(p);
        }
    }
    free(limits->slots);
    *limits = (http_limits){.slots = NULL};
}

/* The key is a hash already, so its first bytes select the slot. */
static size_t slot_of(const uint8_t key[HTTP_LIMITS_KEY], size_t slot_count) {
    uint64_t hash;
    memcpy(&hash, key, sizeof hash);
    return (size_t)hash & (slot_count - 1);
}

static bool make_room(http_limits *limits, int64_t now_ms) {
    const http_limits_rules *rules = &limits->rules;
    size_t kept = 0;
    for (size_t k = 0; k < limits->slot_count; k++) {
        for (http_limits_peer **at = &limits->slots[k]; *at != NULL;) {
            http_limits_peer *p = *at;
            fill(rules, p, now_ms);
            if (p->connections == 0 && p->requests >= rules->requests_burst &&
                p->bytes >= rules->bytes_burst && p->failures >= rules->failures_burst) {
                *at = p->next;
                free(p);
            } else {
                at = &p->next;
                kept++;
            }
        }
    }
    limits->count = kept;
    if (kept < limits->slot_count / 2 || kept >= HTTP_LIMITS_PEERS) {
        return kept < HTTP_LIMITS_PEERS;
    }
    const size_t slot_count = limits->slot_count == 0 ? SLOTS_LEAST : limits->slot_count * 2;
    http_limits_peer **slots = calloc(slot_count, sizeof(http_limits_peer *));
    if (slots == NULL) {
        return false;
    }
    for (size_t k = 0; k < limits->slot_count; k++) {
        for (http_limits_peer *p = limits->slots[k], *next = NULL; p != NULL; p = next) {
            next = p->next;
            http_limits_peer **to = &slots[slot_of(p->key, slot_count)];
            p->next = *to;
            *to = p;
        }
    }
    free(limits->slots);
    limits->slots = slots;
    limits->slot_count = slot_count;
    return true;
}

static http_limits_peer *find(http_limits *limits, const uint8_t key[HTTP_LIMITS_KEY],
                              int64_t now_ms) {
    http_limits_peer *p =
        limits->slot_count > 0 ? limits->slots[slot_of(key, limits->slot_count)] : NULL;
    while (p != NULL && memcmp(p->key, key, HTTP_LIMITS_KEY) != 0) {
        p = p->next;
    }
    if (p != NULL) {
        return p;
    }
    if (limits->count >= limits->slot_count && !make_room(limits, now_ms)) {
        return &limits->crowd;
    }
    p = calloc(1, sizeof *p);
    if (p == NULL) {
        return &limits->crowd;
    }
    memcpy(p->key, key, sizeof p->key);
    begin(&limits->rules, p, now_ms);
    http_limits_peer **to = &limits->slots[slot_of(key, limits->slot_count)];
    p->next = *to;
    *to = p;
    limits->count++;
    return p;
}

http_limits_peer *http_limits_enter(http_limits *limits, const uint8_t key[HTTP_LIMITS_KEY],
                                    int64_t now_ms) {
    http_limits_peer *peer = find(limits, key, now_ms);
    peer->connections++;
    return peer;
}

void http_limits_leave(http_limits_peer *peer) {
    peer->connections--;
}

static double wait_s(double left, double per_s) {
    return left > 0 ? 0 : per_s > 0 ? (1 - left) / per_s : 1;
}

static uint32_t whole_s(double wait_s) {
    return wait_s < 3600 ? (uint32_t)wait_s + 1 : 3600;
}

uint32_t http_limits_ask(const http_limits *limits, http_limits_peer *peer, bool upload,
                         int64_t now_ms) {
    const http_limits_rules *rules = &limits->rules;
    fill(rules, peer, now_ms);
    if (peer->connections > rules->connections || (upload && peer->uploads >= rules->uploads)) {
        return 1;
    }
    const double of_requests = wait_s(peer->requests, rules->requests_per_s);
    const double of_bytes = wait_s(peer->bytes, rules->bytes_per_s);
    const double wait = of_requests > of_bytes ? of_requests : of_bytes;
    if (wait > 0) {
        return whole_s(wait);
    }
    peer->requests -= 1;
    return 0;
}

void http_limits_pay(http_limits_peer *peer, uint64_t bytes) {
    peer->bytes -= (double)bytes;
}

uint32_t http_limits_fail(const http_limits *limits, http_limits_peer *peer, int64_t now_ms) {
    fill(&limits->rules, peer, now_ms);
    const double wait = wait_s(peer->failures, limits->rules.failures_per_s);
    if (wait > 0) {
        return whole_s(wait);
    }
    peer->failures -= 1;
    return 0;
}
