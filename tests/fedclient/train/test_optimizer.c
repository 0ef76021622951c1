/* Optimizers against their formulas in double precision. */
#include "fed_test.h"

#include <math.h>

#include "fed/rng.h"
#include "fedtrain/optimizer.h"

enum { N = 77, STEPS = 200 }; /* N: off every vector width */

static float params[N], grad[N], state[2 * N + 1];

static fedtrain_optimizer parse(const char *name, float rate) {
    fedtrain_optimizer optimizer;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_optimizer_parse(name, rate, &optimizer, &err));
    memset(state, 0, sizeof state);
    for (size_t i = 0; i < N; i++) {
        params[i] = 1.0F - 0.02F * (float)i;
    }
    return optimizer;
}

/* Gradients of very different sizes, some of them 0. */
static float gradient(size_t step, size_t i) {
    fed_rng rng;
    fed_rng_init(&rng, 3, (uint32_t)step, (uint32_t)i);
    return i % 11 == 0 ? 0.0F : (fed_rng_float(&rng) - 0.4F) * powf(10.0F, (float)(i % 7) - 4.0F);
}

static void step(const fedtrain_optimizer *optimizer, size_t t) {
    for (size_t i = 0; i < N; i++) {
        grad[i] = gradient(t, i);
    }
    fedtrain_optimizer_step(optimizer, state, params, grad, N);
}

static void test_sgd_goes_down_the_gradient(void **unused) {
    (void)unused;
    fedtrain_optimizer sgd = parse("sgd", 0.1F);
    assert_int_equal(fedtrain_optimizer_state_size(&sgd, N), 0);
    float before[N];
    memcpy(before, params, sizeof before);
    step(&sgd, 0);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(params[i] - ((double)before[i] - 0.1 * grad[i])) < 1e-6);
    }
}

static void test_momentum_follows_its_formula(void **unused) {
    (void)unused;
    fedtrain_optimizer momentum = parse("momentum", 0.01F);
    assert_int_equal(fedtrain_optimizer_state_size(&momentum, N), N);
    double w[N], v[N] = {0};
    for (size_t i = 0; i < N; i++) {
        w[i] = params[i];
    }
    for (size_t t = 0; t < STEPS; t++) {
        step(&momentum, t);
        for (size_t i = 0; i < N; i++) {
            v[i] = 0.9 * v[i] + grad[i];
            w[i] -= (double)0.01F * v[i];
        }
    }
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(params[i] - w[i]) < 1e-5 * (1 + fabs(w[i])));
    }
}

/* Kingma and Ba, algorithm 1, as it stands there. */
static void test_adam_follows_its_formula(void **unused) {
    (void)unused;
    fedtrain_optimizer adam = parse("adam", 1e-3F);
    assert_int_equal(fedtrain_optimizer_state_size(&adam, N), 2 * N + 1);
    double w[N], m[N] = {0}, v[N] = {0};
    for (size_t i = 0; i < N; i++) {
        w[i] = params[i];
    }
    for (size_t t = 1; t <= STEPS; t++) {
        step(&adam, t);
        for (size_t i = 0; i < N; i++) {
            m[i] = 0.9 * m[i] + 0.1 * grad[i];
            v[i] = 0.999 * v[i] + 0.001 * grad[i] * grad[i];
            double m_hat = m[i] / (1 - pow(0.9, (double)t));
            double v_hat = v[i] / (1 - pow(0.999, (double)t));
            w[i] -= 1e-3 * m_hat / (sqrt(v_hat) + 1e-8);
        }
    }
    for (size_t i = 0; i < N; i++) {
        if (fabs(params[i] - w[i]) > 2e-5) {
            fail_msg("parameter %zu is %g, by the formula %g", i, (double)params[i], w[i]);
        }
    }
}

static void test_adams_first_step_has_the_learning_rates_size(void **unused) {
    (void)unused;
    fedtrain_optimizer adam = parse("adam", 0.5F);
    params[0] = params[1] = 0;
    grad[0] = 3e-4F;
    grad[1] = -700;
    fedtrain_optimizer_step(&adam, state, params, grad, N);
    assert_true(fabs(params[0] + 0.5) < 1e-4);
    assert_true(fabs(params[1] - 0.5) < 1e-4);
}

/* Moments of any size short of denormals: each quotient is right to float's precision. */
static void test_adam_divides_well_at_every_size(void **unused) {
    (void)unused;
    for (int exponent = -17; exponent <= 18; exponent++) {
        fedtrain_optimizer adam = parse("adam", 1);
        double m = 0.7 * pow(10, exponent), v = m * m;
        state[2 * N] = 1e6F; /* corrections of 1 */
        for (size_t i = 0; i < N; i++) {
            params[i] = 0;
            grad[i] = 0;
            state[i] = (float)m;
            state[N + i] = (float)v * (1.0F + (float)i / N);
        }
        fedtrain_optimizer_step(&adam, state, params, grad, N);
        for (size_t i = 0; i < N; i++) {
            double wanted = -0.9 * (float)m / (sqrt((double)state[N + i]) + 1e-8);
            assert_true(fabs(params[i] - wanted) <= 1e-6 * fabs(wanted));
        }
    }
}

/* After very many steps the corrections are 1 and nothing overflows or starts anew. */
static void test_adam_grows_old_gracefully(void **unused) {
    (void)unused;
    fedtrain_optimizer adam = parse("adam", 1e-3F);
    state[2 * N] = 16777216.0F; /* 2^24 */
    for (size_t i = 0; i < N; i++) {
        params[i] = 0;
        grad[i] = 1;
        state[i] = 1;
        state[N + i] = 1;
    }
    fedtrain_optimizer_step(&adam, state, params, grad, N);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(params[i] + 1e-3) < 1e-8);
    }
    assert_true(state[2 * N] == 16777216.0F);
}

static void test_bad_names_and_rates_are_refused(void **unused) {
    (void)unused;
    fedtrain_optimizer optimizer;
    fed_error err = {0};
    assert_fed_status(fedtrain_optimizer_parse("adamw", 0.1F, &optimizer, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "sgd, momentum or adam"));
    assert_fed_status(fedtrain_optimizer_parse("sgd", 0, &optimizer, &err), FED_EINVAL);
    assert_fed_status(fedtrain_optimizer_parse("sgd", -1, &optimizer, &err), FED_EINVAL);
    assert_fed_status(fedtrain_optimizer_parse("sgd", NAN, &optimizer, &err), FED_EINVAL);
    assert_fed_status(fedtrain_optimizer_parse("sgd", INFINITY, &optimizer, &err), FED_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_goes_down_the_gradient),
        cmocka_unit_test(test_momentum_follows_its_formula),
        cmocka_unit_test(test_adam_follows_its_formula),
        cmocka_unit_test(test_adams_first_step_has_the_learning_rates_size),
        cmocka_unit_test(test_adam_divides_well_at_every_size),
        cmocka_unit_test(test_adam_grows_old_gracefully),
        cmocka_unit_test(test_bad_names_and_rates_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
