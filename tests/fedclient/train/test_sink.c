/* Sinks, which a pass asks for each layer's parameters and gives each layer's gradient: each comes
 * once, in order, with the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fedtrain/backend.h"

typedef struct heard {
    const fed_arch *arch;
    const float *at;      /* float32[trained], to which the pass writes the gradient */
    float *grad;          /* float32[trained], copied from each call of the sink */
    size_t calls, lowest; /* lowest: all values from this one on have been received */
    float *spoil;         /* NULL, or `at`: the sink overwrites each layer's gradient at once */
} heard;

static heard heard_new(const fed_arch *arch, float *at, bool spoils) {
    return (heard){.arch = arch,
                   .at = at,
                   .grad = net_case_floats(arch->trained),
                   .lowest = arch->trained,
                   .spoil = spoils ? at : NULL};
}

static void listen(void *user, size_t offset, const float *grad, size_t n) {
    heard *h = user;
    assert_ptr_equal(grad, h->at + offset);
    assert_true(n > 0);
    assert_int_equal(offset + n, h->lowest);
    memcpy(h->grad + offset, grad, n * sizeof *grad);
    h->lowest = offset;
    h->calls++;
    for (size_t i = offset; h->spoil != NULL && i < offset + n; i++) {
        h->spoil[i] = NAN;
    }
}

static fedtrain_gradient gradient_to(heard *h, float *at) {
    return (fedtrain_gradient){.at = at, .sink = {.done = listen, .user = h}};
}

/* Return the number of layers that have tensors which no earlier layer has. */
static size_t layers_to_name(const fed_arch *arch) {
    size_t count = 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        count += fedtrain_has_parameters(layer) && (!layer->tied || layer->has_bias);
    }
    return count;
}

static void backward(const net_engine *e, const net_case *net, const fedtrain_gradient *to) {
    const fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    float *score = net_case_floats(net_case_scores(net, NET_CASE_BATCH));
    e->backend->forget(e->work);
    net_engine_forward(e, &pass, score);
    assert_fed_ok(e->backend->backward(e->work, &pass, net->score_grad, to));
    free(score);
}

static void check_sink(const net_case *net, const net_engine *e, bool spoils) {
    const size_t n = net->arch.trained;
    float *alone = net_case_floats(n), *at = net_case_floats(n);
    const fedtrain_gradient nobody = {.at = alone};
    heard h = heard_new(&net->arch, at, spoils);
    const fedtrain_gradient to = gradient_to(&h, at);
    backward(e, net, &nobody);
    backward(e, net, &to);
    assert_int_equal(h.lowest, 0);
    assert_int_equal(h.calls, layers_to_name(&net->arch));
    if (memcmp(h.grad, alone, n * sizeof *at) != 0 ||
        (!spoils && memcmp(at, alone, n * sizeof *at) != 0)) {
        fail_msg("%s (%s): a sink gets a gradient with other bits than without a sink", net->text,
                 e->name);
    }
    free(h.grad);
    free(alone);
    free(at);
}

static void check_order(const net_case *net, const net_engine *e) {
    check_sink(net, e, false);
}

FED_TEST(test_each_layer_is_named_once_and_in_order_with_the_same_bits) {
    net_case_each(check_order);
}

static void check_memory(const net_case *net, const net_engine *e) {
    check_sink(net, e, true);
}

/* The sink may overwrite each gradient that it gets: earlier layers do not need it. */
FED_TEST(test_memory_that_was_named_is_the_sinks) {
    net_case_each(check_memory);
}

/* What a parameter sink was asked for. Parameters become valid only when they are asked for. */
typedef struct asked {
    const net_case *net;
    float *params;         /* float32[layout.size], as the pass reads them */
    size_t calls, highest; /* highest: all values before this one were asked for */
    size_t fails;          /* number of the call that fails, counted from 1; 0: none */
    heard heard;
} asked;

static void forget_params(asked *a) {
    const fed_arch *arch = &a->net->arch;
    memcpy(a->params, a->net->params, arch->layout.size * sizeof *a->params);
    for (size_t i = 0; i < arch->trained; i++) {
        a->params[i] = NAN;
    }
    a->calls = a->highest = 0;
}

static asked asked_new(const net_case *net, float *at) {
    asked a = {.net = net,
               .params = net_case_floats(net->arch.layout.size),
               .heard = heard_new(&net->arch, at, false)};
    forget_params(&a);
    return a;
}

static void asked_free(asked *a) {
    free(a->params);
    free(a->heard.grad);
}

static fed_status bring(void *user, size_t offset, size_t n, fed_error *err) {
    asked *a = user;
    assert_true(n > 0);
    assert_int_equal(offset, a->highest);
    if (++a->calls == a->fails) {
        return fed_fail(err, FED_EIO, "the test refuses the parameters from value %zu on", offset);
    }
    memcpy(a->params + offset, a->net->params + offset, n * sizeof *a->params);
    a->highest = offset + n;
    return FED_OK;
}

static void hear(void *user, size_t offset, const float *grad, size_t n) {
    asked *a = user;
    assert_int_equal(a->highest, a->heard.arch->trained);
    listen(&a->heard, offset, grad, n);
}

static const fedtrain_sink both = {.done = hear, .need = bring};

static void check_params(const net_case *net, const net_engine *e) {
    const size_t n = net->arch.trained, scores = net_case_scores(net, NET_CASE_BATCH);
    float *wanted = net_case_floats(n), *at = net_case_floats(n);
    float *score[2] = {net_case_floats(scores), net_case_floats(scores)};
    asked a = asked_new(net, at);
    fedtrain_sink sink = both;
    sink.user = &a;
    fedtrain_arrivals arrivals = {.sink = &sink};
    fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    net_engine_forward(e, &pass, score[0]);
    net_engine_backward(e, &pass, net->score_grad, wanted);
    e->backend->forget(e->work);
    pass.params = a.params;
    pass.arrivals = &arrivals;
    net_engine_forward(e, &pass, score[1]);
    assert_int_equal(a.highest, n);
    assert_int_equal(a.calls, layers_to_name(&net->arch));
    net_engine_backward(e, &pass, net->score_grad, at);
    if (memcmp(score[0], score[1], scores * sizeof *at) != 0 ||
        memcmp(wanted, at, n * sizeof *at) != 0) {
        fail_msg("%s (%s): a pass reads parameters before it has asked for them", net->text,
                 e->name);
    }
    asked_free(&a);
    free(wanted);
    free(at);
    free(score[0]);
    free(score[1]);
}

FED_TEST(test_each_layer_is_asked_for_once_and_in_order_before_it_is_read) {
    net_case_each(check_params);
}

static void check_net(const net_case *net) {
    const fedtrain_batch batch = net_case_batch(net, NET_CASE_BATCH);
    const size_t n = net->arch.trained;
    float *wanted = net_case_floats(n), *at = net_case_floats(n), losses[2];
    const char *name;
    for (size_t k = 0; (name = net_case_backend(k, &net->arch)) != NULL; k++) {
        fedtrain_net *made;
        fed_error err = {0};
        heard h = heard_new(&net->arch, at, false);
        const fedtrain_sink sink = {.done = listen, .user = &h};
        assert_fed_ok_err(fedtrain_net_new(&net->arch, NET_CASE_BATCH, name, &made, &err));
        assert_fed_ok_err(
            fedtrain_net_gradient(made, net->params, &batch, wanted, &losses[0], &err));
        fedtrain_net_forget(made);
        assert_fed_ok_err(
            fedtrain_net_gradient_to(made, net->params, &batch, &sink, at, &losses[1], &err));
        assert_int_equal(h.lowest, 0);
        assert_memory_equal(h.grad, wanted, n * sizeof *at);
        assert_memory_equal(&losses[0], &losses[1], sizeof losses[0]);
        fedtrain_net_free(made);
        free(h.grad);
    }
    free(wanted);
    free(at);
}

FED_TEST(test_a_nets_sink_hears_the_gradient_to_the_bit) {
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        net_case_make(&net, text);
        check_net(&net);
        net_case_free(&net);
    }
}

FED_TEST(test_without_a_loss_a_sink_hears_nothing) {
    net_case net;
    fedtrain_net *made;
    fed_error err = {0};
    net_case_make(&net, "input 4 | dense 3 | relu | dense 2");
    float *at = net_case_floats(net.arch.trained), loss = 7;
    heard h = heard_new(&net.arch, at, false);
    const fedtrain_sink sink = {.done = listen, .user = &h};
    const fedtrain_batch batch = net_case_batch(&net, 2);
    net.params[0] = NAN;
    assert_fed_ok(fedtrain_net_new(&net.arch, 2, NULL, &made, NULL));
    assert_fed_status(fedtrain_net_gradient_to(made, net.params, &batch, &sink, at, &loss, &err),
                      FED_ENONFINITE);
    assert_int_equal(h.calls, 0);
    assert_true(loss == 7);
    fedtrain_net_free(made);
    free(h.grad);
    free(at);
    net_case_free(&net);
}

typedef void check_asking(const net_case *net, fedtrain_net *made, const fedtrain_batch *batch,
                          asked *a, const float *wanted);

static void each_model(check_asking *check) {
    static const char *const models[] = {
        "lenet5-caffe", "resnet20",
        "input tokens 5 of 9 | e: embedding 6 | lstm 6 layers 2 | dense 9 each tied e"};
    const char *name;
    for (size_t k = 0; k < sizeof models / sizeof models[0]; k += FED_TEST_TRIES(1, 2)) {
        net_case net;
        net_case_make(&net, models[k]);
        const fedtrain_batch batch = net_case_batch(&net, 2);
        float *wanted = net_case_floats(net.arch.trained), *at = net_case_floats(net.arch.trained);
        for (size_t b = 0; (name = net_case_backend(b, &net.arch)) != NULL; b++) {
            fedtrain_net *made;
            fed_error err = {0};
            float loss;
            asked a = asked_new(&net, at);
            assert_fed_ok_err(fedtrain_net_new(&net.arch, 2, name, &made, &err));
            assert_fed_ok_err(fedtrain_net_gradient(made, net.params, &batch, wanted, &loss, &err));
            fedtrain_net_forget(made);
            check(&net, made, &batch, &a, wanted);
            asked_free(&a);
            fedtrain_net_free(made);
        }
        free(wanted);
        free(at);
        net_case_free(&net);
    }
}

static void check_arrivals(const net_case *net, fedtrain_net *made, const fedtrain_batch *batch,
                           asked *a, const float *wanted) {
    fed_error err = {0};
    float loss;
    fedtrain_sink sink = both;
    sink.user = a;
    assert_fed_ok_err(
        fedtrain_net_gradient_to(made, a->params, batch, &sink, (float *)a->heard.at, &loss, &err));
    assert_int_equal(a->calls, layers_to_name(&net->arch));
    assert_int_equal(a->heard.calls, a->calls);
    assert_int_equal(a->heard.lowest, 0);
    assert_memory_equal(a->heard.grad, wanted, net->arch.trained * sizeof *wanted);
}

FED_TEST(test_a_net_waits_for_each_layers_parameters) {
    each_model(check_arrivals);
}

static void check_failures(const net_case *net, fedtrain_net *made, const fedtrain_batch *batch,
                           asked *a, const float *wanted) {
    const size_t last = layers_to_name(&net->arch), fails[] = {1, 2, last};
    float *at = (float *)a->heard.at, loss = 7;
    fedtrain_sink sink = both;
    sink.user = a;
    for (size_t k = 0; k < 3; k++) {
        fed_error err = {0};
        a->fails = fails[k];
        forget_params(a);
        at[0] = 5;
        assert_fed_status(fedtrain_net_gradient_to(made, a->params, batch, &sink, at, &loss, &err),
                          FED_EIO);
        assert_fed_says(err, "refuses the parameters from");
        assert_int_equal(a->calls, fails[k]);
        assert_int_equal(a->heard.calls, 0);
        assert_true(loss == 7 && at[0] == 5);
        fedtrain_net_forget(made);
    }
    a->fails = 0;
    forget_params(a);
    check_arrivals(net, made, batch, a, wanted);
}

FED_TEST(test_a_sink_that_fails_ends_the_pass_with_its_sentence) {
    each_model(check_failures);
}
