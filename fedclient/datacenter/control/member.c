/* A member's thread: sends heartbeats and reads the failure detector's records. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/member.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/threads.h"
#include "fedclient/datacenter/control/channel.h"
#include "fedclient/datacenter/control/endpoint.h"
#include "fedclient/datacenter/control/group_settings.h"
#include "fedclient/datacenter/control/member_report.h"
#include "fedclient/datacenter/control/records.h"

enum {
    /* time to connect: the failure detector may start a little later */
    CONNECT_MS = 10000,
    PROOF_MS = 2000,
    PATIENCE_MS = 10000,
    OPEN_MS = 5000, /* time for opening a link; all members already run */
    BYE_MS = 1000,
    DIGESTS = 16
};

typedef struct own_worker_group {
    feddc_worker_group group;
    uint8_t secret[FEDDC_SECRET];
    feddc_rank_row *row;
    const char **address;
    uint32_t *worker, *completed;
    char why[FEDDC_WHY];
} own_worker_group;

struct feddc_watch {
    feddc_watch_options options;
    uint8_t secret[FEDDC_SECRET];
    char address[FEDDC_ENDPOINT];
    feddc_channel channel; /* once the thread runs, only it sends and receives here */
    int wake;
    pthread_t thread;
    feddc_report report;
    atomic_bool over;
    /* the failure detector's clock less this process's, and the round trip of the sample that gave
     * this difference (-1: no sample) */
    atomic_llong offset_us, round_us;
    int64_t heard_us, looped_us, heartbeat_us; /* used by the thread only */

    pthread_mutex_t see; /* protects the next three members */
    feddc_eyes eyes;     /* look is NULL while there is no exchange */
    feddc_exchange_state seen;
    char why_over[FEDDC_WHY];

    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t heard;
    bool meets; /* the record `meet` waits to be sent */
    feddc_record meet;
    feddc_record digest[DIGESTS];
    uint32_t digests;
    own_worker_group *group, *next; /* group: the caller's generation; next: a newer one, or NULL */
    fed_status ended;               /* FED_OK: the worker group has not ended */
    char why[FEDDC_WHY];
    bool stop;
    char bye[FEDDC_WHY];
};

static void put_text(char *dst, size_t cap, const char *text) {
    size_t len = strnlen(text, cap - 1);
    memcpy(dst, text, len);
    dst[len] = '\0';
}

static void wake(feddc_watch *w) {
    uint64_t one = 1;
    (void)!write(w->wake, &one, sizeof one);
}

static void worker_group_free(own_worker_group *own) {
    if (own != NULL) {
        free(own->row);
        free(own->address);
        free(own->worker);
        free(own->completed);
        free(own);
    }
}

void feddc_watch_see(feddc_watch *watch, const feddc_eyes *eyes) {
    pthread_mutex_lock(&watch->see);
    if (watch->eyes.look != NULL) {
        /* keep the exchange's last state, which a verdict may name */
        watch->eyes.look(watch->eyes.user, &watch->seen);
    }
    watch->eyes = eyes != NULL ? *eyes : (feddc_eyes){0};
    if (eyes != NULL && feddc_watch_over(watch)) {
        eyes->abort(eyes->user, watch->why_over);
    }
    pthread_mutex_unlock(&watch->see);
}

static void abandon(feddc_watch *w, const char *why) {
    pthread_mutex_lock(&w->see);
    put_text(w->why_over, sizeof w->why_over, why);
    atomic_store(&w->over, true);
    if (w->eyes.abort != NULL) {
        w->eyes.abort(w->eyes.user, w->why_over);
    }
    pthread_mutex_unlock(&w->see);
}

static void end(feddc_watch *w, fed_status status, const char *why) {
    pthread_mutex_lock(&w->lock);
    bool first = w->ended == FED_OK;
    if (first) {
        w->ended = status;
        put_text(w->why, sizeof w->why, why);
    }
    bool stop = w->stop;
    pthread_cond_broadcast(&w->heard);
    pthread_mutex_unlock(&w->lock);
    if (first && !stop) {
        abandon(w, why);
        if (w->options.over != NULL) {
            w->options.over(w->options.user, why);
        }
    }
}

static void tell(feddc_watch *w, const feddc_record *record) {
    uint8_t bytes[FEDDC_RECORD_UP];
    fed_writer out;
    fed_error err = {0};
    fed_writer_fixed(&out, bytes, sizeof bytes);
    feddc_record_write(&out, record);
    fed_status status = out.status;
    if (status == FED_OK) {
        status = feddc_channel_send(&w->channel, out.data, out.len, &err);
    }
    if (status != FED_OK) {
        end(w, FED_ENET, err.text);
    }
}

static void heartbeat(feddc_watch *w, int64_t now) {
    feddc_record record = {.kind = FEDDC_RECORD_HEARTBEAT, .sent_us = (uint64_t)now};
    feddc_report_read(&w->report, &record.heartbeat);
    pthread_mutex_lock(&w->see);
    if (w->eyes.look != NULL) {
        w->eyes.look(w->eyes.user, &w->seen);
    }
    record.heartbeat.waits = w->seen;
    pthread_mutex_unlock(&w->see);
    w->heartbeat_us = now;
    tell(w, &record);
}

static fed_status read_rows(fed_reader *r, own_worker_group *own, uint32_t size) {
    own->row = calloc(size, sizeof *own->row);
    own->address = calloc(size, sizeof *own->address);
    own->worker = calloc(size, sizeof *own->worker);
    own->completed = calloc(size, sizeof *own->completed);
    FED_REQUIRE(own->row != NULL && own->address != NULL && own->worker != NULL &&
                    own->completed != NULL,
                FED_ENOMEM);
    for (uint32_t i = 0; i < size; i++) {
        FED_TRY(feddc_rank_row_read(r, &own->row[i]));
        own->address[i] = own->row[i].address;
        own->worker[i] = own->row[i].worker;
        own->completed[i] = own->row[i].completed;
    }
    return fed_reader_end(r);
}

static void take_worker_group(feddc_watch *w, fed_reader *r, const feddc_record *record) {
    own_worker_group *own = calloc(1, sizeof *own);
    if (own == NULL || read_rows(r, own, record->size) != FED_OK) {
        worker_group_free(own);
        end(w, FED_EFORMAT,
            "the failure detector's list of ranks cannot be read: use the same version of the "
            "programs on all hosts");
        return;
    }
    feddc_channel_mask(&w->channel, record->generation, record->secret, own->secret);
    put_text(own->why, sizeof own->why, record->why);
    own->group =
        (feddc_worker_group){.worker = own->worker, .completed = own->completed, .why = own->why};
    own->group.place = (feddc_place){.rank = record->rank,
                                     .size = record->size,
                                     .listener = -1,
                                     .generation = record->generation};
    if (w->options.listens) {
        own->group.place.address = own->address;
        own->group.place.secret = own->secret;
        own->group.place.patience_ms = OPEN_MS;
    }
    pthread_mutex_lock(&w->see);
    w->seen.bucket = UINT32_MAX;
    atomic_store(&w->over, false);
    pthread_mutex_unlock(&w->see);
    pthread_mutex_lock(&w->lock);
    worker_group_free(w->next);
    w->next = own;
    pthread_cond_broadcast(&w->heard);
    pthread_mutex_unlock(&w->lock);
}

/* The pong with the shortest round trip gives the clocks' offset. */
static void take_pong(feddc_watch *w, const feddc_record *record) {
    int64_t now = fed_clock_monotonic_us(), round = now - (int64_t)record->sent_us;
    int64_t least = atomic_load(&w->round_us);
    if (round >= 0 && (least < 0 || round < least)) {
        atomic_store(&w->offset_us, (int64_t)record->detector_us - (now - round / 2));
        atomic_store(&w->round_us, round);
    }
}

static void take_record(feddc_watch *w, fed_reader *r, const feddc_record *record) {
    switch (record->kind) {
    case FEDDC_RECORD_PONG:
        take_pong(w, record);
        break;
    case FEDDC_RECORD_ASK:
        heartbeat(w, fed_clock_monotonic_us());
        break;
    case FEDDC_RECORD_OVER:
        abandon(w, record->why);
        break;
    case FEDDC_RECORD_WORKER_GROUP:
        take_worker_group(w, r, record);
        break;
    case FEDDC_RECORD_END:
        if (record->left_out) {
            char why[FEDDC_WHY];
            fed_writer text;
            fed_writer_fixed(&text, why, sizeof why);
            fed_write_printf(&text, "the others go on without this worker: %.300s", record->why);
            end(w, FED_ESTATE, why);
        } else {
            end(w, FED_EIO, record->why);
        }
        break;
    default:
        end(w, FED_EFORMAT,
            "the failure detector sent a record of a kind that is not for members: use the same "
            "version of the programs on all hosts");
    }
}

static void hear(feddc_watch *w) {
    fed_error err = {0};
    fed_status status = feddc_channel_pump(&w->channel, &err);
    while (status == FED_OK) {
        const uint8_t *body = NULL;
        size_t len = 0;
        status = feddc_channel_next(&w->channel, &body, &len, &err);
        if (body == NULL) {
            break;
        }
        fed_reader r;
        feddc_record record;
        fed_reader_init(&r, body, len);
        status = feddc_record_read(&r, &record);
        if (status == FED_OK) {
            w->heard_us = fed_clock_monotonic_us();
            take_record(w, &r, &record);
        }
    }
    char why[FEDDC_WHY];
    fed_writer text;
    fed_writer_fixed(&text, why, sizeof why);
    if (status != FED_OK) {
        fed_write_printf(&text, "a record of the failure detector at %s cannot be read: %.200s",
                         w->address, err.text[0] != '\0' ? err.text : fed_status_text(status));
        end(w, FED_ENET, why);
    } else if (w->channel.ended) {
        fed_write_printf(&text, "the failure detector at %s is gone: its process has ended",
                         w->address);
        end(w, FED_ENET, why);
    }
}

/* Send the queued records. Return false when the main thread closes the watch. */
static bool pass_on(feddc_watch *w) {
    feddc_record record[DIGESTS + 1];
    uint32_t count = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t k = 0; k < w->digests; k++) {
        record[count++] = w->digest[k];
    }
    w->digests = 0;
    if (w->meets) {
        record[count++] = w->meet;
        w->meets = false;
    }
    bool stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    for (uint32_t k = 0; k < count; k++) {
        tell(w, &record[k]);
    }
    return !stop;
}

/* End the worker group if the failure detector is silent for too long. A time longer than
 * FEDDC_STALL_MS in which this process itself was stopped does not count. */
static void mind_silence(feddc_watch *w) {
    int64_t now = fed_clock_monotonic_us(), away = now - w->looped_us;
    w->looped_us = now;
    if (away > FEDDC_STALL_MS * 1000) {
        w->heard_us += away;
    }
    if (now - w->heard_us > (int64_t)w->options.patience_ms * 1000) {
        char why[FEDDC_WHY];
        fed_writer text;
        fed_writer_fixed(&text, why, sizeof why);
        fed_write_printf(&text,
                         "the failure detector at %s has been silent for %.1f s: its process is "
                         "stopped, or the line to it is down",
                         w->address, (double)(now - w->heard_us) / 1e6);
        end(w, FED_ENET, why);
    }
}

static void wait_for_news(feddc_watch *w, int64_t until_us) {
    struct pollfd p[2] = {{.fd = w->channel.fd, .events = POLLIN},
                          {.fd = w->wake, .events = POLLIN}};
    p[0].events |= feddc_channel_waits(&w->channel) ? POLLOUT : 0;
    int64_t left = (until_us - fed_clock_monotonic_us() + 999) / 1000;
    (void)poll(p, 2, left > 0 ? (int)left : 0);
    if ((p[1].revents & POLLIN) != 0) {
        uint64_t ignored;
        (void)!read(w->wake, &ignored, sizeof ignored);
    }
    if (p[0].revents != 0) {
        hear(w);
    }
}

static bool has_ended(feddc_watch *w) {
    pthread_mutex_lock(&w->lock);
    bool ended = w->ended != FED_OK;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

static void say_bye(feddc_watch *w) {
    feddc_record bye = {.kind = FEDDC_RECORD_BYE};
    put_text(bye.why, sizeof bye.why, w->bye);
    tell(w, &bye);
    int64_t until = fed_clock_monotonic_us() + BYE_MS * 1000;
    while (!has_ended(w) && fed_clock_monotonic_us() < until) {
        wait_for_news(w, until);
    }
}

static void *watch_main(void *user) {
    feddc_watch *w = user;
    w->heard_us = w->looped_us = w->heartbeat_us = fed_clock_monotonic_us();
    while (!has_ended(w)) {
        if (!pass_on(w)) {
            say_bye(w);
            break;
        }
        int64_t now = fed_clock_monotonic_us();
        if (now - w->heartbeat_us >= FEDDC_HEARTBEAT_MS * 1000) {
            heartbeat(w, now);
        }
        wait_for_news(w, w->heartbeat_us + FEDDC_HEARTBEAT_MS * 1000);
        mind_silence(w);
    }
    return NULL;
}

static fed_status prove(feddc_watch *w, fed_error *err) {
    int64_t until = fed_clock_monotonic_us() + PROOF_MS * 1000;
    while (!w->channel.proven) {
        struct pollfd p = {.fd = w->channel.fd, .events = POLLIN};
        int64_t left = (until - fed_clock_monotonic_us()) / 1000;
        if (left <= 0 || poll(&p, 1, (int)left) == 0) {
            return fed_fail(
                err, FED_ENET,
                "the failure detector at %s does not answer: check that it runs at this address",
                w->address);
        }
        FED_TRY(feddc_channel_pump(&w->channel, err));
        if (w->channel.ended && !w->channel.proven) {
            return fed_fail(err, FED_EAUTH,
                            "the failure detector at %s has closed the connection: this worker's "
                            "secret is a different one, or the failure detector is too busy",
                            w->address);
        }
    }
    return FED_OK;
}

static fed_status connect_and_join(feddc_watch *w, fed_error *err) {
    int fd = -1;
    FED_TRY(feddc_endpoint_connect(w->address, CONNECT_MS, &fd, err));
    FED_TRY(feddc_channel_open(&w->channel, fd, false, w->secret, FEDDC_RECORD_DOWN, err));
    FED_TRY(prove(w, err));
    feddc_record join = {.kind = FEDDC_RECORD_JOIN};
    join.join.requested = w->options.rank;
    join.join.pid = (uint32_t)getpid();
    if (gethostname(join.join.host, sizeof join.join.host) != 0) {
        put_text(join.join.host, sizeof join.join.host, "?");
    }
    join.join.host[sizeof join.join.host - 1] = '\0';
    if (w->options.computes_on != NULL) {
        put_text(join.join.computes_on, sizeof join.join.computes_on, w->options.computes_on);
    }
    if (w->options.settings != NULL) {
        put_text(join.join.settings, sizeof join.join.settings, w->options.settings);
    }
    uint8_t bytes[FEDDC_RECORD_UP];
    fed_writer out;
    fed_writer_fixed(&out, bytes, sizeof bytes);
    feddc_record_write(&out, &join);
    return feddc_channel_send(&w->channel, out.data, out.len, err);
}

static void watch_free(feddc_watch *w) {
    if (w->wake >= 0) {
        close(w->wake);
    }
    feddc_channel_close(&w->channel);
    worker_group_free(w->group);
    worker_group_free(w->next);
    pthread_mutex_destroy(&w->see);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->heard);
    free(w);
}

fed_status feddc_watch_open(const feddc_watch_options *options, feddc_watch **watch,
                            fed_error *err) {
    FED_TRY(feddc_group_settings_check(options->settings, err));
    feddc_watch *w = calloc(1, sizeof *w);
    FED_REQUIRE(w != NULL, FED_ENOMEM);
    w->options = *options;
    w->options.patience_ms = options->patience_ms == 0 ? PATIENCE_MS : options->patience_ms;
    memcpy(w->secret, options->secret, sizeof w->secret);
    put_text(w->address, sizeof w->address, options->address);
    w->channel.fd = -1;
    w->seen.bucket = w->seen.waits_for = UINT32_MAX;
    atomic_store(&w->round_us, -1);
    pthread_mutex_init(&w->see, NULL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->heard, NULL);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fed_status status =
        w->wake >= 0
            ? connect_and_join(w, err)
            : fed_fail(err, FED_EIO,
                       "the worker cannot open one more file: allow more open files (ulimit -n)");
    if (status == FED_OK && !fed_thread_start(&w->thread, watch_main, w)) {
        status =
            fed_fail(err, FED_EIO,
                     "the system gives no thread for the watch: allow more threads (ulimit -u)");
    }
    if (status != FED_OK) {
        watch_free(w);
        return status;
    }
    *watch = w;
    return FED_OK;
}

/* With the lock held: wait for the next generation or the end of the worker group. */
static fed_status await_worker_group(feddc_watch *w, const feddc_worker_group **group, int listener,
                                     fed_error *err) {
    while (w->next == NULL && w->ended == FED_OK) {
        pthread_cond_wait(&w->heard, &w->lock);
    }
    if (w->ended != FED_OK) {
        return fed_fail(err, w->ended, "%s", w->why);
    }
    worker_group_free(w->group);
    w->group = w->next;
    w->next = NULL;
    w->group->group.place.listener = listener;
    *group = &w->group->group;
    return FED_OK;
}

fed_status feddc_watch_next(feddc_watch *watch, uint32_t completed, const char *broke,
                            const feddc_worker_group **group, fed_error *err) {
    feddc_record meet = {.kind = FEDDC_RECORD_MEET, .completed = completed};
    put_text(meet.why, sizeof meet.why, broke != NULL ? broke : "");
    int listener = -1;
    if (watch->options.listens) {
        FED_TRY(feddc_endpoint_beside(watch->channel.fd, watch->options.host, &listener,
                                      meet.address, err));
    }
    pthread_mutex_lock(&watch->lock);
    watch->meet = meet;
    watch->meets = true;
    wake(watch);
    fed_status status = await_worker_group(watch, group, listener, err);
    pthread_mutex_unlock(&watch->lock);
    if (status != FED_OK && listener >= 0) {
        close(listener);
    }
    return status;
}

void feddc_watch_at(feddc_watch *watch, feddc_phase phase, uint32_t step) {
    feddc_report_at(&watch->report, phase, step, fed_clock_monotonic_us());
}

void feddc_watch_digest(feddc_watch *watch, uint32_t completed, uint64_t digest) {
    pthread_mutex_lock(&watch->lock);
    if (watch->digests == DIGESTS) {
        memmove(watch->digest, watch->digest + 1, (DIGESTS - 1) * sizeof watch->digest[0]);
        watch->digests--;
    }
    watch->digest[watch->digests++] =
        (feddc_record){.kind = FEDDC_RECORD_DIGEST, .completed = completed, .digest = digest};
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
}

bool feddc_watch_over(const feddc_watch *watch) {
    return atomic_load(&watch->over);
}

int64_t feddc_watch_clock(const feddc_watch *watch, int64_t *offset_us) {
    *offset_us = atomic_load(&watch->offset_us);
    return atomic_load(&watch->round_us);
}

void feddc_watch_close(feddc_watch *watch, const char *why) {
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    put_text(watch->bye, sizeof watch->bye, why != NULL ? why : "");
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
    (void)pthread_join(watch->thread, NULL);
    watch_free(watch);
}
