/* The client: reads its stored state, then runs one step after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/steps/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"
#include "fed/version.h"

/* The floor as the steps use it, or what is wrong with the options. */
static fed_status take_floor(fedclient_options *options, fed_error *err) {
    enum { LEAST_DEVICES = 20 };
    if (!(options->most_epsilon >= 0) || isinf(options->most_epsilon)) {
        return fed_fail(err, FED_EINVAL,
                        "the largest epsilon that a device accepts is a number above 0, or 0 for "
                        "any, not %g",
                        (double)options->most_epsilon);
    }
    if (options->private_only && options->helper == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "a device that trains for private tasks only needs its helper's key: get "
                        "helper.pem from the helper's party, not from the coordinator's operator");
    }
    if (options->private_only && options->least_devices == 0) {
        options->least_devices = LEAST_DEVICES;
    }
    return FED_OK;
}

fed_status fedclient_open(const fedclient_options *options, fedclient **client, fed_error *err) {
    fed_error local = {0};
    err = err != NULL ? err : &local;
    if (options->platform == NULL || options->transport == NULL || options->train == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "a client needs a platform, a transport and a train callback: one of them "
                        "is missing in its options");
    }
    const unsigned slots = options->slots > 0 ? options->slots : 1;
    if (slots > FED_SLOTS) {
        return fed_fail(err, FED_EINVAL, "a client has 1 to %d slots, not %u", FED_SLOTS, slots);
    }
    fedclient *fresh = calloc(1, sizeof *fresh + slots * sizeof fresh->slots[0]);
    FED_REQUIRE(fresh != NULL, FED_ENOMEM);
    fresh->options = *options;
    fresh->options.slots = slots;
    fresh->lists = slots > 1;
    fresh->asks_end = true;
    fresh->protocol = FED_PROTOCOL;
    if (options->name != NULL) {
        snprintf(fresh->name, sizeof fresh->name, "%s", options->name);
        fed_utf8_clean(fresh->name);
    }
    if (options->computes_on != NULL) {
        snprintf(fresh->computes_on, sizeof fresh->computes_on, "%s", options->computes_on);
        fed_utf8_clean(fresh->computes_on);
    }
    const uint32_t piece = options->piece_bytes;
    fresh->options.piece_bytes = piece == 0 || piece > FED_PIECE_BYTES ? FED_PIECE_BYTES : piece;
    fed_status status = take_floor(&fresh->options, err);
    if (status == FED_OK) {
        status = fedclient_addresses_open(fresh, err);
    }
    if (status == FED_OK) {
        status = fedclient_identity_load(fresh, err);
    }
    if (status == FED_OK && fedclient_enrolled(fresh)) {
        fedclient_addresses_spread(fresh);
    }
    if (status == FED_OK) {
        status = fedclient_slots_load(fresh, err);
    }
    if (status != FED_OK) {
        fedclient_close(fresh);
        return status;
    }
    *client = fresh;
    return FED_OK;
}

void fedclient_close(fedclient *client) {
    if (client != NULL) {
        free(client->token);
    }
    free(client);
}

typedef enum step_state {
    STATE_RESUME,
    STATE_CHECKIN,
    STATE_DOWNLOAD,
    STATE_TRAIN,
    STATE_ENCODE,
    STATE_SEND,
    STATE_COPY,
    STATE_EVALUATE,
    STATE_REPORT,
    STATE_OVER
} step_state;

/** The first state of a step: an earlier step's unfinished upload or report, else a check-in. */
static step_state resume(fedclient *client) {
    fedclient_slot *sending = fedclient_slots_sending(client);
    if (sending != NULL) {
        client->slot = sending;
        return STATE_SEND;
    }
    return client->metric_due ? STATE_REPORT : STATE_CHECKIN;
}

static step_state after_checkin(const fedclient *client, fedclient_job *job) {
    if (job->assignment.action == FED_ACTION_WAIT) {
        job->event->outcome = FEDCLIENT_WAITED;
        return STATE_OVER;
    }
    return fedclient_trained(client, &job->assignment) ? STATE_ENCODE : STATE_DOWNLOAD;
}

static fed_status after_download(fedclient *client, fedclient_job *job, step_state *at,
                                 fed_error *err) {
    if (job->assignment.action == FED_ACTION_DONE) {
        FED_TRY(fedclient_personal_make(client, job, err)); /* may store the record "personal" */
        FED_TRY(fedclient_layout_drop(client, err));        /* may remove the record "layout" */
        job->event->outcome = FEDCLIENT_FINISHED;
        *at = STATE_OVER;
        return FED_OK;
    }
    *at = job->assignment.action == FED_ACTION_TRAIN ? STATE_TRAIN : STATE_EVALUATE;
    return FED_OK;
}

/** A step that fails stops in its state; the next step continues from the stored records
 * (docs/durability.md). */
static fed_status step_run(fedclient *client, fedclient_job *job, fed_error *err) {
    step_state at = STATE_RESUME;
    while (at != STATE_OVER) {
        switch (at) {
        case STATE_RESUME:
            at = resume(client);
            break;
        case STATE_CHECKIN:
            FED_TRY(fedclient_checkin(client, job, err));
            at = after_checkin(client, job);
            break;
        case STATE_DOWNLOAD:
            FED_TRY(fedclient_download(client, job, err)); /* may store the record "model" */
            FED_TRY(after_download(client, job, &at, err));
            break;
        case STATE_TRAIN:
            FED_TRY(fedclient_train(client, job, err)); /* stores the record "residual" */
            client->slot->faults = 0;
            at = STATE_ENCODE;
            break;
        case STATE_ENCODE:
            FED_TRY(fedclient_encode(client, job, err)); /* stores the record "pending" */
            at = STATE_SEND;
            break;
        case STATE_SEND:
            /* stores the record "pending" with the message's fate */
            FED_TRY(fedclient_send(client, job, err));
            at = job->event->outcome == FEDCLIENT_COUNTED ? STATE_COPY : STATE_OVER;
            break;
        case STATE_COPY:
            FED_TRY(fedclient_personal_make(client, job, err)); /* may store "personal" */
            at = STATE_OVER;
            break;
        case STATE_EVALUATE:
            FED_TRY(fedclient_evaluate(client, job, err));
            client->slot->faults = 0;
            at = STATE_REPORT;
            break;
        case STATE_REPORT:
            FED_TRY(fedclient_report(client, job, err));
            at = STATE_OVER;
            break;
        case STATE_OVER:
            break;
        }
    }
    return FED_OK;
}

static fed_status step_declined(fedclient *client, const fedclient_job *job, fed_error *why) {
    const fed_assignment *assignment = &job->assignment;
    fedclient_event *event = job->event;
    const fed_log_about about = {.task = assignment->task.id, .round = event->round};
    client->failures++; /* so the wait grows if the coordinator assigns the same task again */
    event->wait_ms = fedclient_backoff_ms(client->device, client->failures, 0);
    if (assignment->action == FED_ACTION_DONE) {
        fed_logf_about(client->options.log, FED_LOG_INFO, &about,
                       "task %" PRIu64 " is finished; this device does not take its model: %s",
                       assignment->task.id, why->text);
        event->outcome = FEDCLIENT_FINISHED;
        return FED_OK;
    }
    fed_logf_about(client->options.log, FED_LOG_WARN, &about,
                   "this device declines task %" PRIu64
                   ": %s; the coordinator asks it again after %s24 "
                   "hours",
                   assignment->task.id, why->text,
                   client->restart_helps ? "the next start of this program, or after " : "");
    fed_error fault = {0};
    fed_status status = fedclient_decline(client, job, why->text, &event->wait_ms, &fault);
    if (status != FED_OK) {
        *why = fault;
        return status;
    }
    event->outcome = FEDCLIENT_DECLINED;
    return FED_OK;
}

/** Give the assignment back without a reason, so that this device may get another one. If that
 * fails, the assignment ends with its lease. */
static fed_status give_back(fedclient *client, const fedclient_job *job, fed_error *why) {
    if (job->assignment.lease == 0) {
        return FED_OK;
    }
    uint32_t unused_ms = 0;
    fed_error fault = {0};
    fed_status status = fedclient_decline(client, job, "", &unused_ms, &fault);
    client->heals = false;
    if (status == FED_ECANCELED) {
        *why = fault;
        return status;
    }
    return FED_OK;
}

/** The callback has failed for a reason that may pass: give the assignment back, and try again
 * later. After FAULTS_MOST failures in a row, decline the task. */
static fed_status step_faulty(fedclient *client, const fedclient_job *job, fed_error *why) {
    enum { FAULTS_MOST = 4, LONGER = 2 /* makes the waits longer */ };
    fedclient_slot *slot = client->slot;
    fedclient_event *event = job->event;
    slot->faults = slot->faulty == event->task ? slot->faults + 1 : 1;
    slot->faulty = event->task;
    if (slot->faults >= FAULTS_MOST) {
        slot->faults = 0;
        return step_declined(client, job, why);
    }
    event->outcome = FEDCLIENT_RETRY;
    event->wait_ms = fedclient_backoff_ms(client->device, slot->faults + LONGER, 0);
    const fed_log_about about = {.task = event->task, .round = event->round};
    fed_logf_about(client->options.log, FED_LOG_WARN, &about,
                   "task %" PRIu64
                   ": %s; this device gives its slot back, and tries again in %" PRIu32
                   " ms (failure %u of %d before it declines the task)",
                   event->task, why->text, event->wait_ms, slot->faults, FAULTS_MOST);
    return give_back(client, job, why);
}

static fed_status step_unwanted(fedclient *client, const fedclient_job *job, fed_error *why) {
    enum { LOOK_AGAIN_MS = 10000 };
    fedclient_event *event = job->event;
    *why = client->watch.over;
    if (why->status == FED_ECANCELED) {
        return FED_ECANCELED;
    }
    const bool paused = why->status == FED_EBUSY;
    event->outcome = paused ? FEDCLIENT_PAUSED : FEDCLIENT_LATE;
    event->wait_ms = paused ? LOOK_AGAIN_MS : 0;
    const fed_log_about about = {.task = event->task, .round = event->round};
    fed_logf_about(client->options.log, paused ? FED_LOG_DEBUG : FED_LOG_INFO, &about, "%s",
                   why->text);
    return paused ? give_back(client, job, why) : FED_OK;
}

static void step_free(fedclient_job *job) {
    fed_arch_free(&job->arch);
    if (!FED_SMALL) {
        fed_private_layers_free(&job->split);
        free(job->own);
    }
    fedclient_record_free(&job->model);
    fedclient_record_free(&job->residual);
    fedclient_record_free(&job->pending);
    free(job);
}

/** Return how many milliseconds to wait after a failed step. While some addresses of the
 * coordinator have not been tried, the next one is tried soon. Once all have failed, the wait
 * grows. */
static uint32_t wait_after_failure(fedclient *client) {
    const unsigned rounds = (client->failures - 1) / client->addresses + 1;
    const bool all_failed = client->failures % client->addresses == 0;
    const bool again = !client->unreached || all_failed;
    const uint32_t wait_ms = fedclient_backoff_ms(client->device, rounds, client->told_ms);
    if (client->unreached) {
        fedclient_addresses_next(client);
    }
    return again ? client->asked_ms + wait_ms : wait_ms;
}

/** After some failures to reach the devices' port, let the next step renew the certificate. The
 * answer to a renewal names the devices' port, which may have changed. */
static void suspect_port(fedclient *client, fed_status status) {
    enum { SUSPECT_AFTER = 3 }; /* failures at each address */
    if ((status == FED_ENET || status == FED_ETIMEOUT) &&
        client->failures % (SUSPECT_AFTER * client->addresses) == 0) {
        client->renew_asked = true;
    }
}

/** Has the log this failure already? Numbers are left out: they may be a time or a port. */
static bool is_logged(fedclient *client, const fed_error *err) {
    char words[sizeof err->text];
    size_t len = 0;
    for (const char *p = err->text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9') {
            words[len++] = *p;
        }
    }
    const uint64_t before = client->logged;
    client->logged = fed_digest_bytes(words, len);
    return client->logged == before;
}

static fed_status step_failed(fedclient *client, fed_status status, fedclient_event *event,
                              fed_error *err) {
    if (err->text[0] == '\0') {
        (void)fed_fail(err, status, "the client stopped: %s", fed_status_text(status));
    }
    client->known = false; /* a put may have failed: read the stored state again */
    if (!client->heals) {
        if (status == FED_EAUTH) {
            event->wait_ms = fedclient_refused_ms(client->device);
        }
        bool asked = status == FED_ECANCELED;
        fed_logf(client->options.log, asked ? FED_LOG_DEBUG : FED_LOG_ERROR, "%s", err->text);
        return status;
    }
    client->failures++;
    client->silences += status == FED_ETIMEOUT;
    suspect_port(client, status);
    event->outcome = FEDCLIENT_RETRY;
    event->wait_ms = wait_after_failure(client);
    fed_logf(client->options.log, is_logged(client, err) ? FED_LOG_DEBUG : FED_LOG_WARN,
             "%s; trying again in %" PRIu32 " ms", err->text, event->wait_ms);
    return FED_OK;
}

/* With several slots, other tasks may go on after one has finished. */
static bool is_over(const fedclient *client, const fedclient_event *event) {
    return (event->outcome == FEDCLIENT_FINISHED && client->options.slots <= 1) ||
           (event->outcome == FEDCLIENT_WAITED && event->reason == FED_WAIT_FINISHED);
}

/** Whatever the coordinator answers, a device without work asks ten times a second at most, and
 * once a day at least. */
static void pace(fedclient_event *event) {
    enum { LEAST_MS = 100, MOST_MS = 24 * 3600 * 1000 };
    const bool idle = event->outcome == FEDCLIENT_WAITED || event->outcome == FEDCLIENT_FINISHED ||
                      event->outcome == FEDCLIENT_DECLINED || event->outcome == FEDCLIENT_LATE;
    if (idle && event->wait_ms < LEAST_MS) {
        event->wait_ms = LEAST_MS;
    }
    event->wait_ms = event->wait_ms < MOST_MS ? event->wait_ms : MOST_MS;
}

uint32_t fedclient_failures(const fedclient *client) {
    return client->failures;
}

void fedclient_set_failures(fedclient *client, uint32_t failures) {
    client->failures = failures;
}

/** *why may be set although the status is FED_OK, for example if the step has declined the task. */
static fed_status step_whole(fedclient *client, fedclient_job *job, fed_error *why) {
    if (fedclient_watch_program(client, why) != FED_OK) {
        return step_unwanted(client, job, why);
    }
    FED_TRY(client->known ? FED_OK : fedclient_slot_reload(client, why));
    FED_TRY(fedclient_identity_renew(client, why)); /* may store the record "identity" */
    fed_status status = step_run(client, job, why);
    if (client->watch.over.status != FED_OK) {
        return step_unwanted(client, job, why);
    }
    if (status == FED_ENONFINITE) {
        return step_faulty(client, job, why);
    }
    return status == FED_EDECLINED ? step_declined(client, job, why) : status;
}

fed_status fedclient_step(fedclient *client, fedclient_event *event, fed_error *err) {
    FED_TRY(fedclient_between_steps(client, "fedclient_step", err));
    if (!fedclient_enrolled(client)) {
        return fed_fail(err, FED_ESTATE,
                        "this device is not enrolled: get a token from the "
                        "coordinator's operator and enrol it");
    }
    *event = (fedclient_event){0};
    fedclient_job *job = calloc(1, sizeof *job); /* too large for a small device's stack */
    FED_REQUIRE(job != NULL, FED_ENOMEM);
    job->client = client;
    job->event = event;
    fed_error why = {0};
    client->heals = false;
    client->unreached = false;
    client->watch.over = (fed_error){0};
    client->steps = true;
    fed_status status = step_whole(client, job, &why);
    client->steps = false;
    step_free(job);
    if (status == FED_EAUTH && client->refused && client->token != NULL) {
        status = fedclient_enrol_anew(client, event, &why);
    }
    if (status != FED_OK) {
        status = step_failed(client, status, event, &why);
    } else if (event->outcome != FEDCLIENT_REFUSED && event->outcome != FEDCLIENT_DECLINED) {
        client->failures = client->silences = 0;
        client->logged = 0;
    }
    pace(event);
    event->over = is_over(client, event);
    if (err != NULL && why.status != FED_OK) {
        *err = why;
    }
    return status;
}

fed_status fedclient_post(fedclient *client, const char *path, const void *body, size_t len,
                          uint32_t hold_ms, int *status, char word[32], fed_writer *answer,
                          fed_error *err) {
    enum { MOST = 1 << 30 };
    if (!fedclient_enrolled(client)) {
        return fed_fail(err, FED_ESTATE, "this program is not enrolled yet: give it a token");
    }
    FED_TRY(fedclient_identity_renew(client, err));
    fedclient_answer got;
    fedclient_span span = {.data = body, .left = len};
    const fedclient_body bytes = fedclient_body_of(&span);
    const fedclient_call call = {.base = client->devices,
                                 .kind = FED_REQUEST_METRIC,
                                 .path = path,
                                 .body = &bytes,
                                 .hold_ms = hold_ms,
                                 .answer_limit = MOST};
    const fed_status sent = fedclient_exchange(client, &call, &got, err);
    if (sent == FED_OK) {
        *status = got.status;
        memcpy(word, got.error, sizeof got.error);
        fed_write_bytes(answer, got.body.data, got.body.len);
    }
    fedclient_answer_free(&got);
    return sent == FED_OK ? answer->status : sent;
}

fed_status fedclient_model(fedclient *client, uint64_t *task, uint32_t *version, float **values,
                           size_t *count, fed_error *err) {
    fedclient_model_head head;
    fedclient_record record = {0};
    FED_TRY(
        fedclient_model_load(client->options.platform, client->slot->number, &head, &record, err));
    if (record.bytes == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "this device has not downloaded a model yet");
    }
    size_t len = 0;
    const uint8_t *payload = fedclient_record_payload(&record, &len);
    float *copy = malloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, payload, len);
    }
    fedclient_record_free(&record);
    FED_REQUIRE(copy != NULL, FED_ENOMEM);
    *task = head.task;
    *version = head.version;
    *count = len / sizeof(float);
    *values = copy;
    return FED_OK;
}
