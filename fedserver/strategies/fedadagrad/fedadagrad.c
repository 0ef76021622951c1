/* FedAdagrad, Reddi et al. 2021, algorithm 2: v grows by u^2. See adaptive.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/adaptive.h"
#include "fedserver/strategies/strategy.h"

static double rule(const double *param, double v, double square) {
    (void)param;
    return v + square;
}

static void step(const double *param, float *state, float *u, size_t n) {
    fedserver_adaptive_step(param, state, u, n, rule);
}

extern const fedserver_strategy_vtable fedserver_strategy_fedadagrad;

const fedserver_strategy_vtable fedserver_strategy_fedadagrad = {
    .name = "fedadagrad",
    .params = {FEDSERVER_ADAPTIVE_PARAMS(0)},
    .step = step,
    .moments = 2,
    .start = fedserver_adaptive_start,
};
