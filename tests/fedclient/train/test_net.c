/* Every layer on every backend: gradients against finite differences, and against the reference. */
#include "fed_test.h"

#include <math.h>

#include "fed/arch.h"
#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast.h"
#include "fedtrain/net.h"

/* Sizes around and off the vector widths of 4, 8 and 16, and every order of layers that matters. */
static const char *const nets[] = {
    "input 1 | dense 2",
    "input 5 | dense 3",
    "input 64 | dense 16 | relu | dense 10",
    "input 67 | dense 33 | relu | dense 11",
    "input 2x3x3 | dense 7",
    "input 19 | relu | dense 4",
    "input 3x6x6 | maxpool 2 | dense 5",
    "input 1x8x8 | conv 4 3x3 | dense 5",
    "input 1x7x9 | conv 3 3x2 | relu | dense 4",
    "input 3x9x8 | conv 17 3x3 | maxpool 2 | dense 6",
    "input 2x11x13 | conv 5 2x3 | relu | maxpool 3 | dense 6",
    "input 1x9x9 | conv 6 2x2 | maxpool 2 | relu | conv 7 3x3 | relu | dense 5 | relu | dense 3",
    "input 2x12x12 | maxpool 2 | conv 9 3x3 | maxpool 2 | maxpool 2 | dense 4",
    "input 5x5x5 | conv 21 1x1 | conv 3 5x5 | dense 2",
    "input 1x14x14 | conv 20 5x5 | maxpool 2 | conv 50 3x3 | maxpool 3 | dense 12 | dense 10",
    "input 3x8x20 | conv 70 3x3 | maxpool 2 | conv 8 2x8 | dense 3",
};

enum { NETS = sizeof nets / sizeof nets[0], MAX_BATCH = 9 };

/* One net with weights and a batch. */
typedef struct sample {
    fed_arch arch;
    float *params, *x, *grad;
    uint32_t label[MAX_BATCH];
} sample;

static float centred(fed_rng *rng) {
    return 2 * fed_rng_float(rng) - 1;
}

static void sample_make(sample *s, const char *text) {
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(text, &s->arch, &err));
    size_t n = s->arch.layout.size,
           pixels = (size_t)s->arch.input.c * s->arch.input.h * s->arch.input.w * MAX_BATCH;
    s->params = malloc(n * sizeof(float));
    s->grad = malloc(n * sizeof(float));
    s->x = malloc(pixels * sizeof(float));
    assert_true(s->params != NULL && s->grad != NULL && s->x != NULL);
    fed_rng rng;
    fed_rng_init(&rng, 7, 1, 1);
    fed_arch_init_values(&s->arch, 3, s->params);
    for (size_t i = 0; i < n; i++) {
        s->params[i] += 0.05F * centred(&rng); /* biases too are not 0 */
    }
    for (size_t i = 0; i < pixels; i++) {
        s->x[i] = centred(&rng);
    }
    for (size_t b = 0; b < MAX_BATCH; b++) {
        s->label[b] = (uint32_t)fed_rng_below(&rng, s->arch.classes);
    }
}

static void sample_free(sample *s) {
    free(s->params);
    free(s->grad);
    free(s->x);
    fed_arch_free(&s->arch);
}

static fedtrain_batch batch_of(const sample *s, size_t size) {
    return (fedtrain_batch){.size = size, .x = s->x, .label = s->label};
}

static float loss_of(fedtrain_net *net, sample *s, size_t batch, float *grad) {
    float loss;
    fed_error err = {0};
    const fedtrain_batch samples = batch_of(s, batch);
    assert_fed_ok_err(fedtrain_net_gradient(net, s->params, &samples, grad, &loss, &err));
    return loss;
}

/* (loss(w + h d) - loss(w - h d)) / 2h, for a random direction d: the gradient's part along it. */
static void check_direction(fedtrain_net *net, sample *s, uint32_t k, const char *text) {
    size_t n = s->arch.layout.size;
    float *scratch = malloc(n * sizeof(float)), *d = malloc(n * sizeof(float));
    assert_true(scratch != NULL && d != NULL);
    loss_of(net, s, 3, s->grad);
    fed_rng rng;
    fed_rng_init(&rng, 11, k, 0);
    double along = 0, length = 0, step = 5e-4;
    for (size_t i = 0; i < n; i++) {
        d[i] = centred(&rng);
        length += (double)d[i] * d[i];
    }
    for (size_t i = 0; i < n; i++) {
        d[i] /= (float)sqrt(length);
        along += (double)d[i] * s->grad[i];
        s->params[i] += (float)step * d[i];
    }
    double up = loss_of(net, s, 3, scratch);
    for (size_t i = 0; i < n; i++) {
        s->params[i] -= 2 * (float)step * d[i];
    }
    double down = loss_of(net, s, 3, scratch);
    for (size_t i = 0; i < n; i++) {
        s->params[i] += (float)step * d[i];
    }
    free(scratch);
    free(d);
    double differences = (up - down) / (2 * step);
    if (fabs(differences - along) > 5e-4 + 0.01 * fabs(along)) {
        fail_msg("%s: finite differences %g, gradient %g", text, differences, along);
    }
}

static void check_finite_differences(fedtrain_backend backend) {
    for (size_t k = 0; k < NETS; k++) {
        sample s = {0};
        fedtrain_net *net;
        sample_make(&s, nets[k]);
        assert_fed_ok(fedtrain_net_new(&s.arch, 3, backend, &net));
        for (uint32_t direction = 0; direction < 4; direction++) {
            check_direction(net, &s, direction, nets[k]);
        }
        fedtrain_net_free(net);
        sample_free(&s);
    }
}

static void test_the_reference_gradient_agrees_with_finite_differences(void **state) {
    (void)state;
    check_finite_differences(FEDTRAIN_REFERENCE);
}

static void test_the_fast_gradient_agrees_with_finite_differences(void **state) {
    (void)state;
    check_finite_differences(FEDTRAIN_FAST);
}

/* Each parameter on its own, where a net is small enough. */
static void test_each_single_derivative_agrees_with_finite_differences(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    sample_make(&s, "input 2x6x6 | conv 3 3x3 | maxpool 2 | dense 4 | relu | dense 3");
    assert_fed_ok(fedtrain_net_new(&s.arch, 2, FEDTRAIN_REFERENCE, &net));
    float *scratch = malloc(s.arch.layout.size * sizeof(float));
    assert_non_null(scratch);
    loss_of(net, &s, 2, s.grad);
    for (size_t i = 0; i < s.arch.layout.size; i++) {
        float kept = s.params[i], step = 4e-3F;
        s.params[i] = kept + step;
        double up = loss_of(net, &s, 2, scratch);
        s.params[i] = kept - step;
        double down = loss_of(net, &s, 2, scratch);
        s.params[i] = kept;
        double differences = (up - down) / (2 * (double)step);
        if (fabs(differences - s.grad[i]) > 1e-3) {
            fail_msg("parameter %zu: finite differences %g, gradient %g", i, differences,
                     (double)s.grad[i]);
        }
    }
    free(scratch);
    fedtrain_net_free(net);
    sample_free(&s);
}

static void assert_near(const float *got, const float *wanted, size_t n, const char *text,
                        const char *isa, size_t batch) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(wanted[i]));
    }
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - wanted[i]) <= 1e-5 * largest + 1e-7)) {
            fail_msg("%s (%s, batch %zu): value %zu is %g, the reference's %g", text, isa, batch, i,
                     (double)got[i], (double)wanted[i]);
        }
    }
}

/* Scores and gradient of the fast backend with one set of kernels, against the reference's. */
static void check_kernels(const fedtrain_kernels *kernels, sample *s, size_t batch,
                          const char *text) {
    const fed_arch *arch = &s->arch;
    void *fast, *reference;
    size_t scores = batch * arch->classes, n = arch->layout.size;
    float *score = malloc(2 * scores * sizeof(float)), *grad = malloc(n * sizeof(float));
    assert_true(score != NULL && grad != NULL);
    assert_fed_ok(fedtrain_fast_open(arch, MAX_BATCH, kernels, &fast));
    assert_fed_ok(fedtrain_backend_reference.open(arch, batch, &reference));
    const fedtrain_pass way = {
        .params = s->params, .x = s->x, .batch = batch, .training = true, .seed = 7};
    for (int pass = 0; pass < 2; pass++) { /* a second pass must not see the first */
        fedtrain_backend_fast.forward(fast, &way, score);
        fedtrain_backend_reference.forward(reference, &way, score + scores);
        assert_near(score, score + scores, scores, text, kernels->isa, batch);
        fedtrain_backend_fast.backward(fast, &way, score, grad);
        fedtrain_backend_reference.backward(reference, &way, score, s->grad);
        assert_near(grad, s->grad, n, text, kernels->isa, batch);
    }
    fedtrain_backend_fast.close(fast);
    fedtrain_backend_reference.close(reference);
    free(score);
    free(grad);
}

static void test_every_kernel_set_agrees_with_the_reference(void **state) {
    (void)state;
    for (size_t k = 0; k < NETS; k++) {
        sample s = {0};
        sample_make(&s, nets[k]);
        for (size_t i = 0; fedtrain_kernels_get(i) != NULL; i++) {
            for (size_t batch = 1; batch <= MAX_BATCH; batch++) {
                check_kernels(fedtrain_kernels_get(i), &s, batch, nets[k]);
            }
        }
        sample_free(&s);
    }
}

static void test_the_scores_are_the_same_in_any_batch(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    sample_make(&s, nets[9]);
    assert_fed_ok(fedtrain_net_new(&s.arch, MAX_BATCH, FEDTRAIN_FAST, &net));
    fed_error err = {0};
    const fedtrain_batch all = batch_of(&s, MAX_BATCH);
    float together[MAX_BATCH * 6], alone[6];
    size_t pixels = (size_t)3 * 9 * 8;
    assert_fed_ok(fedtrain_net_forward(net, s.params, &all, together, &err));
    for (size_t b = 0; b < MAX_BATCH; b++) {
        const fedtrain_batch one = {.size = 1, .x = s.x + b * pixels};
        assert_fed_ok(fedtrain_net_forward(net, s.params, &one, alone, &err));
        for (size_t j = 0; j < 6; j++) {
            assert_true(fabsf(alone[j] - together[b * 6 + j]) < 1e-5F);
        }
    }
    fedtrain_net_free(net);
    sample_free(&s);
}

static void test_a_gradient_twice_is_the_same_to_the_bit(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    sample_make(&s, nets[14]);
    assert_fed_ok(fedtrain_net_new(&s.arch, MAX_BATCH, FEDTRAIN_FAST, &net));
    size_t bytes = s.arch.layout.size * sizeof(float);
    float *again = malloc(bytes);
    assert_non_null(again);
    loss_of(net, &s, 2, s.grad);
    loss_of(net, &s, MAX_BATCH, again);
    loss_of(net, &s, 2, again);
    assert_memory_equal(s.grad, again, bytes);
    free(again);
    fedtrain_net_free(net);
    sample_free(&s);
}

static void assert_refused(fedtrain_net *net, sample *s, size_t size, fed_status status,
                           const char *words) {
    float loss = 0;
    fed_error err = {0};
    const fedtrain_batch batch = batch_of(s, size);
    assert_fed_status(fedtrain_net_gradient(net, s->params, &batch, s->grad, &loss, &err), status);
    assert_fed_says(err, words);
}

static void test_bad_batches_and_labels_are_refused(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    fed_error err = {0};
    sample_make(&s, nets[1]);
    assert_fed_status(fedtrain_net_new(&s.arch, 0, FEDTRAIN_FAST, &net), FED_EINVAL);
    assert_fed_ok(fedtrain_net_new(&s.arch, 2, FEDTRAIN_FAST, &net));
    assert_refused(net, &s, 0, FED_EINVAL, "batch of 0");
    assert_refused(net, &s, 3, FED_EINVAL, "batch of 3");
    const fedtrain_batch three = batch_of(&s, 3);
    assert_fed_status(fedtrain_net_forward(net, s.params, &three, s.grad, &err), FED_EINVAL);
    s.label[1] = 3;
    assert_refused(net, &s, 2, FED_ERANGE, "label 1 is 3");
    fedtrain_net_free(net);
    sample_free(&s);
}

static void test_the_memory_of_a_net_is_the_sum_of_its_parts(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    sample_make(&s, nets[1]);
    assert_fed_ok(fedtrain_net_new(&s.arch, 2, FEDTRAIN_FAST, &net));
    const fedtrain_memory m = fedtrain_net_memory(net);
    assert_int_equal(m.parameters, s.arch.trained * sizeof(float));
    assert_true(m.batch > 0);
    assert_int_equal(m.total, m.batch + m.activations + m.gradients + m.parameters + m.workspace);
    fedtrain_net_free(net);
    sample_free(&s);
}

static void test_a_loss_that_is_not_finite_is_refused(void **state) {
    (void)state;
    for (int backend = FEDTRAIN_FAST; backend <= FEDTRAIN_REFERENCE; backend++) {
        sample s = {0};
        fedtrain_net *net;
        sample_make(&s, nets[2]);
        s.params[5] = NAN; /* in the first layer: a ReLU must not hide it */
        assert_fed_ok(fedtrain_net_new(&s.arch, 2, (fedtrain_backend)backend, &net));
        assert_refused(net, &s, 2, FED_ENONFINITE, s.arch.layout.tensors[0].name);
        fedtrain_net_free(net);
        sample_free(&s);
    }
}

/* Denormals are flushed inside a call only: the caller's own arithmetic is as before. */
static void test_a_call_leaves_the_callers_denormals_alone(void **state) {
    (void)state;
    sample s = {0};
    fedtrain_net *net;
    sample_make(&s, nets[1]);
    assert_fed_ok(fedtrain_net_new(&s.arch, 2, FEDTRAIN_FAST, &net));
    loss_of(net, &s, 2, s.grad);
    volatile float tiny = 1e-38F;
    volatile float denormal = tiny / 16;
    assert_true(denormal > 0);
    fedtrain_net_free(net);
    sample_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_reference_gradient_agrees_with_finite_differences),
        cmocka_unit_test(test_the_fast_gradient_agrees_with_finite_differences),
        cmocka_unit_test(test_each_single_derivative_agrees_with_finite_differences),
        cmocka_unit_test(test_every_kernel_set_agrees_with_the_reference),
        cmocka_unit_test(test_the_scores_are_the_same_in_any_batch),
        cmocka_unit_test(test_a_gradient_twice_is_the_same_to_the_bit),
        cmocka_unit_test(test_bad_batches_and_labels_are_refused),
        cmocka_unit_test(test_the_memory_of_a_net_is_the_sum_of_its_parts),
        cmocka_unit_test(test_a_loss_that_is_not_finite_is_refused),
        cmocka_unit_test(test_a_call_leaves_the_callers_denormals_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
