/* Training on text: which windows of tokens a step reads, and what an LSTM remembers of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/arch.h"
#include "fedclient/train/net_impl.h"
#include "fedclient/train/text_walk.h"
#include "fedtrain/train.h"

enum { WORDS = 50, MAX_BATCH = 5, MAX_TOKENS = 100 };

static const char *const without_memory =
    "input tokens 4 of 50 | embedding 6 | relu | dense 50 each";
static const char *const with_memory =
    "input tokens 4 of 50 | embedding 6 | lstm 9 | dense 50 each";

/* A text whose word number i is i % 50, and a client that reads it. */
typedef struct world {
    fed_arch arch;
    fedtrain_net *net;
    uint32_t token[MAX_TOKENS];
    float *params, *state, *first;
    fedtrain_job job;
} world;

static fed_optimizer optimizer(const char *spec) {
    fed_optimizer parsed;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &parsed, &err));
    return parsed;
}

static float *floats(size_t n) {
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

static void open_world(world *w, const char *model, size_t tokens) {
    fed_error err = {0};
    *w = (world){0};
    assert_fed_ok_err(fed_arch_parse(model, &w->arch, &err));
    assert_fed_ok(fedtrain_net_new(&w->arch, MAX_BATCH, NULL, &w->net, NULL));
    for (uint32_t i = 0; i < MAX_TOKENS; i++) {
        w->token[i] = i % WORDS;
    }
    size_t n = w->arch.layout.size;
    w->params = floats(n);
    w->first = floats(n);
    w->state = floats(3 * n + 9);
    fed_arch_init_values(&w->arch, 1, w->first);
    memcpy(w->params, w->first, n * sizeof *w->params);
    w->job = (fedtrain_job){.net = w->net,
                            .optimizer = optimizer("sgd"),
                            .token = w->token,
                            .token_count = tokens,
                            .steps = 1,
                            .batch = 2};
}

static void start_anew(world *w) {
    memcpy(w->params, w->first, w->arch.layout.size * sizeof *w->params);
    memset(w->state, 0, (3 * w->arch.layout.size + 9) * sizeof *w->state);
}

static void close_world(world *w) {
    fedtrain_net_free(w->net);
    fed_arch_free(&w->arch);
    free(w->params);
    free(w->state);
    free(w->first);
}

static float run(world *w) {
    fed_error err = {0};
    float loss = -1;
    assert_fed_ok_err(fedtrain_run(&w->job, w->params, w->state, &loss, &err));
    return loss;
}

/* Check that sample b has the tokens from `first` on, and those after them as labels. */
static void assert_reads(world *w, size_t step, size_t b, uint32_t first) {
    fedtrain_text_gather(&w->job, step);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(w->net->x[4 * b + i] == (float)(first + i));
        assert_int_equal(w->net->label[4 * b + i], first + i + 1);
    }
}

FED_TEST(test_each_sample_reads_a_stream_window_by_window) {
    world w;
    open_world(&w, without_memory, 21);
    assert_reads(&w, 0, 0, 0);
    assert_reads(&w, 0, 1, 12);
    assert_reads(&w, 1, 0, 4);
    assert_reads(&w, 1, 1, 16);
    close_world(&w);
}

FED_TEST(test_streams_begin_anew_when_no_whole_window_is_left) {
    world w;
    open_world(&w, without_memory, 24);
    for (size_t pass = 0; pass < 3; pass++) {
        assert_reads(&w, 2 * pass, 0, 0);
        assert_reads(&w, 2 * pass, 1, 15);
        assert_reads(&w, 2 * pass + 1, 0, 4);
        assert_reads(&w, 2 * pass + 1, 1, 19);
    }
    close_world(&w);
}

FED_TEST(test_streams_overlap_where_the_text_is_short) {
    world w;
    open_world(&w, without_memory, 7);
    w.job.batch = 3;
    for (size_t step = 0; step < 2; step++) {
        assert_reads(&w, step, 0, 0);
        assert_reads(&w, step, 1, 1);
        assert_reads(&w, step, 2, 2);
    }
    w.job.token_count = 5;
    assert_reads(&w, 0, 2, 0);
    close_world(&w);
}

FED_TEST(test_a_round_goes_on_where_the_one_before_ended) {
    world w;
    open_world(&w, without_memory, 70);
    size_t bytes = w.arch.layout.size * sizeof(float);
    w.job.steps = 7;
    for (w.job.round = 0; w.job.round < 3; w.job.round++) {
        run(&w);
    }
    float *in_rounds = floats(w.arch.layout.size);
    memcpy(in_rounds, w.params, bytes);
    start_anew(&w);
    w.job.round = 0;
    w.job.steps = 21;
    run(&w);
    assert_memory_equal(w.params, in_rounds, bytes);
    free(in_rounds);
    close_world(&w);
}

/* Return the loss of a step's windows, starting from the net's present memory. */
static float loss_of(world *w, size_t step) {
    float loss = 0, *grad = floats(w->arch.trained);
    fed_error err = {0};
    fedtrain_text_gather(&w->job, step);
    const fedtrain_batch batch = {.size = w->job.batch, .x = w->net->x, .label = w->net->label};
    assert_fed_ok_err(fedtrain_net_gradient(w->net, w->params, &batch, grad, &loss, &err));
    free(grad);
    return loss;
}

FED_TEST(test_an_lstm_goes_on_from_window_to_window_and_forgets_when_they_wrap) {
    world w;
    open_world(&w, with_memory, 21);
    w.job.optimizer = optimizer("sgd:lr=1e-22");
    w.job.steps = 3;
    float loss = run(&w);
    fedtrain_net_forget(w.net);
    float first = loss_of(&w, 0), second = loss_of(&w, 1);
    assert_true(fabsf(loss - (2 * first + second) / 3) < 1e-6F);
    fedtrain_net_forget(w.net);
    assert_true(loss_of(&w, 1) != second);
    close_world(&w);
}

FED_TEST(test_a_run_that_begins_amid_the_text_reads_the_window_before) {
    world w;
    open_world(&w, with_memory, 21);
    w.job.optimizer = optimizer("sgd:lr=1e-22");
    w.job.round = 1;
    float loss = run(&w);
    w.job.round = 0;
    w.job.steps = 2;
    w.job.done = 1;
    assert_true(run(&w) == loss);
    fedtrain_net_forget(w.net);
    loss_of(&w, 0);
    assert_true(loss_of(&w, 1) == loss);
    close_world(&w);
}

FED_TEST(test_the_same_job_gives_the_same_bits_whatever_the_net_did_before) {
    world w;
    open_world(&w, with_memory, 41);
    w.job.round = 1;
    w.job.steps = 3;
    float loss = run(&w);
    size_t bytes = w.arch.layout.size * sizeof(float);
    float *once = floats(w.arch.layout.size);
    memcpy(once, w.params, bytes);
    start_anew(&w);
    assert_true(run(&w) == loss);
    assert_memory_equal(w.params, once, bytes);
    free(once);
    close_world(&w);
}

static void assert_step_is_the_sum_of_its_parts(const char *model, const char *spec) {
    world w;
    open_world(&w, model, 61);
    w.job.optimizer = optimizer(spec);
    size_t n = w.arch.trained, size = fedtrain_optimizer_state_size(&w.job.optimizer, n);
    float *params = floats(n), *moments = floats(size + 1), *grad = floats(n), loss, at_once;
    fed_error err = {0};
    memcpy(params, w.params, n * sizeof *params);
    fedtrain_optimizer_begin_round(&w.job.optimizer, moments, params, n);
    fedtrain_optimizer_begin_round(&w.job.optimizer, w.state, w.params, n);
    for (size_t step = 0; step < 4; step++) {
        fedtrain_text_gather(&w.job, step);
        const fedtrain_batch batch = {
            .size = 2, .x = w.net->x, .label = w.net->label, .seed = step};
        fedtrain_net_forget(w.net);
        assert_fed_ok(fedtrain_net_gradient(w.net, params, &batch, grad, &loss, &err));
        fedtrain_optimizer_step(&w.job.optimizer, moments, params, grad, n);
        fedtrain_net_forget(w.net);
        assert_fed_ok(
            fedtrain_net_step(w.net, &w.job.optimizer, w.params, w.state, &batch, &at_once, &err));
        assert_true(loss == at_once);
    }
    assert_memory_equal(w.params, params, n * sizeof *params);
    assert_memory_equal(w.state, moments, size * sizeof *moments);
    free(params);
    free(moments);
    free(grad);
    close_world(&w);
}

FED_TEST(test_a_step_is_a_gradient_and_an_optimizer_step) {
    static const char *const models[] = {
        "input tokens 4 of 50 | embedding 6 | dropout 0.5 | lstm 9 layers 2 | dense 50 each",
        "input tokens 4 of 50 | words: embedding 17 | lstm 17 | dense 50 each tied words",
    };
    static const char *const specs[] = {"sgd",  "sgd:decay=1e-2", "momentum",
                                        "adam", "sgd+prox:mu=1",  "sgd+clip:norm=0.1"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
            assert_step_is_the_sum_of_its_parts(models[m], specs[k]);
        }
    }
}

/* The text repeats itself, so each word determines the next one. */
FED_TEST(test_training_learns_what_comes_next) {
    world w;
    fed_error err = {0};
    fedtrain_score score;
    open_world(&w, with_memory, MAX_TOKENS);
    w.job.optimizer = optimizer("adam:lr=0.02");
    w.job.steps = 1500;
    run(&w);
    assert_fed_ok_err(
        fedtrain_evaluate_text(w.net, 3, w.token, MAX_TOKENS, w.params, &score, &err));
    assert_int_equal(score.samples, MAX_TOKENS - 1);
    assert_true(score.correct > 90 && score.loss < 0.5F);
    close_world(&w);
}

/* All weights are 0, so each word has the same probability, and the first one wins the tie. */
FED_TEST(test_evaluation_counts_each_target_once) {
    world w;
    fed_error err = {0};
    fedtrain_score score;
    open_world(&w, with_memory, MAX_TOKENS);
    memset(w.params, 0, w.arch.layout.size * sizeof *w.params);
    for (size_t batch = 1; batch <= MAX_BATCH; batch++) {
        for (size_t tokens = 2; tokens <= MAX_TOKENS; tokens++) {
            assert_fed_ok_err(
                fedtrain_evaluate_text(w.net, batch, w.token, tokens, w.params, &score, &err));
            assert_int_equal(score.samples, tokens - 1);
            assert_int_equal(score.correct, tokens > WORDS);
            assert_true(fabs(score.loss - log(WORDS)) < 1e-5);
        }
    }
    close_world(&w);
}

FED_TEST(test_evaluation_is_the_same_in_any_batch_where_nothing_is_remembered) {
    world w;
    fed_error err = {0};
    fedtrain_score one, other;
    open_world(&w, without_memory, 60);
    assert_fed_ok_err(fedtrain_evaluate_text(w.net, 1, w.token, 60, w.params, &one, &err));
    for (size_t batch = 2; batch <= MAX_BATCH; batch++) {
        assert_fed_ok_err(
            fedtrain_evaluate_text(w.net, batch, w.token, 60, w.params, &other, &err));
        assert_int_equal(one.correct, other.correct);
        assert_true(fabsf(one.loss - other.loss) < 1e-5F);
    }
    close_world(&w);
}

static void assert_refused(world *w, fed_status wanted, const char *words) {
    fed_error err = {0};
    float loss = -1;
    assert_fed_status(fedtrain_run(&w->job, w->params, w->state, &loss, &err), wanted);
    assert_fed_says(err, words);
    assert_memory_equal(w->params, w->first, w->arch.layout.size * sizeof *w->params);
}

FED_TEST(test_texts_and_jobs_that_do_not_fit_are_refused) {
    world w;
    open_world(&w, with_memory, MAX_TOKENS);
    w.job.client = 7;
    w.job.token_count = 4;
    assert_refused(&w, FED_EINVAL, "the text of client 7 has 4 tokens, but windows of 4 need 5");
    w.job.token_count = MAX_TOKENS;
    w.token[33] = WORDS;
    assert_refused(&w, FED_ERANGE, "token 33 of the text is word 50");
    w.token[33] = 0;
    w.job.batch = MAX_BATCH + 1;
    assert_refused(&w, FED_EINVAL, "batch of 6");
    w.job.batch = 0;
    assert_refused(&w, FED_EINVAL, "batch of 0");
    w.job.batch = 2;
    w.job.steps = 0;
    assert_refused(&w, FED_EINVAL, "no local steps");
    close_world(&w);
}

FED_TEST(test_models_of_something_else_are_refused) {
    static const char *const models[] = {"input 4 | dense 50",
                                         "input tokens 4 of 50 | embedding 6 | dense 50"};
    static const char *const words[] = {"a text needs a model of tokens",
                                        "the word after each of its 4 tokens"};
    for (size_t k = 0; k < 2; k++) {
        world w;
        fed_error err = {0};
        fedtrain_score score;
        open_world(&w, models[k], MAX_TOKENS);
        assert_refused(&w, FED_EINVAL, words[k]);
        assert_fed_status(fedtrain_evaluate_text(w.net, 2, w.token, 9, w.params, &score, &err),
                          FED_EINVAL);
        assert_fed_says(err, words[k]);
        close_world(&w);
    }
}

FED_TEST(test_a_model_of_tokens_does_not_take_samples) {
    world w;
    open_world(&w, with_memory, MAX_TOKENS);
    const uint8_t pixel[4] = {0}, label[1] = {0};
    uint32_t index[1] = {0};
    fedtrain_dataset set;
    const fedtrain_shard shard = {.index = index, .count = 1};
    assert_fed_ok(fedtrain_dataset_wrap(pixel, label, 1, (fed_shape){4, 1, 1}, &set));
    w.job.token = NULL;
    w.job.set = &set;
    w.job.shard = &shard;
    assert_refused(&w, FED_EINVAL, "the model takes or gives something else");
    fedtrain_dataset_free(&set);
    close_world(&w);
}

FED_TEST(test_a_text_without_a_target_is_not_evaluated) {
    world w;
    fed_error err = {0};
    fedtrain_score score;
    open_world(&w, with_memory, MAX_TOKENS);
    assert_fed_status(fedtrain_evaluate_text(w.net, 2, w.token, 1, w.params, &score, &err),
                      FED_EINVAL);
    assert_fed_says(err, "a text of 1 tokens");
    close_world(&w);
}
