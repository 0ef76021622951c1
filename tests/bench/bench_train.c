/* Measure how fast nets train, compared with PyTorch, in one thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fedclient/train/kernels.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"
#include "torch_peer.h"
#include "yardstick.h"

/*
 *     bench_train [NET ...]
 *
 * Short slices of three programs alternate: our trainer with several kernels, PyTorch in several
 * ways (of which the fastest counts) with the same vector units, and a loop of multiply-adds.
 * Speeds are samples per second of CPU time. A ratio is the median of the rounds' ratios. A goal is
 * a least ratio.
 */

enum { MAX_BATCH = 32, ROUNDS = 11, BATCHES = 3, UNITS = 2, PEAK_ROUNDS = 100000 };

static const double SLICE_S = 0.1, PEAK_SLICE_S = 0.01;
static const size_t batches[BATCHES] = {2, 8, MAX_BATCH};

typedef struct net {
    const char *name, *text;
    double goal[BATCHES];
} net;

#define CONVS_16 "conv 16 3 pad 1 | relu | conv 16 3 pad 1 | relu | "
#define CONVS_32 "conv 32 3 pad 1 | relu | conv 32 3 pad 1 | relu | "
#define CONVS_64 "conv 64 3 pad 1 | relu | conv 64 3 pad 1 | relu | "

static const net nets[] = {
    {"lenet5-caffe", "lenet5-caffe", {3.0, 2.0, 1.5}},
    {"hdc", "hdc", {3.0, 2.5, 1.5}},
    {"resnet20-convs",
     "input 3x32x32 | conv 16 3 pad 1 | relu | " CONVS_16 CONVS_16 CONVS_16
     "conv 32 3 stride 2 pad 1 | relu | conv 32 3 pad 1 | relu | " CONVS_32 CONVS_32
     "conv 64 3 stride 2 pad 1 | relu | conv 64 3 pad 1 | relu | " CONVS_64 CONVS_64
     "avgpool | dense 10",
     {1.3, 1.1, 1.0}},
};

/* The programs that alternate: PyTorch in several ways, our trainer, the same with products of
 * bfloat16, and a loop of multiply-adds. */
enum { WAYS = 4, OURS = WAYS, BFLOAT16, PEAK, TURNS };

static const char *const ways[WAYS] = {"nchw", "nhwc", "nchw-compiled", "nhwc-compiled"};

/* A vector unit, to which the trainers are limited. */
typedef struct side {
    const fedtrain_kernels *kernels;
    fedtrain_net *net, *bfloat16; /* bfloat16: NULL on other units than the first */
    torch_peer torch;
    double rate[TURNS][ROUNDS];
} side;

typedef struct bench {
    size_t side_count;
    side sides[UNITS];
    fed_arch arch;
    fed_optimizer rule;
    size_t batch;
    float *params, *state, *x;
    uint32_t label[MAX_BATCH];
} bench;

/* Replaces the trainer's choice of kernels, by the linker's option --wrap. */

static const fedtrain_kernels *chosen;

const fedtrain_kernels *__wrap_fedtrain_kernels_best(void);

const fedtrain_kernels *__wrap_fedtrain_kernels_best(void) {
    return chosen;
}

static double ours_slice(bench *b, const side *s, fedtrain_net *engine) {
    const fedtrain_batch samples = {.size = b->batch, .x = b->x, .label = b->label};
    const int64_t end_ms = fed_clock_monotonic_ms() + (int64_t)(1e3 * SLICE_S);
    const int64_t begin_us = fed_clock_thread_cpu_us();
    size_t steps = 0;
    chosen = s->kernels;
    do {
        fed_error err = {0};
        float loss;
        fed_status status =
            fedtrain_net_step(engine, &b->rule, b->params, b->state, &samples, &loss, &err);
        bench_require(status, err.text);
        steps++;
    } while (fed_clock_monotonic_ms() < end_ms);
    return 1e6 * (double)(steps * b->batch) / (double)(fed_clock_thread_cpu_us() - begin_us);
}

static double peak_slice(const side *s) {
    int64_t begin = fed_clock_thread_cpu_us(), us;
    double operations = 0;
    do {
        operations += yardstick_multiply_adds(s->kernels->isa, PEAK_ROUNDS);
        us = fed_clock_thread_cpu_us() - begin;
    } while ((double)us < 1e6 * PEAK_SLICE_S);
    return 1e6 * operations / (double)us;
}

static double take_turn(bench *b, side *s, size_t who) {
    if (who == OURS) {
        return ours_slice(b, s, s->net);
    }
    if (who == BFLOAT16) {
        return s->bfloat16 == NULL ? 0 : ours_slice(b, s, s->bfloat16);
    }
    if (who == PEAK) {
        return peak_slice(s);
    }
    return s->torch.pid == 0 ? 0 : torch_peer_slice(&s->torch, ways[who], SLICE_S);
}

static void take_turns(bench *b) {
    size_t turns = b->side_count * TURNS;
    for (size_t r = 0; r < ROUNDS; r++) {
        for (size_t t = 0; t < turns; t++) {
            size_t k = r % 2 == 0 ? t : turns - 1 - t;
            side *s = &b->sides[k / TURNS];
            const size_t who = k % TURNS;
            s->rate[who][r] = take_turn(b, s, who);
        }
    }
}

static double median_ratio(const double *above, const double *below) {
    double ratio[ROUNDS];
    for (size_t r = 0; r < ROUNDS; r++) {
        ratio[r] = above[r] / below[r];
    }
    return bench_median(ratio, ROUNDS);
}

/* Return the multiplications and additions for one sample in the conv and dense layers. */
static double operations(const fed_arch *arch) {
    double sum = 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        if (layer->kind != FED_LAYER_CONV && layer->kind != FED_LAYER_DENSE) {
            continue;
        }
        double places = (double)layer->out.h * layer->out.w;
        double weights = (double)arch->layout.tensors[layer->weight].size;
        sum += 2 * weights * places * (layer->input[0] == 0 ? 2 : 3);
    }
    return sum;
}

static void print_torch(const side *s, double goal) {
    size_t best = 0;
    double ratio = INFINITY;
    for (size_t way = 0; way < WAYS; way++) {
        const double with = median_ratio(s->rate[OURS], s->rate[way]);
        best = with < ratio ? way : best;
        ratio = fmin(with, ratio);
    }
    printf(" %8.0f %-13s | %5.2f |", bench_median(s->rate[best], ROUNDS), ways[best], ratio);
    if (goal > 0) {
        printf(" %.1f %-6s |", goal, ratio >= goal ? "met" : "missed");
    } else {
        printf("%11s |", "");
    }
}

static void print_side(const bench *b, const side *s, double goal) {
    double per_sample = operations(&b->arch);
    printf(" %-8s | %8.0f | %3.0f %% |", s->kernels->isa, bench_median(s->rate[OURS], ROUNDS),
           100 * per_sample * median_ratio(s->rate[OURS], s->rate[PEAK]));
    if (s->bfloat16 != NULL) {
        printf(" %8.2f |", median_ratio(s->rate[BFLOAT16], s->rate[OURS]));
    } else {
        printf("%9s |", "");
    }
    if (s->torch.pid != 0) {
        print_torch(s, goal);
    }
    printf("\n");
}

static void print_head(const bench *b) {
    bool torch = b->sides[0].torch.pid != 0;
    printf("\n| optimizer | batch | unit     |  ours/s  | peak  | bfloat16 |%s\n",
           torch ? " PyTorch/s              | ratio | goal       |" : "");
    printf("|---|---|---|---|---|---|%s\n", torch ? "---|---|---|" : "");
}

static void run_case(bench *b, const net *n, const char *optimizer, size_t k) {
    fed_error err = {0};
    bench_require(fed_optimizer_parse(optimizer, 1e-4F, &b->rule, &err), err.text);
    b->batch = batches[k];
    for (size_t i = 0; i < b->side_count; i++) {
        if (b->sides[i].torch.pid != 0) {
            torch_peer_case(&b->sides[i].torch, n->name, b->batch, optimizer);
        }
    }
    memset(b->state, 0, fedtrain_optimizer_state_size(&b->rule, b->arch.trained) * sizeof(float));
    take_turns(b);
    for (size_t i = 0; i < b->side_count; i++) {
        printf("| %-9s | %5zu |", optimizer, b->batch);
        print_side(b, &b->sides[i], b->rule.rule == FED_SGD ? n->goal[k] : 0);
    }
}

static void make_nets(bench *b) {
    size_t pixels = (size_t)b->arch.input.c * b->arch.input.h * b->arch.input.w;
    fed_error err = {0};
    fed_optimizer adam;
    bench_require(fed_optimizer_parse("adam", 1e-4F, &adam, &err), err.text);
    for (size_t i = 0; i < b->side_count; i++) {
        chosen = b->sides[i].kernels;
        bench_require(fedtrain_net_new(&b->arch, MAX_BATCH, NULL, &b->sides[i].net, NULL), "net");
    }
    bench_require(fedtrain_net_new(&b->arch, MAX_BATCH, "bfloat16", &b->sides[0].bfloat16, NULL),
                  "net");
    b->params = bench_alloc(b->arch.layout.size * sizeof *b->params);
    b->state = bench_alloc(fedtrain_optimizer_state_size(&adam, b->arch.trained) * sizeof(float));
    b->x = bench_alloc(MAX_BATCH * pixels * sizeof *b->x);
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

static void free_nets(bench *b) {
    for (size_t i = 0; i < b->side_count; i++) {
        fedtrain_net_free(b->sides[i].net);
        fedtrain_net_free(b->sides[i].bfloat16);
    }
    free(b->params);
    free(b->state);
    free(b->x);
    fed_arch_free(&b->arch);
}

static void run_net(bench *b, const net *n) {
    fed_error err = {0};
    bench_require(fed_arch_parse(n->text, &b->arch, &err), err.text);
    make_nets(b);
    printf("\n**%s**: %zu parameters, %.2f million operations a sample\n", n->name,
           b->arch.layout.size, 1e-6 * operations(&b->arch));
    print_head(b);
    static const char *const optimizers[] = {"sgd", "adam"};
    for (size_t o = 0; o < 2; o++) {
        for (size_t k = 0; k < BATCHES; k++) {
            run_case(b, n, optimizers[o], k);
        }
    }
    free_nets(b);
}

static void pin(void) {
    cpu_set_t allowed;
    bench_require(sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? FED_OK : FED_EIO,
                  "which processors this may use");
    size_t last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &allowed)) {
        last--;
    }
    CPU_ZERO(&allowed);
    CPU_SET(last, &allowed);
    bench_require(sched_setaffinity(0, sizeof allowed, &allowed) == 0 ? FED_OK : FED_EIO,
                  "staying on one processor");
    printf("on processor %zu, %d rounds\n", last, ROUNDS);
}

static void start_sides(bench *b) {
    const fedtrain_kernels *kernels;
    for (size_t k = 0; k < UNITS && (kernels = fedtrain_kernels_get(k)) != NULL; k++) {
        if (k > 0 && strcmp(kernels->isa, "baseline") == 0) {
            break;
        }
        side *s = &b->sides[b->side_count++];
        s->kernels = kernels;
        if (!torch_peer_start(&s->torch, kernels->isa)) {
            printf("PyTorch isn't here (deploy/setup.sh --python installs it; FED_TORCH_PYTHON "
                   "names a Python that has it): our engine alone\n");
        }
        printf("%s: peak %.0f G operations a second. %s\n", kernels->isa, 1e-9 * peak_slice(s),
               s->torch.about);
    }
}

static bool wanted(const char *name, int argc, char **argv) {
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], name) == 0) {
            return true;
        }
    }
    return argc == 1;
}

int main(int argc, char **argv) {
    bench b = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    pin();
    start_sides(&b);
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
        if (wanted(nets[n].name, argc, argv)) {
            run_net(&b, &nets[n]);
        }
    }
    printf("\nbfloat16: products of %s, as a ratio to ours\n", fedtrain_kernels_bfloat16(0)->isa);
    for (size_t i = 0; i < b.side_count; i++) {
        torch_peer_stop(&b.sides[i].torch);
    }
    return 0;
}
