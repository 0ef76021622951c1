/* An optimizer step in parts, so that a backend can update a tensor while it is still in cache. */
#ifndef FEDTRAIN_UPDATE_H
#define FEDTRAIN_UPDATE_H

#include "fedclient/train/kernels.h"
#include "fedtrain/optimizer.h"

/** One step under way. */
typedef struct fedtrain_update {
    fedtrain_rule rule;
    const fedtrain_kernels *kernels;
    float rate;
    float *first, *second; /* moments: float32[n], by the rule */
    fedtrain_adam adam;
} fedtrain_update;

/** Start a step of all n parameters: counts it in the state. */
fedtrain_update fedtrain_update_begin(const fedtrain_optimizer *optimizer, float *state, size_t n);

/** Update parameters offset .. offset + n - 1, each once a step.   params: of the whole model;
 * grad float32[n]: of these. In parts or at once, the values agree to rounding. */
void fedtrain_update_apply(const fedtrain_update *u, float *params, size_t offset,
                           const float *grad, size_t n);

#endif
