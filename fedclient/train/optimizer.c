/* Optimizers: what they remember between steps and rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/optimizer.h"

#include <string.h>

#include "fed/small.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/update.h"

size_t fedtrain_optimizer_state_size(const fed_optimizer *optimizer, size_t n) {
    return fedtrain_state_parts_of(optimizer, n).size;
}

void fedtrain_optimizer_begin_round(const fed_optimizer *optimizer, float *state,
                                    const float *params, size_t n) {
    const fedtrain_state_parts p = fedtrain_state_parts_of(optimizer, n);
    if (!FED_SMALL && optimizer->stateless) {
        memset(state, 0, p.size * sizeof *state);
    }
    if (p.own > p.start) {
        memcpy(state + p.start, params, n * sizeof *params);
    }
    if (!FED_SMALL && p.rates > p.own) {
        state[p.rates] = 0;
    }
}

void fedtrain_optimizer_end_round(const fed_optimizer *optimizer, float *state, float *params,
                                  size_t n) {
    const fedtrain_state_parts p = fedtrain_state_parts_of(optimizer, n);
    if (FED_SMALL || p.rates == p.own || state[p.rates] <= 0) {
        /* There is no scaffold, no step was taken, or the schedule's rate was always 0. */
        return;
    }
    float *own = state + p.own, *control = params + n;
    for (size_t i = 0; i < n; i++) {
        float change = (state[p.start + i] - params[i]) / state[p.rates] - control[i];
        own[i] += change;
        control[i] += (float)optimizer->scaffold_share * change;
    }
}

/* Apply the schedule "stall" at the end of a window. stall[WAITED] is 0 before the first window,
 * then 1 + the windows since the best or since the last cut. */
static void stall_detector(const fed_optimizer *o, float *stall, float mean) {
    if (stall[FEDTRAIN_STALL_WAITED] <= 0 ||
        (double)mean < (double)stall[FEDTRAIN_STALL_BEST] * (1 - o->stall_gain)) {
        stall[FEDTRAIN_STALL_BEST] = mean;
        stall[FEDTRAIN_STALL_WAITED] = 1;
        return;
    }
    stall[FEDTRAIN_STALL_WAITED] += 1;
    if (stall[FEDTRAIN_STALL_WAITED] > (float)o->stall_patience) {
        stall[FEDTRAIN_STALL_CUTS] += 1;
        stall[FEDTRAIN_STALL_WAITED] = 1;
    }
}

void fedtrain_optimizer_see_loss(const fed_optimizer *optimizer, float *state, size_t n,
                                 float loss) {
    if (optimizer->stall_window <= 0) {
        return;
    }
    float *stall = state + fedtrain_state_parts_of(optimizer, n).stall;
    stall[FEDTRAIN_STALL_SUM] += loss;
    stall[FEDTRAIN_STALL_COUNT] += 1;
    if (stall[FEDTRAIN_STALL_COUNT] >= (float)optimizer->stall_window) {
        stall_detector(optimizer, stall, stall[FEDTRAIN_STALL_SUM] / stall[FEDTRAIN_STALL_COUNT]);
        stall[FEDTRAIN_STALL_SUM] = stall[FEDTRAIN_STALL_COUNT] = 0;
    }
}

double fedtrain_optimizer_rate(const fed_optimizer *optimizer, const float *state, size_t n) {
    return fedtrain_update_rate(optimizer, state, n);
}

void fedtrain_optimizer_step(const fed_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n) {
    uint64_t saved = fedtrain_denormal_flush();
    fedtrain_updater u = fedtrain_update_begin(optimizer, state, params, n);
    fedtrain_update_clip(&u, grad, n);
    fedtrain_update_apply(&u, 0, grad, n);
    fedtrain_denormal_restore(saved);
}

fed_status fedtrain_optimizer_begin_step(const fed_optimizer *optimizer, float *state,
                                         float *params, size_t n, fedtrain_open_step *step,
                                         fed_error *err) {
    if (optimizer->clip_norm > 0) {
        return fed_fail(err, FED_EINVAL,
                        "clipping by norm needs the whole gradient, and this step is taken in "
                        "parts: leave norm= out of the optimizer's \"clip\"");
    }
    const fedtrain_updater u = fedtrain_update_begin(optimizer, state, params, n);
    _Static_assert(sizeof u <= sizeof *step, "fedtrain_open_step is too small");
    memcpy(step, &u, sizeof u);
    return FED_OK;
}

void fedtrain_optimizer_step_part(const fedtrain_open_step *step, size_t offset, size_t n,
                                  const float *grad, float scale) {
    fedtrain_updater u;
    memcpy(&u, step, sizeof u);
    u.update.step.share = scale;
    uint64_t saved = fedtrain_denormal_flush();
    fedtrain_update_apply(&u, offset, grad, n);
    fedtrain_denormal_restore(saved);
}

void fedtrain_optimizer_mask(const fed_optimizer *optimizer, float *state, const float *sent,
                             size_t n) {
    if (optimizer->rule == FED_SGD) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        state[i] = sent[i] != 0 ? 0 : state[i];
    }
}

void fedtrain_optimizer_owed(const fed_optimizer *optimizer, float *params, const float *owed,
                             float sign, size_t n) {
    if (FED_SMALL || optimizer->scaffold_share <= 0) {
        return;
    }
    const float by = sign / (float)optimizer->scaffold_share;
    for (size_t i = n; i < 2 * n; i++) {
        params[i] += by * owed[i];
    }
}
