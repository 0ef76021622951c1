/* Tests of fed/privacy.h: the shape of private updates, and the draw of a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/privacy.h"

#include <math.h>

#include "fed_cases.h"
#include "fed_test.h"

enum { LENET = 431080 };

static fed_privacy_fields lenet(unsigned bits, double p, uint32_t goal, double z) {
    fed_privacy told = {.clip = 1, .goal = goal, .cohort = goal * 13 / 10};
    const fed_privacy_fields f = fed_privacy_shape(&told, bits, p, LENET);
    told.sigma2 = z * z * f.reach * f.reach;
    return fed_privacy_shape(&told, bits, p, LENET);
}

/* The figures of docs/results/privacy.md. */
FED_TEST(fields_have_the_widths_and_bytes_of_the_documents) {
    assert_int_equal(lenet(5, 1, 400, 0).width, 14);
    assert_int_equal(lenet(5, 1, 400, 0).bytes, 421 * 1024 * 14 / 8);
    assert_int_equal(lenet(5, 1, 10000, 0).width, 19);
    assert_int_equal(lenet(4, 1, 400, 2).width, 16);
    assert_int_equal(lenet(5, 0.01, 400, 0).sent, 4311);
    assert_true((double)lenet(5, 1, 400, 0).bytes <= 0.45 * 4 * LENET);
}

FED_TEST(no_sum_of_a_whole_cohort_reaches_half_of_the_field) {
    for (unsigned bits = 2; bits <= 16; bits++) {
        for (uint32_t cohort = 1; cohort < 60000; cohort = cohort * 3 + 1) {
            const double most = (double)cohort * ((1 << (bits - 1)) - 1);
            const unsigned w = fed_privacy_width(bits, cohort, 0);
            assert_true(w >= 2 && w <= 32);
            assert_true(ldexp(1, (int)w - 1) > most && ldexp(1, (int)w - 2) <= most);
        }
    }
    assert_int_equal(fed_privacy_width(16, 1000000, 0), 0);
}

FED_TEST(blocks_waste_at_most_a_fiftieth_or_are_the_smallest) {
    const fed_privacy told = {.clip = 1, .goal = 10, .cohort = 13};
    for (size_t n = 1; n < 100000; n = n * 5 / 4 + 1) {
        const fed_privacy_fields f = fed_privacy_shape(&told, 5, 1, n);
        assert_true(f.fields % f.block == 0 && f.fields >= n && f.fields < n + f.block);
        assert_true(f.block == 64 || (double)f.fields <= 1.02 * (double)n);
    }
}

FED_TEST(the_reach_is_a_little_longer_than_the_clip) {
    const fed_privacy_fields four = lenet(4, 1, 400, 0), five = lenet(5, 1, 400, 0);
    assert_true(fabs(four.reach * (double)four.step - 1.053) < 0.001);
    assert_true(fabs(five.reach * (double)five.step - 1.012) < 0.001);
}

FED_TEST(another_task_or_round_has_another_draw) {
    uint8_t a[FED_SHA256_SIZE], b[FED_SHA256_SIZE];
    char text[FED_SHA256_HEX];
    fed_privacy_draw(1, 2, a);
    /* python3: sha256(b"ring" + struct.pack("<QI", 1, 2)) */
    fed_hex(a, sizeof a, text);
    assert_string_equal(text, "dc95941e1ccf50f9decbffb07ff712749c5e04ffd1eb7a9985499444eb1d379d");
    fed_privacy_draw(1, 3, b);
    assert_memory_not_equal(a, b, sizeof a);
    fed_privacy told = {.apart = 1};
    assert_int_equal(fed_privacy_drawn(&told, 7), 7);
    told.apart = 2; /* one draw for all rounds */
    assert_int_equal(fed_privacy_drawn(&told, 7), fed_privacy_drawn(&told, 8));
    fed_privacy_draw(2, 2, b);
    assert_memory_not_equal(a, b, sizeof a);
}

/* The noise of a count is that of goal / 10 devices, and fits into the fields, too. */
FED_TEST(a_count_is_one_more_field) {
    fed_privacy told = {.clip = 1, .minimum = 1, .goal = 10000, .cohort = 13000, .sigma2 = 4};
    const fed_privacy_fields without = fed_privacy_shape(&told, 2, 1, 500);
    assert_int_equal(without.all, without.fields);
    assert_true(fed_privacy_count_sigma2(&told) == 0);
    told.counted = true;
    const fed_privacy_fields with = fed_privacy_shape(&told, 2, 1, 500);
    assert_true(fed_privacy_count_sigma2(&told) == 1e6);
    assert_int_equal(with.fields, without.fields);
    assert_int_equal(with.all, with.fields + 1);
    assert_int_equal(without.width, fed_privacy_width(2, 13000, 4));
    assert_int_equal(with.width, fed_privacy_width(2, 13000, 1e6));
    assert_true(with.width > without.width);
    assert_int_equal(with.bytes, (with.all * with.width + 7) / 8);
    told.sigma2 = 0;
    assert_true(fed_privacy_count_sigma2(&told) == 0);
}
