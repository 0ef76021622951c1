/* At a follower: handles requests that the front's process sends as questions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"

void http_questions_take(http *h) {
    static const fedserver_response busy = {.status = 503};
    fedserver_question question;
    while (fedserver_front_asks(h->server, &question)) {
        http_exchange *x = calloc(1, sizeof *x + sizeof question.path);
        if (x == NULL) {
            fedserver_front_answer(h->server, &question, &busy);
            continue;
        }
        memcpy(x->uri, question.path, sizeof question.path);
        x->http = h;
        x->origin = ORIGIN_QUESTION;
        x->ticket = question.ticket;
        x->state = STATE_PARKED;
        x->parked_ms = fed_clock_monotonic_ms();
        x->request = (fedserver_request){
            .listener = FEDSERVER_FRONT, .method = "GET", .path = x->uri, .query = ""};
        http_queue_add(&h->queue, x);
    }
}

void http_question_end(http_exchange *x) {
    fedserver_question question = {.ticket = x->ticket};
    memcpy(question.path, x->uri, sizeof question.path);
    x->response.status = x->refused != NULL ? x->refused->status : x->response.status;
    fedserver_front_answer(x->http->server, &question, &x->response);
    http_exchange_free(x);
}
