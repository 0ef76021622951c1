/* The output of each layer on every engine, compared with values worked out by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fedclient/train/dropout.h"

/* One pass of a net, with the parameters in the layout's order. If a layer gives neither a vector
 * nor a sequence, "read: dense N nobias" with the identity as weights follows, so that the scores
 * are its values in the order (c, h, w). */
typedef struct example {
    const char *name, *text;
    size_t batch; /* 0 means 1 */
    bool training;
    float params[64], x[64];
    float wanted[64]; /* float32[batch, positions, classes] */
} example;

static void fill_readout(const fed_arch *arch, float *params) {
    const fed_tensor *t = fed_layout_find(&arch->layout, "read.weight");
    for (size_t i = 0; t != NULL && i < t->dims[0]; i++) {
        params[t->offset + i * t->dims[0] + i] = 1;
    }
}

static void assert_values(const example *e, const char *engine, const float *score, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(score[i] - e->wanted[i]) <= 2e-6F * fmaxf(1, fabsf(e->wanted[i])))) {
            fail_msg("%s: %s (%s): value %zu is %g, not %g", e->name, e->text, engine, i,
                     (double)score[i], (double)e->wanted[i]);
        }
    }
}

static void check(const example *e) {
    net_case c;
    net_engine engine;
    net_case_make(&c, e->text);
    const size_t batch = e->batch > 0 ? e->batch : 1;
    size_t n = c.arch.layout.size, scores = net_case_scores(&c, batch);
    const fed_tensor *read = fed_layout_find(&c.arch.layout, "read.weight");
    size_t given = n - (read != NULL ? read->size : 0);
    assert_true(given <= 64 && scores <= 64);
    memset(c.params, 0, n * sizeof *c.params);
    memcpy(c.params, e->params, given * sizeof *c.params);
    fill_readout(&c.arch, c.params);
    float *score = net_case_floats(scores);
    const fedtrain_pass pass = {
        .params = c.params, .x = e->x, .batch = batch, .training = e->training};
    for (size_t k = 0; net_engine_open(k, &c.arch, &engine); k++) {
        net_engine_forward(&engine, &pass, score);
        assert_values(e, engine.name, score, scores);
        net_engine_close(&engine);
    }
    free(score);
    net_case_free(&c);
}

static const example examples[] = {
    {.name = "dense multiplies and adds",
     .text = "input 2 | dense 2",
     .batch = 2,
     .params = {1, 2, 3, 4, 0.5F, -0.5F},
     .x = {1, -1, 0, 2},
     .wanted = {-0.5F, -1.5F, 4.5F, 7.5F}},
    {.name = "dense reads pictures channel by channel",
     .text = "input 2x1x2 | dense 1 nobias",
     .params = {1, 10, 100, 1000},
     .x = {1, 2, 3, 4},
     .wanted = {4321}},
    {.name = "dense each takes positions by themselves",
     .text = "input 2x3x1 | dense 2 each",
     .params = {1, 2, 3, 4, 10, 20},
     .x = {1, 2, 3, 4, 5, 6},
     .wanted = {19, 39, 22, 46, 25, 53}},
    {.name = "embedding looks words up",
     .text = "input tokens 3 of 3 | embedding 2",
     .params = {1, 2, 3, 4, 5, 6},
     .x = {1, 1, 2},
     .wanted = {3, 4, 3, 4, 5, 6}},
    {.name = "tied weights are the embeddings",
     .text = "input tokens 2 of 3 | e: embedding 2 | dense 3 each tied e",
     .params = {1, 2, 3, 4, 5, 6, 0.5F, 0, -0.5F},
     .x = {2, 0},
     .wanted = {17.5F, 39, 60.5F, 5.5F, 11, 16.5F}},
    {.name = "conv slides its kernel",
     .text = "input 1x3x3 | conv 1 2 | read: dense 4 nobias",
     .params = {1, 2, 3, 4, 10},
     .x = {1, 2, 3, 4, 5, 6, 7, 8, 9},
     .wanted = {47, 57, 77, 87}},
    {.name = "conv slides its kernel",
     .text = "input 1x2x3 | conv 1 1x2 nobias | read: dense 4 nobias",
     .params = {1, 10},
     .x = {1, 2, 3, 4, 5, 6},
     .wanted = {21, 32, 54, 65}},
    {.name = "conv sums over channels",
     .text = "input 2x1x2 | conv 2 1 nobias | read: dense 4 nobias",
     .params = {1, 10, 100, 1000},
     .x = {1, 2, 3, 4},
     .wanted = {31, 42, 3100, 4200}},
    {.name = "conv strides and pads with zeros",
     .text = "input 1x3x3 | conv 1 3 stride 2 pad 1 nobias | read: dense 4 nobias",
     .params = {1, 2, 3, 4, 5, 6, 7, 8, 9},
     .x = {1, 2, 3, 4, 5, 6, 7, 8, 9},
     .wanted = {94, 106, 106, 94}},
    {.name = "conv groups keep their channels apart",
     .text = "input 4x1x1 | conv 4 1 groups 2 nobias",
     .params = {1, 2, 3, 4, 5, 6, 7, 8},
     .x = {1, 10, 100, 1000},
     .wanted = {21, 43, 6500, 8700}},
    {.name = "conv groups keep their channels apart",
     .text = "input 2x1x1 | conv 4 1 groups 2 nobias",
     .params = {1, 2, 3, 4},
     .x = {1, 10},
     .wanted = {1, 2, 30, 40}},
    {.name = "maxpool takes the largest",
     .text = "input 2x2x4 | maxpool 2 | read: dense 4 nobias",
     .x = {1, 2, 7, 3, 4, 3, 5, 6, -1, -2, -3, -4, -5, -6, -7, -8},
     .wanted = {4, 7, -1, -3}},
    {.name = "maxpool takes the largest",
     .text = "input 1x3x3 | maxpool 2 stride 1 | read: dense 4 nobias",
     .x = {9, 2, 3, 4, 5, 6, 7, 8, 1},
     .wanted = {9, 6, 8, 8}},
    {.name = "maxpool leaves out what does not fill a window",
     .text = "input 1x3x3 | maxpool 2 | read: dense 1 nobias",
     .x = {1, 2, 3, 4, 5, 6, 7, 8, 9},
     .wanted = {5}},
    {.name = "a pad never wins a maxpool",
     .text = "input 1x3x3 | maxpool 3 stride 2 pad 1 | read: dense 4 nobias",
     .x = {-1, -2, -3, -4, -5, -6, -7, -8, -9},
     .wanted = {-1, -2, -4, -5}},
    {.name = "avgpool counts pads as zeros",
     .text = "input 1x3x3 | avgpool 3 stride 2 pad 1 | read: dense 4 nobias",
     .x = {9, 18, 27, 36, 45, 54, 63, 72, 81},
     .wanted = {12, 16, 24, 28}},
    {.name = "avgpool counts pads as zeros",
     .text = "input 1x2x4 | avgpool 2 | read: dense 2 nobias",
     .x = {1, 2, 3, 4, 5, 6, 7, 8},
     .wanted = {3.5F, 5.5F}},
    {.name = "avgpool without a window is over all positions",
     .text = "input 2x2x2 | avgpool | read: dense 2 nobias",
     .x = {1, 2, 3, 4, 10, 20, 30, 40},
     .wanted = {2.5F, 25}},
    {.name = "relu tanh and sigmoid follow their formulas",
     .text = "input 3 | relu | read: dense 3 nobias",
     .x = {-1, 0, 2},
     .wanted = {0, 0, 2}},
    {.name = "relu tanh and sigmoid follow their formulas",
     .text = "input 4 | tanh | read: dense 4 nobias",
     .x = {0, 1, -2, 30},
     .wanted = {0, 0.76159416F, -0.96402758F, 1}},
    {.name = "relu tanh and sigmoid follow their formulas",
     .text = "input 4 | sigmoid | read: dense 4 nobias",
     .x = {0, 1, -2, -30},
     .wanted = {0.5F, 0.73105858F, 0.11920292F, 9.3576e-14F}},
    {.name = "dropout changes nothing in use",
     .text = "input 3 | dropout 0.9 | read: dense 3 nobias",
     .x = {1, 2, 3},
     .wanted = {1, 2, 3}},
    /* The second channel has mean 3 and variance 3.5. Parameters: weights, biases, means,
     * variances. */
    {.name = "bn goes by the batch in training",
     .text = "input 2x2x1 | bn",
     .batch = 2,
     .training = true,
     .params = {1, 2, 0, 1, 7, 7, 7, 7},
     .x = {-1, 1, 1, 2, 1, -1, 3, 6},
     .wanted = {-0.99999500F, -1.13808680F, 0.99999500F, -0.06904340F, 0.99999500F, 1, -0.99999500F,
                4.20713020F}},
    {.name = "bn goes by the running statistics in use",
     .text = "input 2x2x1 | bn",
     .params = {1, 2, 0, 1, 3, -1, 4, 0.25F},
     .x = {3, 5, -1, -0.5F},
     .wanted = {0, 1, 0.99999875F, 2.99996000F}},
    {.name = "lrn divides by the channels around",
     .text = "input 5 | lrn 3 alpha 3 beta 0.5 k 2 | read: dense 5 nobias",
     .x = {1, 2, 3, 4, 5},
     .wanted = {0.37796447F, 0.5F, 0.53881591F, 0.55470020F, 0.76249285F}},
    {.name = "lrn divides by the channels around",
     .text = "input 3x1x2 | lrn 3 alpha 3 beta 1 k 1 | read: dense 6 nobias",
     .x = {1, 0, 2, 1, 3, 0},
     .wanted = {1.0F / 6, 0, 2.0F / 15, 0.5F, 3.0F / 14, 0}},
    {.name = "widen puts half of the new channels in front",
     .text = "input 2x1x2 | widen 5 | read: dense 10 nobias",
     .batch = 2,
     .x = {1, 2, 3, 4, 5, 6, 7, 8},
     .wanted = {0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0}},
    {.name = "add sums named values",
     .text = "input 2 | a: dense 2 nobias | relu | add a | add in",
     .params = {1, 0, 0, -1},
     .x = {1, 2},
     .wanted = {3, 0}},
    {.name = "concat puts the value before last",
     .text = "input 2x1x2 | a: conv 1 1 nobias | from in | b: relu | from in "
             "| concat a b | read: dense 10 nobias",
     .batch = 2,
     .params = {1, 10},
     .x = {1, -2, 3, 4, 5, 6, 7, -8},
     .wanted = {31, 38, 1, 0, 3, 4, 1, -2, 3, 4, 75, -74, 5, 6, 7, 0, 5, 6, 7, -8}},
};

FED_TEST(test_each_layer_follows_its_definition) {
    for (size_t k = 0; k < sizeof examples / sizeof examples[0]; k++) {
        check(&examples[k]);
    }
}

/* Dropout draws in the order (h, w, c); scores have (c, h, w). Seed and layer number are 0. */
FED_TEST(test_dropout_drops_what_was_drawn_and_scales_the_rest) {
    example e = {.name = "dropout",
                 .text = "input 3x2x2 | dropout 0.5 | read: dense 12 nobias",
                 .batch = 2,
                 .training = true};
    uint8_t keep[24];
    fedtrain_dropout_draw(0, 0, 0.5F, keep, 24);
    for (size_t i = 0; i < 24; i++) {
        size_t b = i / 12, c = i / 4 % 3, position = i % 4;
        e.x[i] = (float)(i + 1);
        e.wanted[i] = keep[(b * 4 + position) * 3 + c] != 0 ? 2 * e.x[i] : 0;
    }
    check(&e);
}

/* The outputs of PyTorch's torch.nn.LSTM(1, 2) for the inputs 1, -2, 0.5, 3. */
static const float lstm_params[] = {
    0.5F, -0.5F, 1,     0.25F, -1,    0.75F, 0.3F,  -0.2F, /* weight_ih */
    0.1F, 0.2F,  -0.3F, 0.4F,  0.5F,  -0.6F, 0.7F,  -0.8F, /* weight_hh: two values a row */
    0.9F, -1,    -0.1F, -0.2F, 0.15F, 0.25F, 0.35F, 0.45F,
    0.1F, 0,     -0.1F, 0.2F,  0,     0.3F,  -0.2F, 0.1F,   /* bias_ih */
    0,    0.1F,  0.2F,  -0.3F, 0.1F,  0,     0.1F,  0.05F}; /* bias_hh */
static const float lstm_inputs[] = {1, -2, 0.5F, 3};
static const float lstm_outputs[] = {-0.23758610F, 0.14812447F,  0.07277401F,  -0.31777739F,
                                     0.07151299F,  -0.02759748F, -0.41165566F, 0.05913708F};

FED_TEST(test_lstm_follows_its_formulas) {
    example e = {.name = "lstm", .text = "input 1x4x1 | lstm 2"};
    memcpy(e.params, lstm_params, sizeof lstm_params);
    memcpy(e.x, lstm_inputs, sizeof lstm_inputs);
    memcpy(e.wanted, lstm_outputs, sizeof lstm_outputs);
    check(&e);
}

/* Run a batch for one step. Lane 0 of the batch gets x, the others get 0. */
static void step_lane(const net_engine *engine, size_t batch, bool training, float x,
                      float *score) {
    float inputs[NET_CASE_BATCH] = {x};
    const fedtrain_pass pass = {
        .params = lstm_params, .x = inputs, .batch = batch, .training = training};
    net_engine_forward(engine, &pass, score);
}

static void assert_output(const net_engine *engine, const float *score, size_t step) {
    for (size_t j = 0; j < 2; j++) {
        if (!(fabsf(score[j] - lstm_outputs[2 * step + j]) < 1e-6F)) {
            fail_msg("the LSTM on %s: value %zu of step %zu is %g, not %g", engine->name, j, step,
                     (double)score[j], (double)lstm_outputs[2 * step + j]);
        }
    }
}

FED_TEST(test_lstm_goes_on_from_batch_to_batch) {
    net_case c;
    net_engine engine;
    float score[2 * NET_CASE_BATCH];
    net_case_make(&c, "input 1x1x1 | lstm 2");
    for (size_t k = 0; net_engine_open(k, &c.arch, &engine); k++) {
        for (size_t step = 0; step < 4; step++) {
            /* The batch size, and training or not, must make no difference. */
            step_lane(&engine, 1 + step % 3, step % 2 == 0, lstm_inputs[step], score);
            assert_output(&engine, score, step);
        }
        net_engine_close(&engine);
    }
    net_case_free(&c);
}

FED_TEST(test_a_forgetful_lstm_begins_anew) {
    net_case c;
    net_engine engine;
    float score[2 * NET_CASE_BATCH];
    net_case_make(&c, "input 1x1x1 | lstm 2");
    for (size_t k = 0; net_engine_open(k, &c.arch, &engine); k++) {
        for (size_t i = 0; i < 3; i++) {
            step_lane(&engine, 2, true, lstm_inputs[0], score);
            assert_output(&engine, score, 0);
            engine.backend->forget(engine.work);
        }
        net_engine_close(&engine);
    }
    net_case_free(&c);
}

/* The values {1, 2, 3, 6} have the mean 3, and the variance 14 / 3, with n - 1 as divisor. */
FED_TEST(test_running_statistics_follow_a_batch_by_a_tenth) {
    net_case c;
    net_engine engine;
    const float x[] = {1, 2, 3, 6}, other[] = {5, 5, 5, 9}, params[] = {1, 0, 2, 4};
    float score[4], kept[4];
    net_case_make(&c, "input 1x2x1 | bn");
    fedtrain_pass pass = {.params = params, .x = x, .batch = 2, .training = true};
    for (size_t k = 0; net_engine_open(k, &c.arch, &engine); k++) {
        memcpy(kept, params, sizeof kept);
        pass.x = x;
        pass.training = true;
        net_engine_forward(&engine, &pass, score);
        pass.x = other; /* a pass without training must not change running statistics */
        pass.training = false;
        net_engine_forward(&engine, &pass, score);
        assert_fed_ok(engine.backend->keep_statistics(engine.work, kept));
        assert_memory_equal(kept, params, 2 * sizeof *kept);
        assert_float_equal(kept[2], 0.9F * 2 + 0.1F * 3, 1e-6F);
        assert_float_equal(kept[3], 0.9F * 4 + 0.1F * 14 / 3, 1e-6F);
        net_engine_close(&engine);
    }
    net_case_free(&c);
}
