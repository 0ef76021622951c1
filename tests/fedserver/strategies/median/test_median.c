/* The coordinate-wise median, compared with sorting the values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "strategy_case.h"

static void reference(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    for (int i = 0; i < CASE_VALUES; i++) {
        double value[CASE_DEVICES];
        strategy_case_sorted(round, i, value);
        change[i] = value[CASE_DEVICES / 2];
    }
}

FED_TEST(it_is_the_value_in_the_middle) {
    strategy_case_follows("median", reference);
}

static void momentum(const strategy_round *round, double *v, double *change) {
    reference(round, NULL, change);
    for (int i = 0; i < CASE_TRAINED; i++) {
        v[i] = 0.9 * v[i] + change[i];
        change[i] = v[i];
    }
}

FED_TEST(it_goes_with_an_optimizer_of_the_server) {
    strategy_case_follows("median+fedavgm", momentum);
}

FED_TEST(one_hostile_device_does_not_move_it) {
    assert_true(strategy_case_withstands("median"));
}
