/* The fast backend with every set of kernels, and a device, compared with the reference backend. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "fed/optimizer_spec.h"
#include "fed/rng.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/update.h"
#include "fedtrain/optimizer.h"

/* Numbers of gradients and scores that an engine gives in a series of calls. */
enum { GRADIENTS = 3, SCORES = 5 };

typedef struct trace {
    const net_case *net;
    const char *engine;
    size_t batch;
    double rounding;
    float *score[SCORES], *grad[GRADIENTS];
    float *params;
} trace;

static void forward(const net_engine *e, trace *t, bool training, size_t k) {
    fedtrain_pass pass = net_case_pass(t->net, t->batch);
    pass.params = t->params;
    pass.training = training;
    t->score[k] = net_case_floats(net_case_scores(t->net, t->batch));
    net_engine_forward(e, &pass, t->score[k]);
}

static void backward(const net_engine *e, trace *t, size_t k) {
    fedtrain_pass pass = net_case_pass(t->net, t->batch);
    pass.params = t->params;
    t->grad[k] = net_case_floats(t->net->arch.trained);
    net_engine_backward(e, &pass, t->net->score_grad, t->grad[k]);
}

/* Run several passes, with and without training, because earlier passes may influence later
 * ones. */
static void trace_make(trace *t, const net_case *net, const net_engine *e, size_t batch) {
    size_t n = net->arch.layout.size;
    *t = (trace){.net = net, .engine = e->name, .batch = batch, .params = net_case_floats(n)};
    memcpy(t->params, net->params, n * sizeof *t->params);
    e->backend->forget(e->work);
    for (size_t k = 0; k < 2; k++) {
        forward(e, t, true, 2 * k);
        backward(e, t, k);
        assert_fed_ok(e->backend->keep_statistics(e->work, t->params));
        forward(e, t, false, 2 * k + 1);
    }
    e->backend->forget(e->work);
    forward(e, t, true, 4);
    backward(e, t, 2);
}

static void trace_free(trace *t) {
    for (size_t k = 0; k < SCORES; k++) {
        free(t->score[k]);
    }
    for (size_t k = 0; k < GRADIENTS; k++) {
        free(t->grad[k]);
    }
    free(t->params);
}

static double largest(const float *x, size_t n) {
    double top = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, fabs(x[i]));
    }
    return top;
}

/* Compare values. The tolerance is relative to the largest value of the tensor and of all
 * tensors. */
static void assert_near(const trace *t, const char *what, const float *got, const float *wanted,
                        size_t n, double all) {
    double tolerance = t->rounding * (1e-5 * largest(wanted, n) + 5e-6 * all + 1e-7);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - wanted[i]) <= tolerance)) {
            fail_msg("%s (%s, batch %zu): %s[%zu] is %g, the reference's %g", t->net->text,
                     t->engine, t->batch, what, i, (double)got[i], (double)wanted[i]);
        }
    }
}

static void assert_near_tensors(const trace *t, const float *got, const float *wanted, size_t first,
                                size_t end) {
    const fed_layout *layout = &t->net->arch.layout;
    double all = largest(wanted + first, end - first);
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *tensor = &layout->tensors[k];
        if (tensor->offset >= first && tensor->offset < end) {
            assert_near(t, tensor->name, got + tensor->offset, wanted + tensor->offset,
                        tensor->size, all);
        }
    }
}

static void assert_same(const trace *t, const trace *wanted) {
    const fed_arch *arch = &t->net->arch;
    size_t scores = net_case_scores(t->net, t->batch);
    for (size_t k = 0; k < SCORES; k++) {
        assert_near(t, "score", t->score[k], wanted->score[k], scores, 0);
    }
    for (size_t k = 0; k < GRADIENTS; k++) {
        assert_near_tensors(t, t->grad[k], wanted->grad[k], 0, arch->trained);
    }
    assert_near_tensors(t, t->params, wanted->params, arch->trained, arch->layout.size);
}

typedef struct engines {
    net_engine engine[8];
    size_t count;
} engines;

static void engines_open(engines *all, const net_case *net, size_t most) {
    const size_t room = sizeof all->engine / sizeof all->engine[0];
    all->count = 0;
    while (all->count < most && net_engine_open(all->count, &net->arch, &all->engine[all->count])) {
        all->count++;
        assert_in_range(all->count, 1, room - 1);
    }
}

static void engines_close(engines *all) {
    for (size_t k = 0; k < all->count; k++) {
        net_engine_close(&all->engine[k]);
    }
}

static void check_engines(const engines *all, const net_case *net, size_t batch, double rounding) {
    trace reference, other;
    trace_make(&reference, net, &all->engine[0], batch);
    for (size_t k = 1; k < all->count; k++) {
        trace_make(&other, net, &all->engine[k], batch);
        other.rounding = rounding;
        assert_same(&other, &reference);
        trace_free(&other);
    }
    trace_free(&reference);
}

static bool is_small(const fed_arch *arch) {
    enum { FEW = 200 };
    size_t most = 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        size_t n = fedtrain_shape_size(arch->layers[l].out);
        most = n > most ? n : most;
    }
    return most <= FEW;
}

/* With two values for each channel, the gradient of a normalization is a small difference of large
 * numbers. */
static bool is_touchy(const fed_arch *arch, size_t batch) {
    bool touchy = false;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        size_t area = (size_t)layer->in.h * layer->in.w;
        touchy |= layer->kind == FED_LAYER_BATCHNORM && batch * area == 2;
    }
    return touchy;
}

FED_TEST(test_all_backends_agree_with_the_reference) {
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        engines all;
        net_case_make(&net, text);
        engines_open(&all, &net, k % FED_TEST_TRIES(1, 8) == 0 ? SIZE_MAX : net_engine_hosts());
        for (size_t batch = 1; batch <= NET_CASE_MOST; batch++) {
            bool wanted = batch <= 2 || batch == NET_CASE_MOST || is_small(&net.arch);
            if (wanted && !is_touchy(&net.arch, batch)) {
                check_engines(&all, &net, batch, 1);
            }
        }
        engines_close(&all);
        net_case_free(&net);
    }
}

static void assert_same_bits(const trace *one, const trace *other) {
    const size_t scores = net_case_scores(one->net, one->batch);
    const fed_layout *layout = &one->net->arch.layout;
    for (size_t k = 0; k < SCORES; k++) {
        assert_memory_equal(one->score[k], other->score[k], scores * sizeof(float));
    }
    for (size_t k = 0; k < GRADIENTS; k++) {
        assert_memory_equal(one->grad[k], other->grad[k], one->net->arch.trained * sizeof(float));
    }
    assert_memory_equal(one->params, other->params, layout->size * sizeof(float));
}

/* Deep nets amplify rounding errors, so the tolerance is larger. On one device two runs must give
 * the same bits. */
static void check_model(const char *name, size_t batch) {
    net_case net;
    engines all;
    trace reference, once, again;
    net_case_make(&net, name);
    engines_open(&all, &net, SIZE_MAX);
    trace_make(&reference, &net, &all.engine[0], batch);
    for (size_t k = net_engine_hosts(); k < all.count; k++) {
        trace_make(&once, &net, &all.engine[k], batch);
        trace_make(&again, &net, &all.engine[k], batch);
        once.rounding = 10;
        assert_same(&once, &reference);
        assert_same_bits(&once, &again);
        trace_free(&once);
        trace_free(&again);
    }
    trace_free(&reference);
    engines_close(&all);
    net_case_free(&net);
}

FED_TEST(test_devices_run_known_models_alike_each_time) {
    check_model("lenet5-caffe", 5);
#ifndef FED_SANITIZED /* too slow; smaller nets above have each kind of layer */
    check_model("lenet5", 5);
    check_model("resnet20", 2);
#endif
    check_model(
        "input tokens 9 of 50 | encoder: embedding 20 | dropout 0.2 | rnn: lstm 20 layers 2 "
        "dropout 0.2 | dropout 0.2 | decoder: dense 50 each tied encoder",
        5);
}

typedef struct sketch {
    fed_rng rng;
    char text[800];
    size_t len, layers;
    uint32_t c, h, w;
} sketch;

__attribute__((format(printf, 2, 3))) static void add_text(sketch *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(s->text + s->len, sizeof s->text - s->len, format, arguments);
    va_end(arguments);
    assert_in_range(len, 1, sizeof s->text - s->len - 1);
    s->len += (size_t)len;
}

static uint32_t up_to(sketch *s, uint32_t most) {
    return 1 + fed_rng_below(&s->rng, most);
}

static bool once_in(sketch *s, uint32_t n) {
    return fed_rng_below(&s->rng, n) == 0;
}

static uint32_t smaller_side(const sketch *s) {
    return s->h < s->w ? s->h : s->w;
}

static void slide(sketch *s, uint32_t k, uint32_t stride, uint32_t pad) {
    s->h = (s->h + 2 * pad - k) / stride + 1;
    s->w = (s->w + 2 * pad - k) / stride + 1;
}

static void add_conv(sketch *s) {
    const uint32_t side = smaller_side(s), k = up_to(s, side < 5 ? side : 5);
    const uint32_t stride = once_in(s, 4) ? up_to(s, 3) : 1, pad = k > 1 && once_in(s, 3) ? 1 : 0;
    const bool halves = s->c % 2 == 0 && once_in(s, 3);
    s->c = up_to(s, 20) * (halves ? 2 : 1);
    add_text(s, " | conv %u %u stride %u pad %u%s%s", s->c, k, stride, pad,
             halves ? " groups 2" : "", once_in(s, 3) ? " nobias" : "");
    slide(s, k, stride, pad);
}

static void add_pool(sketch *s) {
    const uint32_t side = smaller_side(s), k = up_to(s, side < 3 ? side : 3);
    const uint32_t stride = once_in(s, 2) ? k : up_to(s, 2);
    add_text(s, " | %s %u stride %u", once_in(s, 3) ? "avgpool" : "maxpool", k, stride);
    slide(s, k, stride, 0);
}

static void add_block(sketch *s) {
    add_text(s, " | r%zu: conv %u 1 | %s | conv %u 1 | add r%zu", s->layers, s->c,
             once_in(s, 2) ? "relu" : "tanh", s->c, s->layers);
}

static void add_layer(sketch *s) {
    static const char *const simple[] = {"relu", "relu", "tanh", "sigmoid", "dropout 0.3", "lrn 3"};
    s->layers++;
    switch (fed_rng_below(&s->rng, 8)) {
    case 0:
    case 1:
    case 2:
        add_conv(s);
        break;
    case 3:
    case 4:
        add_pool(s);
        break;
    case 5:
        add_block(s);
        break;
    case 6:
        if (s->h * s->w > 3) { /* a normalization of fewer values would amplify rounding errors */
            add_text(s, " | bn");
            break;
        } /* fallthrough */
    default:
        add_text(s, " | %s", simple[fed_rng_below(&s->rng, sizeof simple / sizeof simple[0])]);
    }
}

static void draw_net(sketch *s, uint32_t seed) {
    *s = (sketch){.len = 0};
    fed_rng_init(&s->rng, seed, 5, 5);
    s->c = up_to(s, 4);
    s->h = 2 + up_to(s, 11);
    s->w = 2 + up_to(s, 11);
    add_text(s, "input %ux%ux%u", s->c, s->h, s->w);
    for (uint32_t layers = up_to(s, 6); layers > 0; layers--) {
        add_layer(s);
    }
    if (once_in(s, 2)) {
        add_text(s, " | dense %u%s | relu", up_to(s, 70), once_in(s, 4) ? " nobias" : "");
    }
    add_text(s, " | dense %u", up_to(s, 12));
}

FED_TEST(test_random_nets_agree_too) {
    const uint32_t nets = FED_TEST_TRIES(200, 40), on_devices = nets / 10;
    for (uint32_t seed = 0; seed < nets; seed++) {
        sketch s;
        net_case net;
        engines all;
        draw_net(&s, seed);
        net_case_make(&net, s.text);
        engines_open(&all, &net, seed < on_devices ? SIZE_MAX : net_engine_hosts());
        check_engines(&all, &net, up_to(&s, NET_CASE_MOST), 100);
        engines_close(&all);
        net_case_free(&net);
    }
}

static void step_at_once(const net_engine *e, const net_case *net, const fed_optimizer *rule,
                         float *params, float *state, float *scratch) {
    fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    fedtrain_updater u = fedtrain_update_begin(rule, state, params, net->arch.trained);
    const fedtrain_gradient to = {
        .at = scratch, .sink = fedtrain_update_sink(&u), .update = &u.update};
    pass.params = params;
    assert_fed_ok(e->backend->backward(e->work, &pass, net->score_grad, &to));
}

static void step_in_turn(const net_engine *e, const net_case *net, const fed_optimizer *rule,
                         float *params, float *state, float *scratch) {
    fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    pass.params = params;
    net_engine_backward(e, &pass, net->score_grad, scratch);
    fedtrain_optimizer_step(rule, state, params, scratch, net->arch.trained);
}

static void check_rule(const net_case *net, const net_engine *e, const char *spec) {
    fed_optimizer rule;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse(spec, 0.01F, &rule, &err));
    size_t n = net->arch.layout.size;
    size_t states = fedtrain_optimizer_state_size(&rule, net->arch.trained);
    float *params[2], *state[2], *scratch = net_case_floats(n);
    float *score = net_case_floats(net_case_scores(net, NET_CASE_BATCH));
    const fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    for (size_t i = 0; i < 2; i++) {
        params[i] = net_case_floats(n);
        state[i] = net_case_floats(states + 1);
        memcpy(params[i], net->params, n * sizeof(float));
        e->backend->forget(e->work);
        net_engine_forward(e, &pass, score);
        (i == 0 ? step_at_once : step_in_turn)(e, net, &rule, params[i], state[i], scratch);
    }
    if (memcmp(params[0], params[1], n * sizeof(float)) != 0 ||
        memcmp(state[0], state[1], states * sizeof(float)) != 0) {
        fail_msg("%s (%s): a step of %s gives other bits at once than layer by layer", net->text,
                 e->name, spec);
    }
    for (size_t i = 0; i < 2; i++) {
        free(params[i]);
        free(state[i]);
    }
    free(scratch);
    free(score);
}

static void check_step(const net_case *net, const net_engine *e) {
    uint64_t saved = fedtrain_denormal_flush(); /* net.c does this during a call */
    check_rule(net, e, "sgd");
    check_rule(net, e, "momentum:decay=0.01");
    check_rule(net, e, "adam");
    fedtrain_denormal_restore(saved);
}

FED_TEST(test_a_step_at_once_is_a_gradient_and_an_update_to_the_bit) {
    net_case_each(check_step);
}
