/* The adapter's loop: runs libmicrohttpd, handles complete requests together, and waits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_exchange.h"

#include <poll.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/http/http_socket.h"

enum {
    LOOK_MS = 100,       /* longest wait, so that the loop notices *stop */
    DRAIN_MS = 2000,     /* time to send the last answers when stopping */
    IDLE_ITERATIONS = 4, /* iterations without progress before the loop waits */
    IDLE_MOST_MS = 50    /* longest wait where libmicrohttpd asks for a wait of 0 */
};

/* The request is no longer held: put it into the queue. */
static void ask_again(http *h, http_exchange *x) {
    if ((x->origin == ORIGIN_PEER && http_socket_gone(x->peer->wire.fd)) ||
        (x->origin == ORIGIN_FORWARDED &&
         x->link == NULL)) { /* a peer that has left must get no slot of a round */
        http_resume(h, x, STATE_GONE);
    } else {
        http_queue_add(&h->queue, x);
    }
}

/* Ask the coordinator again for held requests: for all if it has news for all, else for those that
 * are due. */
static void wake_pending(http *h) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const uint64_t epoch = fedserver_epoch(h->server);
    const bool news = epoch != h->epoch;
    h->epoch = epoch;
    const http_held *first = http_pending_first(&h->pending);
    while (first != NULL && (news || first->until_ms <= now_ms)) {
        ask_again(h, http_release_first(h));
        first = http_pending_first(&h->pending);
    }
}

/* After a batch: ask again for the held requests that it has woken. */
static void wake_by_key(http *h) {
    for (uint64_t key = fedserver_woken(h->server); key != 0; key = fedserver_woken(h->server)) {
        http_exchange *x = http_release_with(h, key);
        for (; x != NULL; x = http_release_with(h, key)) {
            ask_again(h, x);
        }
    }
}

/* How long to wait. libmicrohttpd may ask for a wait of 0 although no peer is ready, so the loop
 * could spin. After some iterations without progress, wait longer and longer; an event ends the
 * wait. */
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
    int64_t wanted = LOOK_MS;
    for (size_t k = 0; k < 2; k++) {
        MHD_UNSIGNED_LONG_LONG ms = 0;
        if (h->listeners[k].daemon != NULL &&
            MHD_get_timeout(h->listeners[k].daemon, &ms) == MHD_YES && ms < LOOK_MS) {
            wanted = least(wanted, (int64_t)ms);
        }
    }
    int64_t wait = believed_wait_ms(h, wanted, moved_any);
    if (h->cluster != NULL) {
        wait = least(wait, cluster_next_ms(h->cluster) - fed_clock_monotonic_ms());
    }
    wait = least(wait, h->next_ms - fed_clock_unix_ms());
    const http_held *first = http_pending_first(&h->pending);
    if (first != NULL) {
        wait = least(wait, first->until_ms - fed_clock_monotonic_ms());
    }
    return wait > 0 ? wait : 0;
}

fed_status http_loop_iterate(http *h, fed_error *err) {
    const uint64_t before = h->progress;
    h->resumed = false;
    for (size_t k = 0; k < 2; k++) {
        if (h->listeners[k].daemon != NULL) {
            (void)MHD_run(h->listeners[k].daemon);
        }
    }
    http_peers_cut_silent(&h->peers);
    http_cluster_poll(h);
    wake_pending(h);
    if (http_batch_is_open(h) || h->queue.first != NULL || h->woken ||
        fed_clock_unix_ms() >= h->next_ms) {
        h->woken = false;
        FED_TRY(http_batch_end(h, err));
        wake_by_key(h);
    }
    struct pollfd wakers[] = {
        {.fd = h->listeners[0].epoll_fd, .events = POLLIN},
        {.fd = h->listeners[1].epoll_fd, .events = POLLIN},
        {.fd = fedserver_wake_fd(h->server), .events = POLLIN},
        {.fd = h->cluster != NULL ? cluster_fd(h->cluster) : -1, .events = POLLIN}};
    (void)poll(wakers, sizeof wakers / sizeof wakers[0], (int)wait_ms(h, h->progress != before));
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
    for (http_exchange *x = http_release_first(h); x != NULL; x = http_release_first(h)) {
        x->refused = &http_refusal_stopping;
        http_resume(h, x, STATE_ANSWER);
    }
    if (h->queue.first != NULL) {
        FED_TRY(http_batch_end(h, err));
    }
    /* Let another coordinator lead now, because closing the connections may take seconds. */
    fedserver_let_go(h->server);
    if (h->cluster != NULL) {
        http_forward_stop(h);
        cluster_dismiss(h->cluster);
    }
    const int64_t end_ms = fed_clock_monotonic_ms() + DRAIN_MS;
    while (h->live > 0 && fed_clock_monotonic_ms() < end_ms) {
        FED_TRY(http_loop_iterate(h, err));
    }
    return FED_OK;
}
