/*
 * Measure the bits per position of each position code, compared with the entropy H(p)/p of random
 * positions. Positions are random, or those of a net that learns MNIST with sbc and error feedback.
 *
 *     FED_MNIST_DIR=... bench_positions [ROUNDS [MODEL]]
 *
 * MODEL is a name or a text as in fed/arch.h (default lenet5-caffe). bench_positions_avx2 and
 * bench_positions_avx512 use code for these vector units.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "codecs/prim/positions.h"
#include "codecs/registry.h"
#include "fed/arch.h"
#include "fed/rng.h"
#include "fedtrain/train.h"
#include "goals.h"

enum { PHASES = 3, BATCH = 32, LEAST_VALUES = 1024 };

static double entropy(double p) {
    return (-p * log2(p) - (1.0 - p) * log2(1.0 - p)) / p;
}

typedef struct written {
    uint8_t *dst;
    size_t cap, len;
    uint8_t how;
} written;

static void write_as(fedcodec_pos pos, double p, fedcodec_chosen chosen, size_t n, written *w) {
    if (pos == FEDCODEC_POS_RANS) {
        unsigned detail = fedcodec_rans_detail(chosen.count);
        w->how = (uint8_t)(1u << 5 | detail);
        bench_require(
            fedcodec_rans_put(chosen.index, chosen.count, detail, w->dst, w->cap, &w->len), "rans");
    } else if (pos == FEDCODEC_POS_RANGE) {
        w->how = 2u << 5;
        bench_require(fedcodec_range_put(chosen.index, chosen.count, n, w->dst, w->cap, &w->len),
                      "range");
    } else {
        bench_require(fedcodec_positions_put(pos, p, chosen, n, w->dst, w->cap, &w->len, &w->how),
                      "put");
    }
}

static void read_back(const written *w, size_t count, size_t n) {
    fedcodec_positions r;
    bench_require(fedcodec_positions_start(&r, w->how, w->dst, w->len, count, n), "start");
    while (fedcodec_positions_next(&r) > 0) {
    }
    bench_require(fedcodec_positions_end(&r), "end");
}

static size_t draw(double p, uint32_t *index, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 5, (uint32_t)(1.0 / p), 0);
    uint32_t limit = (uint32_t)(p * 4294967296.0);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        index[count] = (uint32_t)i;
        count += fed_rng_u32(&rng) < limit;
    }
    return count;
}

static void bench_random(double p, uint32_t *index, size_t n, written *w) {
    fedcodec_chosen chosen = {.index = index, .count = draw(p, index, n)};
    double count = (double)chosen.count;
    printf("p=%-6g H(p)/p %7.4f ", p, entropy(p));
    for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT; pos++) {
        double put = 1e9, get = 1e9;
        for (int round = 0; round < 5; round++) {
            double start = bench_now_s();
            write_as(pos, p, chosen, n, w);
            double middle = bench_now_s();
            read_back(w, chosen.count, n);
            put = fmin(put, middle - start);
            get = fmin(get, bench_now_s() - middle);
        }
        printf("  %s %.4f (%.0f/%.0f M/s)", fedcodec_pos_names[pos], 8.0 * (double)w->len / count,
               1e-6 * count / put, 1e-6 * count / get);
    }
    putchar('\n');
}

static void print_goal(const char *what, double reached, double want) {
    printf(" | %s %.1f (%g %s)", what, reached, want, goal_verdict(reached / want));
}

static void bench_golomb(size_t n) {
    enum { ROUNDS = 15 };
    const double p = 0.01;
    float *x = bench_alloc(n * sizeof *x), *y = bench_alloc(n * sizeof *y);
    uint32_t *index = bench_alloc(n / 50 * sizeof *index);
    written w = {.dst = bench_alloc(n / 50), .cap = n / 50};
    bench_times copy = {.count = 0}, put = copy, get = copy;
    fedcodec_chosen chosen = {.index = index, .count = draw(p, index, n)};
    for (int round = 0; round < ROUNDS; round++) {
        BENCH_TIME(&copy, memcpy(y, x, n * sizeof *x));
        BENCH_TIME(&put, write_as(FEDCODEC_POS_GOLOMB, p, chosen, n, &w));
        BENCH_TIME(&get, read_back(&w, chosen.count, n));
    }
    double copy_s = bench_median_s(&copy), put_s = bench_median_s(&put),
           get_s = bench_median_s(&get), count = (double)chosen.count;
    printf("%zu values", n);
    print_goal("M/s written", 1e-6 * count / put_s, 350.0);
    print_goal("M/s read", 1e-6 * count / get_s, 250.0);
    print_goal("read / memcpy", copy_s / get_s, 6.0);
    printf(" | written / memcpy %.1f\n", copy_s / put_s);
    void *const owned[] = {x, y, index, w.dst};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
}

typedef struct tally {
    double positions, entropy, bits[FEDCODEC_POS_COUNT];
} tally;

static void count_tensor(double p, const float *y, size_t n, uint32_t *index, written *w,
                         tally *t) {
    fedcodec_chosen chosen = {.index = index};
    for (size_t i = 0; i < n; i++) {
        index[chosen.count] = (uint32_t)i;
        chosen.count += y[i] != 0.0f;
    }
    if (chosen.count == 0) {
        return;
    }
    t->positions += (double)chosen.count;
    t->entropy += (double)chosen.count * entropy((double)chosen.count / (double)n);
    for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT; pos++) {
        write_as(pos, p, chosen, n, w);
        t->bits[pos] += 8.0 * (double)w->len;
    }
}

static void print_tally(const char *name, const char *phase, const tally *t) {
    printf("%-14s %-7s %8.0f  %7.3f ", name, phase, t->positions, t->entropy / t->positions);
    for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT; pos++) {
        printf(" %7.3f", t->bits[pos] / t->positions);
    }
    putchar('\n');
}

static void add_tally(tally *sum, const tally *t) {
    sum->positions += t->positions;
    sum->entropy += t->entropy;
    for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT; pos++) {
        sum->bits[pos] += t->bits[pos];
    }
}

static void print_run(const fed_layout *layout, const tally (*tallies)[PHASES]) {
    static const char *const phases[PHASES] = {"first", "middle", "last"};
    tally all = {.positions = 0.0};
    for (size_t k = 0; k < layout->count; k++) {
        for (size_t phase = 0; phase < PHASES; phase++) {
            if (tallies[k][phase].positions > 0.0) {
                print_tally(layout->tensors[k].name, phases[phase], &tallies[k][phase]);
                add_tally(&all, &tallies[k][phase]);
            }
        }
    }
    print_tally("all", "", &all);
}

/* Train one client: local steps, an update by sbc, and the decoded update makes the next model. */
static void bench_training(const fed_arch *arch, fedtrain_job job, double p, size_t rounds) {
    const fed_layout *layout = &arch->layout;
    const size_t n = layout->size;
    fedcodec codec = {.vtable = fedcodec_by_id(3), .param = {p, FEDCODEC_POS_GOLOMB}};
    float *model = bench_alloc(n * 4), *local = bench_alloc(n * 4), *residual = bench_alloc(n * 4),
          *y = bench_alloc(n * 4);
    float *state = bench_alloc(fedtrain_optimizer_state_size(&job.optimizer, n) * 4);
    uint32_t *index = bench_alloc(n * 4);
    void *work = bench_alloc(fedcodec_work_size(&codec, n));
    tally(*tallies)[PHASES] = bench_alloc(layout->count * sizeof *tallies);
    written message = {.dst = bench_alloc(8 * n), .cap = 8 * n},
            w = {.dst = bench_alloc(8 * n), .cap = 8 * n};
    fed_arch_init_values(arch, 1, model);
    float loss = 0.0f;
    for (size_t round = 0; round < rounds; round++) {
        memcpy(local, model, n * sizeof *model);
        job.round = (uint32_t)round;
        bench_require(fedtrain_run(&job, local, state, &loss, NULL), "training");
        for (size_t i = 0; i < n; i++) {
            local[i] -= model[i];
        }
        for (size_t k = 0; k < layout->count; k++) {
            const size_t at = layout->tensors[k].offset, size = layout->tensors[k].size;
            bench_require(fedcodec_encode(&codec, residual + at, local + at, size, work,
                                          message.dst, message.cap, &message.len),
                          "encode");
            bench_require(fedcodec_decode(codec.vtable, message.dst, message.len, y, size),
                          "decode");
            for (size_t i = 0; i < size; i++) {
                model[at + i] += y[i];
            }
            if (size >= LEAST_VALUES) {
                count_tensor(p, y, size, index, &w, &tallies[k][round * PHASES / rounds]);
            }
        }
    }
    printf("p=%g, %zu local steps, %zu rounds; loss at the end %.3f\n", p, job.steps, rounds,
           (double)loss);
    print_run(layout, (const tally(*)[PHASES])tallies);
    void *const owned[] = {model, local, residual, y,           state,
                           index, work,  tallies,  message.dst, w.dst};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
}

static void bench_rule(const fed_arch *arch, fedtrain_job job, const char *rule, float rate,
                       size_t rounds) {
    static const double ps[] = {0.001, 0.01};
    bench_require(fed_optimizer_parse(rule, rate, &job.optimizer, NULL), rule);
    for (job.steps = 1; job.steps <= 10; job.steps += 9) {
        for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
            printf("\n%s, ", rule);
            bench_training(arch, job, ps[i], rounds);
        }
    }
}

static void bench_net(const char *model, const char *directory, size_t rounds) {
    fed_arch arch;
    fed_error err = {.status = FED_OK};
    fedtrain_dataset set;
    fedtrain_shard all;
    fedtrain_job job = {.set = &set, .shard = &all, .batch = BATCH, .seed = 1};
    bench_require(fedtrain_dataset_load_mnist(directory, "train", &set, &err), err.text);
    bench_require(fed_arch_parse(model, &arch, &err), err.text);
    bench_require(fedtrain_net_new(&arch, BATCH, NULL, &job.net, NULL), "net");
    bench_require(fedtrain_shard_take(&set, FEDTRAIN_SPLIT_IID, 1, 0, 1, &all, &err), "shard");
    printf("\n%-14s %-7s %8s  %7s ", "tensor", "phase", "sent", "H(p)/p");
    for (fedcodec_pos pos = 0; pos < FEDCODEC_POS_COUNT; pos++) {
        printf(" %7s", fedcodec_pos_names[pos]);
    }
    putchar('\n');
    bench_rule(&arch, job, "adam", 1e-3f, rounds);
    bench_rule(&arch, job, "momentum", 1e-2f, rounds);
    fedtrain_shard_free(&all);
    fedtrain_net_free(job.net);
    fed_arch_free(&arch);
    fedtrain_dataset_free(&set);
}

int main(int argc, char **argv) {
    enum { N = 4000000 };
    static const double ps[] = {0.001, 0.01, 0.1};
    const char *directory = getenv("FED_MNIST_DIR");
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 90;
    if (rounds < PHASES) {
        fprintf(stderr, "usage: bench_positions [ROUNDS, at least %d [MODEL]]\n", PHASES);
        return 2;
    }
    uint32_t *index = bench_alloc(4 * (size_t)N);
    written w = {.dst = bench_alloc(N), .cap = N};
    printf("bits per position of %d random ones, and M positions/s written/read\n", N);
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        bench_random(ps[i], index, N, &w);
    }
    free(index);
    free(w.dst);
    printf(
        "\nGolomb's code of 1 %% of the values by unit %s, and its goals; near: within the 10 %%\n"
        "that these allow for noise\n",
        fedcodec_this_unit.name);
    for (size_t i = 0; i < GOAL_SIZES; i++) {
        bench_golomb(goal_sizes[i]);
    }
    if (directory == NULL) {
        puts("FED_MNIST_DIR is not set: no net is trained");
        return 0;
    }
    bench_net(argc > 2 ? argv[2] : "lenet5-caffe", directory, rounds);
    return 0;
}
