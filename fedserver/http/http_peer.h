/* Connections as the HTTP adapter sees them: who is at the other end, how long it has been silent,
 * and what it may still ask for. */
#ifndef FEDSERVER_HTTP_PEER_H
#define FEDSERVER_HTTP_PEER_H

#include "fedserver/fedserver.h"
#include "fedserver/http/http_limits.h"
#include "fedserver/http/http_proxy.h"
#include "fedserver/http/http_tls.h"

struct http_listener; /* the adapter's */

typedef struct http_peer http_peer;

/** All of them. */
typedef struct http_peers {
    http_peer *oldest, *newest; /* those that owe a request head */
    http_limits limits[2];      /* of one peer of each listener */
    http_limits all;            /* of all together: its crowd */
    http_limits handshakes[2];  /* of one address; [1]: those that offer a ticket */
    http_limits handshakes_of_all[2];
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
    http_tls_wire wire;
    http_peer *before, *after; /* among those that owe us a request head, the oldest first */
    bool owes;
    bool spoke;       /* a request has come */
    bool over_budget; /* its handshake was one too many */
    int64_t since_ms;
    http_tls_identity identity;
    http_limits_peer *account; /* of its address or, of a device, of its key; NULL: not known yet */
};

/** Open all limits, those of docs/protocol.md#limits; 0: the default. */
void http_peers_open(http_peers *peers, uint32_t requests_per_s, uint32_t connections);
void http_peers_free(http_peers *peers);

/** A connection whose handshake (session: gnutls_session_t) has not begun; it owes a request. NULL:
 * no memory. Owner: http_peer_free, where NULL is fine. */
http_peer *http_peer_new(http_peers *peers, struct http_listener *listener, fedserver_listener kind,
                         void *session, int fd);
void http_peer_free(http_peer *peer);

/** It owes a request head from now on; and: it has come. */
void http_peer_owes(http_peer *peer);
void http_peer_settled(http_peer *peer);

/** Shake off who connects and is silent, or sends a handshake or a head by drops. */
void http_peers_cut_silent(http_peers *peers);

/** Is the peer's certificate valid now? A resumed session is not verified again, and a connection
 * may live longer than a certificate. */
bool http_peer_valid(http_peer *peer, void *session, int64_t now_s);

/** May it have one more request in, with a body of that size? 0: yes; else after how many seconds
 * to ask again. It must be valid. */
uint32_t http_peer_ask(http_peer *peer, uint64_t body);

/** The body is taken: it is paid for, and an upload while it lasts. */
void http_peer_body_begins(http_peer *peer, uint64_t body);
void http_peer_body_ends(http_peer *peer, uint64_t body);

/** An answer was made, whose bytes cost. trial: the request could show a wrong token or key; at the
 * front that costs too (401, 403). 0: send the answer; else its address fails too often: say after
 * how many seconds to come again, and not what was wrong. */
uint32_t http_peer_answered(http_peer *peer, bool trial, int status, uint64_t bytes);

#endif
