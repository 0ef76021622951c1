/* Requests to a coordinator: how one is sent, to which address, and when to try again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_REQUESTS_H
#define FEDCLIENT_REQUESTS_H

#include "fedclient/state/client_state.h"

/* The following functions are in exchange.c. */

/** An answer whose status the caller handles: 200, 202, 206, or a 4xx other than 401, 403, 408,
 * 429. */
typedef struct fedclient_answer {
    int status;
    uint32_t retry_after_s; /* 0: the answer has no Retry-After */
    fed_writer body;
    char error[32], message[300]; /* in a 4xx: the coordinator's error code and sentence */
} fedclient_answer;

typedef struct fedclient_call {
    const char *base;
    fed_request kind;
    const char *path;  /* NULL: that of the kind */
    const char *query; /* "?task=1..."; NULL: none */
    const char *bearer;
    const fedclient_body *body;
    fedclient_range *range;
    size_t answer_limit;
    uint32_t hold_ms;
    bool introduces; /* send options.software, and at enrolment the device's name */
} fedclient_call;

/** Send a request and read the answer. Call fedclient_answer_free also after a failure; the body
 * may then hold the beginning of an answer, if call->range says so. After a failure that may pass
 * (no connection, 408, 429, 5xx), client->heals and client->asked_ms are set. After a FED_EAUTH
 * that a new enrolment may cure, client->refused is set. */
fed_status fedclient_exchange(fedclient *client, const fedclient_call *call,
                              fedclient_answer *answer, fed_error *err) FED_CHECKED;
void fedclient_answer_free(fedclient_answer *answer);

/** A body in memory, in one or two spans. */
typedef struct fedclient_span {
    const uint8_t *data;
    size_t left;
    const uint8_t *more; /* the second span, may be empty */
    size_t more_left;
} fedclient_span;
fedclient_body fedclient_body_of(fedclient_span *span);

/* The following functions are in addresses.c. */

/** Check all addresses of options.server, and use the first one. */
fed_status fedclient_addresses_open(fedclient *client, fed_error *err) FED_CHECKED;

/** Choose the first address by the device's identity, so that devices spread over the addresses. */
void fedclient_addresses_spread(fedclient *client);

void fedclient_addresses_next(fedclient *client);

/** How long the coordinator may hold a check-in's answer: options.hold_ms, or less if the device
 * knows several addresses. */
uint32_t fedclient_addresses_hold(const fedclient *client);

/** A request's patience_ms, beside hold_ms, which is 0 or fedclient_addresses_hold; 0: the
 * transport's own. */
uint32_t fedclient_addresses_patience(const fedclient *client, uint32_t hold_ms);

/** Set the port for devices' requests, which is the same at each address. */
void fedclient_addresses_port(fedclient *client, uint16_t port);

/* The following functions are in retry.c. */

/** How many milliseconds to wait after the n-th failure in a row (failures = n, from 1): 200 ms to
 * 60 s, or up to told_ms, the wait that answered the last check-in, if that is longer. */
uint32_t fedclient_backoff_ms(const char *device, unsigned failures, uint32_t told_ms);

/** How many milliseconds to wait after a refusal that only a person can change: 4 hours, +-20 %. */
uint32_t fedclient_refused_ms(const char *device);

#endif
