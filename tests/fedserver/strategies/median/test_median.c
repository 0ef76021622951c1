/* The coordinate-wise median, against sorting each value by itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"
#include "strategy_case.h"

static void reference(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    for (int i = 0; i < CASE_VALUES; i++) {
        double value[CASE_DEVICES];
        strategy_case_sorted(round, i, value);
        change[i] = value[CASE_DEVICES / 2];
    }
}

static void it_is_the_value_in_the_middle(void) {
    strategy_case_follows("median", reference);
}

static void momentum(const strategy_round *round, double *v, double *change) {
    reference(round, NULL, change);
    for (int i = 0; i < CASE_TRAINED; i++) {
        v[i] = 0.9 * v[i] + change[i];
        change[i] = v[i];
    }
}

static void it_goes_with_an_optimizer_of_the_server(void) {
    strategy_case_follows("median+fedavgm", momentum);
}

static void one_hostile_device_does_not_move_it(void) {
    assert_true(strategy_case_withstands("median"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(it_is_the_value_in_the_middle),
        fed_unit_test(it_goes_with_an_optimizer_of_the_server),
        fed_unit_test(one_hostile_device_does_not_move_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
