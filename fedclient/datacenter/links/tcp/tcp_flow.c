/* Link "tcp" after its connections are open: send, receive, notice that ranks leave. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fedclient/datacenter/links/tcp/tcp_socket.h"

enum { NEWS = 64, PARTS = 32, FIRST_EVENTS = 64 };

/* epoll's data of the wake-up eventfd; a connection's data is peer * TCP_STREAMS + stream */
static const uint64_t BELL = UINT64_MAX;

static fed_status push_event(tcp_link *link, const feddc_event *event, fed_error *err) {
    if (link->count == link->room) {
        const size_t room = link->room == 0 ? FIRST_EVENTS : 2 * link->room;
        feddc_event *wider = malloc(room * sizeof *wider);
        if (wider == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the events of link tcp");
        }
        for (size_t i = 0; i < link->count; i++) {
            wider[i] = link->event[(link->begin + i) & (link->room - 1)];
        }
        free(link->event);
        link->event = wider;
        link->room = room;
        link->begin = 0;
    }
    link->event[(link->begin + link->count++) & (link->room - 1)] = *event;
    if (event->kind == FEDDC_ARRIVED) {
        link->unread += event->len;
    }
    return FED_OK;
}

static void list(tcp_link *link, tcp_peer *peer) {
    if (!peer->listed) {
        peer->listed = true;
        peer->next = NULL;
        *link->last = peer;
        link->last = &peer->next;
    }
}

static fed_status drop_first(tcp_link *link, tcp_peer *peer, tcp_stream *s, fed_error *err) {
    tcp_item *item = s->first;
    s->first = item->next;
    if (s->first == NULL) {
        s->last = &s->first;
    }
    const feddc_event sent = {
        .kind = FEDDC_SENT, .peer = (uint32_t)(peer - link->peer), .token = item->token};
    const bool tell = item->tell;
    item->next = link->spare;
    link->spare = item;
    link->unsent--;
    return tell ? push_event(link, &sent, err) : FED_OK;
}

/* The peer can get nothing more: drop the messages queued for it, and report them as sent. */
static fed_status drop_all(tcp_link *link, tcp_peer *peer, fed_error *err) {
    for (unsigned k = 0; k < TCP_STREAMS; k++) {
        while (peer->stream[k].first != NULL) {
            FED_TRY(drop_first(link, peer, &peer->stream[k], err));
        }
    }
    return FED_OK;
}

/* A connection has failed. Drop what waits to be sent. What has arrived on both connections is
 * still read. */
static fed_status cut(tcp_link *link, tcp_peer *peer, fed_error *err) {
    peer->cut = true;
    for (unsigned k = 0; k < TCP_STREAMS; k++) {
        peer->stream[k].readable = true;
        peer->stream[k].closing = true;
    }
    list(link, peer);
    return drop_all(link, peer, err);
}

static size_t gather(const tcp_stream *s, struct iovec part[PARTS]) {
    size_t n = 0;
    for (tcp_item *item = s->first; item != NULL && n + 2 <= PARTS; item = item->next) {
        size_t done = item->done;
        if (done < item->record_len) {
            part[n++] = (struct iovec){item->record + done, item->record_len - done};
            done = item->record_len;
        }
        if (item->len > 0) {
            done -= item->record_len;
            /* iovec's pointer is not const, because it also serves reading */
            part[n++] = (struct iovec){(void *)(uintptr_t)(item->data + done), item->len - done};
        }
    }
    return n;
}

static fed_status went_out(tcp_link *link, tcp_peer *peer, tcp_stream *s, size_t n,
                           fed_error *err) {
    while (s->first != NULL) {
        tcp_item *item = s->first;
        const size_t left = item->record_len + item->len - item->done;
        if (left > n) {
            item->done += n;
            break;
        }
        n -= left;
        FED_TRY(drop_first(link, peer, s, err));
    }
    return FED_OK;
}

static fed_status flush(tcp_link *link, tcp_peer *peer, tcp_stream *s, fed_error *err) {
    while (s->first != NULL && s->writable) {
        struct iovec part[PARTS];
        struct msghdr message = {.msg_iov = part};
        message.msg_iovlen = gather(s, part);
        const ssize_t n = sendmsg(s->fd, &message, MSG_NOSIGNAL);
        if (n >= 0) {
            FED_TRY(went_out(link, peer, s, (size_t)n, err));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            s->writable = false;
        } else if (errno != EINTR) {
            return cut(link, peer, err);
        }
    }
    return FED_OK;
}

fed_status feddc_tcp_put(tcp_link *link, tcp_peer *peer, unsigned stream, const tcp_item *item,
                         fed_error *err) {
    tcp_item *own = link->spare;
    if (own != NULL) {
        link->spare = own->next;
    } else {
        own = malloc(sizeof *own);
        if (own == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for a message of link tcp");
        }
    }
    *own = *item;
    own->next = NULL;
    own->done = 0;
    tcp_stream *s = &peer->stream[stream];
    *s->last = own;
    s->last = &own->next;
    link->unsent++;
    return peer->gone || peer->cut ? drop_all(link, peer, err) : flush(link, peer, s, err);
}

static tcp_stream *next_stream(tcp_peer *peer) {
    const bool apart = peer->arriving && peer->record.type == TCP_FLOATS;
    return &peer->stream[apart ? TCP_FLOATS_STREAM : TCP_HEADS_STREAM];
}

static void refuse(tcp_peer *peer) {
    peer->goodbye = false;
    peer->arriving = false;
    peer->begin = peer->end;
    peer->stream[TCP_HEADS_STREAM].ended = true;
    peer->stream[TCP_FLOATS_STREAM].ended = true;
}

static fed_status message_begins(tcp_link *link, tcp_peer *peer, fed_error *err) {
    peer->got = 0;
    peer->buffer = NULL;
    if (peer->record.len > 0) {
        peer->buffer = feddc_tcp_pool_take(&link->pool, peer->record.len);
        if (peer->buffer == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for a message of %u bytes",
                            peer->record.len);
        }
    }
    peer->arriving = true;
    return FED_OK;
}

static fed_status message_ends(tcp_link *link, tcp_peer *peer, fed_error *err) {
    feddc_event event = {.kind = FEDDC_ARRIVED,
                         .peer = (uint32_t)(peer - link->peer),
                         .head = peer->record.head,
                         .len = peer->record.len,
                         .lease = peer->buffer};
    event.data = peer->buffer != NULL ? feddc_tcp_bytes(peer->buffer) : NULL;
    FED_TRY(push_event(link, &event, err));
    peer->buffer = NULL;
    peer->arriving = false;
    return FED_OK;
}

static fed_status unpack(tcp_link *link, tcp_peer *peer, fed_error *err) {
    for (;;) {
        const size_t staged = peer->end - peer->begin;
        if (peer->arriving) {
            const size_t missing = peer->record.len - peer->got;
            if (missing > 0 && peer->record.type == TCP_INLINE && staged > 0) {
                const size_t n = missing < staged ? missing : staged;
                memcpy(feddc_tcp_bytes(peer->buffer) + peer->got, peer->stage + peer->begin, n);
                peer->begin += n;
                peer->got += n;
            }
            if (peer->got < peer->record.len) {
                return FED_OK;
            }
            FED_TRY(message_ends(link, peer, err));
            continue;
        }
        if (staged < TCP_RECORD) {
            return FED_OK;
        }
        const fed_status status = feddc_tcp_record_read(peer->stage + peer->begin, &peer->record);
        peer->begin += TCP_RECORD;
        if (status != FED_OK || peer->goodbye || peer->record.type == TCP_READY) {
            refuse(peer);
            return FED_OK;
        }
        if (peer->record.type == TCP_GOODBYE) {
            peer->goodbye = true;
        } else {
            FED_TRY(message_begins(link, peer, err));
        }
    }
}

static size_t fill(tcp_peer *peer, tcp_stream *s) {
    struct iovec part[2];
    struct msghdr message = {.msg_iov = part};
    size_t asked = 0, missing = 0;
    if (peer->arriving) {
        missing = peer->record.len - peer->got;
        part[message.msg_iovlen++] =
            (struct iovec){feddc_tcp_bytes(peer->buffer) + peer->got, missing};
        asked = missing;
    }
    if (s == &peer->stream[TCP_HEADS_STREAM]) {
        memmove(peer->stage, peer->stage + peer->begin, peer->end - peer->begin);
        peer->end -= peer->begin;
        peer->begin = 0;
        part[message.msg_iovlen++] = (struct iovec){peer->stage + peer->end, TCP_STAGE - peer->end};
        asked += TCP_STAGE - peer->end;
    }
    const ssize_t n = recvmsg(s->fd, &message, 0);
    if (n <= 0) {
        const bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        const bool again = n < 0 && errno == EINTR;
        s->ended = !later && !again;
        s->readable = again;
        peer->cut = peer->cut || (s->ended && n < 0);
        return 0;
    }
    const size_t direct = (size_t)n < missing ? (size_t)n : missing;
    peer->got += direct;
    peer->end += (size_t)n - direct;
    /* fewer bytes than asked for: the socket is empty */
    s->readable = (size_t)n == asked || s->closing;
    return (size_t)n;
}

/* Read about TCP_READ_TURN bytes at most. *more: there may be bytes left to read. */
static fed_status receive(tcp_link *link, tcp_peer *peer, bool *more, fed_error *err) {
    size_t turn = TCP_READ_TURN;
    for (;;) {
        FED_TRY(unpack(link, peer, err));
        tcp_stream *s = next_stream(peer);
        if (s->ended || !s->readable) {
            *more = false;
            return FED_OK;
        }
        if (turn == 0 || link->unread >= TCP_UNREAD_MAX) {
            *more = true;
            return FED_OK;
        }
        const size_t n = fill(peer, s);
        turn -= n < turn ? n : turn;
    }
}

static fed_status leave(tcp_link *link, tcp_peer *peer, fed_error *err) {
    peer->gone = true;
    for (unsigned k = 0; k < TCP_STREAMS; k++) {
        feddc_tcp_close_fd(&peer->stream[k].fd);
    }
    feddc_tcp_pool_give(&link->pool, peer->buffer);
    peer->buffer = NULL;
    free(peer->stage);
    peer->stage = NULL;
    FED_TRY(drop_all(link, peer, err));
    const feddc_event event = {
        .kind = FEDDC_GONE, .peer = (uint32_t)(peer - link->peer), .orderly = peer->goodbye};
    return push_event(link, &event, err);
}

static fed_status serve(tcp_link *link, tcp_peer *peer, fed_error *err) {
    bool more;
    for (unsigned k = 0; k < TCP_STREAMS; k++) {
        FED_TRY(flush(link, peer, &peer->stream[k], err));
    }
    FED_TRY(receive(link, peer, &more, err));
    if (more) {
        list(link, peer);
        return FED_OK;
    }
    const tcp_stream *s = next_stream(peer);
    return s->ended || peer->cut ? leave(link, peer, err) : FED_OK;
}

static void note(tcp_link *link, const struct epoll_event *news) {
    if (news->data.u64 == BELL) {
        link->rung = true;
        return;
    }
    tcp_peer *peer = &link->peer[news->data.u64 / TCP_STREAMS];
    tcp_stream *s = &peer->stream[news->data.u64 % TCP_STREAMS];
    if ((news->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        s->readable = true;
    }
    if ((news->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        s->closing = true;
    }
    if ((news->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        s->writable = true;
    }
    list(link, peer);
}

static fed_status answer_bell(tcp_link *link, fed_error *err) {
    uint64_t times;
    const feddc_event woken = {.kind = FEDDC_WOKEN};
    link->rung = false;
    return read(link->bell, &times, sizeof times) == (ssize_t)sizeof times
               ? push_event(link, &woken, err)
               : FED_OK;
}

fed_status feddc_tcp_poll(tcp_link *link, int ms, fed_error *err) {
    struct epoll_event news[NEWS];
    const int n = epoll_wait(link->epoll, news, NEWS, link->first != NULL ? 0 : ms);
    if (n < 0 && errno != EINTR) {
        return fed_fail(err, FED_EIO, "link tcp can't wait for its sockets: %s", strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        note(link, &news[i]);
    }
    if (link->rung) {
        FED_TRY(answer_bell(link, err));
    }
    tcp_peer *peer = link->first;
    link->first = NULL;
    link->last = &link->first;
    while (peer != NULL) {
        tcp_peer *next = peer->next;
        peer->listed = false;
        if (!peer->gone) {
            FED_TRY(serve(link, peer, err));
        }
        peer = next;
    }
    return FED_OK;
}

fed_status feddc_tcp_watch(tcp_link *link, fed_error *err) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = BELL};
    bool done = epoll_ctl(link->epoll, EPOLL_CTL_ADD, link->bell, &wanted) == 0;
    wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    for (uint32_t r = 0; r < link->size; r++) {
        tcp_peer *peer = &link->peer[r];
        for (unsigned k = 0; k < TCP_STREAMS && !peer->gone && done; k++) {
            wanted.data.u64 = (uint64_t)r * TCP_STREAMS + k;
            peer->stream[k].writable = true;
            done = epoll_ctl(link->epoll, EPOLL_CTL_ADD, peer->stream[k].fd, &wanted) == 0;
        }
        peer->stage = peer->gone ? NULL : malloc(TCP_STAGE);
        if (!peer->gone && peer->stage == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for the connections of link tcp");
        }
    }
    return done ? FED_OK
                : fed_fail(err, FED_EIO, "link tcp can't watch its sockets: %s", strerror(errno));
}
