/* The client library for Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/point.h"
#include "fed/privacy.h"
#include "fed/version.h"
#include "fedclient/app.h"
#include "fedclient/python/fedpy.h"

struct fedpy_client {
    fedclient_app *app;
    fedpy_callbacks python;
    fed_log log;
    fed_points helper; /* the keys of the helper that the device trusts */
    int64_t asked_ms;  /* when python.stopped was called last */
    fedpy_event told;  /* during fedpy_client_run */
};

struct fedpy_round {
    fedclient_round *round;
};

const char *fedpy_version(void) {
    return FED_VERSION;
}

int fedpy_give(fed_status status, const fed_error *err, char *error) {
    if (status != FED_OK) {
        snprintf(error, FEDPY_ERROR, "%s",
                 err->text[0] != '\0' ? err->text : fed_status_text(status));
    }
    return (int)status;
}

static fed_status on_train(void *user, fedclient_round *round, fed_error *err) {
    fedpy_client *c = user;
    fedpy_round given = {.round = round};
    char reason[FEDPY_ERROR] = "";
    const fed_status status = (fed_status)c->python.train(c->python.user, &given, reason);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", reason);
}

static fed_status on_may_train(void *user, fed_error *err) {
    fedpy_client *c = user;
    char reason[FEDPY_ERROR] = "";
    const fed_status status = (fed_status)c->python.may_train(c->python.user, reason);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", reason);
}

static void *on_room(void *user, size_t len) {
    fedpy_client *c = user;
    return c->python.room(c->python.user, len);
}

/** A transfer asks often, and each call waits for Python's lock, so most questions are answered
 * without Python. */
static bool on_stopped(void *user) {
    enum { LEAST_MS = 20 };
    fedpy_client *c = user;
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (now_ms - c->asked_ms < LEAST_MS) {
        return false;
    }
    c->asked_ms = now_ms;
    return c->python.stopped(c->python.user) != 0;
}

static void on_log(void *user, fed_log_level level, const char *line) {
    const fedpy_client *c = user;
    c->python.log(c->python.user, (int)level, line);
}

static fed_status open_app(fedpy_client *c, const fedclient_options *options, const char *ca,
                           const char *state, fed_error *err) {
    enum { CA_LIMIT = 65536 };
    char *pem = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read_text(ca, CA_LIMIT, &pem, &len, err));
    const fed_status status = fedclient_app_open(options, pem, state, &c->app, err);
    free(pem);
    return status;
}

int fedpy_client_open(const char *server, const char *ca, const char *state, const char *name,
                      int evaluate, unsigned slots, const fedpy_floor *floor,
                      const fedpy_callbacks *callbacks, fedpy_client **client, char *error) {
    fed_error err = {FED_OK, ""};
    fedpy_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fedpy_give(FED_ENOMEM, &err, error);
    }
    c->python = *callbacks;
    c->log = (fed_log){.write = on_log, .user = c, .level = FED_LOG_DEBUG};
    const fedclient_options options = {.server = server,
                                       .log = &c->log,
                                       .role = evaluate ? FED_ROLE_EVALUATE : FED_ROLE_TRAIN,
                                       .hold_ms = 25000,
                                       .train = on_train,
                                       .may_train = on_may_train,
                                       .stopped = on_stopped,
                                       .room = on_room,
                                       .user = c,
                                       .slots = slots,
                                       .helper = floor->helper != NULL ? &c->helper : NULL,
                                       .least_devices = floor->least_devices,
                                       .most_epsilon = floor->most_epsilon,
                                       .private_only = floor->private_only != 0,
                                       .name = name,
                                       .software = "python-fed"};
    fed_status status =
        floor->helper != NULL ? fed_points_load(floor->helper, &c->helper, &err) : FED_OK;
    if (status == FED_OK) {
        status = open_app(c, &options, ca, state, &err);
    }
    if (status != FED_OK) {
        free(c);
        return fedpy_give(status, &err, error);
    }
    *client = c;
    return 0;
}

void fedpy_client_close(fedpy_client *c) {
    fedclient_app_close(c->app);
    free(c);
}

void fedpy_client_stop(fedpy_client *c) {
    fedclient_app_stop(c->app);
}

int fedpy_client_token(fedpy_client *c, const char *token, char *error) {
    enum { TRIES = 8 }; /* a minute */
    fed_error err = {FED_OK, ""};
    fedclient *client = fedclient_app_client(c->app);
    return fedpy_give(fedclient_token_give_in_time(client, token, TRIES, &err), &err, error);
}

static void put_event(const fedclient_event *done, uint32_t event[FEDPY_EVENTS]) {
    event[FEDPY_OUTCOME] = (uint32_t)done->outcome;
    event[FEDPY_ROUND] = done->round;
    event[FEDPY_VERSION] = done->version;
    event[FEDPY_WAIT_MS] = done->wait_ms;
    event[FEDPY_SAMPLES] = done->samples;
    event[FEDPY_OVER] = done->over;
}

static bool on_event(void *user, const fedclient_event *event, const char *why) {
    const fedpy_client *c = user;
    uint32_t numbers[FEDPY_EVENTS];
    put_event(event, numbers);
    return c->told(c->python.user, numbers, event->loss, why) != 0;
}

int fedpy_client_run(fedpy_client *c, fedpy_event told, char *error) {
    fed_error err = {FED_OK, ""};
    const fedclient_run_options options = {.until_finished = true, .event = on_event, .user = c};
    c->told = told;
    const fed_status status = fedclient_app_run(c->app, &options, &err);
    c->told = NULL;
    return fedpy_give(status, &err, error);
}

int fedpy_client_step(fedpy_client *c, uint32_t *event, float *loss, char *error) {
    fed_error err = {FED_OK, ""};
    fedclient_event done = {0};
    const fed_status status = fedclient_step(fedclient_app_client(c->app), &done, &err);
    put_event(&done, event);
    *loss = done.loss;
    snprintf(error, FEDPY_ERROR, "%s", err.text);
    return fedpy_give(status, &err, error);
}

float *fedpy_round_values(fedpy_round *round, size_t *count) {
    *count = round->round->arch->layout.size;
    return round->round->values;
}

uint32_t fedpy_round_number(const fedpy_round *round) {
    return round->round->round;
}

uint32_t fedpy_round_version(const fedpy_round *round) {
    return round->round->version;
}

const char *fedpy_round_text(const fedpy_round *round, const char *key) {
    const fed_task *task = round->round->task;
    return strcmp(key, "model") == 0       ? round->round->arch->text
           : strcmp(key, "optimizer") == 0 ? task->optimizer
           : strcmp(key, "app") == 0       ? task->app
                                           : NULL;
}

double fedpy_round_number_of(const fedpy_round *round, const char *key) {
    const fed_task *task = round->round->task;
    return strcmp(key, "task") == 0            ? (double)task->id
           : strcmp(key, "slot") == 0          ? round->round->slot
           : strcmp(key, "local_steps") == 0   ? task->local_steps
           : strcmp(key, "batch") == 0         ? task->batch
           : strcmp(key, "learning_rate") == 0 ? (double)task->learning_rate
           : strcmp(key, "seed") == 0          ? (double)task->seed
           : strcmp(key, "personal") == 0      ? round->round->is_personal
           : strcmp(key, "holdout") == 0       ? (double)task->holdout
           : strcmp(key, "own_is_new") == 0    ? round->round->own_is_new
                                               : (double)NAN;
}

int fedpy_round_tensor(const fedpy_round *round, size_t k, const char **name, uint32_t *dims,
                       size_t *offset, size_t *size) {
    const fed_layout *layout = &round->round->arch->layout;
    if (k >= layout->count) {
        return -1;
    }
    const fed_tensor *t = &layout->tensors[k];
    *name = t->name;
    *offset = t->offset;
    *size = t->size;
    memcpy(dims, t->dims, sizeof t->dims);
    return (int)t->rank;
}

int fedpy_round_stays(const fedpy_round *round, size_t k) {
    return fedclient_round_stays(round->round, k);
}

int fedpy_round_wanted(fedpy_round *round, char *error) {
    fed_error err = {FED_OK, ""};
    return fedpy_give(fedclient_round_wanted(round->round, &err), &err, error);
}

uint32_t fedpy_round_left_ms(const fedpy_round *round) {
    return fedclient_round_left_ms(round->round);
}

int fedpy_round_metric(const fedpy_round *round, const char *name, double value, char *error) {
    fed_error err = {FED_OK, ""};
    return fedpy_give(fedclient_round_metric(round->round, name, value, &err), &err, error);
}

void fedpy_round_result(fedpy_round *round, uint32_t samples, const float *loss, uint32_t correct) {
    round->round->samples = samples;
    round->round->loss = loss != NULL ? *loss : FEDCLIENT_NO_LOSS;
    round->round->correct = correct;
}
