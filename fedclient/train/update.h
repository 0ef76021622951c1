/* An optimizer step in parts, on this processor: a tensor is updated while it is still in cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_UPDATE_H
#define FEDTRAIN_UPDATE_H

#include "fedclient/train/kernels.h"
#include "fedclient/train/optimizer_step.h"
#include "fedtrain/sink.h"

/** Where the parts of an optimizer's state begin, and its size, in floats. */
typedef struct fedtrain_state_parts {
    size_t steps, stall, start, own, rates, size;
} fedtrain_state_parts;

fedtrain_state_parts fedtrain_state_parts_of(const fed_optimizer *optimizer, size_t n);

/** What the part "stall" remembers. */
enum {
    FEDTRAIN_STALL_SUM,
    FEDTRAIN_STALL_COUNT,
    FEDTRAIN_STALL_BEST,
    FEDTRAIN_STALL_WAITED,
    FEDTRAIN_STALL_CUTS,
    FEDTRAIN_STALL_FLOATS
};

/** The learning rate of the next step, by the schedule. */
double fedtrain_update_rate(const fed_optimizer *optimizer, const float *state, size_t n);

/** What a step counts in the state, and what it was before: a step that fails puts it back. */
typedef struct fedtrain_counters {
    float steps, rates;
} fedtrain_counters;

fedtrain_counters fedtrain_counters_of(const fed_optimizer *optimizer, const float *state,
                                       size_t n);
void fedtrain_counters_put(const fed_optimizer *optimizer, float *state, size_t n,
                           fedtrain_counters counters);

/** A step, and the kernels that take it. */
typedef struct fedtrain_updater {
    fedtrain_update update;
    const fedtrain_kernels *kernels;
} fedtrain_updater;

/** Start a step of all n parameters: counts it in the state. */
fedtrain_updater fedtrain_update_begin(const fed_optimizer *optimizer, float *state, float *params,
                                       size_t n);

/** For a step that clips by norm, with the whole gradient and before anything is updated; else does
 * nothing.   grad float32[n] */
void fedtrain_update_clip(fedtrain_updater *u, const float *grad, size_t n);

/** Update parameters offset .. offset + n - 1, each once a step.   grad float32[n]: of these. In
 * parts or at once, the values are the same. */
void fedtrain_update_apply(const fedtrain_updater *u, size_t offset, const float *grad, size_t n);

/** The sink that does this. It takes a layer in any parts. */
fedtrain_sink fedtrain_update_sink(fedtrain_updater *u);

#endif
