/* An optimizer step in parts, on this processor: a tensor is updated while it is still in cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_UPDATE_H
#define FEDTRAIN_UPDATE_H

#include "fedclient/train/kernels.h"
#include "fedclient/train/optimizer_step.h"
#include "fedtrain/sink.h"

/** The places, in floats, where the parts that fedtrain_optimizer_state_size describes begin; and
 * the state's size. */
typedef struct fedtrain_state_parts {
    size_t steps, stall, start, own, rates, size;
} fedtrain_state_parts;

fedtrain_state_parts fedtrain_state_parts_of(const fed_optimizer *optimizer, size_t n);

/** The state's part "stall": sum and number of a window's losses, the best window's mean, 1 + the
 * windows since that or since the last cut of the rate, and how often the rate was cut. */
enum {
    FEDTRAIN_STALL_SUM,
    FEDTRAIN_STALL_COUNT,
    FEDTRAIN_STALL_BEST,
    FEDTRAIN_STALL_WAITED,
    FEDTRAIN_STALL_CUTS,
    FEDTRAIN_STALL_FLOATS
};

/** The learning rate of the next step, by the optimizer's schedule. */
double fedtrain_update_rate(const fed_optimizer *optimizer, const float *state, size_t n);

/** The state's counters, which fedtrain_net_undo can put back. */
typedef struct fedtrain_counters {
    float steps, rates;
} fedtrain_counters;

fedtrain_counters fedtrain_counters_of(const fed_optimizer *optimizer, const float *state,
                                       size_t n);
void fedtrain_counters_put(const fed_optimizer *optimizer, float *state, size_t n,
                           fedtrain_counters counters);

typedef struct fedtrain_updater {
    fedtrain_update update;
    const fedtrain_kernels *kernels;
} fedtrain_updater;

/** Start a step of all n parameters, and count it in the state. */
fedtrain_updater fedtrain_update_begin(const fed_optimizer *optimizer, float *state, float *params,
                                       size_t n);

/** If the optimizer clips by norm, compute the factor for this gradient; otherwise do nothing. Call
 * it with the whole gradient, before any parameter is updated.   grad float32[n] */
void fedtrain_update_clip(fedtrain_updater *u, const float *grad, size_t n);

/** Update parameters offset .. offset + n - 1, each once a step.   grad float32[n]: the gradient of
 * these. The results are the same for parts and for all parameters at once. */
void fedtrain_update_apply(const fedtrain_updater *u, size_t offset, const float *grad, size_t n);

/** A sink (fedtrain/sink.h) that calls fedtrain_update_apply for each gradient, in any parts. */
fedtrain_sink fedtrain_update_sink(fedtrain_updater *u);

#endif
