/* Connections of many devices in one thread: HTTP/1.1 over TLS, kept open, with a certificate each.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOAD_H
#define FED_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/crypto.h"

typedef struct fed_load fed_load;

/** The answer to a request. body: its first bytes, at most FED_LOAD_BODY. */
typedef struct fed_load_answer {
    int status;
    size_t len; /* bytes of the whole body */
    const uint8_t *body;
} fed_load_answer;

enum { FED_LOAD_BODY = 1024 };

/** Append the request that connection k sends next, head and body. If nothing is appended, the
 * connection is done. */
typedef void (*fed_load_ask)(void *user, size_t k, fed_writer *request);
/** A whole answer has arrived. */
typedef void (*fed_load_heard)(void *user, size_t k, const fed_load_answer *answer);

/** Counted since the last fed_load_run. */
typedef struct fed_load_result {
    size_t answers, failures; /* failures: connections that broke, or never opened */
    double seconds, p50_ms, p99_ms, most_ms;
} fed_load_result;

/** Prepare `count` connections to 127.0.0.1:port. The k-th has keys[k] and certs[k] (PEM), which
 * must outlive the load. */
fed_load *fed_load_open(uint16_t port, const fed_pem *keys, const fed_pem *certs, size_t count);
void fed_load_close(fed_load *load);
/** Connect to this IPv4 address, before the first connection. */
void fed_load_toward(fed_load *load, const char *address);

/** Open each connection that is not open, at most `parallel` at a time. Returns how many are open.
 */
size_t fed_load_connect(fed_load *load, size_t parallel, double *seconds);

/**
 * Each of the `count` connections from `first` on sends one request after the other until `ask`
 * appends none. Connections that a post keeps busy do not take part. The other connections are
 * served as well. The run ends when no request is under way any more, or after limit_s.
 */
fed_load_result fed_load_run(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                             fed_load_heard heard, void *user, double limit_s);

/** Send one request on each of these connections, and don't wait for the answers. A later run or
 * wait receives the answers. Returns how many requests were sent. */
size_t fed_load_post(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                     fed_load_heard heard, void *user);

/** Receive the answers to posts until none is missing, or for so many seconds. Returns how many are
 * missing. */
size_t fed_load_wait(fed_load *load, double seconds);

#endif
