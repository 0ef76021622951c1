/* Local training: one optimizer step a batch. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/train.h"

#include <inttypes.h>
#include <stdbool.h>

#include "fed/small.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/batches.h"
#include "fedtrain/optimizer.h"

/* In a small build: refuse a job with an optimizer or data that the build leaves out. */
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
        return fed_fail(err, FED_EINVAL,
                        "there are no local steps to take: a round needs at least 1");
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
    const uint32_t round =
        job->round > FEDTRAIN_AGAIN ? (job->round - 1) % FEDTRAIN_AGAIN + 1 : job->round;
    if (FED_SMALL || status == FED_ENONFINITE) {
        return fed_fail(err, status,
                        "client %" PRIu32 ", round %" PRIu32 ", step %zu of %zu: %s; with learning "
                        "rate %g training may diverge: lower the rate",
                        job->client, round, step + 1, job->steps, why->text,
                        job->optimizer.learning_rate);
    }
    return fed_fail(err, status, "client %" PRIu32 ", round %" PRIu32 ", step %zu of %zu: %s",
                    job->client, round, step + 1, job->steps, why->text);
}

typedef struct run {
    const fedtrain_job *job;
    fedtrain_batches *batches;
    float *params, *state;
    size_t step; /* the first step not yet taken */
    double sum;  /* sum of the losses of the steps taken */
    bool more;   /* false: after_step asked to end the run */
} run;

static fed_status took(run *r, fed_status status, float loss, const fed_error *why,
                       fed_error *err) {
    const fedtrain_job *job = r->job;
    if (status != FED_OK) {
        return explain(job, status, r->step, why, err);
    }
    r->sum += loss;
    r->more = job->after_step == NULL || job->after_step(job->user, r->step, loss);
    r->step++;
    return FED_OK;
}

static fed_status take_steps(run *r, fed_error *err) {
    const fedtrain_job *job = r->job;
    while (r->more && r->step < job->steps) {
        float loss = 0;
        fed_error why = {0};
        fedtrain_batch batch;
        fedtrain_batches_next(r->batches, r->step, &batch);
        fed_status status =
            fedtrain_net_step(job->net, &job->optimizer, r->params, r->state, &batch, &loss, &why);
        FED_TRY(took(r, status, loss, &why, err));
    }
    return FED_OK;
}

static fed_status start_pass(const run *r, size_t step, fed_error *err) {
    fed_error why = {0};
    fedtrain_batch batch;
    fedtrain_batches_next(r->batches, step, &batch);
    fed_status status = fedtrain_net_start(r->job->net, &batch, NULL, &why);
    return status == FED_OK ? FED_OK : explain(r->job, status, step, &why, err);
}

/* Take steps on a GPU. The next pass is put into the GPU's stream before the loss of the last one
 * is read, so that the GPU need not wait for the host. */
static fed_status take_steps_ahead(run *r, fed_error *err) {
    const fedtrain_job *job = r->job;
    FED_TRY(start_pass(r, r->step, err));
    while (r->more && r->step < job->steps) {
        float loss = 0;
        fed_error why = {0};
        fed_status status =
            fedtrain_net_update(job->net, &job->optimizer, r->params, r->state, &why);
        if (status == FED_OK && r->step + 1 < job->steps) {
            FED_TRY(start_pass(r, r->step + 1, err));
        }
        if (status == FED_OK) {
            status = fedtrain_net_wait(job->net, &loss, &why);
        }
        if (status != FED_OK) {
            fedtrain_net_undo(job->net, &job->optimizer, r->state);
        }
        FED_TRY(took(r, status, loss, &why, err));
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
    run r = {.job = job,
             .batches = batches,
             .params = params,
             .state = state,
             .step = job->done,
             .more = true};
    fed_status status = fedtrain_net_begin(job->net, params, state,
                                           fedtrain_optimizer_state_size(&job->optimizer, n), err);
    if (status == FED_OK) {
        const bool ahead = !FED_SMALL && fedtrain_net_runs_ahead(job->net, &job->optimizer);
        status = ahead ? take_steps_ahead(&r, err) : take_steps(&r, err);
        fed_status ended = fedtrain_net_end(job->net, params, state, status == FED_OK ? err : NULL);
        status = status == FED_OK ? ended : status;
    }
    fedtrain_batches_close(batches);
    FED_TRY(status);
    if (r.step == job->steps) {
        fedtrain_optimizer_end_round(&job->optimizer, state, params, n);
    }
    *loss = (float)(r.sum / (double)(r.step - job->done));
    return FED_OK;
}
