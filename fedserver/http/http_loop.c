/* The adapter's loop: let the daemons read and write, handle complete requests in a batch, wait. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_loop.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/http/http_socket.h"

enum {
    LOOK_MS = 100,            /* the loop looks at *stop at least this often */
    HOLD_MOST_MS = 55 * 1000, /* routers drop a silent connection after a minute */
    DRAIN_MS = 2000,          /* time to send the last answers when stopping */
    IDLE_ITERATIONS = 4,      /* after so many iterations in which no byte moved, the loop waits */
    IDLE_MOST_MS = 50         /* the longest of these waits */
};

/* ---- batches -------------------------------------------------------------------------------- */

static void resume(http *h, http_exchange *x, http_state as) {
    x->state = as;
    h->resumed = true;
    MHD_resume_connection(x->connection);
}

void http_loop_resume_all(http *h, http_queue *queue, http_state as) {
    http_exchange *x = queue->first;
    http_queue_clear(queue);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (x->state == STATE_CUT) {
            http_exchange_free(x);
        } else {
            resume(h, x, as);
        }
    }
}

static void hold(http *h, http_exchange *x, int64_t until_ms) {
    x->held_until_ms = until_ms;
    if (h->held.first == NULL || until_ms < h->held_next_ms) {
        h->held_next_ms = until_ms;
    }
    http_queue_add(&h->held, x);
}

static int64_t hold_ms(const fedserver_response *response) {
    return response->hold_ms < HOLD_MOST_MS ? response->hold_ms : HOLD_MOST_MS;
}

static void pay(http_exchange *x) {
    size_t len = 0;
    if (x->response.body != NULL) {
        (void)fedserver_blob_data(x->response.body, &len);
    }
    const bool trial = strcmp(x->request.method, "POST") == 0; /* a GET tries no token */
    x->wait_s = http_peer_answered(x->peer, trial, x->response.status, len);
    x->refused = x->wait_s > 0 ? &http_refusal_too_many : NULL;
}

/* The batch is durable: release its answers. */
static void release(http *h) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    http_exchange *x = h->queue.first;
    http_queue_clear(&h->queue);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (x->state == STATE_CUT) {
            http_exchange_free(x);
        } else if (x->response.hold) {
            hold(h, x, now_ms + hold_ms(&x->response));
        } else {
            pay(x);
            http_exchange_drop_body(x);
            resume(h, x, STATE_ANSWER);
        }
    }
}

fed_status http_loop_batch(http *h, fed_error *err) {
    const int64_t now_ms = fed_clock_unix_ms();
    const int64_t monotonic_ms = fed_clock_monotonic_ms();
    FED_TRY(fedserver_begin(h->server, err));
    for (http_exchange *x = h->queue.first; x != NULL; x = x->next) {
        x->request.waited_ms = monotonic_ms - x->parked_ms;
        x->response = (fedserver_response){0};
        FED_TRY(fedserver_handle(h->server, &x->request, now_ms, &x->response, err));
    }
    FED_TRY(fedserver_tick(h->server, now_ms, &h->next_ms, err));
    FED_TRY(fedserver_commit(h->server, err));
    release(h);
    return FED_OK;
}

/* Queue the held requests: all if the epoch has moved, else those whose time is over. */
static void wake_held(http *h) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const uint64_t epoch = fedserver_epoch(h->server);
    const bool news = epoch != h->epoch;
    h->epoch = epoch;
    if (h->held.first == NULL || (!news && now_ms < h->held_next_ms)) {
        return;
    }
    http_exchange *x = h->held.first;
    http_queue_clear(&h->held);
    for (http_exchange *next = NULL; x != NULL; x = next) {
        next = x->next;
        if (!news && now_ms < x->held_until_ms) {
            hold(h, x, x->held_until_ms);
        } else if (http_socket_gone(x->peer->wire.fd)) { /* a peer that has left gets no slot */
            resume(h, x, STATE_GONE);
        } else {
            http_queue_add(&h->queue, x);
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------- */

static fed_status iterate(http *h, fed_error *err) {
    h->resumed = false;
    for (size_t k = 0; k < 2; k++) {
        if (h->listeners[k].daemon != NULL) {
            (void)MHD_run(h->listeners[k].daemon);
        }
    }
    http_peers_cut_silent(&h->peers);
    wake_held(h);
    if (h->queue.first != NULL || h->woken || fed_clock_unix_ms() >= h->next_ms) {
        h->woken = false;
        return http_loop_batch(h, err);
    }
    return FED_OK;
}

/* When libmicrohttpd wants to run again; 0: at once. */
static int64_t daemons_wait_ms(http *h) {
    int64_t least_ms = LOOK_MS;
    for (size_t k = 0; k < 2; k++) {
        MHD_UNSIGNED_LONG_LONG wait_ms = 0;
        if (h->listeners[k].daemon != NULL &&
            MHD_get_timeout(h->listeners[k].daemon, &wait_ms) == MHD_YES &&
            wait_ms < (MHD_UNSIGNED_LONG_LONG)least_ms) {
            least_ms = (int64_t)wait_ms;
        }
    }
    return least_ms;
}

/* libmicrohttpd may say "at once" although no peer is ready. Believe it while bytes move. After
 * a few iterations in which no byte moved, wait longer and longer; an event ends the wait. */
static int64_t believed_wait_ms(http *h, int64_t asked_ms, bool moved_any) {
    if (asked_ms > 0 || moved_any) {
        h->idle_iterations = 0;
        return asked_ms;
    }
    if (h->idle_iterations < IDLE_ITERATIONS) {
        h->idle_iterations++;
        return 0;
    }
    const int64_t slow_ms = INT64_C(2) << (h->idle_iterations - IDLE_ITERATIONS);
    if (slow_ms >= IDLE_MOST_MS) {
        return IDLE_MOST_MS;
    }
    h->idle_iterations++;
    return slow_ms;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t wait_ms(http *h, bool moved_any) {
    if (h->resumed || h->queue.first != NULL || fedserver_epoch(h->server) != h->epoch) {
        h->idle_iterations = 0;
        return 0;
    }
    int64_t wait = believed_wait_ms(h, daemons_wait_ms(h), moved_any);
    wait = least(wait, h->next_ms - fed_clock_unix_ms());
    if (h->held.first != NULL) {
        wait = least(wait, h->held_next_ms - fed_clock_monotonic_ms());
    }
    return wait > 0 ? wait : 0;
}

fed_status http_loop_iterate(http *h, fed_error *err) {
    const uint64_t before = h->progress;
    FED_TRY(iterate(h, err));
    struct pollfd wakers[3] = {{.fd = h->listeners[0].epoll_fd, .events = POLLIN},
                               {.fd = h->listeners[1].epoll_fd, .events = POLLIN},
                               {.fd = fedserver_wake_fd(h->server), .events = POLLIN}};
    (void)poll(wakers, 3, (int)wait_ms(h, h->progress != before));
    h->woken = wakers[2].revents != 0;
    return FED_OK;
}

fed_status http_loop_drain(http *h, fed_error *err) {
    h->stopping = true;
    for (size_t k = 0; k < 2; k++) {
        const int fd =
            h->listeners[k].daemon != NULL ? MHD_quiesce_daemon(h->listeners[k].daemon) : -1;
        if (fd >= 0) {
            close(fd);
        }
    }
    for (http_exchange *x = h->held.first; x != NULL; x = x->next) {
        x->refused = &http_refusal_stopping;
    }
    http_loop_resume_all(h, &h->held, STATE_ANSWER);
    const int64_t end_ms = fed_clock_monotonic_ms() + DRAIN_MS;
    while (h->live > 0 && fed_clock_monotonic_ms() < end_ms) {
        FED_TRY(http_loop_iterate(h, err));
    }
    return FED_OK;
}
