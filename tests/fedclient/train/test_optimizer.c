/* Optimizers compared with their formulas in double precision, with every vector unit, for all
 * parameters at once and in slices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <stdbool.h>

#include "fed/rng.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/update.h"
#include "fedtrain/optimizer.h"

enum { N = 77, STEPS = 200, STATE = 3 * N + 6 }; /* N is no multiple of a vector width */

static float params[2 * N], grad[N], state[STATE]; /* scaffold has twice as many parameters */

static fed_optimizer parse(const char *spec) {
    fed_optimizer optimizer;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &optimizer, &err));
    memset(state, 0, sizeof state);
    for (size_t i = 0; i < N; i++) {
        params[i] = 1.0F - 0.02F * (float)i;
    }
    return optimizer;
}

/* Return gradients of very different magnitudes. Some are 0. */
static float gradient(size_t step, size_t i) {
    fed_rng rng;
    fed_rng_init(&rng, 3, (uint32_t)step, (uint32_t)i);
    return i % 11 == 0 ? 0.0F : (fed_rng_float(&rng) - 0.4F) * powf(10.0F, (float)(i % 7) - 4.0F);
}

static void make_gradient(size_t t) {
    for (size_t i = 0; i < N; i++) {
        grad[i] = gradient(t, i);
    }
}

typedef struct plain {
    const fed_optimizer *o;
    double w[N], w0[N], m[N], v[N], rate;
    size_t t;
} plain;

static plain plain_start(const fed_optimizer *o) {
    plain p = {.o = o, .rate = o->learning_rate};
    for (size_t i = 0; i < N; i++) {
        p.w[i] = p.w0[i] = (double)params[i];
    }
    return p;
}

static void plain_gradient(const plain *p, double *g) {
    double squares = 0;
    for (size_t i = 0; i < N; i++) {
        g[i] = (double)grad[i] + p->o->prox_mu * (p->w[i] - p->w0[i]);
        if (p->o->clip_value > 0) {
            g[i] = fmax(-p->o->clip_value, fmin(p->o->clip_value, g[i]));
        }
        squares += g[i] * g[i];
    }
    for (size_t i = 0; i < N; i++) {
        if (p->o->clip_norm > 0 && sqrt(squares) > p->o->clip_norm) {
            g[i] *= p->o->clip_norm / sqrt(squares);
        }
        if (p->o->rule != FED_ADAMW) {
            g[i] += p->o->decay * p->w[i];
        }
    }
}

static void plain_step(plain *p) {
    const fed_optimizer *o = p->o;
    double g[N], t = (double)++p->t;
    plain_gradient(p, g);
    for (size_t i = 0; i < N; i++) {
        double *w = &p->w[i], *m = &p->m[i], *v = &p->v[i];
        switch (o->rule) {
        case FED_SGD:
            *w -= p->rate * g[i];
            break;
        case FED_MOMENTUM:
            *m = o->momentum * *m + g[i];
            *w -= p->rate * (o->nesterov > 0 ? g[i] + o->momentum * *m : *m);
            break;
        case FED_ADAMW:
            *w -= p->rate * o->decay * *w; /* fall through */
        case FED_ADAM:
            *m = o->beta1 * *m + (1 - o->beta1) * g[i];
            *v = o->beta2 * *v + (1 - o->beta2) * g[i] * g[i];
            *w -= p->rate * (*m / (1 - pow(o->beta1, t))) /
                  (sqrt(*v / (1 - pow(o->beta2, t))) + o->epsilon);
            break;
        }
    }
}

static void assert_near(const plain *p, const char *spec) {
    for (size_t i = 0; i < N; i++) {
        if (!(fabs((double)params[i] - p->w[i]) < 2e-5 * (1 + fabs(p->w[i])))) {
            fail_msg("%s: after %zu steps parameter %zu is %g, by the formula %g", spec, p->t, i,
                     (double)params[i], p->w[i]);
        }
    }
}

/* Take a step with one set of kernels, `slice` parameters at a time, the last ones first. */
static void sliced_step(const fed_optimizer *o, const fedtrain_kernels *kernels, size_t slice) {
    uint64_t saved = fedtrain_denormal_flush();
    fedtrain_updater u = fedtrain_update_begin(o, state, params, N);
    u.kernels = kernels;
    fedtrain_update_clip(&u, grad, N);
    for (size_t end = N; end > 0; end -= end < slice ? end : slice) {
        size_t at = end < slice ? 0 : end - slice;
        fedtrain_update_apply(&u, at, grad + at, end - at);
    }
    fedtrain_denormal_restore(saved);
}

static const char *const specs[] = {
    "sgd:lr=0.1",
    "sgd:lr=0.1,decay=0.01",
    "momentum",
    "momentum:m=0.5,nesterov=1",
    "momentum:m=0.8,nesterov=1,decay=0.01",
    "momentum:decay=0.1",
    "adam:lr=1e-3",
    "adam:lr=1e-3,b1=0.8,b2=0.95,eps=1e-4,decay=0.01",
    "adam:lr=1e-3,b1=0",
    "adamw:lr=1e-3",
    "adamw:lr=1e-3,decay=0.3",
    "sgd:lr=0.1+clip:value=0.5",
    "sgd:lr=0.1+clip:norm=1",
    "momentum:decay=0.01+clip:value=20,norm=3",
    "sgd:lr=0.1+prox:mu=0.5",
    "momentum+prox:mu=2+clip:value=1",
    "adamw:lr=1e-3+clip:norm=0.5+prox:mu=0.1",
    "sgd:lr=0.1,decay=0.01+scaffold", /* scaffold's c and c_i are 0 here */
};

enum { SPECS = sizeof specs / sizeof specs[0] };

FED_TEST(test_every_rule_follows_its_formula) {
    for (size_t k = 0; k < SPECS; k++) {
        fed_optimizer o = parse(specs[k]);
        plain p = plain_start(&o);
        fedtrain_optimizer_begin_round(&o, state, params, N);
        for (size_t t = 0; t < STEPS; t++) {
            make_gradient(t);
            fedtrain_optimizer_step(&o, state, params, grad, N);
            plain_step(&p);
        }
        assert_near(&p, specs[k]);
    }
}

FED_TEST(test_vectors_and_slices_change_no_bit) {
    static const size_t slices[] = {1, 3, 16, 19, N};
    const fedtrain_kernels *kernels;
    for (size_t k = 0; k < SPECS; k++) {
        fed_optimizer o = parse(specs[k]);
        float wanted[N], wanted_state[STATE];
        fedtrain_optimizer_begin_round(&o, state, params, N);
        for (size_t t = 0; t < 20; t++) {
            make_gradient(t);
            fedtrain_optimizer_step(&o, state, params, grad, N);
        }
        memcpy(wanted, params, sizeof wanted);
        memcpy(wanted_state, state, sizeof state);
        for (size_t v = 0; (kernels = fedtrain_kernels_get(v)) != NULL; v++) {
            for (size_t s = 0; s < sizeof slices / sizeof slices[0]; s++) {
                parse(specs[k]);
                fedtrain_optimizer_begin_round(&o, state, params, N);
                for (size_t t = 0; t < 20; t++) {
                    make_gradient(t);
                    sliced_step(&o, kernels, slices[s]);
                }
                assert_memory_equal(params, wanted, sizeof wanted);
                assert_memory_equal(state, wanted_state, sizeof state);
            }
        }
    }
}

enum { MANY = 5003 }; /* more than is scaled at once, and no multiple of a vector width */

static bool same_bits(const float *a, const float *b, size_t bytes) {
    return memcmp(a, b, bytes) == 0;
}

/* Take the same step twice: with the whole gradient times `scale`, and in parts. */
static void compare_parts(const char *spec, float scale, const size_t *cuts, size_t count,
                          bool reverse) {
    static float w[2][2 * MANY], memory[2][3 * MANY + 6], g[MANY], scaled[MANY];
    fed_optimizer o = parse(spec);
    fed_error err = {0};
    for (size_t k = 0; k < 2; k++) {
        memset(memory[k], 0, sizeof memory[k]);
        for (size_t i = 0; i < 2 * (size_t)MANY; i++) {
            w[k][i] = i < MANY ? 1.0F - 0.01F * (float)(i % 300) : 0.001F * (float)(i % 7);
        }
        fedtrain_optimizer_begin_round(&o, memory[k], w[k], MANY);
    }
    for (size_t t = 0; t < 4; t++) {
        for (size_t i = 0; i < MANY; i++) {
            g[i] = gradient(t, i);
            scaled[i] = g[i] * scale;
        }
        fedtrain_optimizer_step(&o, memory[0], w[0], scaled, MANY);
        fedtrain_open_step step;
        assert_fed_ok_err(fedtrain_optimizer_begin_step(&o, memory[1], w[1], MANY, &step, &err));
        for (size_t k = 0; k < count; k++) {
            size_t c = reverse ? count - 1 - k : k, end = c + 1 < count ? cuts[c + 1] : MANY;
            fedtrain_optimizer_step_part(&step, cuts[c], end - cuts[c], g + cuts[c], scale);
        }
    }
    if (!same_bits(w[0], w[1], sizeof w[0]) || !same_bits(memory[0], memory[1], sizeof memory[0])) {
        fail_msg("%s: a step in %zu parts with scale %g gives other bits than at once", spec, count,
                 (double)scale);
    }
}

FED_TEST(test_parts_of_a_step_are_the_step_to_the_bit) {
    static const size_t whole[] = {0}, odd[] = {0, 1, 4, 21, 1045, 1046, 4001};
    static const float scales[] = {1, 0.25F, 1.0F / 3};
    static const char *const more[] = {"adam+warmup:steps=3+cosine:steps=9",
                                       "momentum+step:every=2,factor=0.5"};
    for (size_t k = 0; k < SPECS + 2; k++) {
        const char *spec = k < SPECS ? specs[k] : more[k - SPECS];
        for (size_t s = 0; s < 3 && strstr(spec, "norm") == NULL; s++) {
            compare_parts(spec, scales[s], whole, 1, false);
            compare_parts(spec, scales[s], odd, sizeof odd / sizeof odd[0], false);
            compare_parts(spec, scales[s], odd, sizeof odd / sizeof odd[0], true);
        }
    }
}

FED_TEST(test_a_step_that_clips_by_norm_is_not_taken_in_parts) {
    fed_optimizer o = parse("adam+clip:norm=1");
    fedtrain_open_step step;
    fed_error err = {0};
    assert_fed_status(fedtrain_optimizer_begin_step(&o, state, params, N, &step, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "norm"));
    assert_true(state[2 * N] == 0);
}

FED_TEST(test_nothing_behind_the_state_is_touched) {
    for (size_t k = 0; k < SPECS; k++) {
        fed_optimizer o = parse(specs[k]);
        size_t size = fedtrain_optimizer_state_size(&o, N);
        assert_true(size < STATE);
        state[size] = 7;
        fedtrain_optimizer_begin_round(&o, state, params, N);
        fedtrain_optimizer_see_loss(&o, state, N, 1);
        make_gradient(k);
        fedtrain_optimizer_step(&o, state, params, grad, N);
        assert_true(state[size] == 7);
    }
}

FED_TEST(test_the_state_is_as_large_as_the_header_says) {
    static const struct {
        const char *spec;
        size_t size;
    } sizes[] = {{"sgd", 0},
                 {"momentum", N},
                 {"adam", 2 * N + 1},
                 {"adamw", 2 * N + 1},
                 {"sgd+cosine:steps=9", 1},
                 {"momentum+stall", N + 5},
                 {"adam+warmup:steps=2+step:every=3+stall+prox:mu=1", 3 * N + 6},
                 {"sgd+scaffold", 2 * N + 1},
                 {"sgd+scaffold+prox:mu=1", 2 * N + 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        fed_optimizer o = parse(sizes[k].spec);
        assert_int_equal(fedtrain_optimizer_state_size(&o, N), sizes[k].size);
    }
}

FED_TEST(test_adams_first_step_has_the_learning_rates_size) {
    fed_optimizer adam = parse("adam:lr=0.5");
    params[0] = params[1] = 0;
    grad[0] = 3e-4F;
    grad[1] = -700;
    fedtrain_optimizer_step(&adam, state, params, grad, N);
    assert_true(fabs(params[0] + 0.5) < 1e-4);
    assert_true(fabs(params[1] - 0.5) < 1e-4);
}

/* For moments of any normal magnitude, each quotient must have float's precision. */
FED_TEST(test_adam_divides_well_at_every_size) {
    for (int exponent = -17; exponent <= 18; exponent++) {
        fed_optimizer adam = parse("adam:lr=1");
        double m = 0.7 * pow(10, exponent), v = m * m;
        state[2 * N] = 1e6F; /* after so many steps Adam's bias corrections are 1 */
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

/* The counter must neither overflow nor begin again. Adam's bias corrections are 1 here. */
FED_TEST(test_adam_grows_old_gracefully) {
    fed_optimizer adam = parse("adam:lr=1e-3");
    state[2 * N] = 16777216.0F;
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

/* With rate and gradient 1, each step is as long as the schedule's factor. */
static void assert_schedule(const char *spec, double (*factor)(size_t taken)) {
    fed_optimizer o = parse(spec);
    for (size_t taken = 0; taken < 60; taken++) {
        assert_true(fabs(fedtrain_optimizer_rate(&o, state, N) - factor(taken)) < 1e-12);
        params[5] = 0;
        grad[5] = 1;
        fedtrain_optimizer_step(&o, state, params, grad, N);
        assert_true(fabs((double)params[5] + factor(taken)) < 1e-6);
    }
}

static double warmup(size_t taken) {
    return taken < 10 ? ((double)taken + 1) / 10 : 1;
}

static double steps(size_t taken) {
    return taken < 20 ? 1 : taken < 40 ? 0.5 : 0.25;
}

static double cosine(size_t taken) {
    return taken >= 32 ? 0.1 : 0.1 + 0.9 * (1 + cos(acos(-1) * (double)taken / 32)) / 2;
}

static double all_three(size_t taken) {
    return taken < 10 ? warmup(taken) : steps(taken - 10) * cosine(taken - 10);
}

FED_TEST(test_schedules_move_the_rate) {
    assert_schedule("sgd:lr=1+warmup:steps=10", warmup);
    assert_schedule("sgd:lr=1+step:every=20,factor=0.5", steps);
    assert_schedule("sgd:lr=1+cosine:steps=32,low=0.1", cosine);
    assert_schedule("sgd:lr=1+cosine:steps=32,low=0.1+step:every=20,factor=0.5+warmup:steps=10",
                    all_three);
}

static void see_window(const fed_optimizer *o, float mean) {
    fedtrain_optimizer_see_loss(o, state, N, mean - 0.5F);
    fedtrain_optimizer_see_loss(o, state, N, mean + 0.5F);
}

static double rate(const fed_optimizer *o) {
    return fedtrain_optimizer_rate(o, state, N);
}

FED_TEST(test_a_stalled_loss_lowers_the_rate) {
    fed_optimizer o = parse("sgd:lr=1+stall:window=2,patience=2,factor=0.5,gain=0.1");
    see_window(&o, 10);
    see_window(&o, 9.5F); /* less than a tenth better, which does not count */
    assert_true(rate(&o) == 1);
    see_window(&o, 8);
    see_window(&o, 7.5F);
    assert_true(rate(&o) == 1); /* one window without a gain; patience is two */
    see_window(&o, 8);
    assert_true(rate(&o) == 0.5);
    see_window(&o, 8);
    assert_true(rate(&o) == 0.5);
    see_window(&o, 7.3F); /* not a tenth better than the best window, 8 */
    assert_true(rate(&o) == 0.25);
    see_window(&o, 7);
    see_window(&o, 7);
    assert_true(rate(&o) == 0.25);
}

FED_TEST(test_a_loss_that_falls_keeps_the_rate) {
    fed_optimizer o = parse("adam:lr=1+stall:window=1,patience=1");
    for (int t = 0; t < 900; t++) {
        fedtrain_optimizer_see_loss(&o, state, N, 100 * powf(0.99F, (float)t));
    }
    assert_true(rate(&o) == 1);
}

FED_TEST(test_a_state_saved_in_the_middle_goes_on) {
    static const char spec[] = "adamw+warmup:steps=9+step:every=7+cosine:steps=90"
                               "+stall:window=4,patience=1+prox:mu=1+clip:norm=1";
    fed_optimizer o = parse(spec);
    float wanted[N];
    for (int restart = 0; restart < 2; restart++) {
        parse(spec);
        fedtrain_optimizer_begin_round(&o, state, params, N);
        for (size_t t = 0; t < 50; t++) {
            if (restart == 1 && t == 30) { /* as in a new process, which has only the saved state */
                float saved[STATE];
                size_t bytes = fedtrain_optimizer_state_size(&o, N) * sizeof(float);
                memcpy(saved, state, bytes);
                memset(state, 0xFF, sizeof state);
                memcpy(state, saved, bytes);
                memset(&o, 0, sizeof o);
                fed_error err = {0};
                assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &o, &err));
            }
            make_gradient(t);
            fedtrain_optimizer_see_loss(&o, state, N, 1 + (float)(t % 5));
            fedtrain_optimizer_step(&o, state, params, grad, N);
        }
        if (restart == 0) {
            assert_true(rate(&o) < 0.01 * pow(0.1, 6));
            memcpy(wanted, params, sizeof wanted);
        }
    }
    assert_memory_equal(params, wanted, sizeof wanted);
}

FED_TEST(test_masking_clears_the_momentum_of_what_was_sent) {
    static const char *const rules[] = {"momentum", "adam", "adamw", "sgd"};
    for (size_t k = 0; k < 4; k++) {
        fed_optimizer o = parse(rules[k]);
        float sent[N] = {0}, before[STATE];
        make_gradient(1);
        fedtrain_optimizer_step(&o, state, params, grad, N);
        memcpy(before, state, sizeof state);
        sent[1] = 0.5F;
        sent[N - 1] = -1e-30F;
        fedtrain_optimizer_mask(&o, state, sent, N);
        if (o.rule != FED_SGD) {
            assert_true(before[1] != 0 && before[N - 1] != 0);
            before[1] = before[N - 1] = 0;
        }
        assert_memory_equal(state, before, sizeof state);
    }
}

FED_TEST(test_a_stateless_optimizer_begins_each_round_as_the_first) {
    static const char *const stateless[] = {"momentum+stateless", "adam+stateless+warmup:steps=3",
                                            "sgd+step:every=2+stall:window=2,patience=1+stateless",
                                            "adamw+prox:mu=1+stateless"};
    float from[N], first[N];
    memcpy(from, params, sizeof from);
    for (size_t k = 0; k < 4; k++) {
        fed_optimizer o = parse(stateless[k]);
        for (int round = 0; round < 2; round++) {
            memcpy(params, from, sizeof from);
            fedtrain_optimizer_begin_round(&o, state, params, N);
            for (size_t t = 0; t < 5; t++) {
                make_gradient(t);
                fedtrain_optimizer_see_loss(&o, state, N, 1);
                fedtrain_optimizer_step(&o, state, params, grad, N);
            }
            if (round == 0) {
                memcpy(first, params, sizeof first);
                assert_memory_not_equal(first, from, sizeof from);
            }
        }
        assert_memory_equal(params, first, sizeof first);
        memcpy(params, from, sizeof from);
    }
}

FED_TEST(test_the_proximal_term_pulls_to_where_the_round_began) {
    fed_optimizer o = parse("sgd:lr=0.5+prox:mu=1");
    float from[N];
    memcpy(from, params, sizeof from);
    memset(grad, 0, sizeof grad);
    fedtrain_optimizer_begin_round(&o, state, params, N);
    params[3] += 8;
    fedtrain_optimizer_step(&o, state, params, grad, N);
    assert_true(fabsf(params[3] - from[3] - 4) < 1e-6F);
    fedtrain_optimizer_begin_round(&o, state, params, N);
    fedtrain_optimizer_step(&o, state, params, grad, N);
    assert_true(fabsf(params[3] - from[3] - 4) < 1e-6F);
}

FED_TEST(test_a_gradient_within_the_norm_is_left_alone) {
    fed_optimizer clipped = parse("sgd:lr=1+clip:norm=5"), sgd = parse("sgd:lr=1");
    float wanted[N];
    memset(grad, 0, sizeof grad);
    grad[0] = 3;
    grad[N - 1] = 4;
    fedtrain_optimizer_step(&sgd, state, params, grad, N);
    memcpy(wanted, params, sizeof wanted);
    parse("sgd");
    fedtrain_optimizer_step(&clipped, state, params, grad, N);
    assert_memory_equal(params, wanted, sizeof wanted);
}

FED_TEST(test_a_gradient_that_is_not_a_number_shows) {
    for (size_t k = 0; k < SPECS; k++) {
        fed_optimizer o = parse(specs[k]);
        make_gradient(1);
        grad[40] = NAN;
        fedtrain_optimizer_step(&o, state, params, grad, N);
        assert_true(isnan(params[40]));
    }
}
