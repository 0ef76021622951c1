/* Local training: one optimizer step a batch. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/train.h"

#include <inttypes.h>
#include <stdbool.h>

#include "fed/small.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/batches.h"
#include "fedtrain/optimizer.h"

/* What a small build leaves out, beside layers. */
static fed_status check_build(const fedtrain_job *job, fed_error *err) {
    const fed_optimizer *o = &job->optimizer;
    bool varied = job->augment.padding > 0 || job->augment.flip;
    bool scheduled =
        o->warmup_steps > 0 || o->step_every > 0 || o->cosine_steps > 0 || o->stall_window > 0;
    bool shaped = o->clip_value > 0 || o->clip_norm > 0 || o->prox_mu > 0 || o->scaffold_share > 0;
    if (FED_SMALL && (o->rule != FED_SGD || scheduled || shaped || varied || job->token != NULL)) {
        return fed_fail(err, FED_EINVAL,
                        "this program was built small (see fed/small.h): it trains on samples as "
                        "they are, with sgd at one rate");
    }
    return FED_OK;
}

static fed_status check_job(const fedtrain_job *job, fed_error *err) {
    FED_TRY(check_build(job, err));
    if (job->steps <= job->done) {
        return fed_fail(err, FED_EINVAL, "no local steps: 1 at least");
    }
    if (!FED_SMALL && job->optimizer.scaffold_share > 0 && !job->net->arch->scaffold) {
        return fed_fail(err, FED_EINVAL,
                        "an optimizer with +scaffold needs a model with \"| scaffold\" at its end, "
                        "not \"%s\"",
                        job->net->arch->text);
    }
    return FED_OK;
}

static fed_status explain(const fedtrain_job *job, fed_status status, size_t step,
                          const fed_error *why, fed_error *err) {
    if (FED_SMALL || status == FED_ENONFINITE) {
        return fed_fail(err, status,
                        "client %" PRIu32 ", round %" PRIu32 ", step %zu of %zu: %s; with learning "
                        "rate %g training may diverge: lower it",
                        job->client, job->round, step + 1, job->steps, why->text,
                        job->optimizer.learning_rate);
    }
    return fed_fail(err, status, "client %" PRIu32 ", round %" PRIu32 ", step %zu of %zu: %s",
                    job->client, job->round, step + 1, job->steps, why->text);
}

/* From step *step on; *step becomes the first that was not taken, *sum grows by the losses. */
static fed_status take_steps(const fedtrain_job *job, fedtrain_batches *batches, float *params,
                             float *state, size_t *step, double *sum, fed_error *err) {
    for (bool more = true; more && *step < job->steps;) {
        float loss = 0;
        fed_error why = {0};
        fedtrain_batch batch;
        fedtrain_batches_next(batches, *step, &batch);
        fed_status status =
            fedtrain_net_step(job->net, &job->optimizer, params, state, &batch, &loss, &why);
        if (status != FED_OK) {
            return explain(job, status, *step, &why, err);
        }
        *sum += loss;
        more = job->after_step == NULL || job->after_step(job->user, *step, loss);
        ++*step;
    }
    return FED_OK;
}

fed_status fedtrain_run(const fedtrain_job *job, float *params, float *state, float *loss,
                        fed_error *err) {
    fedtrain_batches *batches;
    FED_TRY(check_job(job, err));
    FED_TRY(fedtrain_batches_open(job, params, &batches, err));
    const size_t n = job->net->arch->trained;
    if (job->done == 0) {
        fedtrain_optimizer_begin_round(&job->optimizer, state, params, n);
    }
    size_t step = job->done;
    double sum = 0;
    fed_status status = fedtrain_net_begin(job->net, params, state,
                                           fedtrain_optimizer_state_size(&job->optimizer, n), err);
    if (status == FED_OK) {
        status = take_steps(job, batches, params, state, &step, &sum, err);
        fed_status ended = fedtrain_net_end(job->net, params, state, status == FED_OK ? err : NULL);
        status = status == FED_OK ? ended : status;
    }
    fedtrain_batches_close(batches);
    FED_TRY(status);
    if (step == job->steps) {
        fedtrain_optimizer_end_round(&job->optimizer, state, params, n);
    }
    *loss = (float)(sum / (double)(step - job->done));
    return FED_OK;
}
