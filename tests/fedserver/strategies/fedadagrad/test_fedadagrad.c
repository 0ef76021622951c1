/* FedAdagrad against algorithm 2 of its paper. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "strategy_case.h"

static void reference(const strategy_round *round, double *memory, double *change) {
    double *p = memory, *v = memory + CASE_VALUES, *rounds = memory + 2 * CASE_VALUES;
    strategy_case_mean(round, change);
    for (int i = 0; i < CASE_TRAINED; i++) {
        double u = change[i];
        v[i] = *rounds > 0 ? v[i] : 0.02 * 0.02;
        p[i] = 0.3 * p[i] + (1 - 0.3) * u;
        v[i] = v[i] + u * u;
        change[i] = 0.2 * p[i] / (sqrt(v[i]) + 0.02);
    }
    ++*rounds;
}

FED_TEST(it_divides_by_the_root_of_all_squares) {
    strategy_case_follows("fedadagrad:lr=0.2,b1=0.3,tau=0.02", reference);
}
