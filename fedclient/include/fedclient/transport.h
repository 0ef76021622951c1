/* What carries requests from a device to the coordinator. */
#ifndef FEDCLIENT_TRANSPORT_H
#define FEDCLIENT_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/crypto.h"
#include "fed/error.h"

/** A request body: read in pieces, so that it can come from a file, and so that a test can break it
 * off. */
typedef struct fedclient_body {
    void *user;
    size_t size; /* bytes in all, announced before they are sent */
    /** Put up to cap bytes into dst, *len of them; called until `size` are out. A failure breaks
     * the request off. */
    fed_status (*read)(void *user, void *dst, size_t cap, size_t *len);
    /** Likewise all of it, uint8[size], where it lies in one place, for a transport that needn't
     * copy it; else NULL. */
    const uint8_t *data;
} fedclient_body;

/** Which bytes of an answer are wanted, and which ones came: so that a download that broke off goes
 * on where it was. */
typedef struct fedclient_range {
    uint64_t first;  /* from here on (Range) ... */
    uint64_t most;   /* ... so many at most; 0: to the end. Both 0: everything, no Range */
    uint64_t if_tag; /* only if they are of the answer of this tag (If-Range); 0: of whichever */
    /* out, of a 200 and a 206: */
    uint64_t begin; /* where what came begins in the whole */
    uint64_t total; /* bytes of the whole; 0: not known */
    uint64_t tag;   /* its ETag, if that is 16 hex digits in quotes; 0: it has none */
} fedclient_range;

typedef struct fedclient_request {
    const char *method;         /* "GET", "POST" */
    const char *url;            /* "https://host:port/path?query" */
    const char *bearer;         /* sent as Authorization: Bearer; NULL for none */
    const fedclient_body *body; /* NULL for none */
    fedclient_range *range;     /* NULL: everything is wanted */
    uint32_t *retry_after_s;    /* out: the answer's Retry-After; left as it is without one */
    size_t answer_limit;        /* a longer answer is FED_ERANGE */
    uint32_t hold_ms;           /* the coordinator may be silent this long before it answers */
} fedclient_request;

/** What travelled, as counted by the transport: request and answer lines, headers and bodies; not
 * TLS records. */
typedef struct fedclient_traffic {
    uint64_t sent_bytes, received_bytes;
    uint64_t requests, connections;
} fedclient_traffic;

/**
 * A way to the coordinator. FED_ENET: no connection, or it broke; the request may or may not have
 * arrived. FED_EAUTH: TLS refused one of the two certificates. FED_ETIMEOUT: no progress.
 * FED_ECANCELED: stopped on request. *status
 * is the HTTP status, and answer (growing, the caller's) the body, whenever the call answers
 * FED_OK, 4xx and 5xx included. Where a request with a range breaks in the middle of its answer,
 * range is filled in, and answer holds what has come. A transport may leave range and
 * *retry_after_s as they are. One thread at a time per transport.
 */
typedef struct fedclient_transport {
    void *user;
    fed_status (*send)(void *user, const fedclient_request *request, int *status,
                       fed_writer *answer, fed_error *err);
    /** Present this key and certificate from the next connection on; both NULL: none. */
    fed_status (*identify)(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err);
    /** Close idle connections, as a device does that goes offline. */
    void (*disconnect)(void *user);
    /** Totals since it was opened. */
    void (*traffic)(void *user, fedclient_traffic *traffic);
} fedclient_transport;

/** HTTPS by libcurl, trusting exactly the CA certificate given (PEM text). Time-outs are on lack of
 * progress. */
fed_status fedclient_transport_curl_open(const char *ca_pem, fedclient_transport *transport,
                                         fed_error *err) FED_CHECKED;

/** Let *stop, once it is not 0, break off a request within about a second: FED_ECANCELED. For
 * signal handlers. NULL: nothing does. */
void fedclient_transport_curl_stop(fedclient_transport *transport, const atomic_int *stop);
void fedclient_transport_curl_close(fedclient_transport *transport);

#endif
