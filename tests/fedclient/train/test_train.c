/* Local training: the batches of each round, what a step does, what is refused and measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>
#include <stdbool.h>

#include "fed/arch.h"
#include "fed/rng.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/backend.h"
#include "fedtrain/split.h"
#include "fedtrain/train.h"

enum { SAMPLES = 60, CLASSES = 3, SIDE = 8, PIXELS = SIDE * SIDE };

/* Made-up pictures: in each class another third of the rows is bright. */
typedef struct world {
    fed_arch arch;
    uint8_t pixel[SAMPLES * PIXELS], label[SAMPLES];
    fedtrain_dataset set;
    fedtrain_shard shard;
    fedtrain_net *net;
    float *params, *state;
    fedtrain_job job;
} world;

static void make_pictures(world *w) {
    fed_rng rng;
    fed_rng_init(&rng, 9, 9, 9);
    for (size_t i = 0; i < SAMPLES; i++) {
        w->label[i] = (uint8_t)(i % CLASSES);
        for (size_t p = 0; p < PIXELS; p++) {
            bool bright = p / SIDE % CLASSES == w->label[i];
            w->pixel[i * PIXELS + p] = (uint8_t)(fed_rng_below(&rng, 100) + (bright ? 120 : 0));
        }
    }
    assert_fed_ok(
        fedtrain_dataset_wrap(w->pixel, w->label, SAMPLES, (fed_shape){1, SIDE, SIDE}, &w->set));
}

static fed_optimizer optimizer(const char *spec) {
    fed_optimizer parsed;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &parsed, &err));
    return parsed;
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    fed_error err = {0};
    assert_non_null(w);
    assert_fed_ok_err(fed_arch_parse(
        "input 1x8x8 | conv 6 3x3 | maxpool 2 | dense 19 | relu | dense 3", &w->arch, &err));
    make_pictures(w);
    assert_fed_ok_err(fedtrain_shard_take(&w->set, FEDTRAIN_SPLIT_IID, 2, 0, 1, &w->shard, &err));
    assert_fed_ok(fedtrain_net_new(&w->arch, 16, NULL, &w->net, NULL));
    size_t n = w->arch.layout.size;
    w->params = malloc(n * sizeof(float));
    w->state = calloc(2 * n + 1, sizeof(float));
    assert_true(w->params != NULL && w->state != NULL);
    fed_arch_init_values(&w->arch, 1, w->params);
    w->job = (fedtrain_job){.net = w->net,
                            .optimizer = optimizer("adam:lr=3e-3"),
                            .set = &w->set,
                            .shard = &w->shard,
                            .steps = 7,
                            .batch = 4,
                            .seed = 5,
                            .client = 3,
                            .round = 1};
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedtrain_net_free(w->net);
    fedtrain_shard_free(&w->shard);
    fedtrain_dataset_free(&w->set);
    fed_arch_free(&w->arch);
    free(w->params);
    free(w->state);
    free(w);
    return 0;
}

static float run(world *w) {
    fed_error err = {0};
    float loss = -1;
    assert_fed_ok_err(fedtrain_run(&w->job, w->params, w->state, &loss, &err));
    return loss;
}

static void fresh(world *w) {
    fed_arch_init_values(&w->arch, 1, w->params);
    memset(w->state, 0, (2 * w->arch.layout.size + 1) * sizeof *w->state);
}

static float *copy_params(const world *w) {
    float *copy = malloc(w->arch.layout.size * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, w->params, w->arch.layout.size * sizeof *copy);
    return copy;
}

FED_TEST_WITH(test_the_same_job_gives_the_same_bits, world *w) {
    float loss = run(w);
    float *once = copy_params(w);
    fresh(w);
    assert_true(run(w) == loss);
    assert_memory_equal(w->params, once, w->arch.layout.size * sizeof *once);
    free(once);
}

FED_TEST_WITH(test_client_round_and_seed_change_the_order, world *w) {
    run(w);
    float *base = copy_params(w);
    fedtrain_job job = w->job;
    for (int what = 0; what < 3; what++) {
        w->job = job;
        w->job.client += what == 0;
        w->job.round += what == 1;
        w->job.seed += what == 2;
        fresh(w);
        run(w);
        assert_memory_not_equal(w->params, base, w->arch.layout.size * sizeof *base);
    }
    free(base);
}

FED_TEST_WITH(test_a_round_goes_on_where_the_one_before_ended, world *w) {
    for (w->job.round = 0; w->job.round < 3; w->job.round++) {
        run(w);
    }
    float *in_rounds = copy_params(w);
    fresh(w);
    w->job.round = 0;
    w->job.steps = 21;
    run(w);
    assert_memory_equal(w->params, in_rounds, w->arch.layout.size * sizeof *in_rounds);
    free(in_rounds);
}

typedef struct listener {
    size_t first, calls, most;
    double sum;
} listener;

static bool listen(void *user, size_t step, float loss) {
    listener *l = user;
    assert_int_equal(step, l->first + l->calls);
    l->calls++;
    l->sum += loss;
    return l->calls < l->most;
}

FED_TEST_WITH(test_a_run_stops_when_it_is_told_and_goes_on_from_there, world *w) {
    run(w);
    float *whole = copy_params(w);
    fresh(w);
    listener l = {.most = 3};
    w->job.after_step = listen;
    w->job.user = &l;
    float loss = run(w);
    assert_int_equal(l.calls, 3);
    assert_float_equal(loss, l.sum / 3, 1e-6);
    assert_memory_not_equal(w->params, whole, w->arch.layout.size * sizeof *whole);
    l = (listener){.first = 3, .most = 100};
    w->job.done = 3;
    run(w);
    assert_int_equal(l.calls, 4);
    assert_memory_equal(w->params, whole, w->arch.layout.size * sizeof *whole);
    free(whole);
}

FED_TEST_WITH(test_a_pass_visits_every_sample_once, world *w) {
    w->job.steps = 15;
    w->job.round = 0;
    w->job.optimizer = optimizer("sgd:lr=1e-22");
    assert_int_equal(w->shard.count, 30);
    float loss = run(w);
    uint8_t pixel[30 * PIXELS], label[30];
    for (size_t i = 0; i < 30; i++) {
        memcpy(pixel + i * PIXELS, w->pixel + w->shard.index[i] * PIXELS, PIXELS);
        label[i] = w->label[w->shard.index[i]];
    }
    fedtrain_dataset own;
    assert_fed_ok(fedtrain_dataset_wrap(pixel, label, 30, (fed_shape){1, SIDE, SIDE}, &own));
    fedtrain_score score;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_evaluate(w->net, 16, &own, w->params, &score, &err));
    assert_true(fabsf(loss - score.loss) < 1e-5F);
    fedtrain_dataset_free(&own);
}

/* fedtrain_run may update tensors one by one. The public calls update all at once, and must give
 * the same bits. */
static void assert_step_is_the_sum_of_its_parts(world *w, const char *spec) {
    size_t n = w->arch.layout.size;
    const fed_optimizer rule = optimizer(spec);
    size_t size = fedtrain_optimizer_state_size(&rule, n);
    float *params = copy_params(w), *moments = calloc(size + 1, sizeof(float));
    float *fused = calloc(size + 1, sizeof(float));
    float *grad = malloc(n * sizeof(float)), x[5 * PIXELS], loss, loss_at_once;
    uint32_t label[5];
    fed_error err = {0};
    const uint32_t index[] = {3, 1, 4, 10, 50};
    assert_true(moments != NULL && fused != NULL && grad != NULL);
    fedtrain_dataset_gather(&w->set, index, 5, x, label);
    const fedtrain_batch batch = {.size = 5, .x = x, .label = label};
    fedtrain_optimizer_begin_round(&rule, moments, params, n);
    fedtrain_optimizer_begin_round(&rule, fused, w->params, n);
    for (int t = 0; t < 4; t++) {
        assert_fed_ok(fedtrain_net_gradient(w->net, params, &batch, grad, &loss_at_once, &err));
        fedtrain_optimizer_see_loss(&rule, moments, n, loss_at_once);
        fedtrain_optimizer_step(&rule, moments, params, grad, n);
        assert_fed_ok(fedtrain_net_step(w->net, &rule, w->params, fused, &batch, &loss, &err));
        assert_true(loss == loss_at_once);
    }
    assert_memory_equal(w->params, params, n * sizeof *params);
    assert_memory_equal(fused, moments, size * sizeof *fused);
    free(params);
    free(moments);
    free(fused);
    free(grad);
}

FED_TEST_WITH(test_a_step_is_a_gradient_and_an_optimizer_step, world *w) {
    static const char *const specs[] = {"sgd",
                                        "momentum:nesterov=1,decay=1e-3",
                                        "adam",
                                        "adamw+clip:value=0.01+cosine:steps=9",
                                        "momentum+clip:norm=0.1+prox:mu=1",
                                        "adam+prox:mu=1+stall:window=1,patience=1,gain=1"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        assert_step_is_the_sum_of_its_parts(w, specs[k]);
    }
}

/* The pull towards the start is so strong that each round ends where it began. */
FED_TEST_WITH(test_the_proximal_term_holds_on_to_each_rounds_start, world *w) {
    size_t n = w->arch.layout.size;
    w->job.optimizer = optimizer("sgd:lr=1e-6+prox:mu=1e6");
    float *memory = calloc(n, sizeof *memory);
    float *start = copy_params(w);
    assert_non_null(memory);
    for (int round = 0; round < 2; round++) {
        float loss;
        fed_error err = {0};
        for (size_t i = 0; i < n; i++) {
            w->params[i] = start[i] += (float)round;
        }
        assert_fed_ok_err(fedtrain_run(&w->job, w->params, memory, &loss, &err));
        for (size_t i = 0; i < n; i++) {
            assert_true(fabsf(w->params[i] - start[i]) < 1e-3F);
        }
    }
    free(memory);
    free(start);
}

FED_TEST_WITH(test_rounds_augment_as_one_long_round_does, world *w) {
    size_t bytes = w->arch.layout.size * sizeof(float);
    w->job.round = 0;
    run(w);
    float *plain = copy_params(w);
    w->job.augment = (fedtrain_augment){.padding = 2, .flip = true};
    fresh(w);
    run(w);
    assert_memory_not_equal(w->params, plain, bytes);
    for (w->job.round = 1; w->job.round < 3; w->job.round++) {
        run(w);
    }
    float *varied = copy_params(w);
    fresh(w);
    w->job.round = 0;
    w->job.steps = 21;
    run(w);
    assert_memory_equal(w->params, varied, bytes);
    free(plain);
    free(varied);
}

FED_TEST_WITH(test_training_learns_on_each_backend, world *w) {
    const char *name;
    for (size_t k = 0; (name = net_case_backend(k, &w->arch)) != NULL; k++) {
        fedtrain_net *net;
        fedtrain_score score;
        fed_error err = {0};
        assert_fed_ok_err(fedtrain_net_new(&w->arch, 16, name, &net, &err));
        fresh(w);
        w->job.net = net;
        w->job.steps = 60;
        run(w);
        assert_fed_ok_err(fedtrain_evaluate(net, 7, &w->set, w->params, &score, &err));
        assert_int_equal(score.samples, SAMPLES);
        assert_true(score.correct > SAMPLES * 9 / 10);
        assert_true(score.loss < 0.5F);
        fedtrain_net_free(net);
    }
}

FED_TEST_WITH(test_a_batch_larger_than_the_shard_wraps_around, world *w) {
    w->shard.count = 3;
    w->job.batch = 16;
    assert_true(isfinite(run(w)));
}

/* All weights are 0, so each class has probability 1/3, and the first one wins the tie. */
FED_TEST_WITH(test_evaluation_counts_and_averages, world *w) {
    fedtrain_score score;
    fed_error err = {0};
    memset(w->params, 0, w->arch.layout.size * sizeof *w->params);
    for (size_t batch = 1; batch <= 16; batch += 5) {
        assert_fed_ok_err(fedtrain_evaluate(w->net, batch, &w->set, w->params, &score, &err));
        assert_int_equal(score.samples, SAMPLES);
        assert_int_equal(score.correct, SAMPLES / CLASSES);
        assert_true(fabs(score.loss - log(3)) < 1e-6);
    }
}

FED_TEST_WITH(test_parts_of_a_data_set_have_the_score_of_the_whole, world *w) {
    static const size_t parts[] = {1, 7, 0, SAMPLES - 8};
    fedtrain_score whole, joined, part[4] = {0};
    uint32_t index[SAMPLES];
    size_t first = 0;
    fed_error err = {0};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        index[i] = i;
    }
    w->job.steps = 10;
    run(w);
    assert_fed_ok_err(fedtrain_evaluate(w->net, 16, &w->set, w->params, &whole, &err));
    for (size_t k = 0; k < 4; k++) {
        const fedtrain_shard shard = {.index = index + first, .count = parts[k]};
        if (parts[k] > 0) {
            assert_fed_ok_err(
                fedtrain_evaluate_shard(w->net, 16, &w->set, &shard, w->params, &part[k], &err));
        }
        first += parts[k];
    }
    assert_fed_ok_err(fedtrain_score_join(part, 4, &joined, &err));
    assert_int_equal(joined.samples, SAMPLES);
    assert_int_equal(joined.correct, whole.correct);
    assert_true(fabs(joined.loss - whole.loss) < 1e-6);
    part[1].loss = NAN;
    assert_fed_status(fedtrain_score_join(part, 4, &joined, &err), FED_ENONFINITE);
}

static void assert_refused(world *w, fed_status wanted, const char *words) {
    fed_error err = {0};
    float loss = -1;
    assert_fed_status(fedtrain_run(&w->job, w->params, w->state, &loss, &err), wanted);
    assert_true(loss < 0);
    if (strstr(err.text, words) == NULL) {
        fail_msg("\"%s\" is missing in the error: %s", words, err.text);
    }
}

FED_TEST_WITH(test_a_diverging_run_names_the_step, world *w) {
    w->job.optimizer = optimizer("sgd:lr=1e22");
    assert_refused(w, FED_ENONFINITE, "client 3, round 1, step ");
    w->job.round += 2 * FEDTRAIN_AGAIN; /* the third training of the same round */
    assert_refused(w, FED_ENONFINITE, "client 3, round 1, step ");
}

FED_TEST_WITH(test_an_evaluation_that_is_not_finite_is_refused, world *w) {
    fedtrain_score score;
    fed_error err = {0};
    w->params[w->arch.layout.size - 1] = NAN;
    assert_fed_status(fedtrain_evaluate(w->net, 16, &w->set, w->params, &score, &err),
                      FED_ENONFINITE);
}

FED_TEST_WITH(test_jobs_that_do_not_fit_are_refused, world *w) {
    const fedtrain_job job = w->job;
    fedtrain_shard empty = {0};
    w->job.shard = &empty;
    assert_refused(w, FED_EINVAL, "client 3 holds no samples");
    w->job = job;
    w->job.steps = 0;
    assert_refused(w, FED_EINVAL, "steps");
    w->job = job;
    w->job.batch = 17;
    assert_refused(w, FED_EINVAL, "1 to 16");
    w->job.batch = 0;
    assert_refused(w, FED_EINVAL, "1 to 16");
    w->job = job;
    w->set.classes = 4;
    assert_refused(w, FED_EINVAL, "labels up to 3");
    w->set.classes = 3;
    w->set.shape = (fed_shape){1, 7, 9};
    assert_refused(w, FED_EINVAL, "samples are 63 values (1x7x9), the model takes 64 (1x8x8)");
    w->set.shape = (fed_shape){1, 4, 16};
    assert_refused(w, FED_EINVAL, "samples are 64 values (1x4x16), the model takes 64 (1x8x8)");
    w->set.shape = (fed_shape){PIXELS, 1, 1};
    w->job.augment.flip = true;
    w->set.is_float = true;
    assert_refused(w, FED_EINVAL, "rows of a table");
    w->set.is_float = false;
    w->set.shape = (fed_shape){1, SIDE, SIDE};
    w->job.augment = (fedtrain_augment){.padding = SIDE};
    assert_refused(w, FED_EINVAL, "padding of 8");
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
