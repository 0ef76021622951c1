/* A transport: carries a device's requests to the coordinator, and its answers back. */
/* SPDX-License-Identifier: Apache-2.0 */
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

/** A request body. The transport reads it in pieces, so a body can come from a file. */
typedef struct fedclient_body {
    void *user;
    size_t size; /* bytes of the whole body, sent as Content-Length */
    /** Put up to cap bytes into dst, and their number into *len. Called until `size` bytes were
     * read. A failure ends the request. */
    fed_status (*read)(void *user, void *dst, size_t cap, size_t *len);
    /** Optional: the whole body, uint8[size], for a transport that then need not copy it. NULL: the
     * body is not in one place. */
    const uint8_t *data;
} fedclient_body;

/** Which bytes of an answer are wanted, and which bytes came. With a range, a download that broke
 * off continues where it stopped. */
typedef struct fedclient_range {
    /* Filled in by the caller: */
    uint64_t first;  /* the first byte wanted (Range) */
    uint64_t most;   /* at most this many bytes; 0: to the end. Both 0: everything, no Range */
    uint64_t if_tag; /* only if the answer still has this tag (If-Range); 0: any tag */
    /* Filled in by the transport after a 200 or a 206: */
    uint64_t begin; /* position of the first received byte in the whole answer */
    uint64_t total; /* bytes of the whole answer; 0: not known */
    uint64_t tag;   /* the answer's ETag, if it is 16 hex digits in quotes; 0: none */
} fedclient_range;

typedef struct fedclient_request {
    fed_request kind;           /* which request it is */
    const char *method;         /* "GET", "POST" */
    const char *url;            /* "https://host:port/path?query" */
    const char *bearer;         /* a token, sent as Authorization: Bearer; NULL for none */
    const fedclient_body *body; /* NULL for none */
    fedclient_range *range;     /* NULL: everything is wanted */
    uint32_t *retry_after_s;    /* out: the answer's Retry-After; unchanged without one */
    size_t answer_limit;        /* a longer answer is FED_ERANGE */
    uint32_t hold_ms;           /* the coordinator may be silent this long before it answers */
    const char *device_name;    /* sent as Fed-Device-Name; NULL for none */
    const char *software;       /* sent as User-Agent; NULL for none */
    const char *computes_on;    /* sent as Fed-Computes-On; NULL for none */
    const char *classes;        /* sent as Fed-Classes; NULL for none */
    uint32_t patience_ms; /* replaces the options' patience_ms, if it is less; 0: it does not */
} fedclient_request;

/** Bytes of request and status lines, headers and bodies, without TLS records. */
typedef struct fedclient_traffic {
    uint64_t sent_bytes, received_bytes;
    uint64_t requests, connections;
} fedclient_traffic;

/**
 * A transport to the coordinator. Only one thread at a time may use it.
 *
 * send sends a request and waits for the answer. FED_OK: *status is the HTTP status, and the body
 * is appended to answer (a growing writer of the caller's). 4xx and 5xx are answers too. After any
 * other result *err has a sentence that names the address:
 *
 *   FED_ENET       the host has no address, no program listens there, the connection broke, or the
 *                  bytes received are not HTTP/1.1 (a head above 16 KiB is not). The request may
 *                  have arrived
 *   FED_EAUTH      TLS refused this device's certificate or the other side's
 *   FED_ETIMEOUT   no byte moved for patience_ms (plus hold_ms, before an answer)
 *   FED_ERANGE     the answer is longer than answer_limit
 *   FED_ECANCELED  the options' `stopped` returned true
 *   FED_EINVAL     the url does not begin with https:// (for caches: or http://)
 *   others         those of the body's read
 *
 * If a request with a range breaks in the middle of its answer, range is filled in, and answer has
 * the bytes received so far. A transport may leave range and *retry_after_s unchanged.
 *
 * A connection is kept and used again. If the coordinator has closed it meanwhile, the request is
 * sent once more on a new connection, unless part of a body of 64 KiB or more was read. A body of
 * 64 KiB or more is announced first (Expect: 100-continue), and sent after a second without an
 * answer.
 */
typedef struct fedclient_transport {
    void *user;
    fed_status (*send)(void *user, const fedclient_request *request, int *status,
                       fed_writer *answer, fed_error *err);
    /** Present this key and certificate from the next connection on; both NULL: none. The first
     * certificate in cert is the device's. The others are CAs, trusted beside the options' CAs
     * until the next call. FED_EAUTH: key and certificate can't be used, or not together. */
    fed_status (*identify)(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err);
    /** Close idle connections, for example before the device goes offline. */
    void (*disconnect)(void *user);
    /** Totals since the transport was opened. */
    void (*traffic)(void *user, fedclient_traffic *traffic);
    /** Free the transport's resources. NULL: it has none. */
    void (*close)(void *user);
} fedclient_transport;

typedef struct fedclient_transport_options {
    const char *ca_pem;   /* PEM text, copied: only these CA certificates are trusted, and those
                             given to identify */
    uint32_t patience_ms; /* give up after this time without a byte; 0: 30 s */
    /** Called about once a second during a request; true ends the request. NULL: never ends it. */
    bool (*stopped)(void *user);
    void *user;
    /** The transport is for fedclient_options.downloads. "curl" then also takes http:// and TLS
     * 1.2, and with ca_pem NULL trusts the system's CAs. It ends an answer that brings less than
     * 1,000 bytes a second for patience_ms with FED_ETIMEOUT. "mbedtls" needs ca_pem, and takes
     * https:// only. */
    bool for_caches;
} fedclient_transport_options;

/**
 * Open a transport by name, for HTTPS with TLS 1.3 only: "curl" uses libcurl, "mbedtls" uses
 * mbedTLS 3.6.1 or a newer 3.x. name NULL: the first transport that this build has. A program may
 * instead fill in a fedclient_transport of its own.
 *
 * Errors: FED_ENOTFOUND this build has no such transport; FED_EFORMAT ca_pem is not a certificate.
 */
fed_status fedclient_transport_open(const char *name, const fedclient_transport_options *options,
                                    fedclient_transport *transport, fed_error *err) FED_CHECKED;
/** Close a transport. A zeroed transport is allowed. */
void fedclient_transport_close(fedclient_transport *transport);

/** The name of the k-th transport that this build has; NULL after the last. */
const char *fedclient_transport_name(size_t k);

FED_API_END

#endif
