/* Tests that the trainer does the same on every machine. It needs no test framework, so that
 * deploy/cross.sh can run it on ARM, big-endian and 32-bit machines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fed/rng.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"

enum { BATCH = 3, STEPS = 60 };

static const char *const nets[] = {
    "input 12 | dense 7 | relu | dense 5",
    "input 3x11x10 | conv 6 3x3 | relu | maxpool 2 | conv 9 2x3 | dense 4",
    "lenet5-caffe",
};

static size_t checks, failures;

static void check(bool holds, const char *net, const char *what) {
    checks++;
    if (!holds) {
        failures++;
        printf("%s: %s\n", net, what);
    }
}

static void must(fed_status status, const fed_error *err) {
    if (status != FED_OK) {
        fprintf(stderr, "trainer: %s\n",
                err->text[0] != '\0' ? err->text : fed_status_text(status));
        exit(EXIT_FAILURE);
    }
}

static float *make_floats(size_t n) {
    float *x = calloc(n + 1, sizeof *x);
    must(x != NULL ? FED_OK : FED_ENOMEM, &(fed_error){0});
    return x;
}

static bool near(const float *a, const float *b, size_t n, float tolerance) {
    float largest = 0, miss = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(b[i]));
        miss = fmaxf(miss, fabsf(a[i] - b[i]));
    }
    return miss <= tolerance * largest + 1e-7F;
}

typedef struct bench {
    fed_arch arch;
    fedtrain_net *fast, *bfloat16, *reference;
    float *params, *x, *grad, *wanted;
    uint32_t *label;
    fedtrain_batch batch;
} bench;

static void open_bench(bench *b, const char *text) {
    fed_error err = {0};
    must(fed_arch_parse(text, &b->arch, &err), &err);
    must(fedtrain_net_new(&b->arch, BATCH, "fast", &b->fast, &err), &err);
    must(fedtrain_net_new(&b->arch, BATCH, "bfloat16", &b->bfloat16, &err), &err);
    must(fedtrain_net_new(&b->arch, BATCH, "reference", &b->reference, &err), &err);
    size_t n = b->arch.layout.size, in = BATCH * fedtrain_shape_size(b->arch.input);
    b->params = make_floats(n);
    b->grad = make_floats(n);
    b->wanted = make_floats(n);
    b->x = make_floats(in);
    b->label = calloc(BATCH * b->arch.positions, sizeof *b->label);
    must(b->label != NULL ? FED_OK : FED_ENOMEM, &err);
    fed_arch_init_values(&b->arch, 1, b->params);
    fed_rng rng;
    fed_rng_init(&rng, 2, 3, 4);
    for (size_t i = 0; i < in; i++) {
        b->x[i] = b->arch.words > 0 ? (float)fed_rng_below(&rng, b->arch.words)
                                    : fed_rng_float(&rng) - 0.25F;
    }
    for (size_t i = 0; i < BATCH * b->arch.positions; i++) {
        b->label[i] = fed_rng_below(&rng, b->arch.classes);
    }
    b->batch = (fedtrain_batch){.size = BATCH, .x = b->x, .label = b->label, .seed = 5};
}

static void close_bench(bench *b) {
    fedtrain_net_free(b->fast);
    fedtrain_net_free(b->bfloat16);
    fedtrain_net_free(b->reference);
    free(b->params);
    free(b->x);
    free(b->grad);
    free(b->wanted);
    free(b->label);
    fed_arch_free(&b->arch);
}

static void compare_gradients(bench *b, const char *text) {
    fed_error err = {0};
    float loss = 0, wanted = 0;
    must(fedtrain_net_gradient(b->reference, b->params, &b->batch, b->wanted, &wanted, &err), &err);
    must(fedtrain_net_gradient(b->fast, b->params, &b->batch, b->grad, &loss, &err), &err);
    check(near(&loss, &wanted, 1, 1e-5F), text, "another loss than the reference's");
    check(near(b->grad, b->wanted, b->arch.trained, 1e-5F), text, "another gradient");
    must(fedtrain_net_gradient(b->bfloat16, b->params, &b->batch, b->grad, &loss, &err), &err);
    check(near(&loss, &wanted, 1, 0.02F), text, "bfloat16: a loss far from the reference's");
    check(near(b->grad, b->wanted, b->arch.trained, 0.1F), text, "bfloat16: a gradient far off");
}

static void train(bench *b, const char *text) {
    fed_error err = {0};
    fed_optimizer rule;
    must(fed_optimizer_parse("adam:lr=0.003", 0, &rule, &err), &err);
    float *state = make_floats(fedtrain_optimizer_state_size(&rule, b->arch.trained));
    float first = 0, last = 0;
    for (int t = 0; t < STEPS; t++) {
        must(fedtrain_net_step(b->fast, &rule, b->params, state, &b->batch, &last, &err), &err);
        first = t == 0 ? last : first;
    }
    check(last < 0.8F * first, text, "training did not bring the loss down");
    free(state);
}

int main(void) {
    for (size_t k = 0; k < sizeof nets / sizeof nets[0]; k++) {
        bench b = {0};
        open_bench(&b, nets[k]);
        compare_gradients(&b, nets[k]);
        train(&b, nets[k]);
        close_bench(&b);
    }
    printf("trainer (%s): %zu checks, %zu failures\n", fedtrain_isa(NULL), checks, failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
