/* One hostile device among honest ones, in a task without settings for such devices. The model
 * must still be learnt, and the status must name the device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>

#include "fed/rng.h"
#include "fed_cases.h"

enum {
    INPUTS = 16,
    CLASSES = 4,
    PARAMETERS = INPUTS * CLASSES + CLASSES, /* the biases come before the weights */
    HONEST = 9,
    DEVICES = HONEST + 1,
    SAMPLES = 40,
    STEPS = 5,
    ROUNDS = 30
};

static const char task_json[] = "{\"model\": \"input 16 | dense 4\", \"codec_up\": \"float32\","
                                " \"codec_down\": \"float32\", \"rounds\": 30, \"cohort\": 10}";
static const char unlimited[] = "{\"model\": \"input 16 | dense 4\", \"codec_up\": \"float32\","
                                " \"codec_down\": \"float32\", \"rounds\": 30, \"cohort\": 10,"
                                " \"device_share\": 1}";
static const char tighter[] = "{\"model\": \"input 16 | dense 4\", \"codec_up\": \"float32\","
                              " \"codec_down\": \"float32\", \"rounds\": 30, \"cohort\": 10,"
                              " \"device_share\": 0.25}";

typedef struct data {
    float x[SAMPLES][INPUTS];
    int label[SAMPLES];
} data;

/* Draw data in which each class has a quarter of the inputs brighter than the rest, plus noise. */
static void draw_data(data *d, uint32_t device) {
    fed_rng rng;
    fed_rng_init(&rng, 11, device, 0);
    for (int s = 0; s < SAMPLES; s++) {
        d->label[s] = (int)fed_rng_below(&rng, CLASSES);
        for (int i = 0; i < INPUTS; i++) {
            d->x[s][i] = 2 * fed_rng_float(&rng) - 1 + (i % CLASSES == d->label[s] ? 0.6f : 0);
        }
    }
}

/* Softmax regression: return the loss, and if rate > 0 make a step of gradient descent on w. */
static double learn(const data *d, float w[PARAMETERS], double rate) {
    double loss = 0, gradient[PARAMETERS] = {0};
    float *bias = w, *weight = w + CLASSES;
    for (int s = 0; s < SAMPLES; s++) {
        double p[CLASSES], all = 0, most = -INFINITY;
        for (int c = 0; c < CLASSES; c++) {
            double z = (double)bias[c];
            for (int i = 0; i < INPUTS; i++) {
                z += (double)weight[c * INPUTS + i] * (double)d->x[s][i];
            }
            p[c] = z;
            most = fmax(most, z);
        }
        loss += (most - p[d->label[s]]) / SAMPLES;
        for (int c = 0; c < CLASSES; c++) {
            all += p[c] = exp(p[c] - most);
        }
        loss += log(all) / SAMPLES;
        for (int c = 0; c < CLASSES; c++) {
            const double error = (p[c] / all - (c == d->label[s])) / SAMPLES;
            gradient[c] += error;
            for (int i = 0; i < INPUTS; i++) {
                gradient[CLASSES + c * INPUTS + i] += error * (double)d->x[s][i];
            }
        }
    }
    for (int i = 0; i < PARAMETERS; i++) {
        w[i] -= (float)(rate * gradient[i]);
    }
    return loss;
}

static void train(const data *d, const float *model, float change[PARAMETERS]) {
    float w[PARAMETERS];
    memcpy(w, model, sizeof w);
    for (int k = 0; k < STEPS; k++) {
        (void)learn(d, w, 0.5);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        change[i] = w[i] - model[i];
    }
}

typedef enum attack { NONE, NOISE, BACKWARDS } attack;

/* Make an update of the largest values that the sum accepts; with NONE, an honest update. */
static void attack_with(attack kind, const float *model, const data *d, fed_rng *rng,
                        float x[PARAMETERS]) {
    train(d, model, x);
    for (int i = 0; i < PARAMETERS; i++) {
        const float sign =
            kind == NOISE ? (fed_rng_below(rng, 2) == 0 ? 1.0f : -1.0f) : (x[i] > 0 ? -1.0f : 1.0f);
        x[i] = kind == NONE ? x[i] : 16 * sign;
    }
}

static const float *model_of(const coordinator *c) {
    return fedserver_rounds_front(&c->server->rounds)->versions.values;
}

/* Run the task. Returns the mean loss of the honest devices at its end. */
static double play(coordinator *c, const test_device d[DEVICES], const char *task, attack kind) {
    static data all[DEVICES];
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (uint32_t k = 0; k < DEVICES; k++) {
        draw_data(&all[k], k);
    }
    coordinator_task(c, task);
    for (int round = 0; round < ROUNDS; round++) {
        float model[PARAMETERS];
        memcpy(model, model_of(c), sizeof model);
        for (int k = 0; k < DEVICES; k++) {
            float x[PARAMETERS];
            const fed_assignment work = device_ask_work(c, &d[k]);
            train(&all[k], model, x);
            if (k == HONEST) {
                attack_with(kind, model, &all[k], &rng, x);
            }
            const uint32_t samples = k == HONEST && kind != NONE ? 1 << 20 : SAMPLES;
            assert_int_equal(device_upload(c, &d[k], &work, x, samples, NULL), 200);
        }
    }
    double loss = 0;
    for (int k = 0; k < HONEST; k++) {
        float w[PARAMETERS];
        memcpy(w, model_of(c), sizeof w);
        loss += learn(&all[k], w, 0) / HONEST;
    }
    return loss;
}

typedef struct world {
    coordinator c;
    test_device d[DEVICES];
} world;

static int setup(void **state) {
    static world w;
    coordinator_setup(&w.c);
    for (int k = 0; k < DEVICES; k++) {
        w.d[k] = coordinator_enrol(&w.c);
    }
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->c);
    return 0;
}

typedef struct named {
    char hostile[17];
    int rounds, heaviest, furthest;
    double least_share, least_norm;
} named;

static fed_status find_named(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    named *n = user;
    n->rounds++;
    n->heaviest += strcmp(row->heaviest.name, n->hostile) == 0;
    n->furthest += strcmp(row->furthest.name, n->hostile) == 0;
    n->least_share = fmin(n->least_share, row->heaviest.amount);
    n->least_norm = fmin(n->least_norm, row->furthest.amount);
    return FED_OK;
}

static named look_who(world *w, uint64_t task) {
    fed_error err = {0};
    named n = {.least_share = 1, .least_norm = INFINITY};
    fed_hex(w->d[HONEST].fingerprint, 8, n.hostile);
    assert_fed_ok_err(
        w->c.server->store->round_each(w->c.server->db, task, ROUNDS, find_named, &n, &err));
    assert_int_equal(n.rounds, ROUNDS);
    return n;
}

FED_TEST_WITH(a_hostile_device_does_not_ruin_the_model_and_is_named, world *w) {
    const double honest = play(&w->c, w->d, task_json, NONE);
    const double noise = play(&w->c, w->d, task_json, NOISE);
    const double ruined = play(&w->c, w->d, unlimited, NOISE);
    print_message("loss %.3f honest, %.3f with noise, %.1f without a limit\n", honest, noise,
                  ruined);
    assert_true(honest < 0.5); /* log(4) = 1.39 at the start */
    assert_true(noise < honest + 0.15);
    assert_true(ruined > 10);
    const named n = look_who(w, 2);
    assert_true(n.heaviest == ROUNDS && n.furthest == ROUNDS);
    assert_true(n.least_share > 0.99 && n.least_norm > 100);
}

/* With half of the weight a hostile device can reverse the model's change. With a quarter of the
 * weight it can't. */
FED_TEST_WITH(with_a_smaller_share_a_device_that_pulls_backwards_only_delays, world *w) {
    const double half = play(&w->c, w->d, task_json, BACKWARDS);
    const double quarter = play(&w->c, w->d, tighter, BACKWARDS);
    print_message("loss %.3f with a half, %.3f with a quarter\n", half, quarter);
    assert_true(half < 3);
    assert_true(quarter < 0.7);
}

FED_TEST_WITH(an_honest_run_is_the_same_with_and_without_the_limit, world *w) {
    (void)play(&w->c, w->d, task_json, NONE);
    const uint64_t limited = fedserver_rounds_front(&w->c.server->rounds)->versions.digest;
    (void)play(&w->c, w->d, unlimited, NONE);
    assert_true(fedserver_rounds_front(&w->c.server->rounds)->versions.digest == limited);
    assert_int_equal(look_who(w, 1).furthest < ROUNDS, 1);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
