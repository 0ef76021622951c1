/* What carries requests from a device to the coordinator. */
#ifndef FEDCLIENT_TRANSPORT_H
#define FEDCLIENT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/crypto.h"
#include "fed/error.h"
#include "fed/wire.h"

FED_API_BEGIN

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
    fed_request kind;           /* what is asked for, as the URL's path says too */
    const char *method;         /* "GET", "POST" */
    const char *url;            /* "https://host:port/path?query" */
    const char *bearer;         /* sent as Authorization: Bearer; NULL for none */
    const fedclient_body *body; /* NULL for none */
    fedclient_range *range;     /* NULL: everything is wanted */
    uint32_t *retry_after_s;    /* out: the answer's Retry-After; left as it is without one */
    size_t answer_limit;        /* a longer answer is FED_ERANGE */
    uint32_t hold_ms;           /* the coordinator may be silent this long before it answers */
    const char *device_name;    /* sent as Fed-Device-Name; NULL for none */
    const char *software;       /* sent as User-Agent; NULL for none */
} fedclient_request;

/** What travelled, as counted by the transport: request and answer lines, headers and bodies; not
 * TLS records. */
typedef struct fedclient_traffic {
    uint64_t sent_bytes, received_bytes;
    uint64_t requests, connections;
} fedclient_traffic;

/**
 * A way to the coordinator. One thread at a time per transport.
 *
 * send asks and waits for the answer. FED_OK: *status is the HTTP status, and answer (growing, the
 * caller's) has the body behind what was in it; 4xx and 5xx are answers too. Otherwise err has a
 * sentence that names the address, and the status says what happened:
 *
 *   FED_ENET       the host has no address, nobody is there, the line broke, or what came is no
 *                  answer in HTTP/1.1 (a head above 16 KiB is none); the request may have arrived
 *   FED_EAUTH      TLS refused one of the two certificates
 *   FED_ETIMEOUT   no byte moved for as long as the options' patience (and hold_ms, for an answer)
 *   FED_ERANGE     the answer is longer than answer_limit
 *   FED_ECANCELED  the options' `stopped` said so
 *   FED_EINVAL     the url is none that begins with https://
 *   others         those of the body's read
 *
 * Where a request with a range breaks in the middle of its answer, range is filled in, and answer
 * holds what has come. A transport may leave range and *retry_after_s as they are.
 *
 * A connection is kept and used again. Where it turns out to have been closed, the request is sent
 * once more on a fresh one, if nothing was read of its body or the body has less than 64 KiB. A
 * body of 64 KiB or more asks first (Expect: 100-continue), and is sent anyway after a second
 * without a word.
 */
typedef struct fedclient_transport {
    void *user;
    fed_status (*send)(void *user, const fedclient_request *request, int *status,
                       fed_writer *answer, fed_error *err);
    /** Present this key and certificate from the next connection on; both NULL: none. What cert
     * has behind its first certificate are CAs, which are trusted beside the options' ones until
     * the next call. FED_EAUTH: they can't be used, or do not belong together. */
    fed_status (*identify)(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err);
    /** Close idle connections, as a device does that goes offline. */
    void (*disconnect)(void *user);
    /** Totals since it was opened. */
    void (*traffic)(void *user, fedclient_traffic *traffic);
    /** NULL: there is nothing to close. */
    void (*close)(void *user);
} fedclient_transport;

/** How to open one. */
typedef struct fedclient_transport_options {
    const char *ca_pem;   /* PEM text: exactly these CA certificates are trusted, and those of
                             identify; copied */
    uint32_t patience_ms; /* how long a connection may stand still; 0: 30 s */
    /** Asked at least once a second: true breaks the request off. NULL: nothing does. */
    bool (*stopped)(void *user);
    void *user;
} fedclient_transport_options;

/**
 * HTTPS, TLS 1.3 only, by the transport of that name: "curl", by libcurl, or "mbedtls", by mbedTLS
 * 3.6 or newer alone. name: NULL for the first one that this build has. A program may bring its own
 * instead, by filling in a fedclient_transport.
 *
 * Errors: FED_ENOTFOUND this build has no such transport; FED_EFORMAT ca_pem is no certificate.
 */
fed_status fedclient_transport_open(const char *name, const fedclient_transport_options *options,
                                    fedclient_transport *transport, fed_error *err) FED_CHECKED;
/** One that is zeroed is closed already. */
void fedclient_transport_close(fedclient_transport *transport);

/** The name of the k-th transport that this build has; NULL behind the last. */
const char *fedclient_transport_name(size_t k);

FED_API_END

#endif
