/* Many devices' connections in one thread: TLS with a certificate each, HTTP/1.1, kept open. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOAD_H
#define FED_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/crypto.h"

typedef struct fed_load fed_load;

/** What a request's answer was. body: its first bytes, at most FED_LOAD_BODY. */
typedef struct fed_load_answer {
    int status;
    size_t len; /* of the whole body */
    const uint8_t *body;
} fed_load_answer;

enum { FED_LOAD_BODY = 1024 };

/** The request that connection k sends next, head and body; nothing appended: it is done. */
typedef void (*fed_load_ask)(void *user, size_t k, fed_writer *request);
/** An answer has come whole. */
typedef void (*fed_load_heard)(void *user, size_t k, const fed_load_answer *answer);

/** Counted since the last fed_load_run. */
typedef struct fed_load_result {
    size_t answers, failures; /* failures: connections that broke, or never were */
    double seconds, p50_ms, p99_ms, most_ms;
} fed_load_result;

/** `count` connections to be, to 127.0.0.1:port; the k-th has keys[k] and certs[k] (PEM),
 * which must outlive it. */
fed_load *fed_load_open(uint16_t port, const fed_pem *keys, const fed_pem *certs, size_t count);
void fed_load_close(fed_load *load);

/** Connect whoever is not connected, at most `parallel` at a time. Returns how many are. */
size_t fed_load_connect(fed_load *load, size_t parallel, double *seconds);

/**
 * Connections from `first` on, `count` of them, each ask one request after the other until there is
 * none, but for those that a post keeps busy; others are served as well. Ends when nothing is under
 * way any more, or after limit_s.
 */
fed_load_result fed_load_run(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                             fed_load_heard heard, void *user, double limit_s);

/** Send one request on each of them and don't wait for the answers; whoever runs or waits hears
 * them. Returns how many were sent. */
size_t fed_load_post(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                     fed_load_heard heard, void *user);

/** Hear the answers to posts until none is missing, or for that long. Returns how many are. */
size_t fed_load_wait(fed_load *load, double seconds);

#endif
