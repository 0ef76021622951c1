/* tanh and the logistic function of every kernel set, against libm's in double. */
#include "fed_test.h"

#include <math.h>

#include "fedclient/train/kernels.h"

enum { VALUES = 40001 };

/* From -20 to 20 in steps of a thousandth, then what is near 0 and far out. */
static void make_values(float *x) {
    for (int i = 0; i < VALUES; i++) {
        x[i] = (float)(i - VALUES / 2) * 0.001F;
    }
    const float special[] = {1e-30F, -1e-30F, 1e-4F, -3e-3F, 88, -88, 1e4F, -1e4F, 0.625F, -0.0F};
    memcpy(x, special, sizeof special);
}

/* In units of the last place of what is right. */
static double error_of(float got, double right) {
    return fabs((double)got - right) / (ldexp(1, ilogb(right) - 23) + 1e-44);
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static void check(const char *isa, void (*kernel)(const float *, float *, size_t),
                  double (*right)(double)) {
    float *x = malloc(2 * VALUES * sizeof *x), *y = x + VALUES;
    assert_non_null(x);
    make_values(x);
    kernel(x, y, VALUES);
    for (size_t i = 0; i < VALUES; i++) {
        double wanted = right(x[i]);
        if (fabs(wanted) > 1e-37 && error_of(y[i], wanted) > 4) {
            fail_msg("%s: of %g it gives %.9g, right is %.9g", isa, (double)x[i], (double)y[i],
                     wanted);
        }
        assert_true(fabs((double)y[i] - wanted) < 3e-7);
    }
    free(x);
}

static void test_they_are_right_to_a_few_units_in_the_last_place(void **state) {
    (void)state;
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        check(k->isa, k->tanh, tanh);
        check(k->isa, k->sigmoid, logistic);
    }
}

/* The last, partial vector is no different from the others. */
static void test_a_value_does_not_depend_on_where_it_lies(void **state) {
    (void)state;
    const fedtrain_kernels *k;
    float x[40], together[40], alone;
    for (size_t i = 0; i < 40; i++) {
        x[i] = 0.1F * (float)i - 1.7F;
    }
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        k->tanh(x, together, 39);
        for (size_t j = 0; j < 39; j++) {
            k->tanh(x + j, &alone, 1);
            assert_true(alone == together[j]);
        }
        k->sigmoid(x, x, 0);
    }
}

static void test_what_is_not_a_number_stays_so(void **state) {
    (void)state;
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        float x[] = {NAN, 1, -INFINITY, INFINITY}, y[4];
        k->tanh(x, y, 4);
        assert_true(isnan(y[0]) && y[2] == -1 && y[3] == 1);
        k->sigmoid(x, y, 4);
        assert_true(isnan(y[0]) && y[2] < 1e-37F && y[3] == 1);
    }
}

static void test_gradients_follow_from_outputs(void **state) {
    (void)state;
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        float y[21], dy[21];
        for (int what = 0; what < 2; what++) {
            for (size_t j = 0; j < 21; j++) {
                y[j] = 0.04F * (float)j;
                dy[j] = 2;
            }
            (what == 0 ? k->tanh_grad : k->sigmoid_grad)(y, dy, 21);
            for (size_t j = 0; j < 21; j++) {
                float slope = what == 0 ? 1 - y[j] * y[j] : y[j] * (1 - y[j]);
                assert_true(fabsf(dy[j] - 2 * slope) < 1e-6F);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_are_right_to_a_few_units_in_the_last_place),
        cmocka_unit_test(test_a_value_does_not_depend_on_where_it_lies),
        cmocka_unit_test(test_what_is_not_a_number_stays_so),
        cmocka_unit_test(test_gradients_follow_from_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
