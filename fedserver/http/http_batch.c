/* Handles requests in batches, one transaction per batch. */
/* SPDX-License-Identifier: Apache-2.0 */

#include "fed/clock.h"
#include "fedserver/http/http_exchange.h"

bool http_batch_is_open(const http *h) {
    return h->batch_ms != 0;
}

static fed_status begin(http *h, fed_error *err) {
    if (!http_batch_is_open(h)) {
        h->batch_ms = fed_clock_unix_ms();
        return fedserver_begin(h->server, err);
    }
    return FED_OK;
}

static fed_status handle(http *h, http_exchange *x, fed_error *err) {
    x->response = (fedserver_response){0};
    x->epoch = fedserver_epoch(h->server);
    FED_TRY(fedserver_handle(h->server, &x->request, h->batch_ms, &x->response, err));
    x->handled = true;
    return FED_OK;
}

bool http_batch_answers(http *h, http_exchange *x) {
    fed_error *failure = &h->failure;
    if (failure->status == FED_OK) {
        failure->status = begin(h, failure);
    }
    if (failure->status == FED_OK && !http_cluster_follows(h)) {
        failure->status = handle(h, x, failure);
    }
    if (!x->handled || x->response.hold || !fedserver_settled(h->server)) {
        return false;
    }
    http_release_settle(x);
    x->state = STATE_ANSWER;
    return true;
}

fed_status http_batch_end(http *h, fed_error *err) {
    FED_REQUIRE(h->failure.status == FED_OK,
                fed_fail(err, h->failure.status, "%s", h->failure.text));
    FED_TRY(begin(h, err));
    if (http_cluster_follows(h)) {
        http_questions_take(h);
        http_forward_queue(h);
        http_forward_look(h);
    }
    const int64_t monotonic_ms = fed_clock_monotonic_ms();
    for (http_exchange *x = h->queue.first; x != NULL; x = x->next) {
        /* A held request is handled again once fedserver_epoch has changed. */
        const bool has_missed = x->response.hold && x->epoch != h->epoch;
        if (x->refused == NULL && (!x->handled || has_missed)) {
            x->request.waited_ms = monotonic_ms - x->parked_ms;
            FED_TRY(handle(h, x, err));
        }
    }
    FED_TRY(fedserver_tick(h->server, h->batch_ms, &h->next_ms, err));
    h->batch_ms = 0;
    FED_TRY(fedserver_commit(h->server, err));
    http_exchange *x = h->queue.first;
    http_queue_clear(&h->queue);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        http_release(h, x);
    }
    if (h->cluster != NULL) {
        cluster_flush(h->cluster);
    }
    return FED_OK;
}
