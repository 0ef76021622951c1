/* Measure how near a convolution is to the processor's bound of multiply-adds, in one thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedclient/train/kernels.h"
#include "fedtrain/net.h"
#include "yardstick.h"

/*
 *     bench_conv
 *
 * A net of DEEP convolutions of one shape runs forward, and forward and backward. The difference is
 * the backward passes, for the input and for the weights. Slices of both and of a loop of
 * multiply-adds alternate. A share is nominal operations a second of CPU time over those of the
 * loop: the median of the rounds.
 */

enum { DEEP = 8, MAX_BATCH = 128, ROUNDS = 9, PEAK_ROUNDS = 100000 };

static const double SLICE_S = 0.1, PEAK_SLICE_S = 0.02, FORWARD_GOAL = 0.80, BACKWARD_GOAL = 0.70;

/* Convolutions that keep the picture's size. Where `in` and `out` differ, every second one leads
 * back. */
typedef struct shape {
    const char *nets;
    unsigned side, in, out, kernel;
} shape;

static const shape shapes[] = {
    {"resnet20, resnet110: layer1", 32, 16, 16, 3}, {"resnet20, resnet110: layer2", 16, 32, 32, 3},
    {"resnet20, resnet110: layer3", 8, 64, 64, 3},  {"inception-bn-cifar: 3a", 32, 96, 32, 3},
    {"inception-bn-cifar: 3a", 32, 96, 32, 1},      {"inception-bn-cifar: 4a", 16, 160, 48, 3},
    {"inception-bn-cifar: 4a", 16, 160, 112, 1},    {"inception-bn-cifar: 5a", 8, 240, 160, 3},
    {"inception-bn-cifar: 5b", 8, 336, 176, 1},
};

typedef struct bench {
    fed_arch arch;
    fedtrain_net *net;
    size_t batch;
    float *params, *grad, *score, *x;
    uint32_t *label;
} bench;

static void make_net(const shape *s, bench *b) {
    char text[1024];
    int len = snprintf(text, sizeof text, "input %ux%ux%u", s->in, s->side, s->side);
    for (unsigned i = 0; i < DEEP; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, " | conv %u %u pad %u",
                        i % 2 == 0 ? s->out : s->in, s->kernel, s->kernel / 2);
    }
    snprintf(text + len, sizeof text - (size_t)len, " | avgpool | dense 10");
    fed_error err = {0};
    bench_require(fed_arch_parse(text, &b->arch, &err), err.text);
    bench_require(fedtrain_net_new(&b->arch, MAX_BATCH, NULL, &b->net, NULL), "net");
    const size_t values = MAX_BATCH * (size_t)s->in * s->side * s->side;
    b->params = bench_alloc(b->arch.layout.size * sizeof *b->params);
    b->grad = bench_alloc(b->arch.layout.size * sizeof *b->grad);
    b->score = bench_alloc(MAX_BATCH * b->arch.classes * sizeof *b->score);
    b->x = bench_alloc(values * sizeof *b->x);
    b->label = bench_alloc(MAX_BATCH * sizeof *b->label);
    fed_arch_init_values(&b->arch, 1, b->params);
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < values; i++) {
        b->x[i] = fed_rng_float(&rng);
    }
    for (size_t i = 0; i < MAX_BATCH; i++) {
        b->label[i] = (uint32_t)(i % b->arch.classes);
    }
}

static void free_net(bench *b) {
    fedtrain_net_free(b->net);
    free(b->params);
    free(b->grad);
    free(b->score);
    free(b->x);
    free(b->label);
    fed_arch_free(&b->arch);
}

/* The multiplications and additions of the convolutions, forward, for one sample. */
static double operations(const fed_arch *arch) {
    double sum = 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        if (layer->kind == FED_LAYER_CONV) {
            const double places = (double)layer->out.h * layer->out.w;
            sum += 2 * places * (double)arch->layout.tensors[layer->weight].size;
        }
    }
    return sum;
}

/* The first convolution has no gradient of its input. */
static double backward_operations(const fed_arch *arch) {
    return operations(arch) * (2.0 - 1.0 / DEEP);
}

static double batch_seconds(bench *b, bool backward) {
    const fedtrain_batch samples = {.size = b->batch, .x = b->x, .label = b->label};
    const int64_t begin_us = fed_clock_thread_cpu_us();
    size_t batches = 0;
    int64_t us;
    do {
        fed_error err = {0};
        float loss;
        bench_require(backward
                          ? fedtrain_net_gradient(b->net, b->params, &samples, b->grad, &loss, &err)
                          : fedtrain_net_forward(b->net, b->params, &samples, b->score, &err),
                      err.text);
        batches++;
        us = fed_clock_thread_cpu_us() - begin_us;
    } while ((double)us < 1e6 * SLICE_S);
    return 1e-6 * (double)us / (double)batches;
}

static double peak(void) {
    const char *unit = fedtrain_kernels_best()->isa;
    const int64_t begin_us = fed_clock_thread_cpu_us();
    double done = 0;
    int64_t us;
    do {
        done += yardstick_multiply_adds(unit, PEAK_ROUNDS);
        us = fed_clock_thread_cpu_us() - begin_us;
    } while ((double)us < 1e6 * PEAK_SLICE_S);
    return 1e6 * done / (double)us;
}

static void print_share(double share, double goal) {
    printf(" %3.0f %% %-6s |", 100 * share, share >= goal ? "met" : "missed");
}

static void run_batch(bench *b, const shape *s, size_t batch) {
    double forward[ROUNDS], backward[ROUNDS];
    b->batch = batch;
    for (size_t r = 0; r < ROUNDS; r++) {
        const double ahead_s = batch_seconds(b, false), both_s = batch_seconds(b, true);
        const double most = peak(), samples = (double)batch;
        forward[r] = samples * operations(&b->arch) / ahead_s / most;
        backward[r] = samples * backward_operations(&b->arch) / (both_s - ahead_s) / most;
    }
    printf("| %-27s | %ux%u | %3u, %3u | %ux%u | %3zu |", s->nets, s->side, s->side, s->in, s->out,
           s->kernel, s->kernel, batch);
    print_share(bench_median(forward, ROUNDS), FORWARD_GOAL);
    print_share(bench_median(backward, ROUNDS), BACKWARD_GOAL);
    printf("\n");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s, peak %.0f G operations a second\n\n", fedtrain_kernels_best()->isa, 1e-9 * peak());
    printf("| layers | picture | channels | kernel | batch | forward, goal %.2f | backward, goal "
           "%.2f |\n|---|---|---|---|---|---|---|\n",
           FORWARD_GOAL, BACKWARD_GOAL);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        bench b = {0};
        make_net(&shapes[i], &b);
        run_batch(&b, &shapes[i], 1);
        run_batch(&b, &shapes[i], 32);
        run_batch(&b, &shapes[i], MAX_BATCH);
        free_net(&b);
    }
    return 0;
}
