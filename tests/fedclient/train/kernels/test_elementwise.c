/* tanh and the logistic function of every kernel set, compared with libm's in double precision. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedclient/train/kernels.h"

enum { HALF = 20000, VALUES = 2 * HALF + 1, ROOM = VALUES + FEDTRAIN_SLACK };

static void make_values(float *x) {
    for (int i = 0; i < VALUES; i++) {
        x[i] = (float)(i - HALF) * 0.001F;
    }
    const float special[] = {1e-30F, -1e-30F, 1e-4F, -3e-3F, 88, -88, 1e4F, -1e4F, 0.625F, -0.0F};
    memcpy(x, special, sizeof special);
}

static double error_of(float got, double right) {
    return fabs((double)got - right) / (ldexp(1, ilogb(right) - 23) + 1e-44);
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static void check(const char *isa, void (*kernel)(const float *, float *, size_t),
                  double (*right)(double)) {
    float *x = calloc(2 * ROOM, sizeof *x), *y = x + ROOM;
    assert_non_null(x);
    make_values(x);
    kernel(x, y, VALUES);
    for (size_t i = 0; i < VALUES; i++) {
        double wanted = right(x[i]);
        if (fabs(wanted) > 1e-37 && error_of(y[i], wanted) > 4) {
            fail_msg("%s: the function of %g is %.9g, not %.9g", isa, (double)x[i], (double)y[i],
                     wanted);
        }
        assert_true(fabs((double)y[i] - wanted) < 3e-7);
    }
    free(x);
}

FED_TEST(test_they_are_right_to_a_few_units_in_the_last_place) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        check(k->isa, k->tanh, tanh);
        check(k->isa, k->sigmoid, logistic);
    }
}

FED_TEST(test_what_is_not_a_number_stays_so) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        float x[4 + FEDTRAIN_SLACK] = {NAN, 1, -INFINITY, INFINITY}, y[4 + FEDTRAIN_SLACK];
        k->tanh(x, y, 4);
        assert_true(isnan(y[0]) && y[2] == -1 && y[3] == 1);
        k->sigmoid(x, y, 4);
        assert_true(isnan(y[0]) && y[2] < 1e-37F && y[3] == 1);
    }
}

enum { GRADIENTS = 21, GRADIENTS_ROOM = GRADIENTS + FEDTRAIN_SLACK };

static void check_gradient(void (*kernel)(const float *, const float *, float *, size_t, bool),
                           bool is_tanh, bool add) {
    float y[GRADIENTS_ROOM] = {0}, dy[GRADIENTS_ROOM] = {0}, dx[GRADIENTS_ROOM] = {0};
    for (size_t j = 0; j < GRADIENTS; j++) {
        y[j] = 0.04F * (float)j;
        dy[j] = 2;
        dx[j] = 5;
    }
    kernel(y, dy, dx, GRADIENTS, add);
    for (size_t j = 0; j < GRADIENTS; j++) {
        float slope = is_tanh ? 1 - y[j] * y[j] : y[j] * (1 - y[j]);
        assert_true(fabsf(dx[j] - 2 * slope - (add ? 5 : 0)) < 1e-6F);
    }
}

FED_TEST(test_gradients_follow_from_outputs) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        for (int add = 0; add < 2; add++) {
            check_gradient(k->tanh_grad, true, add != 0);
            check_gradient(k->sigmoid_grad, false, add != 0);
        }
    }
}
