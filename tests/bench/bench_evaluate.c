/* Measure how fast models are tested, beside how fast they are trained, in one thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedclient/train/backend_vtable.h"
#include "fedtrain/train.h"

/*
 *     bench_evaluate [BACKEND [BATCH ...]]
 *
 * Slices of training steps, TRAIN_BATCH samples each, and of tests of the same model alternate.
 * Speeds are samples a second of CPU time, and the ratio is the median of the rounds' ratios. With
 * batches, tests run with each of them; without, with that of fedsim.
 */

enum { TRAIN_BATCH = 32, STEPS = 4, BATCH = 100, MOST = 500, ROUNDS = 7 };

static const double SLICE_S = 0.1, GOAL = 4;

static const char *backend; /* "fast", "bfloat16" */
static const char *const models[] = {"lr", "mlp", "lenet5-caffe", "resnet20"};

typedef struct bench {
    fed_arch arch;
    fed_optimizer rule;
    fedtrain_net *train, *test;
    size_t test_batch;
    float *params, *state, *x;
    uint32_t index[MOST];
    fedtrain_dataset set;
    fedtrain_shard shard;
} bench;

static void open_model(const char *name, size_t test_batch, bench *b) {
    fed_error err = {0};
    bench_require(fed_arch_parse(name, &b->arch, &err), err.text);
    bench_require(fed_optimizer_parse("momentum:lr=0.0001", 0.01F, &b->rule, &err), err.text);
    bench_require(fedtrain_net_new(&b->arch, TRAIN_BATCH, backend, &b->train, &err), err.text);
    bench_require(fedtrain_net_new(&b->arch, test_batch, backend, &b->test, &err), err.text);
    const size_t size = fedtrain_shape_size(b->arch.input);
    b->test_batch = test_batch;
    b->params = bench_alloc(b->arch.layout.size * sizeof *b->params);
    b->state =
        bench_alloc(fedtrain_optimizer_state_size(&b->rule, b->arch.trained) * sizeof(float));
    b->x = bench_alloc(MOST * size * sizeof *b->x);
    b->set = (fedtrain_dataset){
        .count = MOST,
        .shape = b->arch.input,
        .classes = (uint32_t)b->arch.classes,
        .label = bench_alloc(MOST),
        .is_float = true,
        .block_count = 1,
        .block = {{.first = (const uint8_t *)b->x, .count = MOST, .stride = size * sizeof *b->x}}};
    b->shard = (fedtrain_shard){.index = b->index, .count = MOST};
    fed_arch_init_values(&b->arch, 1, b->params);
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < MOST * size; i++) {
        b->x[i] = fed_rng_float(&rng);
    }
    for (size_t i = 0; i < MOST; i++) {
        b->set.label[i] = (uint8_t)(i % b->arch.classes);
        b->index[i] = (uint32_t)i;
    }
}

static void close_model(bench *b) {
    fedtrain_net_free(b->train);
    fedtrain_net_free(b->test);
    free(b->params);
    free(b->state);
    free(b->x);
    free(b->set.label);
    fed_arch_free(&b->arch);
}

static size_t train_once(bench *b) {
    fed_error err = {0};
    float loss;
    const fedtrain_job job = {.net = b->train,
                              .optimizer = b->rule,
                              .set = &b->set,
                              .shard = &b->shard,
                              .steps = STEPS,
                              .batch = TRAIN_BATCH};
    bench_require(fedtrain_run(&job, b->params, b->state, &loss, &err), err.text);
    return STEPS * TRAIN_BATCH;
}

static size_t test_once(bench *b) {
    fed_error err = {0};
    fedtrain_score score;
    bench_require(fedtrain_evaluate(b->test, b->test_batch, &b->set, b->params, &score, &err),
                  err.text);
    return MOST;
}

/* Samples a second of CPU time. */
static double speed(bench *b, size_t (*work)(bench *b)) {
    const int64_t begin_us = fed_clock_thread_cpu_us();
    size_t samples = 0;
    int64_t us;
    do {
        samples += work(b);
        us = fed_clock_thread_cpu_us() - begin_us;
    } while ((double)us < 1e6 * SLICE_S);
    return 1e6 * (double)samples / (double)us;
}

static void measure(const char *name, size_t test_batch) {
    bench b = {0};
    double train[ROUNDS], test[ROUNDS], ratio[ROUNDS];
    open_model(name, test_batch, &b);
    for (size_t r = 0; r < ROUNDS; r++) {
        train[r] = speed(&b, train_once);
        test[r] = speed(&b, test_once);
        ratio[r] = test[r] / train[r];
    }
    const double times = bench_median(ratio, ROUNDS);
    printf("| %-12s | %6.0f | %3zu | %7.0f | %4.2f %s |\n", name, bench_median(train, ROUNDS),
           test_batch, bench_median(test, ROUNDS), times, times >= GOAL ? "met" : "missed");
    close_model(&b);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    backend = argc > 1 ? argv[1] : "fast";
    printf("%s\n\n", fedtrain_isa(backend));
    printf("| model | training: samples/s | batch of tests | tests: samples/s | ratio, goal %.0f "
           "|\n|---|---|---|---|---|\n",
           GOAL);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (int k = 2; k < argc; k++) {
            measure(models[i], (size_t)strtoul(argv[k], NULL, 10));
        }
        if (argc < 3) {
            measure(models[i], BATCH);
        }
    }
    return 0;
}
