/* The loop of the HTTPS adapter: batches of requests, one transaction each, and waiting between
 * batches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_LOOP_H
#define FEDSERVER_HTTP_LOOP_H

#include "fedserver/http/http_exchange.h"

/** Handle the requests of h->queue in one transaction, then call fedserver_tick, commit, and
 * release the answers. Errors: those of the coordinator; then no answer is released. */
fed_status http_loop_batch(http *h, fed_error *err) FED_CHECKED;

/** One iteration: let both daemons read and write, handle the complete requests, and wait for an
 * event. Errors: those of http_loop_batch. */
fed_status http_loop_iterate(http *h, fed_error *err) FED_CHECKED;

/** Accept no more connections, answer the held requests with 503, let go of the lead, and send the
 * remaining answers. */
fed_status http_loop_drain(http *h, fed_error *err) FED_CHECKED;

#endif
