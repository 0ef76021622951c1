/* Checks, while a callback runs, whether its result is still wanted; reports its progress. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/steps/steps.h"

#include <inttypes.h>

enum {
    LOOK_MS = 1000,     /* least time between two calls of may_train */
    LEAST_ASK_MS = 5000 /* least time between two questions to the coordinator */
};
/* The most questions to the coordinator between lease and deadline. */
enum { QUESTIONS = 10 };

static int64_t now_ms(const fedclient *client) {
    const fedclient_platform *platform = client->options.platform;
    return platform->monotonic_ms(platform->user);
}

static fed_status verdict(const fedclient *client, fed_error *err) {
    const fed_error *over = &client->watch.over;
    return over->status == FED_OK ? FED_OK : fed_fail(err, over->status, "%s", over->text);
}

fed_status fedclient_watch_program(fedclient *client, fed_error *err) {
    const fedclient_options *options = &client->options;
    fed_error why = {0};
    fed_status status = FED_OK;
    if (options->stopped != NULL && options->stopped(options->user)) {
        status = FED_ECANCELED;
    } else if (options->may_train != NULL) {
        status = options->may_train(options->user, &why);
    }
    client->watch.look_ms = now_ms(client) + LOOK_MS;
    if (status == FED_ECANCELED) {
        (void)fed_fail(&client->watch.over, FED_ECANCELED, "the program asked this client to stop");
    } else if (status != FED_OK) {
        (void)fed_fail(&client->watch.over, FED_EBUSY, "%s",
                       why.text[0] != '\0' ? why.text
                                           : "the program allows no training now (may_train)");
    }
    return verdict(client, err);
}

void fedclient_watch_start(fedclient *client, const fed_assignment *assignment) {
    const int64_t now = now_ms(client);
    fedclient_watch *watch = &client->watch;
    *watch = (fedclient_watch){
        .deadline_ms = INT64_MAX, .look_ms = now, .ask_ms = INT64_MAX, .every_ms = LEAST_ASK_MS};
    if (assignment == NULL || assignment->action != FED_ACTION_TRAIN) {
        return;
    }
    watch->deadline_ms = now + assignment->deadline_ms;
    if (assignment->deadline_ms / QUESTIONS > LEAST_ASK_MS) {
        watch->every_ms = assignment->deadline_ms / QUESTIONS;
    }
    if ((assignment->capabilities & FED_CAN_PIECES) != 0) {
        watch->ask_ms = now + watch->every_ms;
    }
}

/** Ask the coordinator whether the lease is still valid. The request asks how much has arrived of
 * a one-byte message that was never sent; 202 means that the lease is valid. */
static fed_status ask(const fedclient_job *job, fedclient_answer *answer, fed_error *err) {
    const fed_piece piece = {.task = job->assignment.task.id,
                             .round = job->assignment.round,
                             .lease = job->assignment.lease,
                             .total = 1};
    uint8_t message[64];
    fed_writer w;
    fed_writer_fixed(&w, message, sizeof message);
    fed_piece_write(&w, &piece);
    fedclient_span span = {.data = message, .left = w.len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {.base = job->client->devices,
                                 .kind = FED_REQUEST_PIECE,
                                 .body = &body,
                                 .answer_limit = 4096};
    return fedclient_exchange(job->client, &call, answer, err);
}

/** Without an answer the training goes on, and the time until the next question grows. */
static void ask_coordinator(const fedclient_job *job, int64_t now) {
    fedclient *client = job->client;
    fedclient_watch *watch = &client->watch;
    const bool heals = client->heals;
    fedclient_answer answer = {0};
    fed_error why = {0};
    fed_status status = ask(job, &answer, &why);
    client->heals = heals;
    if (status == FED_ECANCELED) {
        watch->over = why;
    } else if (status != FED_OK) {
        watch->every_ms *= 2;
    } else if (answer.status == 404) { /* an older release does not know the request */
        watch->every_ms = INT64_MAX - now;
    } else if (answer.status != 202) {
        (void)fed_fail(
            &watch->over, FED_ESTATE, "round %" PRIu32 " no longer waits for this device: %s",
            job->assignment.round, answer.status == 200 ? "its update is counted" : answer.message);
    }
    watch->ask_ms = now + watch->every_ms;
    fedclient_answer_free(&answer);
}

static fed_status look(const fedclient_job *job) {
    fedclient *client = job->client;
    fedclient_watch *watch = &client->watch;
    const int64_t now = now_ms(client);
    if (now >= watch->look_ms) {
        FED_TRY(fedclient_watch_program(client, NULL));
    }
    if (now >= watch->deadline_ms) {
        return fed_fail(&watch->over, FED_ETIMEOUT,
                        "the deadline of round %" PRIu32 " has passed: this device or its network "
                        "is slower than the task's deadline_s allows",
                        job->assignment.round);
    }
    if (now >= watch->ask_ms) {
        ask_coordinator(job, now);
    }
    return watch->over.status;
}

fed_status fedclient_round_wanted(fedclient_round *round, fed_error *err) {
    const fedclient_job *job = round->job;
    const fedclient *client = job->client;
    FED_TRY(verdict(client, err));
    return look(job) == FED_OK ? FED_OK : verdict(client, err);
}

uint32_t fedclient_round_left_ms(const fedclient_round *round) {
    const fedclient *client = round->job->client;
    if (client->watch.deadline_ms == INT64_MAX) {
        return UINT32_MAX;
    }
    const int64_t left = client->watch.deadline_ms - now_ms(client);
    return left > 0 ? (uint32_t)left : 0; /* fits: the deadline was set from a uint32 */
}

void fedclient_round_progress(const fedclient_round *round, uint32_t done, uint32_t total) {
    const fedclient_options *options = &round->job->client->options;
    if (options->progress != NULL) {
        options->progress(options->user, round, done, total);
    }
}
