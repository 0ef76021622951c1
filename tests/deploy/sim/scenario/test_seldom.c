/* How seldom models are measured: tests take a tenth of the time, and there is a curve. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/seldom.h"
#include "fed_cases.h"

FED_TEST(tests_take_a_tenth_at_most) {
    for (double trained = 500; trained < 1e6; trained *= 1.7) {
        const sim_amounts amounts = {.rounds = 1000, .trained = trained, .tested = 10000};
        const uint32_t every = sim_seldom(&amounts);
        const double test = 0.5 * amounts.tested, between = trained * every;
        assert_true(test / (test + between) <= 0.1 + 1e-9);
        assert_true(every == 1 || test / (test + between - trained) > 0.1);
    }
}

FED_TEST(four_models_are_measured_at_least) {
    const sim_amounts few = {.rounds = 100, .trained = 8, .tested = 10000};
    assert_int_equal(sim_seldom(&few), 25);
    const sim_amounts none = {.rounds = 100, .trained = 0, .tested = 10000};
    assert_int_equal(sim_seldom(&none), 25);
}

FED_TEST(each_model_of_a_short_run_is_measured) {
    for (uint32_t rounds = 0; rounds < 8; rounds++) {
        const sim_amounts amounts = {.rounds = rounds, .trained = 8, .tested = 10000};
        assert_int_equal(sim_seldom(&amounts), 1);
    }
}

FED_TEST(each_model_is_measured_where_the_tests_are_unknown) {
    const sim_amounts amounts = {.rounds = 100, .trained = 8, .tested = 0};
    assert_int_equal(sim_seldom(&amounts), 1);
}
