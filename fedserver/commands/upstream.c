/* Runs an edge aggregator's device: a thread with a client of the coordinator upstream. Its
 * training is a round of this coordinator, which only the serving thread may touch. So the device's
 * thread posts an offer and waits, and the serving thread works on the offer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/commands/upstream.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/threads.h"
#include "fed/version.h"
#include "fedclient/app.h"
#include "fedserver/edge.h"

enum { PATH_SIZE = 1024, CA_MOST = 64 * 1024, TOKEN_MOST = 4096 };
enum { LOOK_MS = 200, PAUSE_MOST_MS = 1000, HOLD_MS = 25000 };
enum { FIRST_MS = 500, MOST_MS = 60000, SAID = 4 };

typedef struct finish {
    uint64_t task;
    const float *values;
    size_t size;
} finish;

struct upstream {
    const arguments *args;
    const fed_log *log;
    fed_log device_log;  /* leaves out the failures in `said` */
    uint64_t said[SAID]; /* digests of the newest failures in the log */
    unsigned said_count;
    fedserver_edge *edge;
    fedclient_app *app;
    atomic_ullong devices;
    atomic_uint failures;
    pthread_t thread;
    bool started;
    bool training; /* a training runs; only the device's thread uses this member */

    pthread_mutex_t mutex; /* protects all members below */
    pthread_cond_t answered;
    /* Work for the serving thread; both NULL: none. */
    const fedserver_edge_offer *offer;
    const finish *last;
    bool done; /* the serving thread is done: status, why and change are its answer */
    fed_status status;
    fed_error why;
    fedserver_edge_change change;

    fed_status failed;
    fed_error failure;
};

/* -- functions of the serving thread -- */

/* The caller holds u->mutex. */
static fed_status work(upstream *u, fed_error *err) {
    const int64_t now_ms = fed_clock_unix_ms();
    fed_status status = FED_OK;
    if (u->done || (u->offer == NULL && u->last == NULL)) {
        return FED_OK;
    }
    if (u->offer != NULL) {
        status = fedserver_edge_poll(u->edge, u->offer, now_ms, &u->change, err);
        u->done = u->change.ready || status != FED_OK;
    } else {
        status = fedserver_edge_finish(u->edge, u->last->task, u->last->values, u->last->size,
                                       now_ms, &u->done, err);
        u->done = u->done || status != FED_OK;
    }
    u->status = status;
    u->why = *err;
    return status == FED_EDECLINED ? FED_OK : status;
}

static void *live(void *user);

fed_status upstream_tend(upstream *u, fed_error *err) {
    if (!u->started && pthread_create(&u->thread, NULL, live, u) != 0) {
        return fed_fail(err, FED_ENOMEM,
                        "the thread of the edge aggregator's device can't be started: allow more "
                        "threads or memory (ulimit -u, TasksMax)");
    }
    u->started = true;
    u->devices = fedserver_edge_devices(u->edge, fed_clock_unix_ms());
    fedserver_edge_failures(u->edge, u->failures);
    pthread_mutex_lock(&u->mutex);
    fed_status status = u->failed;
    if (status != FED_OK) {
        *err = u->failure;
    } else {
        status = work(u, err);
    }
    pthread_cond_signal(&u->answered);
    pthread_mutex_unlock(&u->mutex);
    return status;
}

/* -- functions of the device's thread -- */

/* Write a line of the device, unless it is one of the failures in u->said. The wait for the next
 * try differs each time, and is no part of the failure. */
static void say_once(void *user, fed_log_level level, const fed_log_about *about,
                     const char *line) {
    upstream *u = user;
    const char *wait = strstr(line, "; trying again in ");
    const size_t len = wait != NULL ? (size_t)(wait - line) : strlen(line);
    const uint64_t digest = fed_digest_bytes(line, len);
    if (level >= FED_LOG_WARN) {
        for (unsigned k = 0; k < SAID && k < u->said_count; k++) {
            if (u->said[k] == digest) {
                return;
            }
        }
        u->said[u->said_count++ % SAID] = digest;
    }
    fed_log_pass(u->log, level, about, line);
}

/* Wait a while for the serving thread. True: it has answered. offer: gets the new left_ms; NULL:
 * there is no offer. */
static bool is_answered(upstream *u, fedserver_edge_offer *offer, uint32_t left_ms) {
    const int64_t until_us = fed_clock_monotonic_us() + LOOK_MS * 1000;
    pthread_mutex_lock(&u->mutex);
    if (offer != NULL) {
        offer->left_ms = left_ms;
    }
    if (!u->done) {
        (void)fed_cond_wait_until(&u->answered, &u->mutex, until_us);
    }
    const bool done = u->done;
    pthread_mutex_unlock(&u->mutex);
    return done;
}

static void post(upstream *u, const fedserver_edge_offer *offer, const finish *last) {
    pthread_mutex_lock(&u->mutex);
    u->offer = offer;
    u->last = last;
    u->done = false;
    pthread_mutex_unlock(&u->mutex);
}

static bool take_back(upstream *u, fed_error *err) {
    pthread_mutex_lock(&u->mutex);
    const bool done = u->done;
    u->offer = NULL;
    u->last = NULL;
    if (done && u->status != FED_OK) {
        *err = u->why;
    }
    pthread_mutex_unlock(&u->mutex);
    return done;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    upstream *u = user;
    if (round->is_personal) {
        return fed_fail(err, FED_EDECLINED, "an edge aggregator has no data of its own");
    }
    if (round->task->private_layers[0] != '\0') {
        return fed_fail(err, FED_EDECLINED,
                        "an edge aggregator serves no task with private_layers: let its devices "
                        "enrol with the coordinator of the task");
    }
    const uint32_t lease_ms = fedclient_round_left_ms(round);
    fedserver_edge_offer offer = {.task = round->task,
                                  .model = round->arch->text,
                                  .version = round->version,
                                  .values = round->values,
                                  .size = round->arch->layout.size,
                                  .number = round->number,
                                  .owes = round->owes,
                                  .left_ms = lease_ms,
                                  .lease_ms = lease_ms};
    fed_status wanted = FED_OK;
    bool done = false;
    u->training = true;
    post(u, &offer, NULL);
    while (!done && (wanted = fedclient_round_wanted(round, err)) == FED_OK) {
        done = is_answered(u, &offer, fedclient_round_left_ms(round));
    }
    u->training = false;
    if (!take_back(u, err)) {
        return wanted;
    }
    FED_TRY(u->status);
    round->is_change = true;
    round->samples = u->change.samples;
    round->loss = isnan(u->change.loss) ? FEDCLIENT_NO_LOSS : u->change.loss;
    return FED_OK;
}

/* May the device take a slot upstream? If no device asks here, the slot is left to others. */
static fed_status may_train(void *user, fed_error *err) {
    const upstream *u = user;
    return u->devices > 0 || u->training
               ? FED_OK
               : fed_fail(err, FED_EBUSY,
                          "no device of this edge aggregator has asked for work lately");
}

static fed_status end_task(upstream *u, fedclient *client, fed_error *err) {
    finish last = {0};
    uint32_t version = 0;
    float *values = NULL;
    fed_error absent = {0};
    fed_status status = fedclient_model(client, &last.task, &version, &values, &last.size, &absent);
    if (status != FED_OK) { /* FED_ENOTFOUND: no model was downloaded */
        return status == FED_ENOTFOUND ? FED_OK : fed_fail(err, status, "%s", absent.text);
    }
    last.values = values;
    post(u, NULL, &last);
    while (!fedclient_app_stopped(u->app) && !is_answered(u, NULL, 0)) {
    }
    status = take_back(u, err) ? u->status : FED_OK;
    free(values);
    return status;
}

static void rest(upstream *u, uint32_t ms) {
    const int64_t until_ms = fed_clock_monotonic_ms() + ms;
    while (!fedclient_app_stopped(u->app) && fed_clock_monotonic_ms() < until_ms) {
        const int64_t left_ms = until_ms - fed_clock_monotonic_ms();
        fed_sleep_ms(left_ms < LOOK_MS ? left_ms : LOOK_MS);
    }
}

static uint32_t next_wait(uint32_t wait_ms) {
    return 2 * wait_ms < MOST_MS ? 2 * wait_ms : MOST_MS;
}

/* Do one step of the device, and rest. A failed step does not end the edge aggregator, which still
 * serves its devices. *wait_ms: the rest after a failure, unless the client names another. */
static void step_on(upstream *u, fedclient *client, bool *told, uint32_t *wait_ms) {
    fedclient_event event = {0};
    fed_error err = {0};
    fed_status status = fedclient_step(client, &event, &err);
    if (status == FED_OK && event.over && !*told) {
        status = end_task(u, client, &err);
    }
    if (status != FED_OK || event.outcome == FEDCLIENT_RETRY) {
        u->failures++;
    } else if (event.outcome != FEDCLIENT_DECLINED && event.outcome != FEDCLIENT_PAUSED) {
        u->failures = u->said_count = 0;
        *wait_ms = FIRST_MS;
    }
    if (status != FED_OK && status != FED_EAUTH && status != FED_ECANCELED) {
        fed_logf(&u->device_log, FED_LOG_WARN,
                 "the edge aggregator serves its devices, but not upstream: %.500s; "
                 "trying again in %.1f s",
                 err.text, (double)*wait_ms / 1000);
        rest(u, *wait_ms);
        *wait_ms = next_wait(*wait_ms);
        return;
    }
    *told = event.over;
    if (event.outcome == FEDCLIENT_PAUSED && event.wait_ms > PAUSE_MOST_MS) {
        /* check again soon, because a device of the edge aggregator may come at any time */
        event.wait_ms = PAUSE_MOST_MS;
    }
    if (event.outcome == FEDCLIENT_COUNTED) {
        fed_logf(u->log, FED_LOG_INFO,
                 "upstream's round %u has counted this edge aggregator: %u samples", event.round,
                 event.samples);
    }
    rest(u, event.wait_ms);
}

static fed_status read_token(const arguments *args, char token[TOKEN_MOST], fed_error *err) {
    if (args->upstream_token_file != NULL) {
        return fed_file_read_word(args->upstream_token_file, token, TOKEN_MOST, err);
    }
    snprintf(token, TOKEN_MOST, "%s", args->upstream_token);
    return FED_OK;
}

/* Enrol if there is a token, and try again while upstream is down, busy or of another release. The
 * token is read first, because its file may be gone later. */
static fed_status enrol(upstream *u, fedclient *client, fed_error *err) {
    char token[TOKEN_MOST];
    fed_error why = {0};
    if (u->args->upstream_token == NULL && u->args->upstream_token_file == NULL) {
        return FED_OK;
    }
    fed_status read = read_token(u->args, token, &why);
    if (read != FED_OK && !fedclient_enrolled(client)) {
        return fed_fail(err, read, "%s", why.text);
    }
    if (read != FED_OK) {
        fed_logf(&u->device_log, FED_LOG_WARN,
                 "this edge aggregator is enrolled already, and goes on without a token (%.300s): "
                 "if upstream refuses this aggregator, start it with a new token",
                 why.text);
        return FED_OK;
    }
    for (uint32_t wait_ms = FIRST_MS; !fedclient_app_stopped(u->app);
         wait_ms = next_wait(wait_ms)) {
        const fed_status status = fedclient_token_give(client, token, err);
        if (status != FED_ENET && status != FED_ETIMEOUT && status != FED_EBUSY &&
            status != FED_EFORMAT && status != FED_ERANGE) {
            return status;
        }
        fed_logf(&u->device_log, FED_LOG_WARN,
                 "this edge aggregator is not enrolled upstream yet: %.500s; "
                 "trying again in %.1f s",
                 err->text, (double)wait_ms / 1000);
        u->failures++;
        rest(u, wait_ms);
    }
    return FED_ECANCELED;
}

static void *live(void *user) {
    upstream *u = user;
    fedclient *client = fedclient_app_client(u->app);
    fed_error err = {0};
    bool told = false;
    uint32_t wait_ms = FIRST_MS;
    const fed_status status = enrol(u, client, &err);
    if (status == FED_OK) {
        fed_logf(u->log, FED_LOG_INFO, "this edge aggregator is device %.16s... at %s",
                 fedclient_device(client), u->args->upstream);
    }
    while (status == FED_OK && !fedclient_app_stopped(u->app)) {
        step_on(u, client, &told, &wait_ms);
    }
    if (status != FED_OK && status != FED_ECANCELED && !fedclient_app_stopped(u->app)) {
        pthread_mutex_lock(&u->mutex);
        u->failed = status;
        u->failure = err;
        pthread_mutex_unlock(&u->mutex);
    }
    return NULL;
}

static fed_status open_app(upstream *u, const char *state, fed_error *err) {
    const arguments *args = u->args;
    char *ca = NULL;
    size_t len = 0;
    const fedclient_options options = {.server = args->upstream,
                                       .log = &u->device_log,
                                       .hold_ms = HOLD_MS,
                                       .train = train,
                                       .may_train = may_train,
                                       .user = u,
                                       .name = args->name,
                                       .software = "fedserver/" FED_VERSION,
                                       .computes_on = "an edge aggregator"};
    FED_TRY(fed_file_read_text(args->upstream_ca, CA_MOST, &ca, &len, err));
    const fed_status status = fedclient_app_open(&options, ca, state, &u->app, err);
    free(ca);
    return status;
}

void upstream_folder(const char *dir, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/upstream", dir);
}

static fed_status open_all(upstream *u, fedserver *server, fed_error *err) {
    const arguments *args = u->args;
    char state[PATH_SIZE];
    const fedserver_edge_rules rules = {.cohort = (uint32_t)args->edge_cohort,
                                        .goal = (uint32_t)args->edge_goal,
                                        .minimum = (uint32_t)args->edge_minimum};
    if (args->upstream_ca == NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "--upstream needs --upstream-ca FILE: the ca.pem of the coordinator upstream");
    }
    upstream_folder(args->dir, state, sizeof state);
    FED_TRY(fed_dir_make(state, 0700, err));
    FED_TRY(open_app(u, state, err));
    if (!fedclient_enrolled(fedclient_app_client(u->app)) && args->upstream_token == NULL &&
        args->upstream_token_file == NULL) {
        return fed_fail(err, FED_ESTATE,
                        "%s holds no identity yet: make a token upstream with `fedserver token`, "
                        "and give it with --upstream-token or --upstream-token-file",
                        state);
    }
    return fedserver_edge_open(server, state, &rules, &u->edge, err);
}

fed_status upstream_open(fedserver *server, const arguments *args, const fed_log *log,
                         upstream **made, fed_error *err) {
    upstream *u = calloc(1, sizeof *u);
    if (u == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the edge aggregator's device");
    }
    u->args = args;
    u->log = log;
    u->device_log = (fed_log){.write_about = say_once, .user = u, .level = log->level};
    pthread_mutex_init(&u->mutex, NULL);
    fed_cond_init(&u->answered);
    const fed_status status = open_all(u, server, err);
    if (status != FED_OK) {
        upstream_close(u);
        return status;
    }
    *made = u;
    return FED_OK;
}

void upstream_close(upstream *u) {
    if (u == NULL) {
        return;
    }
    if (u->app != NULL) {
        fedclient_app_stop(u->app);
    }
    if (u->started) {
        pthread_join(u->thread, NULL);
    }
    fedclient_app_close(u->app);
    fedserver_edge_close(u->edge);
    pthread_cond_destroy(&u->answered);
    pthread_mutex_destroy(&u->mutex);
    free(u);
}
