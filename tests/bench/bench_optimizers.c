/* Measure the speed of optimizers, compared with that of the same memory traffic. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/optimizer_spec.h"
#include "fed/rng.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"
#include "yardstick.h"

/*
 *     bench_optimizers [PARAMETERS]
 *
 * A step reads and writes the weights and the optimizer's state, and reads the gradient. The
 * yardstick reads and writes as many arrays without computing.
 */

enum { PARAMETERS = 431080, ROUNDS = 301 }; /* PARAMETERS: of lenet5-caffe */

typedef struct bench {
    size_t n;
    float *w, *g, *state;
} bench;

/* The traffic of a step: read and write w and the moments; read g, w0 for the proximal term, and w
 * and g again to clip by norm. */
static void traffic(const bench *b, const fed_optimizer *o) {
    size_t moments = o->rule == FED_SGD ? 0 : o->rule == FED_MOMENTUM ? 1 : 2;
    size_t reads = 1U + (o->prox_mu > 0 ? 1 : 0) + (o->clip_norm > 0 ? 2 : 0);
    for (size_t k = 0; k < 1 + moments; k++) {
        yardstick_rewrite(fedtrain_isa(NULL), k == 0 ? b->w : b->state + (k - 1) * b->n, b->n);
    }
    for (size_t k = 0; k < reads; k++) {
        yardstick_read(fedtrain_isa(NULL), k % 2 == 0 ? b->g : b->state + 2 * b->n, b->n);
    }
}

static void run(bench *b, const char *spec, const char *goal) {
    fed_error err = {0};
    fed_optimizer rule;
    bench_require(fed_optimizer_parse(spec, 1e-4F, &rule, &err), err.text);
    bench_times step = {.count = 0}, touch = {.count = 0};
    memset(b->state, 0, fedtrain_optimizer_state_size(&rule, b->n) * sizeof(float));
    for (int r = 0; r < ROUNDS; r++) {
        BENCH_TIME(&step, fedtrain_optimizer_step(&rule, b->state, b->w, b->g, b->n));
        BENCH_TIME(&touch, traffic(b, &rule));
    }
    double took = bench_median_s(&step);
    printf("| %-30s | %8.1f | %8.3f | %9.2f | %-4s |\n", spec, 1e6 * took,
           1e9 * took / (double)b->n, took / bench_median_s(&touch), goal);
}

int main(int argc, char **argv) {
    static const char *const others[] = {"sgd",
                                         "momentum",
                                         "momentum:nesterov=1,decay=1e-4",
                                         "adamw",
                                         "adamw+clip:value=1",
                                         "adam+prox:mu=0.01",
                                         "adam+clip:norm=1"};
    bench b = {.n = argc > 1 ? strtoul(argv[1], NULL, 10) : PARAMETERS};
    bench_require(b.n > 0 ? FED_OK : FED_EINVAL, "bench_optimizers [PARAMETERS]");
    b.w = bench_alloc(b.n * sizeof(float));
    b.g = bench_alloc(b.n * sizeof(float));
    b.state = bench_alloc((3 * b.n + 6) * sizeof(float));
    fed_rng rng;
    fed_rng_init(&rng, 4, 5, 6);
    for (size_t i = 0; i < b.n; i++) {
        b.w[i] = fed_rng_float(&rng) - 0.5F;
        b.g[i] = fed_rng_float(&rng) - 0.5F;
    }
    printf("%zu parameters, %s, medians of %d steps\n\n", b.n, fedtrain_isa(NULL), ROUNDS);
    printf("| optimizer | us a step | ns a parameter | times its traffic | goal |\n"
           "|---|---|---|---|---|\n");
    run(&b, "adam", "1.3");
    for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
        run(&b, others[o], "");
    }
    free(b.w);
    free(b.g);
    free(b.state);
    return 0;
}
