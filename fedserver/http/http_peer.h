/* Connections as the HTTP adapter sees them: who the peer is, and what it may still ask for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_PEER_H
#define FEDSERVER_HTTP_PEER_H

#include "fedserver/fedserver.h"
#include "fedserver/http/http_limits.h"
#include "fedserver/http/http_proxy.h"
#include "fedserver/http/http_tls.h"

struct http_listener; /* defined in http_exchange.h */

typedef struct http_peer http_peer;

/** Kinds of handshakes, each with its own budget. */
typedef enum http_handshake {
    HTTP_HANDSHAKE_FULL,
    HTTP_HANDSHAKE_TICKET, /* the client offers a ticket, to resume a session */
    HTTP_HANDSHAKE_LINK,   /* with another coordinator, at the port for links */
    HTTP_HANDSHAKES
} http_handshake;

typedef struct http_peers {
    http_peer *oldest, *newest; /* list of the peers from which a request head is awaited */
    http_limits limits[2];      /* limits of one peer, by fedserver_listener */
    http_limits all;            /* limits of all peers together; only the member `crowd` is used */
    http_limits handshakes[HTTP_HANDSHAKES]; /* handshakes of one address, by kind */
    http_limits handshakes_of_all[HTTP_HANDSHAKES];
    http_proxies proxies;
    const http_tls *tls;
    const fed_log *log;
    uint64_t *progress;            /* points to http.progress */
    fedserver_wire_totals *totals; /* counts open connections, and those without a request */
} http_peers;

struct http_peer {
    http_peers *peers;
    struct http_listener *listener;
    fedserver_listener kind;
    http_wire wire;
    http_tls_gate gate;
    http_peer *before, *after; /* in the list from http_peers.oldest to .newest */
    bool owes;
    bool spoke;       /* a request has arrived */
    bool over_budget; /* the handshake was refused, because there were too many */
    int64_t since_ms;
    http_tls_identity identity;
    http_limits_peer *account; /* limits of the peer's address or device; NULL: not known yet */
};

/** Set the limits that docs/protocol.md#limits describes; a number 0 means the default. */
void http_peers_open(http_peers *peers, uint32_t requests_per_s, uint32_t connections);
void http_peers_free(http_peers *peers);

/** May the address, and all addresses together, have one more handshake? If so, charge both. */
bool http_peers_admit(http_peers *peers, http_handshake kind, const http_address *from);

/** Add a connection whose handshake has not begun; a request head is awaited from it. session: a
 * gnutls_session_t. NULL: out of memory. End with http_peer_free, which accepts NULL. */
http_peer *http_peer_new(http_peers *peers, struct http_listener *listener, fedserver_listener kind,
                         void *session, int fd);
void http_peer_free(http_peer *peer);

/** owes: from now on a request head is awaited from the peer. settled: the head has arrived. */
void http_peer_owes(http_peer *peer);
void http_peer_settled(http_peer *peer);

/** Shut down the connections whose handshake or request head is late. */
void http_peers_cut_silent(http_peers *peers);

/** Is the peer's certificate valid now? A resumed session is not verified again, and a connection
 * may last longer than a certificate. True at the front, where peers need no certificate. */
bool http_peer_valid(http_peer *peer, void *session, int64_t now_s);

/** May the peer send one more request, with a body of that size? 0: yes; else the seconds until it
 * may ask again. http_peer_valid must have returned true before. */
uint32_t http_peer_ask(http_peer *peer, uint64_t body);

/** begins: charge the peer for the body, and count a large one as an upload. ends: a large body no
 * longer counts as an upload. */
void http_peer_body_begins(http_peer *peer, uint64_t body);
void http_peer_body_ends(http_peer *peer, uint64_t body);

/** Charge the peer for an answer's bytes. trial: the request may be a guess at a token or key, so
 * at the front an answer 401 or 403 counts as a failure. Returns 0: send the answer; else the
 * seconds until the address may try again, to be sent instead of the answer. */
uint32_t http_peer_answered(http_peer *peer, bool trial, int status, uint64_t bytes);

#endif
