/* What a sink is told of a gradient: each layer once, the last one first, with the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net_case.h"

#include <math.h>

#include "fedtrain/backend.h"

/* What a sink was told. */
typedef struct heard {
    const fed_arch *arch;
    const float *at;      /* float32[trained], where the pass writes the gradient */
    float *grad;          /* float32[trained], as the sink was given it */
    size_t calls, lowest; /* lowest: all from there on has been named */
    float *spoil;         /* `at`: what was told is overwritten at once; or NULL */
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

/* Layers with tensors that no layer before them has. */
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
        fail_msg("%s (%s): a sink is given other bits", net->text, e->name);
    }
    free(h.grad);
    free(alone);
    free(at);
}

static void check_order(const net_case *net, const net_engine *e) {
    check_sink(net, e, false);
}

static void test_each_layer_is_named_once_and_in_order_with_the_same_bits(void **state) {
    (void)state;
    net_case_each(check_order);
}

static void check_memory(const net_case *net, const net_engine *e) {
    check_sink(net, e, true);
}

/* The sink spoils the memory of each layer that it is told of: the layers before do not miss it. */
static void test_memory_that_was_named_is_the_sinks(void **state) {
    (void)state;
    net_case_each(check_memory);
}

/* ---- As a program meets it ---- */

static void check_net(const net_case *net) {
    const fedtrain_batch batch = net_case_batch(net, NET_CASE_BATCH);
    const size_t n = net->arch.trained;
    float *wanted = net_case_floats(n), *at = net_case_floats(n), losses[2];
    const char *name;
    for (size_t k = 0; (name = fedtrain_backend_name(k)) != NULL; k++) {
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

static void test_a_nets_sink_hears_the_gradient_to_the_bit(void **state) {
    (void)state;
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        net_case_make(&net, text);
        check_net(&net);
        net_case_free(&net);
    }
}

/* A loss that is not finite ends the pass before any layer's gradient. */
static void test_without_a_loss_a_sink_hears_nothing(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_layer_is_named_once_and_in_order_with_the_same_bits),
        cmocka_unit_test(test_memory_that_was_named_is_the_sinks),
        cmocka_unit_test(test_a_nets_sink_hears_the_gradient_to_the_bit),
        cmocka_unit_test(test_without_a_loss_a_sink_hears_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
