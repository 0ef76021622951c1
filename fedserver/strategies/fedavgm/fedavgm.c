/* FedAvgM, Hsu et al. 2019 (Measuring the Effects of Non-Identical Data Distribution for Federated
 * Visual Classification): v = m v + u, w += v. Departs: adds a learning rate, as in Reddi et al.
 * 2021: w += lr v. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/strategy.h"

enum { LR, M };

static void step(const double *param, float *v, float *u, size_t n) {
    for (size_t i = 0; i < n; i++) {
        v[i] = (float)(param[M] * (double)v[i] + (double)u[i]);
        u[i] = (float)(param[LR] * (double)v[i]);
    }
}

extern const fedserver_strategy_vtable fedserver_strategy_fedavgm;

const fedserver_strategy_vtable fedserver_strategy_fedavgm = {
    .name = "fedavgm",
    .params = {[LR] = {"lr", 1, 1e-6, 1e3, "learning rate of the server", false, NULL},
               [M] = {"m", 0.9, 0, 0.9999999, "share of the momentum that is kept", false, NULL}},
    .step = step,
    .moments = 1,
};
