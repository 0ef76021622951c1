/* An optimizer step in parts, so that a backend can update a tensor while it is still in cache. */
#ifndef FEDTRAIN_UPDATE_H
#define FEDTRAIN_UPDATE_H

#include "fed/small.h"
#include "fedclient/train/kernels.h"
#include "fedtrain/optimizer.h"

/** One step under way. */
typedef struct fedtrain_update {
    fed_rule rule;
    const fedtrain_kernels *kernels;
    float *first, *second; /* moments: float32[n], by the rule */
    const float *start;    /* float32[n], where the round began; NULL: nothing needs it */
    const float *own;      /* float32[n], c_i of scaffold; NULL: there is none */
    size_t control;        /* where c begins in the model's values */
    fedtrain_step step;
} fedtrain_update;

/** Start a step of all n parameters: counts it in the state. */
fedtrain_update fedtrain_update_begin(const fed_optimizer *optimizer, float *state, size_t n);

/** For a step that clips by norm, with the whole gradient and before anything is updated; else does
 * nothing.   params, grad float32[n] */
void fedtrain_update_clip(fedtrain_update *u, const fed_optimizer *optimizer, const float *params,
                          const float *grad, size_t n);

/** Update parameters offset .. offset + n - 1, each once a step.   params: of the whole model;
 * grad float32[n]: of these. In parts or at once, the values are the same. */
void fedtrain_update_apply(const fedtrain_update *u, float *params, size_t offset,
                           const float *grad, size_t n);

/** The rate, if all that a step does is to go that far down the gradient; else 0. */
static inline float fedtrain_update_only_rate(const fedtrain_update *u) {
    bool only = !FED_SMALL && u->rule == FED_SGD && !u->step.shaped && u->start == NULL;
    return only ? u->step.rate : 0;
}

/** Where the gradient is 0, does a parameter, and what is remembered of it, stay as it is? */
static inline bool fedtrain_update_skips_zeros(const fedtrain_update *u) {
    return u->rule == FED_SGD && u->step.decay == 0 && u->start == NULL;
}

#endif
