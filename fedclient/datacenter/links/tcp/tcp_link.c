/* Link "tcp": ranks are processes that are connected by TCP sockets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/datacenter/links/tcp/tcp_socket.h"

enum { LEAVE_MS = 10000, LEAVE_LOOK_MS = 2 };

static void free_items(tcp_item *item) {
    while (item != NULL) {
        tcp_item *next = item->next;
        free(item);
        item = next;
    }
}

static void free_link(tcp_link *link) {
    for (uint32_t r = 0; link->peer != NULL && r < link->size; r++) {
        for (unsigned k = 0; k < TCP_STREAMS; k++) {
            feddc_tcp_close_fd(&link->peer[r].stream[k].fd);
            free_items(link->peer[r].stream[k].first);
        }
        free(link->peer[r].stage);
    }
    feddc_tcp_close_fd(&link->epoll);
    feddc_tcp_close_fd(&link->bell);
    feddc_tcp_pool_free(&link->pool);
    free_items(link->spare);
    free(link->event);
    free(link->peer);
    free(link);
}

static fed_status check(const feddc_place *place, fed_error *err) {
    if (place->size == 0 || place->size > FEDDC_RANKS || place->rank >= place->size) {
        return fed_fail(err, FED_EINVAL,
                        "rank %u of %u is not possible: there are 1 to %d ranks, numbered from 0",
                        place->rank, place->size, FEDDC_RANKS);
    }
    if (place->size > 1 && (place->address == NULL || place->secret == NULL)) {
        return fed_fail(err, FED_EINVAL,
                        "link tcp needs the addresses of all ranks and the worker group's secret: "
                        "set place.address and place.secret");
    }
    for (uint32_t r = 0; place->size > 1 && r < place->size; r++) {
        if (place->address[r] == NULL) {
            return fed_fail(
                err, FED_EINVAL,
                "link tcp needs the address of each rank: place.address of rank %u is NULL", r);
        }
    }
    return FED_OK;
}

static tcp_link *new_link(const feddc_place *place) {
    tcp_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    link->rank = place->rank;
    link->size = place->size;
    link->apart = place->mark ? sizeof(float) : TCP_APART;
    link->last = &link->first;
    link->epoll = epoll_create1(EPOLL_CLOEXEC);
    link->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->peer = calloc(place->size, sizeof *link->peer);
    for (uint32_t r = 0; link->peer != NULL && r < place->size; r++) {
        link->peer[r].gone = r == place->rank;
        for (unsigned k = 0; k < TCP_STREAMS; k++) {
            tcp_stream *s = &link->peer[r].stream[k];
            s->fd = -1;
            s->last = &s->first;
        }
    }
    if (link->peer == NULL || link->epoll < 0 || link->bell < 0) {
        free_link(link);
        return NULL;
    }
    return link;
}

static fed_status tcp_open(const feddc_place *place, void **self, fed_error *err) {
    fed_status status = check(place, err);
    tcp_link *link = status == FED_OK ? new_link(place) : NULL;
    if (link == NULL) {
        int listener = place->listener;
        feddc_tcp_close_fd(&listener);
        FED_TRY(status);
        return fed_fail(err, FED_ENOMEM,
                        "out of memory or of open files for link tcp of %u ranks: raise the limit "
                        "of open files (ulimit -n)",
                        place->size);
    }
    status = feddc_tcp_meet(link, place, err);
    if (status == FED_OK) {
        status = feddc_tcp_watch(link, err);
    }
    if (status != FED_OK) {
        free_link(link);
        return status;
    }
    *self = link;
    return FED_OK;
}

static fed_status tcp_send(void *self, uint32_t to, const feddc_head *head, const void *data,
                           size_t len, uint64_t token, fed_error *err) {
    tcp_link *link = self;
    if (to >= link->size || to == link->rank || len > TCP_MESSAGE_MAX) {
        return fed_fail(err, FED_EINVAL,
                        "rank %u can't send %zu bytes to rank %u: there are ranks 0 to %u, and a "
                        "message has at most 1 GiB",
                        link->rank, len, to, link->size - 1);
    }
    const bool apart = (head->flags & FEDDC_FLOATS) != 0 && len >= link->apart && len % 4 == 0;
    const tcp_record record = {
        .type = apart ? TCP_FLOATS : TCP_INLINE, .head = *head, .len = (uint32_t)len};
    tcp_item item = {.record_len = TCP_RECORD};
    feddc_tcp_record_write(&record, item.record);
    if (apart) {
        FED_TRY(feddc_tcp_put(link, &link->peer[to], TCP_HEADS_STREAM, &item, err));
        item.record_len = 0;
    }
    item.data = data;
    item.len = len;
    item.tell = true;
    item.token = token;
    return feddc_tcp_put(link, &link->peer[to], apart ? TCP_FLOATS_STREAM : TCP_HEADS_STREAM, &item,
                         err);
}

static void take(tcp_link *link, feddc_event *event) {
    *event = link->event[link->begin];
    link->begin = (link->begin + 1) & (link->room - 1);
    link->count--;
    if (event->kind == FEDDC_ARRIVED) {
        link->unread -= event->len;
    }
}

static fed_status tcp_wait(void *self, int ms, feddc_event *event, fed_error *err) {
    tcp_link *link = self;
    if (link->count > 0 && link->unsent > 0) {
        /* an event waits already, but send what can be sent */
        FED_TRY(feddc_tcp_poll(link, 0, err));
    }
    const int64_t until = link->count == 0 && ms > 0 ? fed_clock_monotonic_ms() + ms : 0;
    while (link->count == 0) {
        FED_TRY(feddc_tcp_poll(link, ms, err));
        if (link->count == 0 && link->first == NULL) {
            if (ms == 0) {
                *event = (feddc_event){.kind = FEDDC_NOTHING};
                return FED_OK;
            }
            const int64_t left = until - fed_clock_monotonic_ms();
            ms = ms < 0 ? ms : left > 0 ? (int)left : 0;
        }
    }
    take(link, event);
    return FED_OK;
}

static void tcp_release(void *self, const feddc_event *event) {
    tcp_link *link = self;
    feddc_tcp_pool_give(&link->pool, event->lease);
}

static void tcp_wake(void *self) {
    tcp_link *link = self;
    const uint64_t once = 1;
    /* If the write fails because the counter is full, wait wakes too. */
    (void)!write(link->bell, &once, sizeof once);
}

/* Return whether the peer is gone or its machine has acknowledged all bytes. When the kernel has
 * the last byte, shut the sending side down. */
static bool has_left(tcp_peer *peer) {
    if (peer->gone || peer->cut) {
        return true;
    }
    bool arrived = true;
    for (unsigned k = 0; k < TCP_STREAMS; k++) {
        tcp_stream *s = &peer->stream[k];
        int unacknowledged = 0;
        if (s->first != NULL) {
            return false;
        }
        if (!peer->said) {
            (void)shutdown(s->fd, SHUT_WR);
        }
        arrived = arrived && ioctl(s->fd, TIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
    }
    peer->said = true;
    return arrived;
}

/* Send the last record to all, and wait up to LEAVE_MS until the others' machines have acknowledged
 * all bytes. Drop messages that arrive meanwhile, so that the others can leave too. */
static fed_status say_goodbye(tcp_link *link, fed_error *err) {
    const tcp_record record = {.type = TCP_GOODBYE};
    tcp_item item = {.record_len = TCP_RECORD};
    feddc_tcp_record_write(&record, item.record);
    for (uint32_t r = 0; r < link->size; r++) {
        if (!link->peer[r].gone) {
            FED_TRY(feddc_tcp_put(link, &link->peer[r], TCP_HEADS_STREAM, &item, err));
        }
    }
    const int64_t until = fed_clock_monotonic_ms() + LEAVE_MS;
    for (bool all = false; !all && fed_clock_monotonic_ms() < until;) {
        FED_TRY(feddc_tcp_poll(link, 0, err));
        while (link->count > 0) {
            feddc_event event;
            take(link, &event);
            feddc_tcp_pool_give(&link->pool, event.lease);
        }
        all = true;
        for (uint32_t r = 0; r < link->size; r++) {
            all = has_left(&link->peer[r]) && all;
        }
        if (!all) {
            FED_TRY(feddc_tcp_poll(link, LEAVE_LOOK_MS, err));
        }
    }
    return FED_OK;
}

static void tcp_close(void *self, bool orderly) {
    if (self != NULL && orderly) {
        fed_error err; /* close cannot return an error */
        const fed_status status = say_goodbye(self, &err);
        (void)status;
    }
    if (self != NULL) {
        free_link(self);
    }
}

const feddc_link_vtable feddc_link_tcp = {.id = 2,
                                          .name = "tcp",
                                          .open = tcp_open,
                                          .send = tcp_send,
                                          .wait = tcp_wait,
                                          .release = tcp_release,
                                          .wake = tcp_wake,
                                          .close = tcp_close};
