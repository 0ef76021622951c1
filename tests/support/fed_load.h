/* HTTPS connections of many devices, handled in one thread and kept open, each with a device's
 * certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOAD_H
#define FED_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/crypto.h"

typedef struct fed_load fed_load;

/** An answer. body: the first bytes of the answer's body, at most FED_LOAD_BODY. */
typedef struct fed_load_answer {
    int status;
    size_t len; /* length of the whole body */
    const uint8_t *body;
} fed_load_answer;

enum { FED_LOAD_BODY = 1024 };

/** Append the next request of connection k, or nothing to send no more. */
typedef void (*fed_load_ask)(void *user, size_t k, fed_writer *request);
typedef void (*fed_load_heard)(void *user, size_t k, const fed_load_answer *answer);

typedef struct fed_load_result {
    size_t answers, failures; /* failures: broken connections, missing answers */
    double seconds, p50_ms, p99_ms, most_ms;
} fed_load_result;

/** Prepare `count` connections to 127.0.0.1:port. keys[k] and certs[k] must outlive the load. */
fed_load *fed_load_open(uint16_t port, const fed_pem *keys, const fed_pem *certs, size_t count);
void fed_load_close(fed_load *load);
/** Use this IPv4 address instead of 127.0.0.1. Call it before the first connection. */
void fed_load_toward(fed_load *load, const char *address);

/** Open all closed connections, at most `parallel` at a time. Returns how many are open. */
size_t fed_load_connect(fed_load *load, size_t parallel, double *seconds);

/** Send requests on connections first to first + count - 1, until `ask` appends none or limit_s has
 * passed. A connection sends its next request after the answer. Connections that wait for an answer
 * to fed_load_post are left out. */
fed_load_result fed_load_run(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                             fed_load_heard heard, void *user, double limit_s);

/** Send one request on each of these connections that is idle. A later fed_load_run or
 * fed_load_wait receives the answers. Returns how many requests were sent. */
size_t fed_load_post(fed_load *load, size_t first, size_t count, fed_load_ask ask,
                     fed_load_heard heard, void *user);

/** Receive answers to posted requests for at most `seconds`. Returns how many are missing. */
size_t fed_load_wait(fed_load *load, double seconds);

#endif
