/* Training speed of the demo's network: steps by batch and optimizer, beside two yardsticks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/optimizer.h"

/*
 * Yardsticks, measured between the slices of the same run, so that a busy machine slows all alike:
 * reference: the plain loops. traffic: the bytes that a step can't avoid (weights read forward and
 * backward, gradient written and read, optimizer state read and written), copied by memcpy.
 */

enum { SLICE_US = 200 * 1000, SLICES = 5, MAX_BATCH = 32 };

typedef struct bench {
    fed_arch arch;
    fedtrain_net *fast, *reference;
    float *params, *state, *x;
    char *from, *to;
    uint8_t label[MAX_BATCH];
} bench;

static void must(fed_status status, const char *what) {
    if (status != FED_OK) {
        fprintf(stderr, "bench_train: %s: %s\n", what, fed_status_text(status));
        exit(1);
    }
}

static void *zeros(size_t n, size_t size) {
    void *memory = calloc(n, size);
    must(memory != NULL ? FED_OK : FED_ENOMEM, "memory");
    return memory;
}

static void start(bench *b, const char *model) {
    fed_error err = {0};
    must(fed_arch_parse(model, &b->arch, &err), err.text);
    size_t n = b->arch.layout.size;
    size_t pixels = (size_t)b->arch.input.c * b->arch.input.h * b->arch.input.w;
    must(fedtrain_net_new(&b->arch, MAX_BATCH, FEDTRAIN_FAST, &b->fast), "net");
    must(fedtrain_net_new(&b->arch, MAX_BATCH, FEDTRAIN_REFERENCE, &b->reference), "net");
    b->params = zeros(n, sizeof(float));
    b->state = zeros(2 * n + 1, sizeof(float));
    b->x = zeros(MAX_BATCH * pixels, sizeof(float));
    b->from = zeros(n, 10 * sizeof(float));
    b->to = zeros(n, 10 * sizeof(float));
    fed_arch_init_values(&b->arch, 1, b->params);
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < MAX_BATCH * pixels; i++) {
        b->x[i] = fed_rng_float(&rng);
    }
    for (size_t i = 0; i < MAX_BATCH; i++) {
        b->label[i] = (uint8_t)(i % b->arch.classes);
    }
}

static void finish(bench *b) {
    fedtrain_net_free(b->fast);
    fedtrain_net_free(b->reference);
    free(b->params);
    free(b->state);
    free(b->x);
    free(b->from);
    free(b->to);
    fed_arch_free(&b->arch);
}

static void step(bench *b, fedtrain_net *net, const fedtrain_optimizer *rule, size_t batch) {
    float loss;
    must(fedtrain_net_step(net, rule, b->params, b->state, b->x, b->label, batch, &loss), "step");
}

/* Parameter-sized arrays that a step moves: w twice, g out and in, w in and out, moments too. */
static size_t arrays_moved(fedtrain_rule rule) {
    return rule == FEDTRAIN_ADAM ? 10 : rule == FEDTRAIN_MOMENTUM ? 8 : 6;
}

typedef enum work { FAST, REFERENCE, TRAFFIC, WORKS } work;

static void run(bench *b, work what, const fedtrain_optimizer *rule, size_t batch) {
    size_t bytes = arrays_moved(rule->rule) / 2 * b->arch.layout.size * sizeof(float);
    switch (what) {
    case FAST:
        step(b, b->fast, rule, batch);
        break;
    case REFERENCE:
        step(b, b->reference, rule, batch);
        break;
    case TRAFFIC:
        memcpy(b->to, b->from, bytes); /* reads and writes each byte */
        b->from[0] = b->to[bytes - 1];
        break;
    case WORKS:
        break;
    }
}

/* CPU time of one step, over one slice. */
static double slice_us(bench *b, work what, const fedtrain_optimizer *rule, size_t batch) {
    int64_t begin = fed_clock_thread_cpu_us(), now;
    size_t steps = 0;
    do {
        run(b, what, rule, batch);
        steps++;
        now = fed_clock_thread_cpu_us();
    } while (now - begin < SLICE_US);
    return (double)(now - begin) / (double)steps;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void row(bench *b, const char *optimizer, size_t batch) {
    fed_error err = {0};
    fedtrain_optimizer rule;
    must(fedtrain_optimizer_parse(optimizer, 1e-4F, &rule, &err), err.text);
    double us[WORKS][SLICES];
    for (size_t s = 0; s < SLICES; s++) {
        for (work w = FAST; w < WORKS; w++) {
            us[w][s] = slice_us(b, w, &rule, batch);
        }
    }
    for (work w = FAST; w < WORKS; w++) {
        qsort(us[w], SLICES, sizeof us[w][0], by_size);
    }
    double fast = us[FAST][SLICES / 2], reference = us[REFERENCE][SLICES / 2],
           traffic = us[TRAFFIC][SLICES / 2];
    printf("%-9s %5zu %10.1f %12.0f %12.1f %12.2f\n", optimizer, batch, fast,
           1e6 * (double)batch / fast, reference / fast, fast / traffic);
    memset(b->state, 0, (2 * b->arch.layout.size + 1) * sizeof *b->state);
}

int main(int argc, char **argv) {
    bench b = {0};
    start(&b, argc > 1 ? argv[1] : "lenet5-caffe");
    printf("%s\n%zu parameters, kernels %s, net %zu bytes; median of %d slices of %d ms CPU\n\n",
           b.arch.text, b.arch.layout.size, fedtrain_isa(), fedtrain_net_memory(b.fast), SLICES,
           SLICE_US / 1000);
    printf("%-9s %5s %10s %12s %12s %12s\n", "optimizer", "batch", "us/step", "samples/s",
           "x reference", "/ traffic");
    static const char *const optimizers[] = {"sgd", "adam"};
    static const size_t batches[] = {2, 8, 32};
    for (size_t o = 0; o < 2; o++) {
        for (size_t k = 0; k < 3; k++) {
            row(&b, optimizers[o], batches[k]);
        }
    }
    finish(&b);
    return 0;
}
