/* Calls the program's callback, which trains or measures, and checks the callback's results. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "fedclient/steps/steps.h"

void fedclient_callback_values(const fedclient_job *job, float *values) {
    size_t count = 0;
    const float *model = fedclient_record_values(&job->model, &count);
    assert(count == fedclient_travels(job)->size);
    if (fedclient_has_own(job)) {
        fed_private_layers_join(&job->split, &job->arch.layout, model, job->own, values);
    } else {
        memcpy(values, model, count * sizeof *values);
    }
}

fed_status fedclient_callback_copy(const fedclient *client, const fedclient_job *job, size_t more,
                                   fedclient_record *copy) {
    const fedclient_options *options = &client->options;
    const size_t len = job->arch.layout.size * sizeof(float);
    size_t count = 0;
    assert(job->model.bytes != NULL);
    if (options->room != NULL && options->platform->memory == NULL) {
        void *bytes = options->room(options->user, FEDCLIENT_RECORD_HEAD + len + more);
        FED_TRY(fedclient_record_in(bytes, len + more, copy));
    } else {
        FED_TRY(fedclient_record_room(options->platform, len + more, copy));
    }
    /* docs/durability.md, C5: the program changes a copy, not the stored model. */
    assert(!copy->lent);
    fedclient_callback_values(job, fedclient_record_values(copy, &count));
    return FED_OK;
}

/** Return true if the callback may succeed when it is called again. */
static bool may_pass(fed_status status) {
    return status == FED_ENONFINITE || status == FED_ENOMEM || status == FED_EBUSY;
}

fed_status fedclient_callback(fedclient *client, const fedclient_job *job, fedclient_round *round,
                              fed_error *err) {
    round->task = &job->assignment.task;
    round->arch = &job->arch;
    round->round = job->assignment.round;
    round->version = job->assignment.version;
    round->slot = client->slot->number;
    round->job = job;
    round->own_is_new = job->own_is_new;
    round->loss = FEDCLIENT_NO_LOSS;
    round->correct = FEDCLIENT_NO_CORRECT;
    if (client->own_task != job->assignment.task.id || round->is_personal) {
        client->own.count = 0;
    }
    client->own_task = 0;
    client->own_seq = 0;
    const char *what = round->number != 0 ? "training" : "evaluation";
    fed_error own = {0};
    fed_status status = client->options.train(client->options.user, round, &own);
    const fed_error *over = &client->watch.over;
    if (over->status == FED_ECANCELED || (over->status != FED_OK && status != FED_OK)) {
        return fed_fail(err, over->status, "%s", over->text);
    }
    if (status == FED_EDECLINED || may_pass(status)) {
        return fed_fail(err, status == FED_EDECLINED ? status : FED_ENONFINITE, "%s",
                        own.text[0] != '\0' ? own.text : fed_status_text(status));
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s on version %" PRIu32 " failed: %.300s", what,
                        round->version, own.text[0] != '\0' ? own.text : fed_status_text(status));
    }
    if (round->samples == 0) {
        return fed_fail(err, FED_EINVAL,
                        "%s on version %" PRIu32 " left 0 samples: the callback must set samples",
                        what, round->version);
    }
    if (round->loss == FEDCLIENT_NO_LOSS) {
        round->loss = NAN;
    } else if (!isfinite(round->loss)) {
        /* without the version: the coordinator counts equal reasons of several devices */
        return fed_fail(err, FED_ENONFINITE,
                        "%s left a loss of %g: is the learning rate too high, or are the data "
                        "damaged?",
                        what, (double)round->loss);
    }
    if ((job->assignment.capabilities & FED_CAN_OWN_METRICS) == 0) {
        client->own.count = 0;
    }
    return FED_OK;
}

float fedclient_loss_sent(const fedclient_job *job, float loss) {
    return isnan(loss) && (job->assignment.capabilities & FED_CAN_NO_LOSS) == 0 ? 0 : loss;
}

fed_status fedclient_round_metric(const fedclient_round *round, const char *name, double value,
                                  fed_error *err) {
    return fed_own_metrics_set(&round->job->client->own, name, value, err);
}

fed_status fedclient_between_steps(const fedclient *client, const char *function, fed_error *err) {
    return client->steps ? fed_fail(err, FED_ESTATE,
                                    "%s was called within a callback of the same client: return "
                                    "from the callback first",
                                    function)
                         : FED_OK;
}
