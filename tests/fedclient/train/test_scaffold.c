/* SCAFFOLD, whose control variate c is a part of the model, compared with the paper's algorithm. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fedtrain/optimizer.h"

enum { N = 5, ALL = 2 * N, CLIENTS = 4, STEPS = 10, ROUNDS = 40, STATE = 2 * N + 1 };

/* Each client has its own quadratic loss, so clients drift apart within a round. */
static double steepness(size_t k, size_t i) {
    return 0.2 + (double)((3 * k + 5 * i) % 7) / 4;
}

static double lowest(size_t k, size_t i) {
    return (double)((5 * k + 2 * i) % 9) - 4;
}

static double gradient(size_t k, size_t i, double w) {
    return steepness(k, i) * (w - lowest(k, i));
}

/* Return the point at which the sum of all gradients is 0. */
static double best(size_t i) {
    double sum = 0, along = 0;
    for (size_t k = 0; k < CLIENTS; k++) {
        sum += steepness(k, i);
        along += steepness(k, i) * lowest(k, i);
    }
    return along / sum;
}

static fed_optimizer parse(const char *spec) {
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &optimizer, &err));
    return optimizer;
}

static void train(const fed_optimizer *o, float *state, size_t k, const float *x, float *y) {
    memcpy(y, x, ALL * sizeof *y);
    fedtrain_optimizer_begin_round(o, state, y, N);
    for (int step = 0; step < STEPS; step++) {
        float grad[N];
        for (size_t i = 0; i < N; i++) {
            grad[i] = (float)gradient(k, i, (double)y[i]);
        }
        fedtrain_optimizer_step(o, state, y, grad, N);
    }
    fedtrain_optimizer_end_round(o, state, y, N);
}

typedef struct federation {
    fed_optimizer optimizer;
    float x[ALL], state[CLIENTS][STATE]; /* x: the weights, followed by c */
} federation;

static federation found(const char *spec) {
    federation f = {.optimizer = parse(spec)};
    assert_true(fedtrain_optimizer_state_size(&f.optimizer, N) <= STATE);
    return f;
}

static void play(federation *f, size_t first, size_t every) {
    double sum[ALL] = {0};
    size_t count = 0;
    for (size_t k = first; k < CLIENTS; k += every, count++) {
        float y[ALL];
        train(&f->optimizer, f->state[k], k, f->x, y);
        for (size_t i = 0; i < ALL; i++) {
            sum[i] += (double)y[i];
        }
    }
    for (size_t i = 0; i < ALL; i++) {
        f->x[i] = (float)(sum[i] / (double)count);
    }
}

static double distance(const federation *f) {
    double squares = 0;
    for (size_t i = 0; i < N; i++) {
        double d = (double)f->x[i] - best(i);
        squares += d * d;
    }
    return sqrt(squares);
}

/* A round by Karimireddy et al. 2020, algorithm 1, option II, with a server rate of 1. */
static void plain_round(double *x, double *c, double own[CLIENTS][N], double lr, size_t first,
                        size_t every) {
    double moved[N] = {0}, change[N] = {0};
    size_t count = 0;
    for (size_t k = first; k < CLIENTS; k += every, count++) {
        for (size_t i = 0; i < N; i++) {
            double y = x[i];
            for (int step = 0; step < STEPS; step++) {
                y -= lr * (gradient(k, i, y) - own[k][i] + c[i]);
            }
            double next = own[k][i] - c[i] + (x[i] - y) / (STEPS * lr);
            change[i] += next - own[k][i];
            moved[i] += y - x[i];
            own[k][i] = next;
        }
    }
    for (size_t i = 0; i < N; i++) {
        x[i] += moved[i] / (double)count;
        c[i] += change[i] / CLIENTS;
    }
}

static void check_paper(const char *spec, size_t every) {
    federation f = found(spec);
    double x[N] = {0}, c[N] = {0}, own[CLIENTS][N] = {{0}};
    for (size_t round = 0; round < ROUNDS; round++) {
        play(&f, round % every, every);
        plain_round(x, c, own, (double)0.05F, round % every, every);
        for (size_t i = 0; i < N; i++) {
            assert_true(fabs((double)f.x[i] - x[i]) < 1e-5 * (1 + fabs(x[i])));
            assert_true(fabs((double)f.x[N + i] - c[i]) < 1e-5 * (1 + fabs(c[i])));
        }
    }
}

FED_TEST(it_is_the_papers_algorithm_whoever_takes_part) {
    check_paper("sgd:lr=0.05+scaffold", 1);
    check_paper("sgd:lr=0.05+scaffold:share=0.5", 2);
    check_paper("sgd:lr=0.05+scaffold:share=0.25", 4);
}

FED_TEST(clients_that_drift_apart_find_the_common_best) {
    federation plain = found("sgd:lr=0.05"), corrected = found("sgd:lr=0.05+scaffold");
    for (int round = 0; round < ROUNDS; round++) {
        play(&plain, 0, 1);
        play(&corrected, 0, 1);
    }
    assert_true(distance(&plain) > 0.1);
    assert_true(distance(&corrected) < 0.001);
}

FED_TEST(a_rate_that_changes_within_a_round_is_reckoned_with) {
    federation f = found("sgd:lr=0.05+scaffold");
    fed_optimizer o = parse("sgd:lr=0.1+step:every=3,factor=0.5+scaffold");
    float state[STATE + 1] = {0}, y[ALL];
    train(&o, state, 1, f.x, y);
    double rates = 0.1 * (3 + 1.5 + 0.75) + 0.0125;
    const float *own = state + 1 + N; /* after the count of steps and the weights at the start */
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs((double)own[i] + (double)y[i] / rates) < 1e-5);
    }
}

/* Send one value of the control variate a round, in turn, and owe the others. */
static void play_coded(federation *f, float owed[CLIENTS][ALL], size_t round, bool reckons) {
    double sum[ALL] = {0};
    for (size_t k = 0; k < CLIENTS; k++) {
        float x[ALL], y[ALL];
        memcpy(x, f->x, sizeof x);
        if (reckons) {
            fedtrain_optimizer_owed(&f->optimizer, x, owed[k], 1, N);
        }
        train(&f->optimizer, f->state[k], k, x, y);
        if (reckons) {
            fedtrain_optimizer_owed(&f->optimizer, y, owed[k], -1, N);
        }
        for (size_t i = 0; i < ALL; i++) {
            const float change = owed[k][i] + (y[i] - f->x[i]);
            const bool sent = i < N || i - N == (round + k) % N;
            sum[i] += sent ? (double)change : 0;
            owed[k][i] = sent ? 0 : change;
        }
    }
    for (size_t i = 0; i < ALL; i++) {
        f->x[i] += (float)(sum[i] / CLIENTS);
    }
}

FED_TEST(c_is_the_mean_of_what_was_counted_of_each_client) {
    federation f = found("sgd:lr=0.05+scaffold");
    float owed[CLIENTS][ALL] = {{0}};
    for (size_t round = 0; round < ROUNDS; round++) {
        play_coded(&f, owed, round, true);
        for (size_t i = 0; i < N; i++) {
            double mean = 0;
            for (size_t k = 0; k < CLIENTS; k++) {
                mean += ((double)f.state[k][N + i] - (double)owed[k][N + i]) / CLIENTS;
            }
            assert_true(fabs(mean - (double)f.x[N + i]) < 1e-4);
        }
    }
    assert_true(distance(&f) < 0.02);
}

FED_TEST(what_c_lacks_of_a_client_is_not_taken_off_its_gradients) {
    federation f = found("sgd:lr=0.05+scaffold"), g = f;
    float owed[CLIENTS][ALL] = {{0}}, others[CLIENTS][ALL] = {{0}};
    for (size_t round = 0; round < 8; round++) {
        play_coded(&f, owed, round, true);
        play_coded(&g, others, round, false);
    }
    assert_true(distance(&f) < 0.8 * distance(&g));
}

/* A training that failed is started again from the beginning. */
FED_TEST(a_round_that_was_not_finished_leaves_no_trace) {
    federation f = found("sgd:lr=0.05+scaffold"), g = f;
    for (int round = 0; round < 3; round++) {
        play(&f, 0, 1);
        float y[ALL], grad[N] = {1, 2, 3, 4, 5};
        memcpy(y, g.x, sizeof y);
        fedtrain_optimizer_begin_round(&g.optimizer, g.state[2], y, N);
        fedtrain_optimizer_step(&g.optimizer, g.state[2], y, grad, N);
        play(&g, 0, 1);
    }
    assert_memory_equal(f.x, g.x, sizeof f.x);
}
