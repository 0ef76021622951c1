/* Training speed of the demo's network: steps by batch and optimizer, beside two yardsticks; and
 * the optimizers alone. */
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
 * backward, gradient written and read, optimizer state read and written), copied by memcpy. For an
 * optimizer alone: each array that it reads or writes, as often.
 */

enum { SLICE_US = 200 * 1000, SLICES = 5, MAX_BATCH = 32 };

typedef struct bench {
    fed_arch arch;
    fedtrain_net *fast, *reference;
    float *params, *state, *grad, *x;
    char *from, *to;
    uint32_t label[MAX_BATCH];
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
    b->state = zeros(3 * n + 6, sizeof(float));
    b->grad = zeros(n, sizeof(float));
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
        b->label[i] = (uint32_t)(i % b->arch.classes);
    }
}

static void finish(bench *b) {
    fedtrain_net_free(b->fast);
    fedtrain_net_free(b->reference);
    free(b->params);
    free(b->state);
    free(b->grad);
    free(b->x);
    free(b->from);
    free(b->to);
    fed_arch_free(&b->arch);
}

static void step(bench *b, fedtrain_net *net, const fed_optimizer *rule, size_t batch) {
    float loss;
    fed_error err = {0};
    const fedtrain_batch samples = {.size = batch, .x = b->x, .label = b->label};
    must(fedtrain_net_step(net, rule, b->params, b->state, &samples, &loss, &err), err.text);
}

/* Parameter-sized arrays that an optimizer reads and writes: w in and out, g in, its state in and
 * out, w0 in. */
static size_t arrays_moved(const fed_optimizer *o) {
    size_t moments = o->rule == FED_SGD ? 0 : o->rule == FED_MOMENTUM ? 1 : 2;
    return 3 + 2 * moments + (o->prox_mu > 0 ? 1 : 0) + (o->clip_norm > 0 ? 2 : 0);
}

typedef enum work { FAST, REFERENCE, TRAFFIC, WORKS } work;

enum { ALONE = 0 }; /* a batch of 0: the optimizer, without the net */

static void run(bench *b, work what, const fed_optimizer *rule, size_t batch) {
    size_t n = b->arch.layout.size, net = batch == ALONE ? 0 : 3; /* w read twice, g written */
    size_t bytes = (arrays_moved(rule) + net) * n * sizeof(float) / 2;
    switch (what) {
    case FAST:
        if (batch == ALONE) {
            fedtrain_optimizer_step(rule, b->state, b->params, b->grad, n);
            break;
        }
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
static double slice_us(bench *b, work what, const fed_optimizer *rule, size_t batch) {
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

/* The median time of each kind of work that `works` has a bit for. */
static void measure(bench *b, const char *optimizer, size_t batch, unsigned works,
                    double median[WORKS]) {
    fed_error err = {0};
    fed_optimizer rule;
    must(fed_optimizer_parse(optimizer, 1e-4F, &rule, &err), err.text);
    double us[WORKS][SLICES] = {{0}};
    for (size_t s = 0; s < SLICES; s++) {
        for (work w = FAST; w < WORKS; w++) {
            us[w][s] = works & 1U << w ? slice_us(b, w, &rule, batch) : 0;
        }
    }
    for (work w = FAST; w < WORKS; w++) {
        qsort(us[w], SLICES, sizeof us[w][0], by_size);
        median[w] = us[w][SLICES / 2];
    }
    memset(b->state, 0, (3 * b->arch.layout.size + 6) * sizeof *b->state);
}

static void row(bench *b, const char *optimizer, size_t batch) {
    double us[WORKS];
    measure(b, optimizer, batch, 1U << FAST | 1U << REFERENCE | 1U << TRAFFIC, us);
    double fast = us[FAST], reference = us[REFERENCE], traffic = us[TRAFFIC];
    printf("%-9s %5zu %10.1f %12.0f %12.1f %12.2f\n", optimizer, batch, fast,
           1e6 * (double)batch / fast, reference / fast, fast / traffic);
}

static void row_alone(bench *b, const char *optimizer) {
    double us[WORKS];
    measure(b, optimizer, ALONE, 1U << FAST | 1U << TRAFFIC, us);
    printf("%-34s %8.1f %10.3f %10.2f\n", optimizer, us[FAST],
           1e3 * us[FAST] / (double)b->arch.layout.size, us[FAST] / us[TRAFFIC]);
}

static void optimizers_alone(bench *b) {
    static const char *const optimizers[] = {"sgd",
                                             "momentum",
                                             "momentum:nesterov=1,decay=1e-4",
                                             "adam",
                                             "adamw",
                                             "adamw+clip:value=1",
                                             "adam+prox:mu=0.01",
                                             "adam+clip:norm=1"};
    fed_rng rng;
    fed_rng_init(&rng, 4, 5, 6);
    for (size_t i = 0; i < b->arch.layout.size; i++) {
        b->grad[i] = fed_rng_float(&rng) - 0.5F;
    }
    printf("\n%-34s %8s %10s %10s\n", "optimizer alone", "us/step", "ns/param", "/ traffic");
    for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
        row_alone(b, optimizers[o]);
    }
}

int main(int argc, char **argv) {
    bench b = {0};
    start(&b, argc > 1 ? argv[1] : "lenet5-caffe");
    printf("%s\n%zu parameters, kernels %s, net %zu bytes; median of %d slices of %d ms CPU\n\n",
           b.arch.text, b.arch.layout.size, fedtrain_isa(), fedtrain_net_memory(b.fast).total,
           SLICES, SLICE_US / 1000);
    printf("%-9s %5s %10s %12s %12s %12s\n", "optimizer", "batch", "us/step", "samples/s",
           "x reference", "/ traffic");
    static const char *const optimizers[] = {"sgd", "adam"};
    static const size_t batches[] = {2, 8, 32};
    for (size_t o = 0; o < 2; o++) {
        for (size_t k = 0; k < 3; k++) {
            row(&b, optimizers[o], batches[k]);
        }
    }
    optimizers_alone(&b);
    finish(&b);
    return 0;
}
