/* The weights of a round's updates: the limits for one device, and the same bits in any order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "fedserver/rounds/weights.h"

static fedserver_weights settle(fedserver_contribution *contributions, size_t count, double most) {
    fedserver_weights weights;
    assert_fed_ok(fedserver_weights_settle(contributions, count, most, &weights));
    return weights;
}

static fedserver_contribution contribution(int64_t device, uint64_t weight, double norm) {
    return (fedserver_contribution){.device = device,
                                    .weight = weight,
                                    .norm = norm,
                                    .counted = norm,
                                    .samples = (uint32_t)weight,
                                    .loss = 1};
}

FED_TEST(fair_claims_count_as_they_are) {
    fedserver_contribution c[] = {contribution(1, 6, 2), contribution(2, 4, 1),
                                  contribution(3, 3, 3)};
    const fedserver_weights s = settle(c, 3, 0.5);
    assert_true(s.as_claimed);
    assert_int_equal(s.weight, 13);
    for (int k = 0; k < 3; k++) {
        assert_true(c[k].share == c[k].weight && c[k].count == c[k].weight);
    }
    assert_true(s.heaviest == 1 && s.heaviest_share == 6.0 / 13);
    assert_true(s.furthest == 1 && s.furthest_norm == 2);
    assert_false(s.heaviest_lowered || s.furthest_lowered);
}

FED_TEST(two_devices_are_not_compared) {
    fedserver_contribution c[] = {contribution(1, 1000, 9), contribution(2, 1, 1)};
    assert_true(settle(c, 2, 0.5).as_claimed);
    assert_false(settle(c, 2, 0.75).as_claimed);
    assert_true(fabs((double)c[0].share / (double)c[1].share - 3) < 1e-6);
}

FED_TEST(no_limit_takes_every_claim) {
    fedserver_contribution c[] = {contribution(1, 1, 1), contribution(2, 1, 1),
                                  contribution(3, 1 << 20, 1e4)};
    assert_true(settle(c, 3, 1).as_claimed);
}

FED_TEST(a_share_is_the_most_that_a_device_weighs) {
    static const double most[] = {0.5, 0.4, 0.3, 0.26};
    for (size_t k = 0; k < sizeof most / sizeof most[0]; k++) {
        fedserver_contribution c[] = {contribution(1, 5, 1), contribution(2, 1 << 20, 1),
                                      contribution(3, 7, 1), contribution(4, UINT32_MAX, 1)};
        const fedserver_weights s = settle(c, 4, most[k]);
        for (int i = 0; i < 4; i++) {
            assert_true((double)c[i].share <= (most[k] + 1e-6) * (double)s.weight);
        }
        assert_int_equal(s.heaviest, 4);
        assert_true(s.heaviest_lowered);
    }
}

FED_TEST(a_long_update_is_shortened_and_its_weight_stays) {
    fedserver_contribution c[] = {contribution(1, 10, 1), contribution(2, 10, 1),
                                  contribution(3, 10, 10000)};
    const fedserver_weights s = settle(c, 3, 0.5);
    assert_true(s.furthest == 3 && s.furthest_lowered && !s.heaviest_lowered);
    assert_true(s.furthest_norm == 10000);
    assert_int_equal(c[2].share, c[0].share);
    assert_int_equal(c[0].count, c[0].share);
    const double reach = (double)c[2].count * 10000;
    assert_true(fabs(reach / (2.0 * c[0].count) - 1) < 1e-3);
}

FED_TEST(a_devices_updates_are_taken_together) {
    fedserver_contribution c[] = {contribution(1, 10, 1), contribution(7, 30, 1),
                                  contribution(2, 10, 1), contribution(7, 10, 1),
                                  contribution(7, 40, 1)};
    const fedserver_weights s = settle(c, 5, 0.5);
    const double all = (double)c[1].share + c[3].share + c[4].share;
    assert_true(s.heaviest == 7 && s.heaviest_lowered);
    assert_true(fabs(all / (double)s.weight - 0.5) < 1e-6);
    assert_true(fabs((double)c[4].share / c[3].share - 4) < 1e-5);
}

FED_TEST(a_devices_norm_is_that_of_its_longest_update) {
    enum { UPDATES = 3 };
    for (uint64_t longest = 0; longest < UPDATES; longest++) {
        fedserver_contribution c[UPDATES + 2] = {contribution(1, 10, 1), contribution(2, 10, 1)};
        for (uint64_t k = 0; k < UPDATES; k++) {
            c[2 + k] = contribution(7, 10 + k, k == longest ? 9 : 2);
        }
        const fedserver_weights s = settle(c, UPDATES + 2, 1);
        assert_int_equal(s.furthest, 7);
        assert_true(s.furthest_norm == 9);
    }
}

FED_TEST(a_devices_long_updates_are_shortened_together) {
    fedserver_contribution c[] = {contribution(1, 10, 1), contribution(2, 10, 1),
                                  contribution(3, 5, 1000), contribution(3, 5, 1000)};
    const fedserver_weights s = settle(c, 4, 0.5);
    assert_true(s.furthest == 3 && s.furthest_lowered && !s.heaviest_lowered);
    const double reach = ((double)c[2].count + c[3].count) * 1000;
    assert_true(fabs(reach / (2.0 * c[0].count) - 1) < 1e-3);
}

FED_TEST(a_clipped_update_reaches_as_far_as_it_was_clipped) {
    fedserver_contribution c[] = {contribution(1, 10, 1), contribution(2, 10, 1),
                                  contribution(3, 10, 10000)};
    c[2].counted = 1.5;
    const fedserver_weights s = settle(c, 3, 0.5);
    assert_true(s.as_claimed && !s.furthest_lowered);
    assert_true(s.furthest == 3 && s.furthest_norm == 10000);
}

FED_TEST(the_largest_round_there_can_be_fits_the_sum) {
    enum { MANY = 1000000 };
    fedserver_contribution *c = malloc(MANY * sizeof *c);
    assert_non_null(c);
    for (int k = 0; k < MANY; k++) {
        c[k] = contribution(k, k % 2 == 0 ? 1 : UINT64_C(64) * UINT32_MAX, 1);
    }
    const fedserver_weights s = settle(c, MANY, 0.5);
    assert_true(s.weight < (uint64_t)FEDCODEC_FOLD_WEIGHT);
    assert_int_equal(c[0].share, 1);
    free(c);
}

/* One device's update is long, so the weights are scaled. */
FED_TEST(weights_that_just_fit_are_not_halved) {
    enum { FITS = FEDCODEC_FOLD_WEIGHT - 1 - 4, EACH = FITS / 4 };
    for (unsigned more = 0; more < 2; more++) {
        fedserver_contribution c[] = {contribution(1, EACH, 1), contribution(2, EACH, 1),
                                      contribution(3, EACH, 1),
                                      contribution(4, FITS - 3 * EACH + more, 1000)};
        const fedserver_weights s = settle(c, 4, 0.5);
        assert_false(s.as_claimed);
        assert_int_equal(c[0].share, EACH >> more);
        assert_int_equal(c[3].share, (FITS - 3 * EACH + more) >> more);
        assert_int_equal(s.weight, 3 * c[0].share + c[3].share);
    }
}

FED_TEST(neither_order_nor_arrival_changes_a_bit) {
    enum { MANY = 40, ORDERS = 50 };
    fedserver_contribution first[MANY], c[MANY];
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    for (int k = 0; k < MANY; k++) {
        const uint32_t weight = 1 + fed_rng_below(&rng, 1000) * (k % 9 == 0 ? 4000000 : 1);
        first[k] =
            contribution(k % 13, weight, (double)fed_rng_float(&rng) * (k % 13 == 5 ? 1e4 : 1));
    }
    const fedserver_weights wanted = settle(first, MANY, 0.2);
    memcpy(c, first, sizeof c);
    for (int order = 0; order < ORDERS; order++) {
        int place[MANY];
        fedserver_contribution mixed[MANY];
        for (int k = 0; k < MANY; k++) {
            place[k] = k;
        }
        for (int k = MANY - 1; k > 0; k--) {
            const int other = (int)fed_rng_below(&rng, (uint32_t)k + 1), kept = place[k];
            place[k] = place[other];
            place[other] = kept;
        }
        for (int k = 0; k < MANY; k++) {
            mixed[k] = first[place[k]];
            mixed[k].share = mixed[k].count = 0;
        }
        const fedserver_weights s = settle(mixed, MANY, 0.2);
        assert_true(s.weight == wanted.weight && s.heaviest == wanted.heaviest &&
                    s.furthest == wanted.furthest);
        for (int k = 0; k < MANY; k++) {
            assert_int_equal(mixed[k].share, first[place[k]].share);
            assert_int_equal(mixed[k].count, first[place[k]].count);
        }
    }
}

FED_TEST(one_devices_loss_does_not_become_the_rounds) {
    fedserver_contribution c[] = {contribution(1, 10, 1), contribution(2, 10, 1),
                                  contribution(3, 10, 1)};
    c[0].loss = 2;
    assert_true(settle(c, 3, 0.5).loss == 4.0 / 3);
    c[0].loss = -1e12f;
    assert_true(settle(c, 3, 0.5).loss == (2.0 - 100.0) / 3);
}

FED_TEST(an_update_without_a_loss_is_left_out_of_the_mean) {
    for (int lowered = 0; lowered < 2; lowered++) {
        fedserver_contribution c[] = {contribution(1, 10, 1), contribution(2, 10, 1),
                                      contribution(3, lowered == 1 ? 1000 : 10, 1)};
        c[0].loss = 4;
        c[1].loss = 2;
        c[2].loss = NAN;
        const fedserver_weights s = settle(c, 3, 0.5);
        assert_true(s.as_claimed == (lowered == 0) && s.loss == 3);
        c[0].loss = c[1].loss = NAN;
        assert_true(isnan(settle(c, 3, 0.5).loss));
    }
}

/* With floating-point sums, the order of these losses would change the result. */
FED_TEST(no_order_changes_a_bit_of_the_loss) {
    enum { COUNT = 200, ORDERS = 20 };
    static fedserver_contribution c[COUNT];
    fed_rng rng;
    fed_rng_init(&rng, 7, 7, 7);
    double plain = 0;
    double all = 0;
    for (int k = 0; k < COUNT; k++) {
        c[k] = contribution(k + 1, 1 + fed_rng_below(&rng, 1000), 1);
        c[k].loss = fed_rng_float(&rng) - 0.3f;
        if (k % 3 == 0) {
            c[k].loss = ldexpf(c[k].loss, -(int)fed_rng_below(&rng, 30));
        }
        plain += (double)c[k].loss * c[k].samples;
        all += c[k].samples;
    }
    const double loss = settle(c, COUNT, 0.5).loss;
    assert_true(fabs(loss - plain / all) < 1e-9);
    for (int order = 0; order < ORDERS; order++) {
        for (uint32_t k = COUNT - 1; k > 0; k--) {
            const uint32_t other = fed_rng_below(&rng, k + 1);
            const fedserver_contribution kept = c[k];
            c[k] = c[other];
            c[other] = kept;
        }
        assert_true(settle(c, COUNT, 0.5).loss == loss);
    }
}

FED_TEST(the_largest_losses_fit_the_sum) {
    fedserver_contribution c[] = {contribution(1, 1 << 28, 1), contribution(2, (1 << 28) - 1, 1)};
    c[0].loss = c[1].loss = 1e12f;
    assert_true(settle(c, 2, 1).loss == (double)1e12f);
    c[0].loss = c[1].loss = -1e12f;
    assert_true(settle(c, 2, 1).loss == -(double)1e12f);
    c[0].loss = c[1].loss = 0;
    assert_true(settle(c, 2, 1).loss == 0);
}
