/* What a net does around its layers: losses, checks, memory, and equal bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fedclient/train/net_impl.h"
#include "fedtrain/backend.h"
#include "fedtrain/fits.h"
#include "fedtrain/onnx.h"

static bool open_net(size_t k, const fed_arch *arch, fedtrain_net **net) {
    const char *name = net_case_backend(k, arch);
    if (name == NULL) {
        return false;
    }
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_net_new(arch, NET_CASE_BATCH, name, net, &err));
    return true;
}

static float loss_of(fedtrain_net *net, const net_case *c, const fedtrain_batch *batch,
                     float *grad) {
    float loss = 0;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_net_gradient(net, c->params, batch, grad, &loss, &err));
    return loss;
}

/* The scores are (0, 0), (ln 3, 0), (0, 0) and (0, ln 3), and all labels are 0: so the label's
 * probability is 1/2, 3/4, 1/2 and 1/4. */
FED_TEST(test_the_loss_is_the_mean_cross_entropy_of_all_positions) {
    const float ln3 = 1.0986123F, x[] = {0, ln3, 0, 0, 0, 0, 0, ln3};
    const float params[] = {1, 0, 0, 1, 0, 0};
    const uint32_t label[4] = {0};
    float grad[6];
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 2x2x1 | dense 2 each");
    memcpy(c.params, params, sizeof params);
    const fedtrain_batch batch = {.size = 2, .x = x, .label = label};
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        float wanted = (2 * logf(2) + logf(4.0F / 3) + logf(4)) / 4;
        const bool rounds =
            strcmp(fedtrain_net_backend(net), "bfloat16") == 0; /* the backend rounds ln 3 */
        const float tolerance = rounds ? 1e-3F : 1e-6F;
        assert_float_equal(loss_of(net, &c, &batch, grad), wanted, tolerance);
        assert_float_equal(grad[4], -2.0F / 4, tolerance); /* gradient of the biases */
        assert_float_equal(grad[5], 2.0F / 4, tolerance);
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

/* The net gives 3.5 and 2.5, and the wanted numbers are 3 and 4. */
FED_TEST(test_the_loss_of_mse_is_the_mean_squared_error) {
    const float x[] = {1, 1, 2, 0}, target[] = {3, 4}, params[] = {1, 2, 0.5F};
    float grad[3];
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 2 | dense 1 | mse");
    memcpy(c.params, params, sizeof params);
    const fedtrain_batch batch = {.size = 2, .x = x, .target = target};
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        assert_float_equal(loss_of(net, &c, &batch, grad), (0.25F + 2.25F) / 2, 1e-6F);
        assert_float_equal(grad[0], 0.5F * 1 - 1.5F * 2, 1e-6F);
        assert_float_equal(grad[1], 0.5F * 1, 1e-6F);
        assert_float_equal(grad[2], 0.5F - 1.5F, 1e-6F);
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

static void check_batches(const net_case *c, const net_engine *e) {
    size_t scores = net_case_scores(c, 1), values = fedtrain_shape_size(c->arch.input);
    float *together = net_case_floats(NET_CASE_BATCH * scores), *alone = net_case_floats(scores);
    fedtrain_pass pass = {.params = c->params, .x = c->x, .batch = NET_CASE_BATCH};
    net_engine_forward(e, &pass, together);
    pass.batch = 1;
    for (size_t b = 0; b < NET_CASE_BATCH; b++, pass.x += values) {
        e->backend->forget(e->work);
        net_engine_forward(e, &pass, alone);
        for (size_t j = 0; j < scores; j++) {
            if (!(fabsf(alone[j] - together[b * scores + j]) < 1e-5F)) {
                fail_msg("%s (%s): score %zu of sample %zu is %g in a batch, but alone %g", c->text,
                         e->name, j, b, (double)together[b * scores + j], (double)alone[j]);
            }
        }
    }
    free(together);
    free(alone);
}

FED_TEST(test_the_scores_are_the_same_in_any_batch) {
    net_case_each(check_batches);
}

/* Compute the gradient of a batch of two after a batch of `before` samples. backward: that earlier
 * batch has a backward pass, too. */
static void gradient_behind(const net_case *c, const net_engine *e, size_t before, bool backward,
                            float *grad) {
    float *score = net_case_floats(net_case_scores(c, NET_CASE_BATCH));
    fedtrain_pass pass = net_case_pass(c, before);
    e->backend->forget(e->work);
    net_engine_forward(e, &pass, score);
    if (backward) {
        net_engine_backward(e, &pass, c->score_grad, grad);
    }
    pass.batch = 2;
    net_engine_forward(e, &pass, score);
    net_engine_backward(e, &pass, c->score_grad, grad);
    free(score);
}

static void check_gradients(const net_case *c, const net_engine *e) {
    float *once = net_case_floats(c->arch.trained), *again = net_case_floats(c->arch.trained);
    gradient_behind(c, e, 2, false, once);
    gradient_behind(c, e, NET_CASE_BATCH, true, again);
    assert_memory_equal(once, again, c->arch.trained * sizeof *once);
    free(once);
    free(again);
}

FED_TEST(test_a_gradient_twice_is_the_same_to_the_bit) {
    net_case_each(check_gradients);
}

FED_TEST(test_a_seed_says_what_dropout_drops) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 20 | dense 40 | dropout 0.5 | dense 3");
    float *grad = net_case_floats(c.arch.trained);
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        fedtrain_batch batch = net_case_batch(&c, 4);
        float first = loss_of(net, &c, &batch, grad);
        batch.seed++;
        assert_true(loss_of(net, &c, &batch, grad) != first);
        batch.seed--;
        assert_true(loss_of(net, &c, &batch, grad) == first);
        fedtrain_net_free(net);
    }
    free(grad);
    net_case_free(&c);
}

FED_TEST(test_lstms_go_on_until_they_forget) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 3x5x1 | lstm 4 | dense 3 each");
    float *grad = net_case_floats(c.arch.trained);
    const fedtrain_batch batch = net_case_batch(&c, 4);
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        float first = loss_of(net, &c, &batch, grad);
        assert_true(loss_of(net, &c, &batch, grad) != first);
        fedtrain_net_forget(net);
        assert_true(loss_of(net, &c, &batch, grad) == first);
        fedtrain_net_free(net);
    }
    free(grad);
    net_case_free(&c);
}

/* The gradient alone leaves running statistics unchanged. The step's batch, 1, 2, 3, 6, has the
 * mean 3. */
FED_TEST(test_a_step_moves_running_statistics) {
    const float x[] = {1, 2, 3, 6}, params[] = {1, 0, 2, 4};
    const uint32_t label[4] = {0};
    const fedtrain_batch batch = {.size = 2, .x = x, .label = label};
    const fed_optimizer rule = {.rule = FED_SGD, .learning_rate = 0.1};
    float grad[2], state_of_rule[1] = {0}, loss;
    fed_error err = {0};
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 1x2x1 | bn");
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        memcpy(c.params, params, sizeof params);
        loss_of(net, &c, &batch, grad);
        assert_memory_equal(c.params, params, sizeof params);
        assert_fed_ok_err(
            fedtrain_net_step(net, &rule, c.params, state_of_rule, &batch, &loss, &err));
        assert_float_equal(c.params[2], 0.9F * 2 + 0.1F * 3, 1e-6F);
        assert_float_equal(c.params[3], 0.9F * 4 + 0.1F * 14 / 3, 1e-6F);
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

static void assert_refused(fedtrain_net *net, const net_case *c, const fedtrain_batch *batch,
                           fed_status status, const char *words) {
    float loss = 0, *grad = net_case_floats(c->arch.trained);
    fed_error err = {0};
    assert_fed_status(fedtrain_net_gradient(net, c->params, batch, grad, &loss, &err), status);
    assert_fed_says(err, words);
    free(grad);
}

FED_TEST(test_bad_batches_and_labels_are_refused) {
    net_case c;
    fedtrain_net *net;
    float score[6];
    fed_error err = {0};
    net_case_make(&c, "input 5 | dense 3");
    assert_fed_status(fedtrain_net_new(&c.arch, 0, NULL, &net, NULL), FED_EINVAL);
    assert_fed_ok(fedtrain_net_new(&c.arch, 2, NULL, &net, NULL));
    fedtrain_batch batch = net_case_batch(&c, 0);
    assert_refused(net, &c, &batch, FED_EINVAL, "batch of 0");
    batch.size = 3;
    assert_refused(net, &c, &batch, FED_EINVAL, "batch of 3");
    assert_fed_status(fedtrain_net_forward(net, c.params, &batch, score, &err), FED_EINVAL);
    batch.size = 2;
    c.label[1] = 3;
    assert_refused(net, &c, &batch, FED_ERANGE, "label 1 of the batch is 3");
    batch.label = NULL;
    assert_refused(net, &c, &batch, FED_EINVAL, "no labels");
    fedtrain_net_free(net);
    net_case_free(&c);
}

FED_TEST(test_a_model_without_layers_is_refused) {
    static const char *const onnx = "/nonexistent/model.onnx";
    const float values[5] = {0};
    fed_arch arch;
    fed_error err = {0};
    fedtrain_net *net;
    assert_fed_ok_err(fed_arch_parse("vector 5", &arch, &err));
    assert_fed_status(fedtrain_net_new(&arch, 1, NULL, &net, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "without layers"));
    assert_fed_status(fedtrain_onnx_save(onnx, &arch, values, NULL, &err), FED_EINVAL);
    assert_fed_status(fedtrain_dataset_fits(&(fedtrain_dataset){.shape = {5, 1, 1}}, &arch, &err),
                      FED_EINVAL);
    assert_non_null(strstr(err.text, "without layers"));
    fed_arch_free(&arch);
}

FED_TEST(test_a_squared_error_needs_targets) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 5 | dense 3 | mse");
    assert_fed_ok(fedtrain_net_new(&c.arch, 2, "reference", &net, NULL));
    fedtrain_batch batch = net_case_batch(&c, 2);
    batch.target = NULL;
    assert_refused(net, &c, &batch, FED_EINVAL, "no targets");
    fedtrain_net_free(net);
    net_case_free(&c);
}

FED_TEST(test_tokens_that_are_no_words_are_refused) {
    static const float tokens[] = {11, -1, NAN, INFINITY};
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input tokens 4 of 11 | embedding 2 | dense 3 each");
    assert_fed_ok(fedtrain_net_new(&c.arch, 2, "reference", &net, NULL));
    const fedtrain_batch batch = net_case_batch(&c, 2);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        c.x[5] = tokens[i];
        assert_refused(net, &c, &batch, FED_ERANGE, "token 5");
    }
    fedtrain_net_free(net);
    net_case_free(&c);
}

FED_TEST(test_a_weight_that_is_not_a_number_is_named) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 64 | dense 16 | relu | dense 10");
    c.params[5] = NAN; /* a NaN in the first layer, which a ReLU could hide */
    const fedtrain_batch batch = net_case_batch(&c, 2);
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        assert_refused(net, &c, &batch, FED_ENONFINITE, "dense1.weight");
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

/* Only the last sample overflows, in the second layer. */
FED_TEST(test_the_layer_that_overflows_is_named) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 1 | dense 2 nobias | second: dense 2 nobias | dense 2 nobias");
    for (size_t i = 0; i < c.arch.layout.size; i++) {
        c.params[i] = 1e13F;
    }
    c.x[0] = c.x[1] = 0;
    c.x[2] = 1e13F;
    const fedtrain_batch batch = net_case_batch(&c, 3);
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        assert_refused(net, &c, &batch, FED_ENONFINITE, "second gives NaN or infinity");
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

FED_TEST(test_the_memory_of_a_net_is_the_sum_of_its_parts) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 5 | dense 3");
    for (size_t k = 0; open_net(k, &c.arch, &net); k++) {
        const fedtrain_memory m = fedtrain_net_memory(net);
        size_t gradient = c.arch.trained * sizeof(float);
        /* Rounded up to whole cache lines. */
        assert_in_range(m.parameters, gradient, gradient + 63);
        assert_true(m.batch > 0);
        assert_int_equal(m.total,
                         m.batch + m.activations + m.gradients + m.parameters + m.workspace);
        fedtrain_net_free(net);
    }
    net_case_free(&c);
}

/* Denormal numbers are flushed to zero only during a call. */
FED_TEST(test_a_call_leaves_the_callers_denormals_alone) {
    net_case c;
    fedtrain_net *net;
    net_case_make(&c, "input 5 | dense 3");
    float *grad = net_case_floats(c.arch.trained);
    assert_fed_ok(fedtrain_net_new(&c.arch, 2, NULL, &net, NULL));
    const fedtrain_batch batch = net_case_batch(&c, 2);
    loss_of(net, &c, &batch, grad);
    volatile float tiny = 1e-38F;
    volatile float denormal = tiny / 16;
    assert_true(denormal > 0);
    fedtrain_net_free(net);
    free(grad);
    net_case_free(&c);
}
