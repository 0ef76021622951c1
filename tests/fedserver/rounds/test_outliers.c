/* Who is in the worst group too often for chance: the threshold. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/outliers.h"

#include <math.h>

#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_test.h"

static bool stands_out(uint32_t worst, uint32_t rounds, double share) {
    const fedserver_outlier_row row = {
        .worst = worst, .rounds = rounds, .expected = share * rounds};
    return fedserver_outlier_stands_out(&row);
}

/* The probability of n rounds of n is p^n: 5^-9 is 5.1e-7, 3^-13 is 6.3e-7. */
FED_TEST(a_device_that_is_always_there_stands_out_as_soon_as_chance_is_below_a_millionth) {
    assert_false(stands_out(8, 8, 0.2));
    assert_true(stands_out(9, 9, 0.2));
    assert_false(stands_out(12, 12, 1.0 / 3));
    assert_true(stands_out(13, 13, 1.0 / 3));
    assert_false(stands_out(2, 2, 1.0 / 200));
}

/* The exact tail, summed from its largest term on. */
static double tail(uint32_t worst, uint32_t rounds, double p) {
    double sum = 0;
    for (uint32_t k = worst; k <= rounds; k++) {
        sum += exp(lgamma(rounds + 1.0) - lgamma(k + 1.0) - lgamma(rounds - k + 1.0) + k * log(p) +
                   (rounds - k) * log(1 - p));
    }
    return sum;
}

FED_TEST(the_bound_is_never_below_the_binomial_tail) {
    for (uint32_t rounds = 1; rounds <= 300; rounds = rounds * 3 / 2 + 1) {
        for (uint32_t worst = 1; worst <= rounds; worst++) {
            for (unsigned k = 0; k < 3; k++) {
                const double p = (double[]){1.0 / 3, 0.2, 1.0 / 64}[k];
                const double exact = tail(worst, rounds, p);
                assert_true(!stands_out(worst, rounds, p) || exact < 1e-6);
                assert_true(stands_out(worst, rounds, p) || worst < 3 || exact > 1e-8);
            }
        }
    }
}

/* As often as chance has it, or less often, in any number of rounds. */
FED_TEST(a_device_that_is_there_by_chance_does_not_stand_out) {
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    for (unsigned device = 0; device < 400; device++) {
        uint32_t worst = 0;
        for (uint32_t rounds = 1; rounds <= 200; rounds++) {
            worst += fed_rng_float(&rng) < 0.2F;
            assert_false(stands_out(worst, rounds, 0.2));
        }
    }
    assert_false(stands_out(0, 100, 0.2));
    assert_false(stands_out(20, 100, 0.2));
    assert_false(stands_out(100, 100, 1));
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
