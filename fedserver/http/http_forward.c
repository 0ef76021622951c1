/* At a follower: passes requests on to the leader. */
/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "fed/clock.h"
#include "fedserver/http/http_exchange.h"
#include "fedserver/http/http_socket.h"

enum {
    AGAIN_MS = 50, /* interval at which a request that waits for a leader is tried again */
    LOOK_EVERY_MS = 100,
    LOOKS = 1024
};

/* May the request be sent to a leader twice? Devices repeat each request that gets no answer, so a
 * leader knows what it has handled. A body that came in parts has no peer any more that waits. */
static bool may_go_again(const http_exchange *x) {
    return x->state != STATE_CUT;
}

static bool may_be_held_for_long(const http_exchange *x) {
    return strcmp(x->request.method, "GET") == 0 || strcmp(x->request.path, "/v1/checkin") == 0;
}

static void refuse(http *h, http_exchange *x, const http_refusal *why) {
    if (x->state == STATE_CUT) {
        http_exchange_free(x);
        return;
    }
    x->refused = why;
    http_exchange_drop_body(x);
    http_resume(h, x, STATE_ANSWER);
}

static void carry(http *h, http_exchange *x) {
    fed_error why = {0};
    const int64_t now_ms = fed_clock_monotonic_ms();
    x->request.waited_ms = now_ms - x->parked_ms;
    if (x->shelved == NULL) {
        x->shelved = http_object_cache_find(&h->object_cache, &x->request, x->known);
    }
    const fed_status status =
        cluster_forward(h->cluster, &x->request, x->known, x, &x->carried, &why);
    if (status == FED_OK) {
        x->adrift_ms = 0;
    } else {
        x->carried = 0;
        x->adrift_ms = x->adrift_ms != 0 ? x->adrift_ms : now_ms;
        if (may_go_again(x) && now_ms - x->adrift_ms < h->leader_wait_ms) {
            http_hold(h, x, now_ms + AGAIN_MS);
        } else {
            refuse(h, x, status == FED_EBUSY ? &http_refusal_full : &http_refusal_no_leader);
        }
    }
}

void http_forward_queue(http *h) {
    http_exchange *x = h->queue.first;
    http_queue_clear(&h->queue);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        carry(h, x);
    }
}

void http_forward_answered(void *user, void *owner, cluster_answer *answer) {
    http *h = user;
    http_exchange *x = owner;
    x->carried = 0;
    x->response = answer->response;
    if (answer->response.content_type != NULL) {
        memcpy(x->type, answer->type, sizeof x->type);
        x->response.content_type = x->type;
    }
    if (answer->same) { /* the leader confirms that the cached body is current */
        x->response.body = x->shelved;
        x->shelved = NULL;
    } else {
        http_object_cache_put(&h->object_cache, &x->request, &x->response);
    }
    http_release(h, x);
}

void http_forward_lost(void *user, void *owner) {
    http *h = user;
    http_exchange *x = owner;
    x->carried = 0;
    if (h->closing) {
        http_resume(h, x, STATE_GONE);
    } else if (may_go_again(x)) {
        http_queue_add(&h->queue, x);
    } else {
        refuse(h, x, &http_refusal_no_leader);
    }
}

static void forget(http *h, http_exchange *x, http_state as) {
    cluster_cancel(h->cluster, x->carried);
    x->carried = 0;
    http_resume(h, x, as);
}

void http_forward_look(http *h) {
    const size_t count = cluster_carried(h->cluster);
    const size_t looks = count < LOOKS ? count : LOOKS;
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (now_ms - h->looked_ms < LOOK_EVERY_MS) {
        return;
    }
    h->looked_ms = now_ms;
    for (size_t k = 0; k < looks; k++) {
        uint64_t id;
        h->carried_looked = (h->carried_looked + 1) % count;
        http_exchange *x = cluster_carried_at(h->cluster, h->carried_looked, &id);
        if (x != NULL && x->origin == ORIGIN_PEER && x->state == STATE_PARKED &&
            http_socket_gone(x->peer->wire.fd)) {
            forget(h, x, STATE_GONE);
        }
    }
}

void http_forward_stop(http *h) {
    for (size_t k = 0; k < cluster_carried(h->cluster); k++) {
        uint64_t id;
        http_exchange *x = cluster_carried_at(h->cluster, k, &id);
        if (x != NULL && may_be_held_for_long(x)) {
            x->refused = &http_refusal_stopping;
            forget(h, x, STATE_ANSWER);
        }
    }
}
