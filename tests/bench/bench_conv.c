/* Measure how near convolutions are to the processor's bound of multiply-adds, in one thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedclient/train/backends/fast/fast.h"
#include "fedclient/train/backends/fast/fast_impl.h"
#include "yardstick.h"

/*
 *     bench_conv [UNIT [BATCH BATCH]]
 *
 * Each convolution of ResNet-20, ResNet-110 and Inception-BN for CIFAR runs by itself: forward,
 * backward to the weights, and backward to the inputs, which is the time of both passes less that
 * of the weights. Slices of these and of a loop of multiply-adds alternate. A share is nominal
 * operations, as direct sums have them, a second of CPU time over those of the loop: the median of
 * the rounds. UNIT names the kernels, such as avx2; without it they are the processor's best.
 */

enum { MAX_BATCH = 128, ROUNDS = 5, PEAK_ROUNDS = 100000, BATCHES = 2, SHAPES = 100 };
enum { FORWARD, INPUTS, WEIGHTS, PASSES };

static const double SLICE_S = 0.02, PEAK_SLICE_S = 0.01;
static const double goals[PASSES] = {0.80, 0.70, 0.70};
static size_t batches[BATCHES] = {32, MAX_BATCH};
static const char *const models[] = {"resnet20", "resnet110", "inception-bn-cifar"};

extern const fedtrain_backend_vtable fedtrain_backend_fast;

static const fedtrain_kernels *kernels;

/* One convolution behind a layer that has parameters, so that its inputs have a gradient. */
typedef struct bench {
    fed_arch arch;
    fast_net *net;
    fast_node *node;
    bool reads_picture; /* the net's first convolution: nobody asks for its inputs' gradient */
    size_t batch;
    float *params, *grad;
} bench;

static void fill(float *values, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < n; i++) {
        values[i] = fed_rng_float(&rng) - 0.5F;
    }
}

static void make_net(const fed_layer *l, bench *b) {
    char text[200];
    fed_error err = {0};
    void *net = NULL;
    snprintf(text, sizeof text,
             "input %ux%ux%u | bn | conv %u %u stride %u pad %u | avgpool | dense 10",
             (unsigned)l->in.c, (unsigned)l->in.h, (unsigned)l->in.w, (unsigned)l->out.c,
             (unsigned)l->kh, (unsigned)l->stride, (unsigned)l->pad);
    bench_require(fed_arch_parse(text, &b->arch, &err), err.text);
    bench_require(fedtrain_fast_open(&b->arch, MAX_BATCH, kernels, &net), "net");
    b->net = net;
    b->node = &b->net->nodes[1];
    b->params = bench_alloc(b->arch.layout.size * sizeof *b->params);
    b->grad = bench_alloc(b->arch.layout.size * sizeof *b->grad);
    fed_arch_init_values(&b->arch, 1, b->params);
    fill(b->node->in[0]->data, MAX_BATCH * b->node->in[0]->size);
    fill(b->node->out->grad, MAX_BATCH * b->node->out->size);
}

static void free_net(bench *b) {
    fedtrain_backend_fast.close(b->net);
    free(b->params);
    free(b->grad);
    fed_arch_free(&b->arch);
}

static void run_pass(bench *b, int pass) {
    const fedtrain_pass how = {.params = b->params, .batch = b->batch, .training = true};
    const fast_flow flow = {.pass = &how, .grad = b->grad};
    float *inputs = b->node->in[0]->grad;
    if (pass == FORWARD) {
        b->node->op->forward(b->net, b->node, &how);
        return;
    }
    b->node->in[0]->grad = pass == WEIGHTS ? NULL : inputs;
    b->node->op->backward(b->net, b->node, &flow);
    b->node->in[0]->grad = inputs;
}

/* Seconds of one pass; INPUTS: of both backward passes. */
static double pass_seconds(bench *b, int pass) {
    const int64_t begin_us = fed_clock_thread_cpu_us();
    size_t passes = 0;
    int64_t us;
    do {
        run_pass(b, pass);
        passes++;
        us = fed_clock_thread_cpu_us() - begin_us;
    } while ((double)us < 1e6 * SLICE_S);
    return 1e-6 * (double)us / (double)passes;
}

static double peak(void) {
    const int64_t begin_us = fed_clock_thread_cpu_us();
    double done = 0;
    int64_t us;
    do {
        done += yardstick_multiply_adds(kernels->isa, PEAK_ROUNDS);
        us = fed_clock_thread_cpu_us() - begin_us;
    } while ((double)us < 1e6 * PEAK_SLICE_S);
    return 1e6 * done / (double)us;
}

static void print_share(const double *shares, int pass) {
    const double share = bench_median(shares, ROUNDS);
    printf(" %.0f%s |", 100 * share, share >= goals[pass] ? "" : " missed");
}

static void run_batch(bench *b) {
    const fed_layer *l = b->node->layer;
    const double places = (double)l->out.h * l->out.w * (double)b->batch;
    const double work = 2 * places * (double)b->arch.layout.tensors[l->weight].size;
    double share[PASSES][ROUNDS];
    run_pass(b, FORWARD);
    for (size_t r = 0; r < ROUNDS; r++) {
        const double forward_s = pass_seconds(b, FORWARD), both_s = pass_seconds(b, INPUTS);
        const double weights_s = pass_seconds(b, WEIGHTS), most = peak();
        share[FORWARD][r] = work / forward_s / most;
        share[WEIGHTS][r] = work / weights_s / most;
        share[INPUTS][r] = work / (both_s - weights_s) / most;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        if (pass == INPUTS && b->reads_picture) {
            printf("  |");
        } else {
            print_share(share[pass], pass);
        }
    }
}

static bool same(const fed_layer *a, const fed_layer *b) {
    return memcmp(&a->in, &b->in, sizeof a->in) == 0 && a->out.c == b->out.c && a->kh == b->kh &&
           a->stride == b->stride && a->pad == b->pad;
}

static void run_layer(const fed_layer *l, const char *model, bool first) {
    bench b = {.reads_picture = first};
    make_net(l, &b);
    printf("| %s | %ux%u | %u, %u | %ux%u%s |", model, (unsigned)l->in.h, (unsigned)l->in.w,
           (unsigned)l->in.c, (unsigned)l->out.c, (unsigned)l->kh, (unsigned)l->kw,
           l->stride > 1 ? ", stride 2" : "");
    for (size_t i = 0; i < BATCHES; i++) {
        b.batch = batches[i];
        run_batch(&b);
    }
    printf("\n");
    free_net(&b);
}

/* Run the convolutions of a model whose shape has not been seen. */
static void run_model(const char *model, fed_layer seen[SHAPES], size_t *count) {
    fed_arch arch;
    fed_error err = {0};
    bench_require(fed_arch_parse(model, &arch, &err), err.text);
    for (size_t k = 0; k < arch.layer_count; k++) {
        const fed_layer *l = &arch.layers[k];
        bool is_new = l->kind == FED_LAYER_CONV && *count < SHAPES;
        for (size_t i = 0; i < *count; i++) {
            is_new = is_new && !same(l, &seen[i]);
        }
        if (is_new) {
            seen[(*count)++] = *l;
            run_layer(l, model, l->input[0] == 0);
        }
    }
    fed_arch_free(&arch);
}

int main(int argc, char **argv) {
    static fed_layer seen[SHAPES];
    size_t count = 0, unit = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    do {
        kernels = fedtrain_kernels_get(unit++);
        bench_require(kernels != NULL ? FED_OK : FED_EINVAL, "no such kernels here");
    } while (argc > 1 && strcmp(kernels->isa, argv[1]) != 0);
    for (int i = 0; argc > 2 + BATCHES - 1 && i < BATCHES; i++) {
        batches[i] = (size_t)strtoul(argv[2 + i], NULL, 10);
        bench_require(batches[i] > 0 && batches[i] <= MAX_BATCH ? FED_OK : FED_EINVAL, "a batch");
    }
    printf("%s, peak %.0f G operations a second\n\n", kernels->isa, 1e-9 * peak());
    printf("| first in | picture | channels | kernel |");
    for (size_t i = 0; i < BATCHES; i++) {
        printf(" %zu: forward | inputs | weights |", batches[i]);
    }
    printf("\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        run_model(models[m], seen, &count);
    }
    return 0;
}
