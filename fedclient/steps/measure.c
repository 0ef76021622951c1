/* Evaluation: measure a model with the program's callback, and report the result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>

#include "fedclient/steps/steps.h"

static fed_status take_model(const fedclient *client, fedclient_job *job) {
    if (client->options.room == NULL) {
        return fedclient_record_own(&job->model);
    }
    fedclient_record copy;
    FED_TRY(fedclient_callback_copy(client, job, 0, &copy));
    fedclient_record_free(&job->model);
    job->model = copy;
    return FED_OK;
}

/* An older coordinator refuses a measurement without an accuracy. */
static uint32_t correct_sent(const fedclient_job *job, uint32_t correct) {
    const bool can = (job->assignment.capabilities & FED_CAN_NO_ACCURACY) != 0;
    return correct == FEDCLIENT_NO_CORRECT && !can ? 0 : correct;
}

fed_status fedclient_evaluate(fedclient *client, fedclient_job *job, fed_error *err) {
    size_t count = 0;
    FED_TRY(take_model(client, job));
    /* docs/durability.md, C5: the program changes a copy, not the stored model. */
    assert(!job->model.lent);
    fedclient_round round = {.values = fedclient_record_values(&job->model, &count)};
    fed_status status = fedclient_callback(client, job, &round, err);
    fedclient_record_free(&job->model);
    FED_TRY(status);
    if (round.correct > round.samples && round.correct != FEDCLIENT_NO_CORRECT) {
        return fed_fail(err, FED_EINVAL,
                        "the callback reported %" PRIu32
                        " correct samples of an evaluation of %" PRIu32
                        ": \"correct\" is the number of samples with the right class",
                        round.correct, round.samples);
    }
    client->metric = (fed_metric){.task = job->assignment.task.id,
                                  .version = job->assignment.version,
                                  .samples = round.samples,
                                  .correct = correct_sent(job, round.correct),
                                  .loss = fedclient_loss_sent(job, round.loss)};
    client->metric_due = true;
    client->metric_of_regression = job->arch.loss == FED_LOSS_SQUARED;
    return FED_OK;
}

static fed_status post(fedclient *client, fedclient_answer *answer, fed_error *err) {
    uint8_t message[64 + FED_OWN_BYTES];
    fed_writer w;
    fed_writer_fixed(&w, message, sizeof message);
    fed_metric_write(&w, &client->metric);
    fed_own_metrics_write(&w, &client->own);
    fedclient_span span = {.data = message, .left = w.len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {
        .base = client->devices, .kind = FED_REQUEST_METRIC, .body = &body, .answer_limit = 4096};
    return fedclient_exchange(client, &call, answer, err);
}

fed_status fedclient_report(fedclient *client, fedclient_job *job, fed_error *err) {
    fedclient_answer answer = {0};
    fed_status status = post(client, &answer, err);
    if (status == FED_OK && answer.status != 200) {
        client->metric_due = false;
        client->heals = answer.status == 404; /* 404: the version is unknown; check in again */
        status = fed_fail(err, FED_EFORMAT,
                          "the coordinator refused the measurement of version %" PRIu32 ": %s (%s)",
                          client->metric.version, answer.message, answer.error);
    }
    fedclient_answer_free(&answer);
    FED_TRY(status);
    client->metric_due = false;
    job->event->outcome = FEDCLIENT_EVALUATED;
    job->event->round = 0;
    job->event->version = client->metric.version;
    job->event->samples = client->metric.samples;
    job->event->correct = client->metric.correct;
    job->event->loss = client->metric.loss;
    job->event->regression = client->metric_of_regression;
    return FED_OK;
}
