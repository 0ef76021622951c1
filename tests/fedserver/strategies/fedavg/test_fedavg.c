/* FedAvg: the mean weighted by samples. Also clipping of updates, which works with any
 * strategy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "strategy_case.h"

static void mean(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    strategy_case_mean(round, change);
}

FED_TEST(it_is_the_mean_weighted_by_samples) {
    strategy_case_follows("fedavg", mean);
}

/* Running statistics are not clipped, and are not part of the norm. */
static void clipped(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    strategy_round scaled = *round;
    for (int d = 0; d < CASE_DEVICES; d++) {
        double squares = 0;
        for (int i = 0; i < CASE_TRAINED; i++) {
            squares += (double)round->x[d][i] * (double)round->x[d][i];
        }
        double factor = fmin(1.0, 2.1 / sqrt(squares));
        for (int i = 0; i < CASE_TRAINED; i++) {
            scaled.x[d][i] = (float)(factor * (double)round->x[d][i]);
        }
    }
    strategy_case_mean(&scaled, change);
}

FED_TEST(clipping_bounds_the_norm_of_each_update) {
    strategy_case_follows("fedavg+clip:norm=2.1", clipped);
}

FED_TEST(one_hostile_device_moves_it) {
    assert_false(strategy_case_withstands("fedavg"));
}
