/* Tracks the peers of the adapter and their limits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_peer.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "fed/clock.h"

enum {
    HEAD_MS = 30 * 1000,     /* time for a request head, since the connect or the last answer */
    UPLOAD_LEAST = 64 * 1024 /* a body of this size or more counts as an upload */
};

void http_peers_open(http_peers *peers, uint32_t requests_per_s, uint32_t connections) {
    http_limits_usual(requests_per_s, connections, &peers->limits[FEDSERVER_DEVICES],
                      &peers->limits[FEDSERVER_FRONT], &peers->all);
    for (int kind = 0; kind < HTTP_HANDSHAKES; kind++) {
        /* Links between coordinators always have the default limit, for which the argument is 0. */
        http_limits_handshakes(kind == HTTP_HANDSHAKE_LINK ? 0 : requests_per_s,
                               kind == HTTP_HANDSHAKE_TICKET, &peers->handshakes[kind],
                               &peers->handshakes_of_all[kind]);
    }
}

void http_peers_free(http_peers *peers) {
    for (size_t k = 0; k < 2; k++) {
        http_limits_free(&peers->limits[k]);
    }
    for (size_t kind = 0; kind < HTTP_HANDSHAKES; kind++) {
        http_limits_free(&peers->handshakes[kind]);
        http_limits_free(&peers->handshakes_of_all[kind]);
    }
    http_limits_free(&peers->all);
}

static void take_account(http_peer *p, const uint8_t *key) {
    if (p->account != NULL) {
        http_limits_leave(p->account);
        p->account = NULL;
    }
    if (key != NULL) {
        p->account = http_limits_enter(&p->peers->limits[p->kind], key, fed_clock_monotonic_ms());
    }
}

bool http_peers_admit(http_peers *peers, http_handshake kind, const http_address *from) {
    http_limits *of_address = &peers->handshakes[kind];
    http_limits *of_all = &peers->handshakes_of_all[kind];
    const int64_t now_ms = fed_clock_monotonic_ms();
    uint8_t key[HTTP_LIMITS_KEY];
    http_address_key(from, key);
    http_limits_peer *account = http_limits_enter(of_address, key, now_ms);
    const bool admitted = http_limits_ask(of_address, account, false, now_ms) == 0 &&
                          http_limits_ask(of_all, &of_all->crowd, false, now_ms) == 0;
    http_limits_leave(account);
    return admitted;
}

static bool admit(void *user, bool ticket) {
    http_peer *p = user;
    if (p->kind == FEDSERVER_FRONT && p->account == NULL) {
        uint8_t key[HTTP_LIMITS_KEY];
        http_address_key(&p->wire.address, key);
        take_account(p, key);
    }
    p->over_budget = !http_peers_admit(
        p->peers, ticket ? HTTP_HANDSHAKE_TICKET : HTTP_HANDSHAKE_FULL, &p->wire.address);
    return !p->over_budget;
}

http_peer *http_peer_new(http_peers *peers, struct http_listener *listener, fedserver_listener kind,
                         void *session, int fd) {
    http_peer *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->peers = peers;
    p->listener = listener;
    p->kind = kind;
    p->wire = (http_wire){.fd = fd, .address = http_address_of(fd), .progress = peers->progress};
    p->gate = (http_tls_gate){.wire = &p->wire, .log = peers->log, .admit = admit, .user = p};
    p->wire.proxied = http_proxies_have(&peers->proxies, &p->wire.address);
    http_tls_attach(session, &p->gate, peers->tls, kind);
    http_peer_owes(p);
    peers->totals->connections++;
    return p;
}

void http_peer_free(http_peer *peer) {
    if (peer != NULL) {
        fedserver_wire_totals *totals = peer->peers->totals;
        http_peer_settled(peer);
        take_account(peer, NULL);
        if (!peer->spoke) {
            totals->handshakes[peer->over_budget    ? FEDSERVER_HANDSHAKE_BUDGET
                               : peer->gate.refused ? FEDSERVER_HANDSHAKE_CERTIFICATE
                                                    : FEDSERVER_HANDSHAKE_UNFINISHED]++;
        }
        totals->connections--;
        http_wire_free(&peer->wire);
    }
    free(peer);
}

void http_peer_settled(http_peer *peer) {
    http_peers *peers = peer->peers;
    if (!peer->owes) {
        return;
    }
    *(peer->before != NULL ? &peer->before->after : &peers->oldest) = peer->after;
    *(peer->after != NULL ? &peer->after->before : &peers->newest) = peer->before;
    peer->owes = false;
}

void http_peer_owes(http_peer *peer) {
    http_peers *peers = peer->peers;
    http_peer_settled(peer);
    peer->since_ms = fed_clock_monotonic_ms();
    peer->before = peers->newest;
    peer->after = NULL;
    *(peers->newest != NULL ? &peers->newest->after : &peers->oldest) = peer;
    peers->newest = peer;
    peer->owes = true;
}

void http_peers_cut_silent(http_peers *peers) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    while (peers->oldest != NULL && now_ms - peers->oldest->since_ms >= HEAD_MS) {
        http_peer *p = peers->oldest;
        http_peer_settled(p);
        /* libmicrohttpd notices the shutdown and closes the connection. */
        (void)shutdown(p->wire.fd, SHUT_RDWR);
    }
}

bool http_peer_valid(http_peer *peer, void *session, int64_t now_s) {
    if (peer->kind == FEDSERVER_FRONT) {
        return true;
    }
    if (!peer->identity.known) {
        http_tls_identify(session, &peer->identity);
        take_account(peer, peer->identity.known ? peer->identity.fingerprint : NULL);
    }
    return peer->identity.known && now_s < peer->identity.expires_s;
}

uint32_t http_peer_ask(http_peer *peer, uint64_t body) {
    http_peers *peers = peer->peers;
    const bool upload = body >= UPLOAD_LEAST;
    const int64_t now_ms = fed_clock_monotonic_ms();
    const uint32_t wait_s =
        http_limits_ask(&peers->limits[peer->kind], peer->account, upload, now_ms);
    return wait_s > 0 ? wait_s : http_limits_ask(&peers->all, &peers->all.crowd, upload, now_ms);
}

void http_peer_body_begins(http_peer *peer, uint64_t body) {
    http_limits_pay(peer->account, body);
    peer->account->uploads += body >= UPLOAD_LEAST;
    peer->peers->all.crowd.uploads += body >= UPLOAD_LEAST;
}

void http_peer_body_ends(http_peer *peer, uint64_t body) {
    if (body >= UPLOAD_LEAST) {
        peer->account->uploads--;
        peer->peers->all.crowd.uploads--;
    }
}

uint32_t http_peer_answered(http_peer *peer, bool trial, int status, uint64_t bytes) {
    http_limits_pay(peer->account, bytes);
    if (peer->kind != FEDSERVER_FRONT || !trial || (status != 401 && status != 403)) {
        return 0;
    }
    return http_limits_fail(&peer->peers->limits[FEDSERVER_FRONT], peer->account,
                            fed_clock_monotonic_ms());
}
