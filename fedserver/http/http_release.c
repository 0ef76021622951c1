/* Sends, or holds back, the answers to handled requests. */
/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "fed/clock.h"
#include "fedserver/http/http_exchange.h"

enum { HOLD_MOST_MS = 55 * 1000 }; /* many routers drop a connection that is silent for a minute */

void http_resume(http *h, http_exchange *x, http_state as) {
    if (x->state == STATE_CUT) {
        http_exchange_free(x);
        return;
    }
    x->state = as;
    h->resumed = true;
    switch (x->origin) {
    case ORIGIN_PEER:
        MHD_resume_connection(x->connection);
        break;
    case ORIGIN_FORWARDED:
        http_forwarded_end(x);
        break;
    case ORIGIN_QUESTION:
        http_question_end(x);
        break;
    }
}

void http_resume_all(http *h, http_queue *queue, http_state as) {
    http_exchange *x = queue->first;
    http_queue_clear(queue);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        http_resume(h, x, as);
    }
}

void http_hold(http *h, http_exchange *x, int64_t until_ms) {
    x->held = (http_held){.until_ms = until_ms, .key = x->response.hold_key};
    x->handled = false;
    if (http_pending_add(&h->pending, &x->held) != FED_OK) {
        x->refused = &http_refusal_full;
        http_resume(h, x, STATE_ANSWER);
    }
}

static http_exchange *release_held(http *h, http_held *held) {
    if (held == NULL) {
        return NULL;
    }
    http_pending_remove(&h->pending, held);
    return (http_exchange *)(void *)((char *)held - offsetof(http_exchange, held));
}

http_exchange *http_release_first(http *h) {
    return release_held(h, http_pending_first(&h->pending));
}

http_exchange *http_release_with(http *h, uint64_t key) {
    return release_held(h, http_pending_with(&h->pending, key));
}

void http_release_settle(http_exchange *x) {
    size_t len = 0;
    if (x->response.body != NULL) {
        (void)fedserver_blob_data(x->response.body, &len);
    }
    if (x->peer != NULL) {
        /* Forwarded requests are charged by the follower. */
        const bool trial = strcmp(x->request.method, "POST") == 0;
        x->wait_s = http_peer_answered(x->peer, trial, x->response.status, len);
        x->refused = x->wait_s > 0 ? &http_refusal_too_many : NULL;
    }
    http_exchange_drop_body(x);
}

void http_release(http *h, http_exchange *x) {
    if (x->response.hold && x->state != STATE_CUT) {
        const int64_t ms = x->response.hold_ms < HOLD_MOST_MS ? x->response.hold_ms : HOLD_MOST_MS;
        http_hold(h, x, fed_clock_monotonic_ms() + ms);
        return;
    }
    if (x->state != STATE_CUT) {
        http_release_settle(x);
    }
    http_resume(h, x, STATE_ANSWER);
}
