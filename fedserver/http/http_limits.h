/* Limits what one peer may ask for: token buckets and numbers of connections. Not thread-safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_LIMITS_H
#define FEDSERVER_HTTP_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A bucket fills at its rate up to its burst. A request is refused if its peer's bucket for
 * requests or for bytes is empty. The cost of an admitted request is taken from the buckets, which
 * may fall below zero. So a body of any size is admitted, and the peer waits afterwards. A peer is
 * known by a key: the fingerprint of a device, or the hash of an address.
 */
enum { HTTP_LIMITS_KEY = 32, HTTP_LIMITS_PEERS = 65536 };

typedef struct http_limits_rules {
    double requests_per_s, bytes_per_s, failures_per_s;
    double requests_burst, bytes_burst, failures_burst;
    uint32_t connections, uploads; /* most at a time */
} http_limits_rules;

typedef struct http_limits_peer {
    struct http_limits_peer *next;
    uint8_t key[HTTP_LIMITS_KEY];
    int64_t filled_ms;
    double requests, bytes, failures; /* tokens left in the buckets */
    uint32_t connections, uploads;
} http_limits_peer;

typedef struct http_limits {
    http_limits_rules rules;
    http_limits_peer **slots;
    size_t slot_count, count;
    http_limits_peer crowd; /* shared by the peers for which the table has no room */
} http_limits;

/** Open the limits of docs/protocol.md#limits for a device, for an address at the front, and for
 * all peers together. requests_per_s, connections: 0 is the default. `all` has no table, only the
 * account `crowd`. */
void http_limits_usual(uint32_t requests_per_s, uint32_t connections, http_limits *device,
                       http_limits *address, http_limits *all);
/** Open the limits of handshakes for an address, and for all addresses together. Each handshake
 * counts as a request. tickets: for handshakes that offer to resume a session, else for full
 * ones. */
void http_limits_handshakes(uint32_t requests_per_s, bool tickets, http_limits *address,
                            http_limits *all);
void http_limits_open(http_limits *limits, const http_limits_rules *rules);
void http_limits_free(http_limits *limits);

/** Find or add the peer of that key, and count one more connection of it. The pointer is valid
 * until http_limits_leave. A peer without connections may be forgotten once its buckets are
 * full. */
http_limits_peer *http_limits_enter(http_limits *limits, const uint8_t key[HTTP_LIMITS_KEY],
                                    int64_t now_ms);
void http_limits_leave(http_limits_peer *peer);

/** May this peer send one more request? 0: yes, and the request is charged; else the seconds
 * until the peer may ask again. upload: the request is an upload, which the caller must count in
 * peer->uploads. */
uint32_t http_limits_ask(const http_limits *limits, http_limits_peer *peer, bool upload,
                         int64_t now_ms);

/** Charge the peer for bytes that it sent or received. */
void http_limits_pay(http_limits_peer *peer, uint64_t bytes);

/** Count a failure of the peer, such as a wrong token. 0: it is counted. Else the peer fails too
 * often: the seconds until it may try again. */
uint32_t http_limits_fail(const http_limits *limits, http_limits_peer *peer, int64_t now_ms);

#endif
