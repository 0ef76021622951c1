/* The coordinate-wise trimmed mean, compared with sorting the values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "strategy_case.h"

static void trim(const strategy_round *round, int cut, double *change) {
    for (int i = 0; i < CASE_VALUES; i++) {
        double value[CASE_DEVICES], sum = 0;
        strategy_case_sorted(round, i, value);
        for (int d = cut; d < CASE_DEVICES - cut; d++) {
            sum += value[d];
        }
        change[i] = sum / (CASE_DEVICES - 2 * cut);
    }
}

static void trim_two(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    trim(round, 2, change);
}

static void trim_one(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    trim(round, 1, change);
}

FED_TEST(it_is_the_mean_of_the_middle) {
    strategy_case_follows("trimmed:p=0.25", trim_two);
}

FED_TEST(the_smallest_share_cuts_one_value_at_each_end) {
    strategy_case_follows("trimmed:p=0.001", trim_one);
}

FED_TEST(one_hostile_device_does_not_move_it) {
    assert_true(strategy_case_withstands("trimmed:p=0.1"));
}
