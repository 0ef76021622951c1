/* Multi-Krum, against its definition. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "strategy_case.h"

/* Compute the mean of the m best updates: those for which fewer than m are better. */
static void mean_of_best(const strategy_round *round, int f, int m, double *change) {
    memset(change, 0, CASE_VALUES * sizeof *change);
    for (int d = 0; d < CASE_DEVICES; d++) {
        int better = 0;
        for (int e = 0; e < CASE_DEVICES; e++) {
            better += strategy_case_score(round, e, f) < strategy_case_score(round, d, f);
        }
        for (int i = 0; i < CASE_VALUES && better < m; i++) {
            change[i] += (double)round->x[d][i] / m;
        }
    }
}

static void five(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    mean_of_best(round, 2, 5, change);
}

static void all_but_three(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    mean_of_best(round, 1, CASE_DEVICES - 3, change);
}

static void all(const strategy_round *round, double *memory, double *change) {
    (void)memory;
    mean_of_best(round, 0, CASE_DEVICES, change);
}

FED_TEST(it_may_be_the_mean_of_all) {
    strategy_case_follows("multikrum:f=0,m=7", all);
}

FED_TEST(it_is_the_mean_of_the_best) {
    strategy_case_follows("multikrum:f=2,m=5", five);
}

FED_TEST(it_takes_all_but_f_and_two_where_m_is_not_said) {
    strategy_case_follows("multikrum", all_but_three);
}

FED_TEST(one_hostile_device_does_not_move_it) {
    assert_true(strategy_case_withstands("multikrum:f=1"));
}
