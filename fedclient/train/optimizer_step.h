/* One optimizer step in numbers: its coefficients, and pointers to what it changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_OPTIMIZER_STEP_H
#define FEDTRAIN_OPTIMIZER_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/optimizer_spec.h"
#include "fed/small.h"

/** A step's coefficients. A step first changes the gradient g, in this order: g *= share; g += mu
 * (w - w0); g is clipped to -limit .. limit; g *= scale; g += decay w. Then comes the optimizer's
 * rule; Adam's is w = keep w - rate m / (sqrt(v) scale2 + epsilon). */
typedef struct fedtrain_step {
    float mu, limit, scale, decay;
    bool shaped; /* false: limit, scale and decay leave g as it is */
    bool nesterov;
    float share; /* a factor for g, usually 1 */
    float rate;  /* the learning rate; for Adam divided by 1 - beta1^t */
    float beta1, beta2;
    float fresh1; /* 1 - beta1 */
    float fresh2; /* 1 - beta2, computed in double for accuracy */
    float scale2; /* 1 / sqrt(1 - beta2^t) */
    float epsilon;
    float keep; /* 1 - learning rate * AdamW's decay */
} fedtrain_step;

/** One step of n parameters. The pointers lead into the caller's arrays. A GPU's backend turns them
 * into offsets in its copies. */
typedef struct fedtrain_update {
    fed_rule rule;
    fedtrain_step step;
    double clip_norm;      /* limit of the whole gradient's norm; 0: none */
    float *params;         /* float32[n], updated in place; with scaffold float32[2 n] */
    float *first, *second; /* moments, float32[n]; sgd has none, and only Adam has the second */
    const float *start;    /* float32[n], the weights at the round's start; NULL: not needed */
    const float *own;      /* float32[n], scaffold's c_i; NULL: no scaffold */
    size_t control;        /* index in params where scaffold's c begins */
} fedtrain_update;

/** Return the learning rate if the step is just w -= rate g; otherwise 0. */
static inline float fedtrain_update_only_rate(const fedtrain_update *u) {
    bool only = !FED_SMALL && u->rule == FED_SGD && !u->step.shaped && u->start == NULL;
    return only ? u->step.rate : 0;
}

static inline bool fedtrain_update_skips_zeros(const fedtrain_update *u) {
    return u->rule == FED_SGD && u->step.decay == 0 && u->start == NULL;
}

#endif
