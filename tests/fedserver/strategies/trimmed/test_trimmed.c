/* The coordinate-wise trimmed mean, against sorting each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"
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

static void it_is_the_mean_of_the_middle(void) {
    strategy_case_follows("trimmed:p=0.25", trim_two);
}

static void the_smallest_share_cuts_one_value_at_each_end(void) {
    strategy_case_follows("trimmed:p=0.001", trim_one);
}

static void one_hostile_device_does_not_move_it(void) {
    assert_true(strategy_case_withstands("trimmed:p=0.1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(it_is_the_mean_of_the_middle),
        fed_unit_test(the_smallest_share_cuts_one_value_at_each_end),
        fed_unit_test(one_hostile_device_does_not_move_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
