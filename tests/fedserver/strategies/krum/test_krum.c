/* Krum, against its definition. */
#include "fed_test.h"
#include "strategy_case.h"

static void choose(const strategy_round *round, int f, double *change) {
    int best = 0;
    for (int d = 1; d < CASE_DEVICES; d++) {
        best = strategy_case_score(round, d, f) < strategy_case_score(round, best, f) ? d : best;
    }
    for (int i = 0; i < CASE_VALUES; i++) {
        change[i] = (double)round->x[best][i];
    }
}

static void with_none_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 0, change);
}

static void with_two_hostile(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    choose(round, 2, change);
}

static void it_is_the_update_with_the_nearest_neighbours(void **state) {
    (void)state;
    strategy_case_follows("krum:f=0", with_none_hostile);
    strategy_case_follows("krum:f=2", with_two_hostile);
}

static void one_hostile_device_does_not_move_it(void **state) {
    (void)state;
    assert_true(strategy_case_withstands("krum:f=1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_update_with_the_nearest_neighbours),
        cmocka_unit_test(one_hostile_device_does_not_move_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
