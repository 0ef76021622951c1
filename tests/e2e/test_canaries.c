/* Canaries: devices send random vectors, and an attacker tries to find them in the models. He finds
 * no more than the promise allows; if noise or clip are missing, he does. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_inproc.h"
#include "fedclient/fedclient.h"
#include "fedclient/memory_store.h"
#include "fedcodec/ring.h"
#include "fedserver/task/private_task.h"
#include "private_federation.h"

/*
 * After Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar, "One-shot empirical privacy estimation
 * for federated learning", 2023; its section 5, where the attacker sees all models.
 *
 * A canary is a random direction u, uniform on the sphere. In each round each device sends a fresh
 * one, and as many stay out. The attacker knows them all, and all models. Of round t he takes the
 * change of the model times the goal, which is the released sum R, and computes x = <R, u> for each
 * canary. All updates have the clip's length C, and R has noise of variance (z D g)^2 on each
 * value, where D g >= C is the longest update. So
 *
 *     a canary outside:  x has mean 0,  variance (z D g)^2 + (the other canaries' part) =: s^2
 *     a canary inside:   x has mean C,  the same variance
 *
 * and telling the two apart is telling N(0, 1) from N(mu, 1) with mu = C / s <= C / (z D g) <=
 * 1 / z: what Gaussian differential privacy (Dong, Roth, Su, 2019) allows for one participation
 * with this noise. Where the clip follows the updates, x is in units of the round's clip. (K
 * participations allow sqrt(K) / z. As each round has canaries of its own, each is one test of one
 * participation.)
 *
 * The estimate, from n canaries inside and n outside: m, the mean inside; s^2, the variance about m
 * inside and about 0 outside; mu = m / s. Its variance is 1/n + mu^2 / (2 (2n - 1)), by the delta
 * method. The bound is mu less 3.3 standard errors. n is 5 rounds of 50 devices.
 *
 * Chance: were the noise the least that is allowed, the bound would be above 1 / z once in 2,000
 * times (1 - Phi(3.3) = 0.00048). At z = 2 half of the noise is missed once in 10,000 times: then
 * mu is 1, its standard error 0.070, and the bound 0.77 is 3.8 of these above 1 / z. A test that
 * fails by chance is a bad test, so nothing here is left to chance: the canaries, the rounding and
 * the keys of the noise follow from fixed seeds, and masks drop out of sums. Each run has the same
 * bits.
 */
enum { IN = 50, ROUNDS = 5, TESTS = IN * ROUNDS, INPUTS_OF = 255, OUTPUTS = 16, STEPS_MOST = 4 };
enum { SIZE = (INPUTS_OF + 1) * OUTPUTS, SEED = 43, ROUNDING = 7 };
static const double errors = 3.3, clip = 1;
/* 5 participations with it, at delta 1e-5, have z = 2: the quietest canaries that must be found. */
static const double epsilon = 5.3777;

/* What is wrong with the system. */
typedef enum fault { SOUND, NO_NOISE, HALF_NOISE, NO_CLIP } fault;
static fault planted;
static uint8_t draws; /* how often noise was drawn */

fed_status __real_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count);
fed_status __wrap_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count);
fed_status __real_fedcodec_ring_encode(const fedcodec_ring *ring, float length, const float *x,
                                       fedcodec_ring_random random, void *user, uint8_t *dst,
                                       double *kept);
fed_status __wrap_fedcodec_ring_encode(const fedcodec_ring *ring, float length, const float *x,
                                       fedcodec_ring_random random, void *user, uint8_t *dst,
                                       double *kept);

/* The product's sampler with a key that is no secret. */
fed_status __wrap_fedserver_noise_draw(const uint8_t *key, const uint8_t *set,
                                       fedserver_variance variance, int64_t *noise, size_t count) {
    const uint8_t fixed_key[FEDSERVER_NOISE_KEY] = {SEED, draws++},
                  fixed_set[FED_SHA256_SIZE] = {0};
    (void)key, (void)set;
    if (planted == HALF_NOISE) {
        variance.m *= 4; /* the variance is t u / m */
    }
    if (planted == NO_NOISE) {
        memset(noise, 0, count * sizeof *noise);
        return FED_OK;
    }
    return __real_fedserver_noise_draw(fixed_key, fixed_set, variance, noise, count);
}

fed_status __wrap_fedcodec_ring_encode(const fedcodec_ring *ring, float length, const float *x,
                                       fedcodec_ring_random random, void *user, uint8_t *dst,
                                       double *kept) {
    fedcodec_ring as_sent = *ring;
    if (planted == NO_CLIP) {
        as_sent.shape.reach = HUGE_VAL;
        length = HUGE_VALF;
    }
    return __real_fedcodec_ring_encode(&as_sent, length, x, random, user, dst, kept);
}

typedef struct member {
    fed_inproc line;
    fedclient_platform platform;
    fedclient *client;
    fed_points trusted; /* the keys of its helper, while the client is open */
    fed_rng rounding;
    uint32_t number, round;
} member;

typedef struct world {
    coordinator c;
    federation *helper; /* NULL: there is none */
    bool follows;       /* the clip follows the updates, and grows */
    test_device attacker;
    fed_task task;
    member in[IN];
    float before[SIZE], after[SIZE];
    double inside[TESTS], outside[TESTS];
    size_t tests;
} world;

static int begin_world(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    coordinator_setup(&w->c);
    draws = 0;
    planted = SOUND;
    *state = w;
    return 0;
}

static int end_world(void **state) {
    world *w = *state;
    for (size_t k = 0; k < IN; k++) {
        fedclient_close(w->in[k].client);
        if (w->in[k].client != NULL) {
            fedclient_platform_memory_close(&w->in[k].platform);
        }
    }
    if (w->helper != NULL) {
        end(w->helper);
    }
    coordinator_teardown(&w->c);
    free(w);
    return 0;
}

/* A direction, uniform on the sphere: normal numbers by Box and Muller, of length 1. Those from IN
 * on stay out. */
static void make_canary(uint32_t round, uint32_t number, double u[SIZE]) {
    const double circle = 6.283185307179586, unit = 4294967296.0;
    fed_rng rng;
    double squares = 0;
    fed_rng_init(&rng, SEED, round, number);
    for (size_t i = 0; i < SIZE; i += 2) {
        const double length = sqrt(-2 * log(((double)fed_rng_u32(&rng) + 1) / unit));
        const double angle = circle * (double)fed_rng_u32(&rng) / unit;
        u[i] = length * cos(angle);
        u[i + 1] = length * sin(angle);
        squares += length * length;
    }
    for (size_t i = 0; i < SIZE; i++) {
        u[i] /= sqrt(squares);
    }
}

/* The device would send twice the clip's length: that it sends once that length is the clip's
 * work. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    const member *m = user;
    double u[SIZE];
    (void)err;
    make_canary(m->round, m->number, u);
    for (size_t i = 0; i < SIZE; i++) {
        round->values[i] = (float)(2 * clip * u[i]);
    }
    round->is_change = true;
    round->samples = 1;
    return FED_OK;
}

static fed_status round_with(void *user, void *dst, size_t len) {
    member *m = user;
    fed_rng_fill(&m->rounding, dst, len / sizeof(uint32_t));
    return FED_OK;
}

static void open_member(world *w, uint32_t number) {
    member *m = &w->in[number];
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    m->number = number;
    if (w->helper != NULL) {
        m->trusted.count = 1;
        memcpy(m->trusted.at[0], w->helper->key, sizeof w->helper->key);
    }
    fed_rng_init(&m->rounding, ROUNDING, number, 0);
    fed_inproc_open(&m->line, &w->c);
    assert_fed_ok_err(fedclient_platform_memory_open(&m->platform, &err));
    const fedclient_options options = {.server = "https://here:8443",
                                       .platform = &m->platform,
                                       .transport = &m->line.transport,
                                       .helper = w->helper != NULL ? &m->trusted : NULL,
                                       .rounding = round_with,
                                       .train = train,
                                       .user = m};
    coordinator_commit(&w->c);
    assert_fed_ok_err(fedserver_token_new(w->c.server, w->c.now_ms, 3600, token, &err));
    assert_fed_ok_err(fedclient_open(&options, &m->client, &err));
    assert_fed_ok_err(fedclient_enrol(m->client, token, &err));
}

/* Queue a task, and enrol devices. Returns its z. noise: who adds it. */
static double begin_task_with(world *w, const char *noise, uint32_t members) {
    char key[2 * FED_SEAL_KEY + 1] = "", task[700];
    const bool masked = strcmp(noise, "coordinator") != 0;
    if (masked) {
        w->helper = helper_alone();
        fed_hex(w->helper->key, FED_SEAL_KEY, key);
    }
    snprintf(task, sizeof task,
             "{\"model\": \"input %d | dense %d\", \"codec_up\": \"ring:b=5\", \"clip\": %g,"
             " \"codec_down\": \"float32\", \"cohort\": %d, \"goal\": %d, \"rounds\": %d,"
             " \"epsilon\": %.6f, \"delta\": 1e-5, \"participations\": %d, \"noise\": \"%s\""
             "%s%s%s%s}",
             INPUTS_OF, OUTPUTS, clip, IN, IN, ROUNDS + 1, epsilon, ROUNDS, noise,
             w->follows ? ", \"clip_quantile\": 0.5" : "", masked ? ", \"helper\": \"" : "", key,
             masked ? "\"" : "");
    coordinator_task(&w->c, task);
    if (masked) {
        enrol_helper(&w->c, w->helper);
    }
    for (uint32_t k = 0; k < members; k++) {
        open_member(w, k);
    }
    w->attacker = coordinator_enrol(&w->c);
    const fedserver_training *t = fedserver_rounds_front(&w->c.server->rounds);
    w->task = t->task.wire;
    assert_int_equal(t->arch.layout.size, SIZE);
    assert_int_equal(device_download(&w->c, &w->attacker, &w->task, -1, 0, w->before, NULL), 200);
    return fedserver_promise_of(&t->task, &t->arch.layout).z;
}

static fedclient_outcome step(member *m) {
    fed_error err = {0};
    fedclient_event event = {.outcome = FEDCLIENT_WAITED};
    for (int k = 0; k < STEPS_MOST && event.outcome == FEDCLIENT_WAITED; k++) {
        assert_fed_ok_err(fedclient_step(m->client, &event, &err));
        m->line.c->now_ms += 1000;
    }
    return event.outcome;
}

static double along(const double u[SIZE], const double *released) {
    double sum = 0;
    for (size_t i = 0; i < SIZE; i++) {
        sum += u[i] * released[i];
    }
    return sum;
}

/* What the attacker does with a round, whose clip he knows. */
static void look_for_canaries(world *w, uint32_t round, double length) {
    double released[SIZE], u[SIZE];
    memcpy(w->after, w->before, sizeof w->after);
    assert_int_equal(device_download(&w->c, &w->attacker, &w->task, -1, round, w->after, NULL),
                     200);
    for (size_t i = 0; i < SIZE; i++) {
        released[i] = ((double)w->after[i] - (double)w->before[i]) * IN;
    }
    memcpy(w->before, w->after, sizeof w->before);
    for (uint32_t k = 0; k < IN; k++) {
        make_canary(round, k, u);
        w->inside[w->tests] = along(u, released) / length;
        make_canary(round, IN + k, u);
        w->outside[w->tests++] = along(u, released) / length;
    }
}

static void play(world *w) {
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const double length =
            (double)fedserver_task_clip(&fedserver_rounds_front(&w->c.server->rounds)->task);
        for (size_t k = 0; k < IN; k++) {
            w->in[k].round = round;
            assert_int_equal(step(&w->in[k]), FEDCLIENT_COUNTED);
        }
        if (w->helper != NULL) {
            open_round(&w->c, w->helper, 1 << 20);
        }
        look_for_canaries(w, round, length);
    }
}

/* The lower bound of mu: see above. */
static double least_mu(const world *w) {
    const double n = (double)w->tests;
    double mean = 0, squares = 0;
    for (size_t k = 0; k < w->tests; k++) {
        mean += w->inside[k] / n;
    }
    for (size_t k = 0; k < w->tests; k++) {
        const double in = w->inside[k] - mean, out = w->outside[k];
        squares += in * in + out * out;
    }
    const double mu = mean / sqrt(squares / (2 * n - 1));
    const double error = sqrt(1 / n + mu * mu / (2 * (2 * n - 1)));
    print_message("mu is %.3f +- %.3f, so at least %.3f\n", mu, error, mu - errors * error);
    return mu - errors * error;
}

static void expect_hidden(world *w, const char *noise) {
    const double z = begin_task_with(w, noise, IN);
    play(w);
    const double least = least_mu(w);
    assert_true(least <= 1 / z);
    assert_true(least > 0); /* the attack works: it sees the canaries, as much as is allowed */
}

static void expect_found(world *w, fault what, const char *noise) {
    planted = what;
    const double z = begin_task_with(w, noise, IN);
    play(w);
    assert_true(least_mu(w) > 1 / z);
}

FED_TEST_WITH(the_coordinators_noise_hides_canaries, world *w) {
    expect_hidden(w, "coordinator");
}

FED_TEST_WITH(the_helpers_noise_hides_canaries, world *w) {
    expect_hidden(w, "helper");
}

/* Each device says behind the noise that it was clipped, too. */
FED_TEST_WITH(a_clip_that_follows_hides_canaries, world *w) {
    w->follows = true;
    expect_hidden(w, "helper");
    const fedserver_task *task = &fedserver_rounds_front(&w->c.server->rounds)->task;
    assert_true(fabs(log((double)fedserver_task_clip(task)) - 0.1 * ROUNDS) < 0.1);
}

FED_TEST_WITH(half_of_the_coordinators_noise_is_found, world *w) {
    expect_found(w, HALF_NOISE, "coordinator");
}

FED_TEST_WITH(half_of_the_helpers_noise_is_found, world *w) {
    expect_found(w, HALF_NOISE, "helper");
}

FED_TEST_WITH(missing_noise_is_found, world *w) {
    expect_found(w, NO_NOISE, "coordinator");
}

/* Behind masks nobody sees that devices do not clip; the canaries do. */
FED_TEST_WITH(missing_clips_are_found, world *w) {
    expect_found(w, NO_CLIP, "helper");
}

FED_TEST_WITH(a_missing_clip_that_the_coordinator_sees_is_refused, world *w) {
    planted = NO_CLIP;
    (void)begin_task_with(w, "coordinator", 1);
    w->in[0].round = 1;
    assert_int_equal(step(&w->in[0]), FEDCLIENT_REFUSED);
}

int main(void) {
    return fed_cases_run_each(begin_world, end_world);
}
