/* FedYogi, Reddi et al. 2021, algorithm 2: v moves toward u^2 by a fraction of u^2, not by a
 * fraction of the distance. See adaptive.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/adaptive.h"
#include "fedserver/strategies/strategy.h"

static double rule(const double *param, double v, double square) {
    double toward = (1.0 - param[FEDSERVER_ADAPTIVE_B2]) * square;
    return v < square ? v + toward : v > square ? v - toward : v;
}

static void step(const double *param, float *state, float *u, size_t n) {
    fedserver_adaptive_step(param, state, u, n, rule);
}

extern const fedserver_strategy_vtable fedserver_strategy_fedyogi;

const fedserver_strategy_vtable fedserver_strategy_fedyogi = {
    .name = "fedyogi",
    .params = {FEDSERVER_ADAPTIVE_PARAMS(0.9), FEDSERVER_ADAPTIVE_B2_PARAM},
    .step = step,
    .moments = 2,
    .start = fedserver_adaptive_start,
};
