/* The failure detector: a thread with a control connection to each member. feddc_membership
 * judges. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/threads.h"
#include "fedclient/datacenter/control/channel.h"
#include "fedclient/datacenter/control/endpoint.h"
#include "fedclient/datacenter/control/group_settings.h"
#include "fedclient/datacenter/control/records.h"

enum {
    STRANGERS = 16,  /* most connections at a time whose peer has not joined */
    PROOF_MS = 2000, /* time in which a new connection must prove itself and join */
    TICK_MS = 50,
    QUIET_MS = 500,  /* after this time without a heartbeat, ask the member for one */
    ACK_MS = 1000,   /* a host that has acknowledged nothing for this time counts as unreachable */
    LINGER_MS = 500, /* time for sending the last records to members when closing */
    EVENTS = 32
};

/* epoll's data.u32 of the descriptors that are no connections */
#define LISTENER UINT32_MAX
#define WAKE     (UINT32_MAX - 1)

typedef struct conn {
    bool used, joined;
    /* the last record was sent to this member, or came from this member; later records are
     * ignored */
    bool out;
    feddc_channel channel;
    uint32_t slot;
    int64_t opened_ms, asked_ms;
    uint32_t events;
} conn;

struct feddc_detector {
    feddc_detector_options options;
    uint8_t secret[FEDDC_SECRET];
    char address[FEDDC_ENDPOINT];
    int listener, epoll, wake;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t settled;
    bool stop;
    feddc_membership membership;
    uint32_t told, told_refusals;
    conn *conns;
    uint32_t count;
};

static void drop(feddc_detector *j, conn *c) {
    if (c->used && c->joined && !c->out) {
        feddc_membership_gone(&j->membership, c->slot, fed_clock_monotonic_ms());
    }
    feddc_channel_close(&c->channel);
    *c = (conn){0};
}

static void want(feddc_detector *j, conn *c) {
    uint32_t events = EPOLLIN | (feddc_channel_waits(&c->channel) ? EPOLLOUT : 0);
    if (events != c->events) {
        struct epoll_event e = {.events = events, .data.u32 = (uint32_t)(c - j->conns)};
        (void)epoll_ctl(j->epoll, EPOLL_CTL_MOD, c->channel.fd, &e);
        c->events = events;
    }
}

static void send_bytes(feddc_detector *j, conn *c, const fed_writer *w) {
    fed_error err = {0};
    if (w->status != FED_OK || feddc_channel_send(&c->channel, w->data, w->len, &err) != FED_OK) {
        drop(j, c);
        return;
    }
    want(j, c);
}

static void tell(feddc_detector *j, conn *c, const feddc_record *record) {
    uint8_t bytes[FEDDC_RECORD_UP];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    feddc_record_write(&w, record);
    send_bytes(j, c, &w);
}

/* Send a member its last record. The member then closes the connection. */
static void dismiss(feddc_detector *j, conn *c, bool left_out, const char *why) {
    feddc_record end = {.kind = FEDDC_RECORD_END, .left_out = left_out};
    memcpy(end.why, why, strnlen(why, sizeof end.why - 1));
    c->out = true;
    tell(j, c, &end);
    if (c->used && !feddc_channel_waits(&c->channel)) {
        (void)shutdown(c->channel.fd, SHUT_WR);
    }
}

/* Find a place for a new connection. If too many peers have not joined, or no place is
 * free, drop the oldest that has not joined. Return NULL if there is no place. */
static conn *place_for_stranger(feddc_detector *j) {
    conn *free_conn = NULL, *oldest = NULL;
    uint32_t strangers = 0;
    for (uint32_t i = 0; i < j->count; i++) {
        conn *c = &j->conns[i];
        if (!c->used) {
            free_conn = c;
        } else if (!c->joined) {
            strangers++;
            oldest = oldest == NULL || c->opened_ms < oldest->opened_ms ? c : oldest;
        }
    }
    if ((strangers >= STRANGERS || free_conn == NULL) && oldest != NULL) {
        drop(j, oldest);
        return oldest;
    }
    return free_conn;
}

static void admit(feddc_detector *j) {
    for (int k = 0; k < EVENTS; k++) {
        int fd = accept(j->listener, NULL, NULL);
        if (fd < 0) {
            return;
        }
        conn *c = place_for_stranger(j);
        if (c == NULL) {
            close(fd);
            continue;
        }
        fed_error err = {0};
        *c = (conn){.used = true, .opened_ms = fed_clock_monotonic_ms(), .events = EPOLLIN};
        fed_status status =
            feddc_channel_open(&c->channel, fd, true, j->secret, FEDDC_RECORD_UP, &err);
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)(c - j->conns)};
        if (status != FED_OK || epoll_ctl(j->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
            drop(j, c);
        } else {
            want(j, c);
        }
    }
}

static void take_join(feddc_detector *j, conn *c, const feddc_join *join, int64_t now) {
    fed_error err = {0};
    if (feddc_membership_join(&j->membership, join, now, &c->slot, &err) == FED_OK) {
        c->joined = true;
    } else {
        dismiss(j, c, true, err.text);
    }
}

static void take_record(feddc_detector *j, conn *c, const feddc_record *record) {
    int64_t now = fed_clock_monotonic_ms();
    switch (record->kind) {
    case FEDDC_RECORD_HEARTBEAT: {
        feddc_record pong = {.kind = FEDDC_RECORD_PONG,
                             .sent_us = record->sent_us,
                             .detector_us = (uint64_t)fed_clock_monotonic_us()};
        feddc_membership_heartbeat(&j->membership, c->slot, &record->heartbeat, now);
        tell(j, c, &pong);
        break;
    }
    case FEDDC_RECORD_MEET:
        feddc_membership_meet(&j->membership, c->slot, record->completed, record->address,
                              record->why, now);
        break;
    case FEDDC_RECORD_DIGEST:
        feddc_membership_digest_is(&j->membership, c->slot, record->completed, record->digest, now);
        break;
    case FEDDC_RECORD_BYE:
        feddc_membership_bye(&j->membership, c->slot, record->why, now);
        c->out = true;
        (void)shutdown(c->channel.fd, SHUT_WR);
        break;
    default:
        drop(j, c); /* records of this kind never come from members */
    }
}

static void take_all(feddc_detector *j, conn *c) {
    fed_error err = {0};
    while (c->used && !c->out) {
        const uint8_t *body = NULL;
        size_t len = 0;
        if (feddc_channel_next(&c->channel, &body, &len, &err) != FED_OK) {
            drop(j, c);
            return;
        }
        if (body == NULL) {
            return;
        }
        fed_reader r;
        feddc_record record;
        fed_reader_init(&r, body, len);
        if (feddc_record_read(&r, &record) != FED_OK ||
            (record.kind == FEDDC_RECORD_JOIN) == c->joined) {
            drop(j, c);
        } else if (!c->joined) {
            take_join(j, c, &record.join, fed_clock_monotonic_ms());
        } else {
            take_record(j, c, &record);
        }
    }
}

static void serve(feddc_detector *j, conn *c) {
    fed_error err = {0};
    if (!c->used) {
        return; /* this connection was dropped after epoll reported the event */
    }
    if (feddc_channel_pump(&c->channel, &err) != FED_OK) {
        drop(j, c);
        return;
    }
    if (c->out) {
        c->channel.in.len = c->channel.in_used = 0;
        if (!feddc_channel_waits(&c->channel)) {
            (void)shutdown(c->channel.fd, SHUT_WR);
        }
    }
    take_all(j, c);
    if (c->used && c->channel.ended) {
        drop(j, c);
    } else if (c->used) {
        want(j, c);
    }
}

static void report_worker_group(feddc_detector *j) {
    feddc_membership *membership = &j->membership;
    uint8_t secret[FEDDC_SECRET];
    if (fed_random(secret, sizeof secret) != FED_OK) {
        feddc_membership_end(membership,
                             "the failure detector has no random bytes for a new secret");
        return;
    }
    for (uint32_t i = 0; i < j->count; i++) {
        conn *c = &j->conns[i];
        if (!c->used || !c->joined || c->out || membership->member[c->slot].rank == FEDDC_NOBODY) {
            continue;
        }
        feddc_record group = {.kind = FEDDC_RECORD_WORKER_GROUP,
                              .generation = membership->generation,
                              .rank = membership->member[c->slot].rank,
                              .size = membership->ranks};
        feddc_channel_mask(&c->channel, membership->generation, secret, group.secret);
        memcpy(group.why, membership->why, sizeof group.why);
        fed_writer w;
        fed_writer_growing(&w);
        feddc_record_write(&w, &group);
        for (uint32_t r = 0; r < membership->ranks; r++) {
            const feddc_membership_member *m = &membership->member[membership->slot[r]];
            feddc_rank_row row = {.worker = m->worker, .completed = m->completed};
            memcpy(row.address, m->address, sizeof row.address);
            feddc_rank_row_write(&w, &row);
        }
        send_bytes(j, c, &w);
        fed_writer_free(&w);
    }
}

static void report_all(feddc_detector *j, const feddc_record *record) {
    for (uint32_t i = 0; i < j->count; i++) {
        conn *c = &j->conns[i];
        if (c->used && c->joined && !c->out) {
            tell(j, c, record);
        }
    }
}

static const char *verdict_on(const feddc_membership *membership, uint32_t worker) {
    for (uint32_t k = 0; k < membership->verdicts; k++) {
        if (membership->verdict[k].worker == worker) {
            return membership->verdict[k].text;
        }
    }
    return "it was silent before the worker group began";
}

static void dismiss_the_lost(feddc_detector *j) {
    for (uint32_t i = 0; i < j->count; i++) {
        conn *c = &j->conns[i];
        if (!c->used || !c->joined || c->out) {
            continue;
        }
        const feddc_membership_member *m = &j->membership.member[c->slot];
        if (j->membership.state == FEDDC_ENDED) {
            dismiss(j, c, false, j->membership.why);
        } else if (!m->here || m->fate != FEDDC_ALIVE) {
            dismiss(j, c, true, verdict_on(&j->membership, m->worker));
        }
    }
}

static void do_what_is_due(feddc_detector *j) {
    /* a failed send drops a member, which may cause new work */
    for (int k = 0; k < 4 && j->membership.todo != 0; k++) {
        unsigned todo = j->membership.todo;
        j->membership.todo = 0;
        feddc_record record = {.kind = FEDDC_RECORD_ASK, .generation = j->membership.generation};
        memcpy(record.why, j->membership.why, sizeof record.why);
        if ((todo & FEDDC_SEND_ASK) != 0) {
            report_all(j, &record);
        }
        if ((todo & FEDDC_SEND_OVER) != 0) {
            record.kind = FEDDC_RECORD_OVER;
            report_all(j, &record);
        }
        if ((todo & FEDDC_SEND_WORKER_GROUP) != 0) {
            report_worker_group(j);
        }
    }
    dismiss_the_lost(j);
}

static void look_after(feddc_detector *j, int64_t now) {
    for (uint32_t i = 0; i < j->count; i++) {
        conn *c = &j->conns[i];
        if (c->used && !c->joined && now - c->opened_ms > PROOF_MS) {
            drop(j, c);
        }
        if (!c->used || !c->joined || c->out) {
            continue;
        }
        feddc_membership_member *m = &j->membership.member[c->slot];
        m->acks = feddc_endpoint_acks(c->channel.fd, ACK_MS);
        if (now - m->heard_ms > QUIET_MS && now - c->asked_ms > FEDDC_HEARTBEAT_MS) {
            c->asked_ms = now;
            tell(j, c, &(feddc_record){.kind = FEDDC_RECORD_ASK});
        }
    }
}

static void turn(feddc_detector *j, const struct epoll_event *event, int count) {
    for (int k = 0; k < count; k++) {
        uint32_t what = event[k].data.u32;
        if (what == LISTENER) {
            admit(j);
        } else if (what == WAKE) {
            uint64_t ignored;
            (void)!read(j->wake, &ignored, sizeof ignored);
        } else {
            serve(j, &j->conns[what]);
        }
    }
    int64_t now = fed_clock_monotonic_ms();
    look_after(j, now);
    feddc_membership_settle(&j->membership, now);
    do_what_is_due(j);
}

static bool is_final(feddc_detector_state state) {
    return state == FEDDC_DONE || state == FEDDC_ENDED;
}

static bool lingers(const feddc_detector *j) {
    bool any = false;
    for (uint32_t i = 0; i < j->count && is_final(j->membership.state); i++) {
        any = any || (j->conns[i].used && j->conns[i].joined);
    }
    return any;
}

/* If members were refused since the last call, copy the sentence about the last of them. */
static void take_refusal(feddc_detector *j, char *text) {
    if (j->told_refusals != j->membership.refusals) {
        j->told_refusals = j->membership.refusals;
        memcpy(text, j->membership.refused, sizeof j->membership.refused);
    }
}

static void *detector_main(void *user) {
    feddc_detector *j = user;
    int64_t stopped_ms = 0;
    bool stop = false;
    while (!stop) {
        struct epoll_event event[EVENTS];
        int count = epoll_wait(j->epoll, event, EVENTS, TICK_MS);
        pthread_mutex_lock(&j->lock);
        turn(j, event, count);
        uint32_t known = j->told, given = j->membership.verdicts;
        j->told = given;
        char refused[sizeof j->membership.refused] = "";
        take_refusal(j, refused);
        int64_t now = fed_clock_monotonic_ms();
        stopped_ms = j->stop && stopped_ms == 0 ? now : stopped_ms;
        stop = j->stop && (!lingers(j) || now - stopped_ms > LINGER_MS);
        pthread_mutex_unlock(&j->lock);
        if (refused[0] != '\0' && j->options.refused != NULL) {
            j->options.refused(j->options.user, refused);
        }
        for (; known < given && j->options.verdict != NULL; known++) {
            j->options.verdict(j->options.user,
                               /* no lock: a written verdict never changes */
                               &j->membership.verdict[known]);
        }
        pthread_mutex_lock(&j->lock);
        if (is_final(j->membership.state)) {
            pthread_cond_broadcast(&j->settled);
        }
        pthread_mutex_unlock(&j->lock);
    }
    return NULL;
}

static void wake(feddc_detector *j) {
    uint64_t one = 1;
    (void)!write(j->wake, &one, sizeof one);
}

/* After a failure, detector_free closes what was opened. */
static fed_status open_files(feddc_detector *j, fed_error *err) {
    FED_TRY(feddc_endpoint_listen(j->options.address, &j->listener, j->address, err));
    j->epoll = epoll_create1(EPOLL_CLOEXEC);
    j->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event door = {.events = EPOLLIN, .data.u32 = LISTENER};
    struct epoll_event bell = {.events = EPOLLIN, .data.u32 = WAKE};
    if (j->epoll < 0 || j->wake < 0 ||
        epoll_ctl(j->epoll, EPOLL_CTL_ADD, j->listener, &door) != 0 ||
        epoll_ctl(j->epoll, EPOLL_CTL_ADD, j->wake, &bell) != 0) {
        return fed_fail(
            err, FED_EIO,
            "the failure detector cannot watch its sockets: %s; allow more open files (ulimit -n)",
            strerror(errno));
    }
    return FED_OK;
}

static void detector_free(feddc_detector *j) {
    for (uint32_t i = 0; i < j->count; i++) {
        if (j->conns[i].used) {
            feddc_channel_close(&j->conns[i].channel);
        }
    }
    const int file[] = {j->listener, j->epoll, j->wake};
    for (size_t k = 0; k < sizeof file / sizeof file[0]; k++) {
        if (file[k] >= 0) {
            close(file[k]);
        }
    }
    feddc_membership_free(&j->membership);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->settled);
    free(j->conns);
    free(j);
}

fed_status feddc_detector_open(const feddc_detector_options *options, feddc_detector **detector,
                               fed_error *err) {
    feddc_detector *j = calloc(1, sizeof *j);
    FED_REQUIRE(j != NULL, FED_ENOMEM);
    j->options = *options;
    j->listener = j->epoll = j->wake = -1;
    pthread_mutex_init(&j->lock, NULL);
    fed_cond_init(&j->settled);
    memcpy(j->secret, options->secret, sizeof j->secret);
    fed_status status = feddc_membership_init(&j->membership, options->size, options->min,
                                              options->join_ms, fed_clock_monotonic_ms(), err);
    if (status == FED_OK) {
        status = feddc_group_settings_check(options->settings, err);
    }
    if (status == FED_OK) {
        if (options->settings != NULL) {
            feddc_membership_expect(&j->membership, options->settings);
        }
        j->count = options->size + STRANGERS;
        j->conns = calloc(j->count, sizeof *j->conns);
        status = j->conns == NULL
                     ? fed_fail(err, FED_ENOMEM, "out of memory for a failure detector")
                     : open_files(j, err);
    }
    if (status == FED_OK && !fed_thread_start(&j->thread, detector_main, j)) {
        status = fed_fail(
            err, FED_EIO,
            "the system gives no thread for the failure detector: allow more threads (ulimit -u)");
    }
    if (status != FED_OK) {
        j->count = j->conns == NULL ? 0 : j->count;
        detector_free(j);
        return status;
    }
    *detector = j;
    return FED_OK;
}

const char *feddc_detector_address(const feddc_detector *detector) {
    return detector->address;
}

void feddc_detector_see(feddc_detector *detector, feddc_detector_look *look) {
    pthread_mutex_lock(&detector->lock);
    feddc_membership_look(&detector->membership, look);
    pthread_mutex_unlock(&detector->lock);
}

bool feddc_detector_member(feddc_detector *detector, uint32_t worker, feddc_member_look *look) {
    pthread_mutex_lock(&detector->lock);
    bool found =
        feddc_membership_member_look(&detector->membership, worker, fed_clock_monotonic_ms(), look);
    pthread_mutex_unlock(&detector->lock);
    return found;
}

feddc_detector_state feddc_detector_wait(feddc_detector *detector, uint32_t ms) {
    const int64_t until_us = fed_clock_monotonic_us() + (int64_t)ms * 1000;
    pthread_mutex_lock(&detector->lock);
    while (!is_final(detector->membership.state) &&
           fed_cond_wait_until(&detector->settled, &detector->lock, until_us)) {
    }
    feddc_detector_state state = detector->membership.state;
    pthread_mutex_unlock(&detector->lock);
    return state;
}

void feddc_detector_end(feddc_detector *detector, const char *why) {
    pthread_mutex_lock(&detector->lock);
    feddc_membership_end(&detector->membership, why);
    pthread_mutex_unlock(&detector->lock);
    wake(detector);
}

void feddc_detector_close(feddc_detector *detector) {
    if (detector == NULL) {
        return;
    }
    pthread_mutex_lock(&detector->lock);
    detector->stop = true;
    pthread_mutex_unlock(&detector->lock);
    wake(detector);
    (void)pthread_join(detector->thread, NULL);
    detector_free(detector);
}
