/* The batches of a training job, for programs that do the steps themselves: the same as in
 * training, in any order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/train/net_impl.h"
#include "fedtrain/batches.h"
#include "fedtrain/train.h"

enum { SAMPLES = 11, VALUES = 16, TOKENS = 40, WORDS = 5, STEPS = 9, BATCH = 4 };

typedef struct world {
    fed_arch arch;
    uint8_t pixel[SAMPLES * VALUES], label[SAMPLES];
    fedtrain_dataset set;
    uint32_t index[SAMPLES], token[TOKENS];
    fedtrain_shard shard;
    float *params;
    fedtrain_job job;
} world;

static void open_world(world *w, const char *model) {
    fed_error err = {0};
    *w = (world){.shard = {w->index, SAMPLES}};
    assert_fed_ok_err(fed_arch_parse(model, &w->arch, &err));
    for (size_t i = 0; i < SAMPLES * VALUES; i++) {
        w->pixel[i] = (uint8_t)(i * 37 % 251);
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        w->label[i] = i % 2;
        w->index[i] = i;
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        w->token[i] = i * i % WORDS;
    }
    assert_fed_ok(
        fedtrain_dataset_wrap(w->pixel, w->label, SAMPLES, (fed_shape){1, 4, 4}, &w->set));
    w->job = (fedtrain_job){.set = &w->set,
                            .shard = &w->shard,
                            .steps = STEPS,
                            .batch = BATCH,
                            .seed = 3,
                            .client = 2,
                            .round = 4};
    assert_fed_ok(fedtrain_net_new(&w->arch, BATCH, NULL, &w->job.net, NULL));
    assert_fed_ok_err(fed_optimizer_parse("sgd:lr=0.05", 0, &w->job.optimizer, &err));
    w->params = calloc(w->arch.layout.size, sizeof *w->params);
    assert_non_null(w->params);
    fed_arch_init_values(&w->arch, 1, w->params);
}

static void open_text(world *w) {
    open_world(w, "input tokens 3 of 5 | embedding 4 | lstm 6 | dropout 0.5 | dense 5 each");
    w->job.token = w->token;
    w->job.token_count = TOKENS;
}

static void open_pictures(world *w) {
    open_world(w, "input 1x4x4 | dense 6 | relu | dropout 0.5 | dense 2");
    w->job.augment = (fedtrain_augment){.padding = 1, .flip = true};
}

static void close_world(world *w) {
    fedtrain_net_free(w->job.net);
    fedtrain_dataset_free(&w->set);
    fed_arch_free(&w->arch);
    free(w->params);
}

static fedtrain_batches *open_batches(const world *w) {
    fedtrain_batches *batches;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_batches_open(&w->job, w->params, &batches, &err));
    return batches;
}

static void run_by_hand(world *w) {
    fedtrain_batches *batches = open_batches(w);
    for (size_t step = w->job.done; step < w->job.steps; step++) {
        fedtrain_batch batch;
        fed_error err = {0};
        float loss;
        fedtrain_batches_next(batches, step, &batch);
        assert_int_equal(batch.size, BATCH);
        assert_fed_ok_err(
            fedtrain_net_step(w->job.net, &w->job.optimizer, w->params, NULL, &batch, &loss, &err));
    }
    fedtrain_batches_close(batches);
}

static void check_by_hand(void (*open)(world *w), size_t done) {
    world run, hand;
    fed_error err = {0};
    float loss;
    open(&run);
    open(&hand);
    run.job.done = hand.job.done = done;
    assert_fed_ok_err(fedtrain_run(&run.job, run.params, NULL, &loss, &err));
    run_by_hand(&hand);
    assert_memory_equal(hand.params, run.params, run.arch.layout.size * sizeof *run.params);
    close_world(&run);
    close_world(&hand);
}

FED_TEST(test_steps_by_hand_are_a_run_to_the_bit) {
    for (size_t done = 0; done < STEPS; done += 4) {
        check_by_hand(open_pictures, done);
        check_by_hand(open_text, done);
    }
}

typedef struct seen {
    float x[BATCH * VALUES];
    uint32_t label[BATCH];
    uint64_t seed;
} seen;

static seen look(fedtrain_batches *batches, size_t step) {
    fedtrain_batch batch;
    seen s = {.seed = 0};
    fedtrain_batches_next(batches, step, &batch);
    memcpy(s.x, batch.x, sizeof s.x);
    memcpy(s.label, batch.label, sizeof s.label);
    s.seed = batch.seed;
    return s;
}

FED_TEST(test_a_step_has_the_same_batch_in_any_order) {
    world w;
    seen in_order[STEPS];
    open_pictures(&w);
    fedtrain_batches *batches = open_batches(&w);
    for (size_t step = 0; step < STEPS; step++) {
        in_order[step] = look(batches, step);
    }
    for (size_t k = 0; k < STEPS; k++) {
        const size_t step = k * 5 % STEPS;
        const seen again = look(batches, step);
        assert_memory_equal(&again, &in_order[step], sizeof again);
    }
    fedtrain_batches_close(batches);
    close_world(&w);
}

FED_TEST(test_a_step_past_the_last_is_the_next_rounds_first) {
    world w;
    open_pictures(&w);
    fedtrain_batches *batches = open_batches(&w);
    const seen past = look(batches, STEPS);
    fedtrain_batches_close(batches);
    w.job.round++;
    batches = open_batches(&w);
    const seen first = look(batches, 0);
    assert_memory_equal(&past, &first, sizeof first);
    fedtrain_batches_close(batches);
    close_world(&w);
}

FED_TEST(test_a_pass_visits_each_sample_once) {
    world w;
    open_pictures(&w);
    w.job.round = 0;
    w.shard.count = 2 * BATCH;
    fedtrain_batches *batches = open_batches(&w);
    uint32_t visits[2 * BATCH] = {0};
    for (size_t step = 0; step < 2; step++) {
        fedtrain_batch batch;
        fedtrain_batches_next(batches, step, &batch);
        for (size_t b = 0; b < BATCH; b++) {
            visits[w.job.net->index[b]]++;
        }
    }
    for (size_t i = 0; i < 2 * BATCH; i++) {
        assert_int_equal(visits[i], 1);
    }
    fedtrain_batches_close(batches);
    close_world(&w);
}

FED_TEST(test_a_job_that_cannot_be_walked_has_no_batches) {
    world w;
    fed_error err = {0};
    fedtrain_batches *batches = NULL;
    open_pictures(&w);
    w.job.batch = BATCH + 1;
    assert_fed_status(fedtrain_batches_open(&w.job, w.params, &batches, &err), FED_EINVAL);
    assert_fed_says(err, "made for 1 to 4");
    w.job.batch = BATCH;
    w.shard.count = 0;
    assert_fed_status(fedtrain_batches_open(&w.job, w.params, &batches, &err), FED_EINVAL);
    assert_fed_says(err, "client 2 holds no samples");
    assert_null(batches);
    fedtrain_batches_close(batches);
    close_world(&w);
}
