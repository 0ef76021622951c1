/* At a follower: what its front's process asks, and only the leader knows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_QUESTION_H
#define FEDSERVER_HTTP_QUESTION_H

#include "fedserver/http/http_exchange.h"

/** Take the front's next questions, which arrive at front.sock, into h->queue. */
void http_questions_take(http *h);
/** Give a question its answer, and free the exchange. */
void http_question_end(http_exchange *x);

#endif
