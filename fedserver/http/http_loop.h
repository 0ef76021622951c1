/* The loop of the HTTPS adapter: let peers read and write, end the batch of their requests, and
 * wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_LOOP_H
#define FEDSERVER_HTTP_LOOP_H

#include "fedserver/http/http_exchange.h"

/** One iteration: let both daemons read and write, handle the complete requests, and wait for an
 * event. Errors: those of http_batch_end. */
fed_status http_loop_iterate(http *h, fed_error *err) FED_CHECKED;

/** Accept no more connections, answer the held requests with 503, let go of the lead, and send the
 * remaining answers. */
fed_status http_loop_drain(http *h, fed_error *err) FED_CHECKED;

#endif
