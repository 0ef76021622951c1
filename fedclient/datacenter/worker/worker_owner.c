/* An optimizer at the owners: each rank steps the weights that it owns, and follows a replica. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/hash.h"
#include "fedclient/datacenter/worker/worker_impl.h"

/* From a run's begin until settle, params and state have only the values that this rank owns, and
 * `local` is the replica with which it computes. Settle asks the owners for the rest. What the
 * owners need is taught before the first run, and again when the caller has changed params or
 * state: then the replica begins with params. */

/* The owner's vectors: weights, the number of steps (each value is this number), and the parts of
 * the optimizer's state that have a value for each parameter. */
enum { WEIGHTS, STEPS, FIRST_PART, PARTS_MOST = FEDDC_REPLICA - FIRST_PART };

static size_t moments_of(const feddc_worker *w) {
    const fed_rule rule = w->o.job.optimizer.rule;
    return rule == FED_SGD ? 0 : rule == FED_MOMENTUM ? 1 : 2;
}

/* Return the number of the state's parts, and their places in it: moments, then prox's weights. */
static size_t parts_of(const feddc_worker *w, size_t at[PARTS_MOST]) {
    size_t count = moments_of(w);
    for (size_t k = 0; k < count; k++) {
        at[k] = k * w->n;
    }
    if (w->o.job.optimizer.prox_mu > 0) {
        at[count++] = w->states - w->n;
    }
    return count;
}

/* The state's value that counts steps, or NULL if the optimizer counts none. */
static float *steps_of(const feddc_worker *w) {
    const size_t moments = moments_of(w) * w->n;
    const size_t prox = w->o.job.optimizer.prox_mu > 0 ? w->n : 0;
    return w->states > moments + prox ? w->state + moments : NULL;
}

/* NULL: this optimizer has no such vector. */
static float *vector_of(const feddc_worker *w, uint32_t what) {
    size_t at[PARTS_MOST];
    const size_t parts = parts_of(w, at);
    if (what == WEIGHTS) {
        return w->params;
    }
    return what >= FIRST_PART && what - FIRST_PART < parts ? w->state + at[what - FIRST_PART]
                                                           : NULL;
}

/* Count the step once, before its first part. Only the engine's thread counts: it may begin the
 * next turn before the worker has ended this one. */
static fed_status begin_turn(feddc_worker *w, uint32_t turn, fed_error *err) {
    if (w->stepped && w->stepped_turn == turn) {
        return FED_OK;
    }
    w->stepped = true;
    w->stepped_turn = turn;
    return fedtrain_optimizer_begin_step(&w->o.job.optimizer, w->state, w->params, w->n, &w->open,
                                         err);
}

static fed_status step(void *user, uint32_t turn, size_t offset, const float *sum, size_t n,
                       uint32_t added, fed_error *err) {
    feddc_worker *w = user;
    FED_TRY(begin_turn(w, turn, err));
    fedtrain_optimizer_step_part(&w->open, offset, n, sum, 1.0F / (float)added);
    return FED_OK;
}

static void fill(float *values, float value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = value;
    }
}

static void tell(void *user, uint32_t what, size_t offset, float *values, size_t n) {
    const float *steps = steps_of(user), *vector = vector_of(user, what);
    if (what == STEPS && steps != NULL) {
        fill(values, *steps, n);
    } else if (vector != NULL) {
        memcpy(values, vector + offset, n * sizeof *values);
    }
}

static void learn(void *user, uint32_t what, size_t offset, const float *values, size_t n) {
    const feddc_worker *w = user;
    float *steps = steps_of(w), *vector = vector_of(w, what);
    if (what == STEPS && steps != NULL) {
        *steps = values[0];
    } else if (vector != NULL) {
        memcpy(vector + offset, values, n * sizeof *values);
    }
}

void feddc_worker_owner_open(feddc_worker *w) {
    w->owner =
        (feddc_owner){.weights = w->params, .step = step, .tell = tell, .learn = learn, .user = w};
    w->stepped = w->taught = false;
}

typedef fed_status vector_call(feddc_exchange *x, uint32_t step, uint32_t what, float *values,
                               fed_error *err);

/* An exchange that no step's counters include. */
static fed_status call(feddc_worker *w, vector_call *how, uint32_t what, float *values,
                       fed_error *err) {
    feddc_worker_count_in(w, 1);
    const fed_status status = how(w->x, w->turn, what, values, err);
    feddc_worker_count_in(w, -1);
    w->turn++;
    w->taken = w->due = w->turn;
    return status;
}

static fed_status share_steps(feddc_worker *w, vector_call *how, fed_error *err) {
    const float *steps = steps_of(w);
    if (steps == NULL) {
        return FED_OK;
    }
    fill(w->words, *steps, w->n);
    return call(w, how, STEPS, w->words, err);
}

static uint64_t digest(const feddc_worker *w) {
    return fed_digest(w->params, w->n) ^ fed_digest(w->state, w->states);
}

static fed_status teach(feddc_worker *w, fed_error *err) {
    size_t at[PARTS_MOST];
    const size_t parts = parts_of(w, at);
    FED_TRY(call(w, feddc_exchange_teach, WEIGHTS, w->params, err));
    FED_TRY(call(w, feddc_exchange_teach, FEDDC_REPLICA, w->local, err));
    FED_TRY(share_steps(w, feddc_exchange_teach, err));
    for (size_t k = 0; k < parts; k++) {
        FED_TRY(call(w, feddc_exchange_teach, FIRST_PART + (uint32_t)k, w->state + at[k], err));
    }
    w->taught = true;
    return FED_OK;
}

static float *keep(float *spare, const float *values, size_t n) {
    memcpy(spare, values, n * sizeof *values);
    return spare + n;
}

fed_status feddc_worker_owner_begin(feddc_worker *w, fed_error *err) {
    const bool changed = w->taught && w->whole && digest(w) != w->told;
    if (changed) { /* by the caller: the replica begins anew */
        memcpy(w->local, w->params, w->n * sizeof *w->local);
    }
    if (w->spare != NULL && w->whole) {
        float *at = keep(w->spare, w->params, w->o.arch->layout.size);
        at = keep(at, w->state, w->states);
        (void)keep(at, w->local, w->n);
        w->torn = true;
    }
    w->whole = false;
    return changed || !w->taught ? teach(w, err) : FED_OK;
}

fed_status feddc_worker_owner_gather(feddc_worker *w, fed_error *err) {
    size_t at[PARTS_MOST];
    const size_t parts = parts_of(w, at);
    if (w->whole) {
        return FED_OK;
    }
    FED_TRY(share_steps(w, feddc_exchange_ask, err));
    if (steps_of(w) != NULL) {
        /* A rank that owns nothing has not counted. This is before the next exchange, which needs
         * this rank: so no owner counts the next step yet. */
        *steps_of(w) = w->words[0];
    }
    FED_TRY(call(w, feddc_exchange_ask, WEIGHTS, w->params, err));
    for (size_t k = 0; k < parts; k++) {
        FED_TRY(call(w, feddc_exchange_ask, FIRST_PART + (uint32_t)k, w->state + at[k], err));
    }
    w->told = digest(w);
    w->completed = w->reached;
    w->whole = true;
    w->torn = false;
    return FED_OK;
}

void feddc_worker_owner_fall_back(feddc_worker *w) {
    const size_t size = w->o.arch->layout.size;
    if (w->torn) {
        memcpy(w->params, w->spare, size * sizeof *w->spare);
        memcpy(w->state, w->spare + size, w->states * sizeof *w->spare);
        memcpy(w->local, w->spare + size + w->states, w->n * sizeof *w->spare);
        w->torn = false;
    }
    w->reached = w->completed;
    w->whole = true;
}
