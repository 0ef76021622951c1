/* Connections as the HTTP adapter sees them: which peer it is, how long the peer has been
 * silent, and how much more it may ask for. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_PEER_H
#define FEDSERVER_HTTP_PEER_H

#include "fedserver/fedserver.h"
#include "fedserver/http/http_limits.h"
#include "fedserver/http/http_proxy.h"
#include "fedserver/http/http_tls.h"

struct http_listener; /* the adapter's */

typedef struct http_peer http_peer;

/** Kinds of handshakes, each with its own budget. */
typedef enum http_handshake {
    HTTP_HANDSHAKE_FULL,
    HTTP_HANDSHAKE_TICKET, /* it offers to resume a session */
    HTTP_HANDSHAKE_LINK,   /* at the port for other coordinators */
    HTTP_HANDSHAKES
} http_handshake;

/** All connections of the adapter. */
typedef struct http_peers {
    http_peer *oldest, *newest;              /* the peers that owe a request head */
    http_limits limits[2];                   /* of one peer of each listener */
    http_limits all;                         /* limits of all peers together: one peer, `crowd` */
    http_limits handshakes[HTTP_HANDSHAKES]; /* of one address */
    http_limits handshakes_of_all[HTTP_HANDSHAKES];
    http_proxies proxies;
    const http_tls *tls;
    const fed_log *log;
    uint64_t *progress; /* grows whenever a byte moves */
    uint64_t *failed;   /* handshakes, by fedserver_handshake */
} http_peers;

/** A connection, from accept to close. */
struct http_peer {
    http_peers *peers;
    struct http_listener *listener;
    fedserver_listener kind;
    http_wire wire;
    http_tls_gate gate;
    /* neighbours in the list of peers that owe a request head, the oldest first */
    http_peer *before, *after;
    bool owes;
    bool spoke;       /* a request has arrived */
    bool over_budget; /* its handshake was refused: too many */
    int64_t since_ms;
    http_tls_identity identity;
    /* account of its address or, for a device, of its key; NULL: not known yet */
    http_limits_peer *account;
};

/** Set the limits of docs/protocol.md#limits. 0: the default. */
void http_peers_open(http_peers *peers, uint32_t requests_per_s, uint32_t connections);
void http_peers_free(http_peers *peers);

/** Do the budgets of that address, and of all addresses, allow one more handshake? It is then paid
 * for. */
bool http_peers_admit(http_peers *peers, http_handshake kind, const http_address *from);

/** Add a connection whose handshake has not begun; the peer owes a request. session: a
 * gnutls_session_t. NULL: out of memory. End with http_peer_free, which takes NULL. */
http_peer *http_peer_new(http_peers *peers, struct http_listener *listener, fedserver_listener kind,
                         void *session, int fd);
void http_peer_free(http_peer *peer);

/** The peer owes a request head from now on; the head has arrived. */
void http_peer_owes(http_peer *peer);
void http_peer_settled(http_peer *peer);

/** Close the connections of peers that have owed a handshake or a head for too long. */
void http_peers_cut_silent(http_peers *peers);

/** Is the peer's certificate valid now? A resumed session is not verified again, and a connection
 * may live longer than a certificate. */
bool http_peer_valid(http_peer *peer, void *session, int64_t now_s);

/** May the peer send one more request, with a body of that size? 0: yes; else the seconds until
 * it may ask again. The peer must be valid. */
uint32_t http_peer_ask(http_peer *peer, uint64_t body);

/** The body begins: the peer pays for it, and it counts as an upload until it ends. */
void http_peer_body_begins(http_peer *peer, uint64_t body);
void http_peer_body_ends(http_peer *peer, uint64_t body);

/** An answer was made; the peer pays for its bytes. trial: the request could try a wrong token
 * or key; at the front the peer pays for 401 and 403, too. 0: send the answer. Else the address
 * fails too often: answer only with the seconds until it may come again. */
uint32_t http_peer_answered(http_peer *peer, bool trial, int status, uint64_t bytes);

#endif
