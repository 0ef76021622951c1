/* One optimizer step in numbers: what it makes of a gradient, and where it finds its memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_OPTIMIZER_STEP_H
#define FEDTRAIN_OPTIMIZER_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/optimizer_spec.h"
#include "fed/small.h"

/**
 * The numbers. The gradient first: g times share, g += mu (w - w0), is held to limit, times scale,
 * plus decay w. Then the rule, Adam's w = keep w - rate m / (sqrt(v) scale2 + epsilon).
 */
typedef struct fedtrain_step {
    float mu, limit, scale, decay;
    bool shaped; /* false: limit, scale and decay leave g as it is */
    bool nesterov;
    float share; /* not 1: only of a step in parts, which a small build has not */
    float rate;  /* of learning; Adam: / (1 - beta1^t) */
    float beta1, beta2;
    float fresh1; /* 1 - beta1 */
    float fresh2; /* 1 - beta2: in float32 it would be 1.3e-5 too small */
    float scale2; /* 1 / sqrt(1 - beta2^t) */
    float epsilon;
    float keep; /* 1 - learning rate * AdamW's decay */
} fedtrain_step;

/**
 * One step of n parameters. Pointers are into the parameters and the state that the caller holds: a
 * backend that keeps copies elsewhere finds its own by the distance from what it copied.
 */
typedef struct fedtrain_update {
    fed_rule rule;
    fedtrain_step step;
    double clip_norm;      /* the whole gradient's norm is held to it first; 0: it is not */
    float *params;         /* float32[n], stepped in place; with scaffold float32[2 n] */
    float *first, *second; /* moments: float32[n], by the rule */
    const float *start;    /* float32[n], where the round began; NULL: nothing needs it */
    const float *own;      /* float32[n], c_i of scaffold; NULL: there is none */
    size_t control;        /* where scaffold's c begins in params */
} fedtrain_update;

/** The rate, if all that a step does is to go that far down the gradient; else 0. */
static inline float fedtrain_update_only_rate(const fedtrain_update *u) {
    bool only = !FED_SMALL && u->rule == FED_SGD && !u->step.shaped && u->start == NULL;
    return only ? u->step.rate : 0;
}

/** Does a gradient of 0 leave a parameter and its moments as they are? */
static inline bool fedtrain_update_skips_zeros(const fedtrain_update *u) {
    return u->rule == FED_SGD && u->step.decay == 0 && u->start == NULL;
}

#endif
