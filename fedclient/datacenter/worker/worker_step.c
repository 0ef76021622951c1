/* The steps of a worker: gradients go into the exchange and sums come out layer by layer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "fedclient/datacenter/worker/worker_impl.h"

uint64_t feddc_worker_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void trace_phase(const feddc_worker *w, uint64_t now) {
    static const feddc_what whats[FEDDC_PHASES] = {[FEDDC_FORWARD] = FEDDC_FORWARD_PASS,
                                                   [FEDDC_BACKWARD] = FEDDC_BACKWARD_PASS,
                                                   [FEDDC_WAITING] = FEDDC_WAIT,
                                                   [FEDDC_UPDATING] = FEDDC_UPDATE};
    if (w->o.exchange.trace != NULL && w->phase >= FEDDC_FORWARD && w->phase <= FEDDC_UPDATING) {
        const feddc_span span = {.begin = w->since,
                                 .end = now,
                                 .step = w->since_step,
                                 .bucket = UINT32_MAX,
                                 .what = whats[w->phase]};
        feddc_trace_add(w->o.exchange.trace, FEDDC_ROW_COMPUTE, &span);
    }
}

void feddc_worker_enter(feddc_worker *w, feddc_phase phase) {
    const uint64_t now = feddc_worker_now();
    w->phase_s[w->phase] += 1e-9 * (double)(now - w->since);
    trace_phase(w, now);
    if (w->o.watch != NULL) {
        feddc_watch_at(w->o.watch, phase, w->step);
    }
    w->since = now;
    w->since_step = w->step;
    w->phase = phase;
}

/* If an exchange must be taken out before the next step, begin its optimizer step. */
static fed_status begin_taking(feddc_worker *w, fed_error *err) {
    if (w->taking || w->taken >= w->due) {
        return FED_OK;
    }
    if (w->o.at_owners) {
        w->taking = true;
        return FED_OK;
    }
    if (w->spare != NULL && !feddc_worker_on_gpu(w)) {
        const size_t size = w->o.arch->layout.size;
        memcpy(w->spare, w->params, size * sizeof *w->spare);
        memcpy(w->spare + size, w->state, w->states * sizeof *w->spare);
    }
    w->taking = true;
    return fedtrain_optimizer_begin_step(&w->o.job.optimizer, w->state, w->params, w->n, &w->open,
                                         err);
}

static void end_taking(feddc_worker *w) {
    if (w->taking) {
        *(w->o.at_owners ? &w->reached : &w->completed) = w->turn_step[w->taken % 2] + 1;
        w->taken++;
        w->taking = false;
    }
}

static void use_sum(void *user, size_t offset, const float *sum, size_t n) {
    feddc_worker *w = user;
    feddc_worker_enter(w, FEDDC_UPDATING);
    if (w->o.at_owners) { /* the replica's new values */
        memcpy(w->local + offset, sum, n * sizeof *sum);
        feddc_worker_enter(w, FEDDC_WAITING);
        return;
    }
    feddc_worker_step_part(w, offset, n, sum, w->turn_share[w->taken % 2]);
    feddc_worker_enter(w, FEDDC_WAITING);
}

static fed_status take(feddc_worker *w, size_t offset, size_t n, fed_error *err) {
    const feddc_phase phase = w->phase;
    feddc_worker_enter(w, FEDDC_WAITING);
    fed_status status = feddc_exchange_take(w->x, w->taken, offset, n, use_sum, w, err);
    feddc_worker_enter(w, phase);
    return status == FED_OK ? feddc_worker_failure(w, err) : status;
}

static fed_status begin_local(feddc_worker *w, fed_error *err) {
    w->local_rule = (fed_optimizer){.rule = FED_SGD};
    w->local_rule.learning_rate =
        w->o.local_rate > 0 ? w->o.local_rate
                            : fedtrain_optimizer_rate(&w->o.job.optimizer, w->state, w->n);
    return fedtrain_optimizer_begin_step(&w->local_rule, NULL, w->local, w->n, &w->local_open, err);
}

static fed_status update_local(feddc_worker *w, size_t offset, size_t n, fed_error *err) {
    const feddc_phase phase = w->phase;
    feddc_worker_enter(w, FEDDC_UPDATING);
    if (feddc_worker_on_gpu(w)) { /* on a GPU all parameters are needed at once */
        const fed_status status = feddc_worker_descend(w, err);
        feddc_worker_enter(w, phase);
        return status;
    }
    memcpy(w->local + offset, w->params + offset, n * sizeof *w->local);
    if (w->own != NULL) {
        fedtrain_optimizer_step_part(&w->local_open, offset, n, w->own + offset, 1);
    }
    feddc_worker_enter(w, phase);
    return FED_OK;
}

/* Called before the forward pass reads these parameters. */
static fed_status need(void *user, size_t offset, size_t n, fed_error *err) {
    feddc_worker *w = user;
    if (w->taking) {
        FED_TRY(take(w, offset, n, err));
    }
    if (w->act.local && !w->local_ready) {
        return update_local(w, offset, n, err);
    }
    return FED_OK;
}

/* Called when the gradient of these parameters is complete. */
static void done(void *user, size_t offset, const float *grad, size_t n) {
    feddc_worker *w = user;
    if (w->phase != FEDDC_BACKWARD) {
        feddc_worker_enter(w, FEDDC_BACKWARD);
    }
    if (w->left != NULL) {
        float *left = w->left + offset;
        feddc_worker_note(w, feddc_values_use(&w->values, w->left_empty, left, grad, n));
        grad = left;
    } else if (feddc_worker_on_gpu(w) && w->grad[1] != w->grad[0]) {
        /* copy the gradient: the net has memory for one only, which the next pass overwrites */
        float *own = w->grad[w->step % 2] + offset;
        feddc_worker_note(w, feddc_values_use(&w->values, true, own, grad, n));
        grad = own;
    }
    if (w->act.exchange) {
        feddc_exchange_put(w->x, w->turn, offset, grad, n, w->act.plain);
    }
}

/* Return the number of this rank's batch at this step: in the data set that all workers share, or
 * in this rank's part of a text. */
static size_t batch_number(const feddc_worker *w) {
    if (w->o.job.token != NULL) {
        return w->step;
    }
    return (size_t)(w->walked + (uint64_t)(w->step - w->base_step) * w->workers + w->rank);
}

/* Do a forward and a backward pass. If values become infinite or NaN, the error names the learning
 * rate. */
static fed_status pass(feddc_worker *w, const fedtrain_batch *batch, float *grad, float *loss,
                       fed_error *err) {
    const fedtrain_sink sink = {.done = done, .need = need, .user = w};
    fed_error why = {0};
    const fed_status status =
        feddc_worker_on_gpu(w)
            ? feddc_worker_pass(w, batch, &sink, loss, &why)
            : fedtrain_net_gradient_to(w->o.job.net,
                                       w->act.local || w->o.at_owners ? w->local : w->params, batch,
                                       &sink, grad, loss, &why);
    if (status == FED_ENONFINITE) {
        return fed_fail(err, status,
                        "step %" PRIu32
                        ": %s; with learning rate %g training may diverge: lower the rate",
                        w->step, why.text, w->o.job.optimizer.learning_rate);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

static fed_status one_step(feddc_worker *w, fed_error *err) {
    fedtrain_batch batch;
    float loss = 0;
    feddc_worker_enter(w, FEDDC_FORWARD);
    w->act = feddc_sync_act(&w->o.sync, w->step);
    FED_TRY(begin_taking(w, err));
    if (w->act.local && !w->local_ready) {
        FED_TRY(begin_local(w, err));
    }
    fedtrain_batches_next(w->batches, batch_number(w), &batch);
    float *grad = w->grad[w->step % 2];
    FED_TRY(pass(w, &batch, grad, &loss, err));
    end_taking(w);
    w->local_ready = w->o.at_owners;
    w->own = grad;
    w->left_empty = w->act.exchange;
    if (w->act.exchange) {
        const uint32_t counted = w->workers - (w->act.plain ? 0 : w->o.exchange.late);
        w->turn_step[w->turn % 2] = w->step;
        w->turn_share[w->turn % 2] = 1.0F / (float)counted;
        w->turn++;
    }
    w->due = w->turn - (w->act.behind < w->turn ? w->act.behind : w->turn);
    FED_TRY(fedtrain_net_keep_statistics(w->o.job.net, w->params, err));
    w->loss += (double)loss;
    w->losses++;
    w->steps++;
    w->step++;
    if (w->o.job.after_step != NULL) {
        (void)w->o.job.after_step(w->o.job.user, w->step - 1, loss);
    }
    return FED_OK;
}

static fed_status drain(feddc_worker *w, fed_error *err) {
    const feddc_act next = feddc_sync_act(&w->o.sync, w->step);
    while (true) {
        FED_TRY(begin_taking(w, err));
        if (w->taking) {
            FED_TRY(take(w, 0, w->n, err));
            end_taking(w);
        }
        if (w->taken == w->due && next.local && !w->local_ready) {
            FED_TRY(begin_local(w, err));
            FED_TRY(update_local(w, 0, w->n, err));
            w->local_ready = true;
        }
        if (w->taken == w->turn) {
            return FED_OK;
        }
        w->due = w->taken + 1;
    }
}

static bool may_begin(const feddc_worker *w) {
    return w->o.may_begin == NULL || w->o.may_begin(w->o.user, w->step);
}

fed_status feddc_worker_run(feddc_worker *w, uint32_t steps, fed_error *err) {
    fed_status status =
        w->o.at_owners ? feddc_worker_owner_begin(w, err) : feddc_worker_begin(w, err);
    const uint64_t begin = feddc_worker_now(); /* owners that are taught first are no part of it */
    for (uint32_t i = 0; i < steps && status == FED_OK && may_begin(w); i++) {
        status = one_step(w, err);
    }
    if (status == FED_OK) {
        status = drain(w, err);
    }
    status = feddc_worker_end(w, status, err);
    feddc_worker_enter(w, FEDDC_STARTING);
    w->step_s += 1e-9 * (double)(feddc_worker_now() - begin);
    return status;
}

void feddc_worker_fall_back(feddc_worker *w) {
    if (w->o.at_owners) {
        feddc_worker_owner_fall_back(w);
    } else if (w->taking && w->spare != NULL && !feddc_worker_on_gpu(w)) {
        const size_t size = w->o.arch->layout.size;
        memcpy(w->params, w->spare, size * sizeof *w->spare);
        memcpy(w->state, w->spare + size, w->states * sizeof *w->spare);
    }
    w->taking = false;
    w->turn = w->taken = w->due = 0;
    w->walked += (uint64_t)(w->completed - w->base_step) * w->workers;
    w->step = w->base_step = w->completed;
    w->own = NULL;
    w->local_ready = w->local_ready && w->o.at_owners;
    w->left_empty = true;
}
