/* FedAvgM against its definition. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "strategy_case.h"

static void reference(const strategy_round *round, double *v, double *change) {
    strategy_case_mean(round, change);
    for (int i = 0; i < CASE_TRAINED; i++) {
        v[i] = 0.8 * v[i] + change[i];
        change[i] = 0.5 * v[i];
    }
}

FED_TEST(it_is_the_mean_with_momentum) {
    strategy_case_follows("fedavgm:lr=0.5,m=0.8", reference);
}
