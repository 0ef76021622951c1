/* Keeps a coordinator's links: the leader's to its followers, a follower's to the leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for accept4 */
#include "fedserver/cluster/cluster.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/host_port.h"

enum {
    AGAIN_MS = 100, /* time between two tries to connect to the leader */
    SAY_EVERY_MS = 10000,
    ADDRESS_TEXT = 256
};

typedef struct place {
    cluster_link *link;
    bool writes; /* epoll also watches for EPOLLOUT */
} place;

struct cluster {
    cluster_handlers handlers;
    const fed_log *log;
    cluster_keys keys;
    int listening, epoll;
    place followers[CLUSTER_LINKS_MOST];
    bool leads, dismissed;
    place up;
    char leader[ADDRESS_TEXT];
    uint64_t term;
    bool told; /* the log already says that the link to the leader works */
    int64_t again_ms, said_ms;
    /* bytes of the largest update: as this process announces it, and as the leader announced it */
    uint64_t says, heard;
};

static void watch(const cluster *c, int fd, int operation, bool writes) {
    struct epoll_event event = {.events = EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0)};
    /* If this fails, the link is still polled, only later. */
    (void)epoll_ctl(c->epoll, operation, fd, &event);
}

fed_status cluster_open(int listening, const cluster_handlers *handlers, const fed_log *log,
                        cluster **made, fed_error *err) {
    cluster *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(listening);
        return fed_fail(err, FED_ENOMEM, "out of memory for the links to other coordinators");
    }
    *c = (cluster){.handlers = *handlers, .log = log, .listening = listening};
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll < 0) {
        cluster_close(c);
        return fed_fail(err, FED_EIO,
                        "the system gives no descriptor to wait for other coordinators: allow more "
                        "open files (ulimit -n, LimitNOFILE)");
    }
    watch(c, listening, EPOLL_CTL_ADD, false);
    *made = c;
    return FED_OK;
}

void cluster_use_keys(cluster *c, const cluster_keys *keys) {
    c->keys = *keys;
}

int cluster_fd(const cluster *c) {
    return c->epoll;
}

static void end_link(place *p, void (*tell)(void *user, void *owner), void *user) {
    cluster_link *link = p->link;
    p->link = NULL; /* cleared first, because `tell` may ask whether there is a link */
    for (size_t k = 0; link != NULL && k < cluster_link_owners(link); k++) {
        uint64_t id;
        void *owner = cluster_link_owner_at(link, k, &id);
        if (owner != NULL) {
            cluster_link_disown(link, id);
            tell(user, owner);
        }
    }
    cluster_link_free(link);
}

static void end_up(cluster *c) {
    end_link(&c->up, c->handlers.lost, c->handlers.user);
    c->told = false;
}

void cluster_dismiss(cluster *c) {
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        end_link(&c->followers[k], c->handlers.left, c->handlers.user);
    }
    c->dismissed = true;
}

void cluster_close(cluster *c) {
    if (c == NULL) {
        return;
    }
    end_up(c);
    cluster_dismiss(c);
    close(c->listening);
    if (c->epoll >= 0) {
        close(c->epoll);
    }
    free(c);
}

static fed_status add_link(cluster *c, place *p, int fd, bool caller, fed_error *err) {
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    FED_TRY(cluster_link_new(fd, caller, &c->keys, fed_clock_monotonic_ms(), &p->link, err));
    p->writes = caller; /* a socket that is still connecting becomes ready for writing */
    watch(c, fd, EPOLL_CTL_ADD, p->writes);
    return FED_OK;
}

/* Find a free place, or take that of the peer that has been silent for longest of those whose link
 * is not up. Peers that only connect must not keep followers out. NULL: followers have all
 * places. */
static place *make_place(cluster *c) {
    place *oldest = NULL;
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        place *p = &c->followers[k];
        if (p->link == NULL) {
            return p;
        }
        if (!cluster_link_up(p->link) &&
            (oldest == NULL ||
             cluster_link_next_ms(p->link) < cluster_link_next_ms(oldest->link))) {
            oldest = p;
        }
    }
    if (oldest != NULL) {
        end_link(oldest, c->handlers.left, c->handlers.user);
    }
    return oldest;
}

/* Returns a socket that is connecting, or -1 after an error. */
static int begin_connect(const char *address) {
    fed_host_port at;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *to = NULL;
    if (fed_host_port_read(address, 1, &at, NULL) != FED_OK ||
        getaddrinfo(at.host, at.port_text, &hints, &to) != 0) {
        return -1;
    }
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(to);
    return fd;
}

static bool may_say(cluster *c) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const bool may = c->said_ms == 0 || now_ms - c->said_ms >= SAY_EVERY_MS;
    c->said_ms = may ? now_ms : c->said_ms;
    return may;
}

/* Log each failure of a link that worked before; else log at most once in SAY_EVERY_MS. */
static void complain(cluster *c, const char *why) {
    if (may_say(c) || c->told) {
        fed_logf(c->log, FED_LOG_WARN, "no link to the leader at %s: %s", c->leader, why);
    }
}

static void reach_leader(cluster *c, const char *leader, uint64_t term) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    fed_error why = {0};
    if (term != c->term || strcmp(leader, c->leader) != 0) {
        end_up(c);
        snprintf(c->leader, sizeof c->leader, "%s", leader);
        c->term = term;
        c->again_ms = now_ms;
    }
    if (c->up.link != NULL || leader[0] == '\0' || now_ms < c->again_ms) {
        return;
    }
    c->again_ms = now_ms + AGAIN_MS;
    const int fd = begin_connect(leader);
    if (fd < 0) {
        complain(c, "the leader can't be connected to: see that it runs, and that this machine "
                    "reaches its --cluster port");
    } else if (add_link(c, &c->up, fd, true, &why) != FED_OK) {
        complain(c, why.text);
    }
}

static fed_status from_follower(void *user, cluster_link *link, cluster_frame *frame,
                                fed_error *err) {
    cluster *c = user;
    void *owner = cluster_link_owner(link, frame->id);
    if (frame->kind == CLUSTER_REQUEST && owner != NULL) {
        return fed_fail(err, FED_EFORMAT,
                        "the follower uses the id of a request that has no answer yet");
    }
    if (frame->kind == CLUSTER_REQUEST) {
        FED_TRY(c->handlers.asked(c->handlers.user, link, frame, &owner, err));
        const fed_status status = cluster_link_own(link, frame->id, owner, err);
        if (status != FED_OK) {
            c->handlers.left(c->handlers.user, owner);
        }
        return status;
    }
    if (frame->kind == CLUSTER_CANCEL && owner != NULL) {
        cluster_link_disown(link, frame->id);
        c->handlers.left(c->handlers.user, owner);
    }
    return FED_OK;
}

static fed_status from_leader(void *user, cluster_link *link, cluster_frame *frame,
                              fed_error *err) {
    cluster *c = user;
    cluster_answer answer;
    void *owner = cluster_link_owner(link, frame->id);
    if (frame->kind != CLUSTER_ANSWER || owner == NULL) {
        return FED_OK; /* a frame that nobody waits for, as after a cancel, is dropped */
    }
    if (cluster_answer_read(frame->head.data, frame->head.len, &answer) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "the leader's answer can't be read: run the same release everywhere");
    }
    if (frame->body.len > 0) {
        answer.response.body = fedserver_blob_new(&frame->body);
        if (answer.response.body == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for an answer of the leader");
        }
    }
    cluster_link_disown(link, frame->id);
    c->handlers.answered(c->handlers.user, owner, &answer);
    return FED_OK;
}

static void poll_followers(cluster *c, int64_t now_ms, uint64_t *moved) {
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        place *p = &c->followers[k];
        fed_error why = {0};
        if (p->link == NULL) {
            continue;
        }
        cluster_link_announce(p->link, c->says);
        const fed_status status = cluster_link_run(p->link, now_ms, from_follower, c, moved, &why);
        if (status != FED_OK) {
            if (cluster_link_up(p->link) || may_say(c)) {
                /* Peers without the key must not fill the log. */
                fed_logf(c->log, status == FED_EAUTH ? FED_LOG_WARN : FED_LOG_INFO,
                         "the link of a follower ended: %s", why.text);
            }
            end_link(p, c->handlers.left, c->handlers.user);
        }
    }
}

static void turn_up(cluster *c, int64_t now_ms, uint64_t *moved) {
    fed_error why = {0};
    const fed_status status = cluster_link_run(c->up.link, now_ms, from_leader, c, moved, &why);
    const uint64_t heard = cluster_link_heard(c->up.link);
    c->heard = heard != 0 ? heard : c->heard;
    if (status != FED_OK) {
        complain(c, why.text);
        end_up(c);
    } else if (cluster_link_up(c->up.link) && !c->told) {
        fed_logf(c->log, FED_LOG_INFO, "requests are passed on to the leader at %s", c->leader);
        c->told = true;
    }
}

void cluster_poll(cluster *c, bool leads, const char *leader, uint64_t term, uint64_t *moved) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (leads && !c->leads) {
        c->leads = true;
        end_up(c);
    }
    /* Close connections that can't be served: the follower then tries again. */
    for (int fd; (fd = accept4(c->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        fed_error why = {0};
        const bool admitted = c->leads && !c->dismissed && c->handlers.admit(c->handlers.user, fd);
        place *p = admitted ? make_place(c) : NULL;
        if (p == NULL) {
            close(fd);
        } else if (add_link(c, p, fd, false, &why) != FED_OK) {
            fed_logf(c->log, FED_LOG_WARN, "the link of another coordinator can't be opened: %s",
                     why.text);
        }
    }
    if (c->leads) {
        poll_followers(c, now_ms, moved);
    } else {
        reach_leader(c, leader, term);
        if (c->up.link != NULL) {
            turn_up(c, now_ms, moved);
        }
    }
    cluster_flush(c);
}

static void flush_place(const cluster *c, place *p, int64_t now_ms) {
    if (p->link == NULL) {
        return;
    }
    cluster_link_flush(p->link, now_ms);
    if (cluster_link_writes(p->link) != p->writes) {
        p->writes = !p->writes;
        watch(c, cluster_link_fd(p->link), EPOLL_CTL_MOD, p->writes);
    }
}

void cluster_flush(cluster *c) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    flush_place(c, &c->up, now_ms);
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        flush_place(c, &c->followers[k], now_ms);
    }
}

int64_t cluster_next_ms(const cluster *c) {
    int64_t next_ms = !c->leads && c->leader[0] != '\0' ? c->again_ms : INT64_MAX;
    if (c->up.link != NULL) {
        next_ms = cluster_link_next_ms(c->up.link);
    }
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        const cluster_link *link = c->followers[k].link;
        const int64_t of_link_ms = link != NULL ? cluster_link_next_ms(link) : INT64_MAX;
        next_ms = of_link_ms < next_ms ? of_link_ms : next_ms;
    }
    return next_ms;
}

void cluster_announce(cluster *c, uint64_t limit) {
    c->says = limit;
}

uint64_t cluster_heard(const cluster *c) {
    return c->heard;
}

unsigned cluster_followers(const cluster *c) {
    unsigned count = 0;
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        count += c->followers[k].link != NULL && cluster_link_up(c->followers[k].link);
    }
    return count;
}

fed_status cluster_forward(cluster *c, const fedserver_request *request, const char *known,
                           void *owner, uint64_t *id, fed_error *err) {
    uint8_t bytes[CLUSTER_HEAD_MOST];
    fed_writer head;
    if (c->up.link == NULL || !cluster_link_up(c->up.link)) {
        return fed_fail(err, FED_ENET, "there is no link to the leader");
    }
    fed_writer_fixed(&head, bytes, sizeof bytes);
    cluster_request_write(&head, request, known);
    FED_TRY(cluster_link_claim(c->up.link, owner, id, err));
    const fed_status status = cluster_link_send(c->up.link, CLUSTER_REQUEST, *id, &head,
                                                request->body, request->body_len, NULL, err);
    if (status != FED_OK) {
        cluster_link_disown(c->up.link, *id);
    }
    return status;
}

void cluster_cancel(cluster *c, uint64_t id) {
    fed_error ignored = {0};
    if (c->up.link != NULL && cluster_link_owner(c->up.link, id) != NULL) {
        cluster_link_disown(c->up.link, id);
        /* If there is no memory for this frame, the link ends. */
        (void)!cluster_link_send(c->up.link, CLUSTER_CANCEL, id, NULL, NULL, 0, NULL, &ignored);
    }
}

void *cluster_carried_at(const cluster *c, size_t index, uint64_t *id) {
    return cluster_link_owner_at(c->up.link, index, id);
}

size_t cluster_carried(const cluster *c) {
    return c->up.link != NULL ? cluster_link_owners(c->up.link) : 0;
}

void cluster_answer_send(cluster_link *link, uint64_t id, const fedserver_response *response,
                         bool same) {
    uint8_t bytes[1024];
    fed_writer head;
    fed_error ignored = {0};
    size_t len = 0;
    fedserver_blob *body = same ? NULL : response->body;
    const uint8_t *data = body != NULL ? fedserver_blob_data(body, &len) : NULL;
    const fedserver_response too_large = {.status = 503};
    const bool fits = len <= CLUSTER_BODY_MOST;
    fed_writer_fixed(&head, bytes, sizeof bytes);
    cluster_answer_write(&head, fits ? response : &too_large, same);
    len = fits ? len : 0;
    if (cluster_link_owner(link, id) != NULL) {
        cluster_link_disown(link, id);
        /* If there is no memory, no answer is sent: the follower gives up when the link ends. */
        (void)!cluster_link_send(link, CLUSTER_ANSWER, id, &head, data, len, body, &ignored);
    }
}
