/* At the leader: handles requests that followers pass on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"

static void take_body(http_exchange *x, cluster_frame *frame) {
    http *h = x->http;
    const size_t len = frame->body.len;
    const int status = len > 0 ? fedserver_body_refused(h->server, &x->request, len) : 0;
    if (status != 0 || len > HTTP_BODIES_MOST - h->bodies) {
        x->refused = status != 0 ? http_refusal_of(status) : &http_refusal_full;
        return;
    }
    x->body = frame->body.data;
    x->body_size = len;
    x->request.body = x->body;
    x->request.body_len = len;
    h->bodies += len;
    fed_writer_growing(&frame->body); /* the exchange owns the frame's memory now */
}

fed_status http_forwarded_asked(void *user, cluster_link *link, cluster_frame *frame, void **owner,
                                fed_error *err) {
    http *h = user;
    http_exchange *x = calloc(1, sizeof *x + frame->head.len);
    if (x == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a request of another coordinator");
    }
    if (cluster_request_read(frame->head.data, frame->head.len, x->uri, frame->head.len,
                             &x->request, x->known) != FED_OK) {
        free(x);
        return fed_fail(err, FED_EFORMAT,
                        "a request that another coordinator passes on can't be read: run the same "
                        "release everywhere");
    }
    if (x->request.listener == FEDSERVER_FRONT && !fedserver_relays(&x->request)) {
        free(x);
        return fed_fail(err, FED_EFORMAT,
                        "another coordinator passes on a request that its own front must answer");
    }
    x->http = h;
    x->origin = ORIGIN_FORWARDED;
    x->link = link;
    x->ticket = frame->id;
    x->state = STATE_PARKED;
    x->parked_ms = fed_clock_monotonic_ms() - x->request.waited_ms;
    take_body(x, frame);
    http_queue_add(&h->queue, x);
    *owner = x;
    return FED_OK;
}

void http_forwarded_left(void *user, void *owner) {
    (void)user;
    http_exchange *x = owner;
    x->link = NULL; /* http_release frees the exchange once the request is handled */
}

static void answer(http_exchange *x) {
    const fedserver_response *r = &x->response;
    const bool same = x->known[0] != '\0' && strcmp(x->known, r->etag) == 0 && r->status < 300;
    if (r->status >= 0 && r->status < 600) {
        fedserver_wire(x->http->server)->answers[r->status]++;
    }
    cluster_answer_send(x->link, x->ticket, r, same);
}

void http_forwarded_end(http_exchange *x) {
    /* There is no answer if the batch of requests failed or this process stops. */
    const bool answered = x->state == STATE_ANSWER && x->refused != &http_refusal_stopping;
    if (answered && x->refused != NULL) {
        char json[256];
        fed_writer w;
        fed_writer_growing(&w);
        fed_write_bytes(&w, json, (size_t)http_refusal_json(x->refused, json, sizeof json));
        fedserver_blob_free(x->response.body);
        x->response = (fedserver_response){.status = x->refused->status,
                                           .content_type = "application/json",
                                           .retry_after_s = x->refused->status == 503,
                                           .body = fedserver_blob_new(&w)};
    }
    if (x->link != NULL && answered) {
        answer(x);
    } else if (x->link != NULL) {
        cluster_link_disown(x->link, x->ticket);
    }
    http_exchange_free(x);
}
