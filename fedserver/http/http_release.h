/* What becomes of a request that was handled: answered, held, or freed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_RELEASE_H
#define FEDSERVER_HTTP_RELEASE_H

#include "fedserver/http/http_exchange.h"

/** There is a response: send it, or hold the request, or free it where nobody waits. */
void http_release(http *h, http_exchange *x);

/** The response is the answer: its peer pays for it, and the request's body is of no more use. */
void http_release_settle(http_exchange *x);

/** Hold the request until that time, by the monotonic clock, or until the epoch moves. */
void http_hold(http *h, http_exchange *x, int64_t until_ms);

/** Go on with a complete request: whoever waits for it gets the answer, or nothing where the state
 * is STATE_GONE. */
void http_resume(http *h, http_exchange *x, http_state as);
/** All of a queue, which is empty afterwards. */
void http_resume_all(http *h, http_queue *queue, http_state as);

#endif
