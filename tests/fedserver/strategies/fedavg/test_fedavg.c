/* FedAvg: the mean, weighted by samples; and clipping, which goes with any. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <math.h>

#include "strategy_case.h"

static void mean(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    strategy_case_mean(round, change);
}

static void it_is_the_mean_weighted_by_samples(void) {
    strategy_case_follows("fedavg", mean);
}

/* Statistics are not clipped, and no part of the norm. */
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

static void clipping_bounds_the_norm_of_each_update(void) {
    strategy_case_follows("fedavg+clip:norm=2.1", clipped);
}

static void one_hostile_device_moves_it(void) {
    assert_false(strategy_case_withstands("fedavg"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(it_is_the_mean_weighted_by_samples),
        fed_unit_test(clipping_bounds_the_norm_of_each_update),
        fed_unit_test(one_hostile_device_moves_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
