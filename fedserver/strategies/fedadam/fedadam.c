/* FedAdam, Reddi et al. 2021, algorithm 2: v is a running mean of u^2. See adaptive.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/adaptive.h"
#include "fedserver/strategies/strategy.h"

static double rule(const double *param, double v, double square) {
    double b2 = param[FEDSERVER_ADAPTIVE_B2];
    return b2 * v + (1.0 - b2) * square;
}

static void step(const double *param, float *state, float *u, size_t n) {
    fedserver_adaptive_step(param, state, u, n, rule);
}

extern const fedserver_strategy_vtable fedserver_strategy_fedadam;

const fedserver_strategy_vtable fedserver_strategy_fedadam = {
    .name = "fedadam",
    .params = {FEDSERVER_ADAPTIVE_PARAMS(0.9), FEDSERVER_ADAPTIVE_B2_PARAM},
    .step = step,
    .moments = 2,
    .start = fedserver_adaptive_start,
};
