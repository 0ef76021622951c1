/* A batch of the HTTPS adapter: the requests of one iteration of its loop, in one transaction. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_BATCH_H
#define FEDSERVER_HTTP_BATCH_H

#include "fedserver/http/http_exchange.h"

/** A request of a peer is complete: handle it in the open batch, which begins with the first one.
 * true: the answer may leave at once, because the batch has written nothing that it could depend
 * on. false: park the request, for http_batch_end. */
bool http_batch_answers(http *h, http_exchange *x);

bool http_batch_is_open(const http *h);

/** Handle the requests of h->queue that http_batch_answers has not handled, then call
 * fedserver_tick, commit, and release the answers. Errors: those of the coordinator, also one that
 * http_batch_answers has met; then no answer of the queue is released. */
fed_status http_batch_end(http *h, fed_error *err) FED_CHECKED;

#endif
