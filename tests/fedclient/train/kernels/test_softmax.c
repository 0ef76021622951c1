/* The cross-entropy loss of every kernel set, compared with a computation in double precision. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/train/kernels.h"
#include "fedclient/train/loss.h"

enum { MOST = 10007 };

static void make_scores(float *score, size_t n, float spread) {
    fed_rng rng;
    fed_rng_init(&rng, 1, (uint32_t)n, 0);
    for (size_t i = 0; i < n; i++) {
        score[i] = spread * (2 * fed_rng_float(&rng) - 1);
    }
}

static void check(const fedtrain_kernels *k, size_t n, float spread) {
    float *score = malloc(3 * n * sizeof *score), *grad = score + n, *right = grad + n;
    assert_non_null(score);
    make_scores(score, n, spread);
    size_t label = n / 3;
    double loss = k->cross_entropy(score, n, label, 0.25F, grad);
    double wanted = fedtrain_cross_entropy(score, n, label, 0.25F, right);
    assert_true(fabs(loss - wanted) < 2e-7 * (1 + fabs(wanted)));
    assert_true(loss == k->cross_entropy(score, n, label, 1, NULL));
    /* Float32 rounds the scores in proportion to their size. */
    double tolerance = 1e-6 + 1e-7 * (double)spread;
    for (size_t i = 0; i < n; i++) {
        if (fabs((double)grad[i] - right[i]) > tolerance * fabs((double)right[i]) + 1e-30) {
            fail_msg("%s, %zu classes: gradient %zu is %g, not %g", k->isa, n, i, (double)grad[i],
                     (double)right[i]);
        }
    }
    free(score);
}

FED_TEST(test_loss_and_gradient_are_those_in_double) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        for (size_t n = 1; n < 70; n++) {
            check(k, n, 5);
        }
        check(k, 1000, 50);
        check(k, MOST, 10);
    }
}

FED_TEST(test_large_scores_do_not_overflow) {
    const fedtrain_kernels *k;
    const float score[] = {3e38F, -3e38F, 0, 2.9e38F, 1e9F};
    float grad[5];
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        assert_true(k->cross_entropy(score, 5, 0, 1, grad) == 0);
        assert_true(grad[0] == 0 && grad[1] == 0 && grad[4] == 0);
        assert_true(k->cross_entropy(score, 5, 1, 1, grad) > 5e38);
        assert_true(grad[1] == -1);
    }
}

FED_TEST(test_a_score_that_is_not_finite_shows_in_the_loss) {
    const fedtrain_kernels *k;
    const float bad[] = {NAN, INFINITY};
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        for (size_t at = 0; at < 37; at++) {
            for (size_t what = 0; what < 2; what++) {
                float score[37] = {0}, grad[37];
                score[at] = bad[what];
                assert_true(!isfinite(k->cross_entropy(score, 37, 3, 1, grad)));
            }
        }
    }
}
