/* Adaptive server optimizers: code that fedadagrad, fedadam and fedyogi share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ADAPTIVE_H
#define FEDSERVER_ADAPTIVE_H

#include <math.h>
#include <stddef.h>

#include "fed/params.h"

/*
 * Reddi et al. 2021 (Adaptive Federated Optimization), algorithm 2, where u is the vector that the
 * clients' changes were combined into:
 *
 *     p = b1 p + (1 - b1) u
 *     v = the strategy's rule of v and u^2     at first v = tau^2
 *     w += lr p / (sqrt(v) + tau)
 *
 * The state is p, then v, as float32; each is computed in double and rounded once.
 */
enum {
    FEDSERVER_ADAPTIVE_LR,
    FEDSERVER_ADAPTIVE_B1,
    FEDSERVER_ADAPTIVE_TAU,
    FEDSERVER_ADAPTIVE_B2
};

#define FEDSERVER_ADAPTIVE_PARAMS(b1)                                                              \
    [FEDSERVER_ADAPTIVE_LR] = {"lr", 0.1, 1e-6, 1e3, "learning rate of the server", false, NULL},  \
    [FEDSERVER_ADAPTIVE_B1] = {"b1",  b1,  0, 0.9999999, "share of the mean that is kept",         \
                               false, NULL},                                                       \
    [FEDSERVER_ADAPTIVE_TAU] = {"tau", 1e-3, 1e-9, 1, "added to the divisor", false, NULL}
#define FEDSERVER_ADAPTIVE_B2_PARAM                                                                \
    [FEDSERVER_ADAPTIVE_B2] = {"b2",  0.99, 0, 0.9999999, "share of the mean square that is kept", \
                               false, NULL}

/* Inline, so that the compiler puts each strategy's rule into its loop. */
static inline void fedserver_adaptive_step(const double *param, float *state, float *u, size_t n,
                                           double (*rule)(const double *param, double v,
                                                          double square)) {
    const double lr = param[FEDSERVER_ADAPTIVE_LR], b1 = param[FEDSERVER_ADAPTIVE_B1];
    const double tau = param[FEDSERVER_ADAPTIVE_TAU];
    float *p = state, *v = state + n;
    for (size_t i = 0; i < n; i++) {
        double x = (double)u[i];
        p[i] = (float)(b1 * (double)p[i] + (1.0 - b1) * x);
        v[i] = (float)rule(param, (double)v[i], x * x);
        u[i] = (float)(lr * (double)p[i] / (sqrt((double)v[i]) + tau));
    }
}

static inline void fedserver_adaptive_start(const double *param, float *state, size_t n) {
    const double tau = param[FEDSERVER_ADAPTIVE_TAU];
    for (size_t i = 0; i < n; i++) {
        state[i] = 0.0f;
        state[n + i] = (float)(tau * tau);
    }
}

#endif
