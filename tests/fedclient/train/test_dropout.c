/* The random draws of dropout: how many values stay, and that only seed and layer matter. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/train/dropout.h"

enum { N = 20001 };

static size_t kept(const uint8_t *keep, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(keep[i] <= 1);
        sum += keep[i];
    }
    return sum;
}

FED_TEST(test_the_share_that_is_dropped_is_p) {
    static const float shares[] = {0.1F, 0.25F, 0.5F, 0.65F, 0.9F};
    uint8_t keep[N];
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        fedtrain_dropout_draw(1, 2, shares[k], keep, N);
        double share = 1 - (double)kept(keep, N) / N, sigma = 0.0036;
        assert_true(share > shares[k] - 4 * sigma && share < shares[k] + 4 * sigma);
    }
}

FED_TEST(test_nothing_is_dropped_at_0_and_something_stays_near_1) {
    uint8_t keep[N];
    fedtrain_dropout_draw(1, 2, 0, keep, N);
    assert_int_equal(kept(keep, N), N);
    assert_true(fedtrain_dropout_scale(0) == 1.0F);
    assert_true(fedtrain_dropout_scale(0.5F) == 2.0F);
    assert_true(fedtrain_dropout_scale(0.9999999F) == 65536.0F);
}

FED_TEST(test_a_smaller_batch_is_the_start_of_a_larger_one) {
    static const size_t sizes[] = {1, 2, 255, 256, 257, 1023};
    uint8_t all[N], some[N];
    fedtrain_dropout_draw(1, 2, 0.5F, all, N);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        memset(some, 7, sizeof some);
        fedtrain_dropout_draw(1, 2, 0.5F, some, sizes[k]);
        assert_memory_equal(some, all, sizes[k]);
        assert_int_equal(some[sizes[k]], 7);
    }
}

FED_TEST(test_seeds_and_layers_drop_other_values) {
    uint8_t a[N], b[N], c[N];
    fedtrain_dropout_draw(1, 2, 0.5F, a, N);
    fedtrain_dropout_draw(9, 2, 0.5F, b, N);
    fedtrain_dropout_draw(1, 3, 0.5F, c, N);
    assert_memory_not_equal(a, b, 64);
    assert_memory_not_equal(a, c, 64);
    assert_memory_not_equal(b, c, 64);
}
