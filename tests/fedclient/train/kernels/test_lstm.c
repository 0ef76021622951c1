/* The LSTM cell of every kernel set, compared with its formula, and its gradient, with
 * finite differences. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/rng.h"
#include "fedclient/train/kernels.h"

enum { SIZE = 37 };

typedef struct cell {
    float gates[4 * SIZE], before[SIZE], dh[SIZE], dc[SIZE];
} cell;

static void make(cell *c) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 0, 0);
    float *all = c->gates;
    for (size_t i = 0; i < sizeof *c / sizeof *all; i++) {
        all[i] = 4 * fed_rng_float(&rng) - 2;
    }
}

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}

static void formula(const cell *x, size_t j, double *c, double *h) {
    *c = logistic(x->gates[SIZE + j]) * x->before[j] +
         logistic(x->gates[j]) * tanh(x->gates[2 * SIZE + j]);
    *h = logistic(x->gates[3 * SIZE + j]) * tanh(*c);
}

FED_TEST(test_a_step_is_the_formula) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        cell x, done;
        float c[SIZE], h[SIZE];
        make(&x);
        done = x;
        k->lstm(SIZE, done.gates, done.before, c, h);
        for (size_t j = 0; j < SIZE; j++) {
            double right_c, right_h;
            formula(&x, j, &right_c, &right_h);
            assert_true(fabs(c[j] - right_c) < 1e-6 && fabs(h[j] - right_h) < 1e-6);
            assert_true(fabs(done.gates[j] - logistic(x.gates[j])) < 1e-6);
        }
    }
}

/* Return dh * h + dc * c, whose gradient the kernel computes. */
static double watched(const cell *x, size_t j) {
    double c, h;
    formula(x, j, &c, &h);
    return x->dh[j] * h + x->dc[j] * c;
}

static double difference(cell *x, float *what, size_t j) {
    const float kept = *what, step = 1e-3F;
    *what = kept + step;
    double up = watched(x, j);
    *what = kept - step;
    double down = watched(x, j);
    *what = kept;
    return (up - down) / (2 * (double)step);
}

FED_TEST(test_its_gradient_agrees_with_finite_differences) {
    const fedtrain_kernels *k;
    for (size_t i = 0; (k = fedtrain_kernels_get(i)) != NULL; i++) {
        cell x, done;
        float c[SIZE], h[SIZE];
        make(&x);
        done = x;
        k->lstm(SIZE, done.gates, done.before, c, h);
        k->lstm_grad(SIZE, done.gates, done.before, c, done.dh, done.dc);
        for (size_t j = 0; j < SIZE; j++) {
            for (size_t gate = 0; gate < 4; gate++) {
                size_t at = gate * SIZE + j;
                assert_true(fabs(difference(&x, &x.gates[at], j) - done.gates[at]) < 1e-3);
            }
            assert_true(fabs(difference(&x, &x.before[j], j) - done.dc[j]) < 1e-3);
        }
    }
}
