/*
 * Measure the speed and size of every codec. A ratio of 0.5 means half the speed of memcpy of as
 * many values in the same run. The next column has the speed as a share of an upper bound, which
 * the run measures, and a verdict. Plain loops and general lossless compressors are measured, too.
 * The output is Markdown.
 *
 *     bench_codecs                                     the three sizes that goals are set for
 *     bench_codecs VALUES [ROUNDS [SETTING...]]        one size; all settings, or just these
 *     bench_codecs --tensors FILE [SETTING...]         your own gradients, tensor by tensor
 *
 * A setting is a codec's spec. With " dense" after the spec, gradients are normally distributed.
 * FILE is safetensors or raw float32. A further --tensors adds another gradient of the same shape;
 * rounds alternate between the gradients. --unit NAME measures only the code for one vector unit:
 * plain, avx2, avx512. With --threads N, N threads encode. With --of fastest, results are of the
 * fastest rounds, not of the median: for a machine that other programs use, too. Several tensors,
 * or a second stage (a lossless pass after the codec), make an envelope, which is measured with the
 * fastest unit only.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec_rounds.h"
#include "codecs/registry.h"
#include "fed/threads.h"
#include "peers.h"

/* The settings measured by default. Each codec without a setting here is measured with default
 * parameters. */
static const char *const settings[] = {"3lc:s=1 dense",
                                       "3lc:s=1",
                                       "3lc:s=1.75",
                                       "3lc:s=1.75+runs",
                                       "3lc:s=1+zstd",
                                       "3lc:s=1+entropy",
                                       "3lc:s=1.75+entropy",
                                       "sbc:p=0.1",
                                       "sbc:p=0.01",
                                       "sbc:p=0.01,pos=auto",
                                       "sbc:p=0.001",
                                       "topk:p=0.05",
                                       "topk:p=0.25",
                                       "trunc:b=16",
                                       "trunc:b=22",
                                       "trunc:b=24",
                                       "twobit:t=0.002",
                                       "topk:p=0.05,values=bfloat16",
                                       "topk:p=0.05,values=int8",
                                       "dgc:p=0.01",
                                       "dgc:p=0.01,values=bfloat16",
                                       "dgc:p=0.01,values=int8",
                                       "threshold:t=0.005",
                                       "eden:p=0.008",
                                       "powersgd",
                                       "powersgd:rank=4,values=bfloat16",
                                       "powersgd:rank=8,power=2"};

static const char dense[] = " dense";

enum { FEW = 1000000, MANY = 20000000 };

static void print_speed(const result *r, bench_op op, size_t n) {
    char text[24] = "";
    if (r->bound_s[op] > 0.0) {
        const double share = r->bound_s[op] / r->op_s[op];
        snprintf(text, sizeof text, "%.2f %s", share, goal_verdict(share / goal_share(n)));
    }
    printf(" %6.2f | %-11s |", r->copy_s / r->op_s[op], text);
}

static void print_loop(const plain_loop *loop, double ratio) {
    char text[40] = "";
    if (loop != NULL) {
        snprintf(text, sizeof text, "%.1f (%.0f %s)", ratio, loop->goal,
                 goal_verdict(ratio / loop->goal));
    }
    printf(" %-16s |", text);
}

static void print_legend(void) {
    puts("# Codecs\n\n"
         "Speeds are ratios to memcpy of as many float32 values in the same rounds, by medians\n"
         "(--of fastest: by the fastest rounds).\n"
         "Encoding is with error feedback; unguarded: into a residual that NaN or infinity may\n"
         "spoil. Decoders check first, axpy is decode and add, fold the same in fixed point.\n\n"
         "Behind each speed stands its share of a bound, which is the least that has to be done:\n"
         "of encode, e[i] += g[i] after a look at all that says whether it may be done; of\n"
         "unguarded encode, e[i] += g[i]; of encode without error feedback, to read the values\n"
         "and to write as many bytes; of decode, to read the message and to set all values to a\n"
         "constant; of axpy, to read the message and to add to all values, or to those that are\n"
         "not zero, whichever is faster. The goal is 0.8 of the bound where a cache holds the\n"
         "values, else 0.9. \"near\" is within the 10 % that goals allow for noise. What asks\n"
         "for memory ahead can be faster than these plain loops. Plain loops: how many times as\n"
         "fast encode is, and the goal for that.");
    if (peers_missing[0] != '\0') {
        printf("\nLossless compressors are missing, deploy/setup.sh --bench installs them:%s\n",
               peers_missing);
    }
}

static void print_head(void) {
    printf("\n| %-19s | %-6s | bit/value | encode | %-11s | %-16s | unguarded | %-11s | decode |"
           " %-11s |   axpy | %-11s |   fold |\n",
           "setting", "unit", "of bound", "plain loops", "of bound", "of bound", "of bound");
    puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}

static void print_row(const char *setting, const char *unit, size_t n, const plain_loop *loop,
                      const result *r) {
    printf("| %-19s | %-6s | %9.4f |", setting, unit, 8.0 * r->bytes / (double)n);
    for (bench_op op = BENCH_ENCODE; op < BENCH_FOLD; op++) {
        print_speed(r, op, n);
        if (op == BENCH_ENCODE) {
            print_loop(loop, r->loop_s / r->op_s[op]);
        }
    }
    printf(" %6.2f |\n", r->copy_s / r->op_s[BENCH_FOLD]);
    fflush(stdout);
}

/* Parse the setting's spec, which ends before " dense". */
static fed_status parse(const char *setting, fedcodec *codec, fed_error *err) {
    char spec[FEDCODEC_SPEC];
    size_t len = strcspn(setting, " ");
    snprintf(spec, sizeof spec, "%.*s", (int)(len < sizeof spec ? len : sizeof spec - 1), setting);
    return fedcodec_parse(spec, codec, err);
}

static bool is_dense(const char *setting) {
    return strcmp(setting + strcspn(setting, " "), dense) == 0;
}

/* Is this vector unit to be measured? With many values, some units are left out to save time. */
static bool wants_unit(const bench *b, const char *setting, const fedcodec_unit *unit) {
    if (b->unit != NULL) {
        return strcmp(b->unit, unit->name) == 0;
    }
    if (b->n > MANY && unit != fedcodec_unit_at(0)) {
        return strcmp(unit->name, "plain") != 0 && plain_loop_find(setting) != NULL;
    }
    return unit == fedcodec_unit_at(0) || b->n <= FEW || strcmp(unit->name, "plain") != 0;
}

static void bench_unit(bench *b, const char *setting, const fedcodec *codec, const char *unit) {
    const plain_loop *loop = b->files ? NULL : plain_loop_find(setting);
    message m;
    message_start(&m, codec, &b->gradients.layout, unit);
    result r = measure(b, &m, loop);
    print_row(setting, unit, b->n, loop, &r);
    message_end(&m);
}

static void bench_setting(bench *b, const char *setting) {
    fedcodec codec;
    fed_error err;
    if (parse(setting, &codec, &err) != FED_OK) {
        printf("| %-19s | left out: %s |\n", setting, err.text);
        return;
    }
    bench_draw(b, is_dense(setting));
    size_t index = 0;
    while (fedcodec_at(index) != codec.vtable) {
        index++;
    }
    const fedcodec_unit *unit;
    for (size_t k = 0; (unit = fedcodec_unit_at(k)) != NULL; k++) {
        if (wants_unit(b, setting, unit) &&
            (k == 0 || message_is_alone(&codec, &b->gradients.layout))) {
            codec.vtable = unit->codecs[index];
            codec.pool = b->pool;
            bench_unit(b, setting, &codec, unit->name);
        }
    }
}

static bool is_among_settings(const char *name) {
    size_t len = strlen(name);
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        if (strncmp(settings[k], name, len) == 0 && settings[k][len] == ':') {
            return true;
        }
    }
    return false;
}

static void bench_all(bench *b) {
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        if (!b->files || !is_dense(settings[k])) {
            bench_setting(b, settings[k]);
        }
    }
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        if (!is_among_settings(fedcodec_at(k)->name)) {
            bench_setting(b, fedcodec_at(k)->name);
        }
    }
}

static void bench_peers(bench *b) {
    static const char *const inputs[] = {"3lc:s=1,zre=0", "3lc:s=1", "3lc:s=1.75,zre=0",
                                         "3lc:s=1.75"};
    bench_draw(b, false);
    const float *x = bench_gradient(b, 0);
    peers_print_head();
    peers_print_row("the gradient", (const uint8_t *)x, b->n * sizeof *x, x, b->n);
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++) {
        fedcodec codec;
        message m;
        if (parse(inputs[k], &codec, NULL) == FED_OK) {
            message_start(&m, &codec, &b->gradients.layout, "");
            measure_warm(b, &m);
            peers_print_row(inputs[k], m.dst, m.len, x, b->n);
            message_end(&m);
        }
    }
}

/* rounds = 0: a default number. If `chosen` begins with NULL, all settings are measured. */
static void bench_size(bench *b, size_t n, size_t rounds, char **chosen) {
    const size_t preset = n <= FEW ? 61 : n <= MANY ? 15 : 5;
    bench_start(b, n, rounds > 0 ? rounds : preset);
    printf("\n## %zu values, %zu rounds\n", n, b->rounds);
    print_head();
    for (char **setting = chosen; *setting != NULL; setting++) {
        bench_setting(b, *setting);
    }
    if (*chosen == NULL) {
        bench_all(b);
    }
    double copy_s = bench_typical_s(b, &b->copy);
    printf("\nmemcpy took %.3f ms (%.1f GB/s).\n", 1e3 * copy_s, 4e-9 * (double)n / copy_s);
    if (*chosen == NULL) {
        bench_peers(b);
    }
    bench_end(b);
}

static int usage(void) {
    fprintf(stderr,
            "usage: bench_codecs [OPTIONS] [VALUES [ROUNDS, up to %d [SETTING...]]]\n"
            "       bench_codecs [OPTIONS] --tensors FILE [--tensors FILE]... [SETTING...]\n"
            "OPTIONS: --unit NAME, --threads N to encode with, --of fastest (not of the median)\n",
            BENCH_ROUNDS_MAX);
    return 2;
}

static bool has_unit(const char *name) {
    const fedcodec_unit *unit;
    for (size_t k = 0; (unit = fedcodec_unit_at(k)) != NULL; k++) {
        if (strcmp(unit->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static int bench_files(bench b, const char *const *paths, size_t count, char **chosen) {
    b.files = true;
    gradients_read(&b.gradients, paths, count);
    print_legend();
    bench_size(&b, b.gradients.layout.size, 0, chosen);
    return EXIT_SUCCESS;
}

static int bench_drawn(bench b, int argc, char **argv) {
    size_t n = argc > 0 ? strtoul(argv[0], NULL, 10) : 0;
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if ((argc > 0 && (n == 0 || n > UINT32_MAX)) ||
        (argc > 1 && (rounds == 0 || rounds > BENCH_ROUNDS_MAX))) {
        return usage();
    }
    print_legend();
    for (size_t k = 0; k < (argc > 0 ? 1 : GOAL_SIZES); k++) {
        bench one = b;
        bench_size(&one, argc > 0 ? n : goal_sizes[k], rounds, argv + (argc > 2 ? 2 : argc));
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    bench b = {.unit = NULL};
    const char *paths[GRADIENTS_MAX];
    fed_threads *threads = NULL;
    size_t count = 0;
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--unit") == 0 && has_unit(argv[at + 1])) {
            b.unit = argv[at + 1];
        } else if (strcmp(argv[at], "--of") == 0 && strcmp(argv[at + 1], "fastest") == 0) {
            b.fastest = true;
        } else if (strcmp(argv[at], "--threads") == 0 && threads == NULL) {
            bench_require(fed_threads_open(strtoul(argv[at + 1], NULL, 10), &threads, NULL),
                          "threads");
            b.pool = fed_threads_pool(threads);
        } else if (strcmp(argv[at], "--tensors") == 0 && count < GRADIENTS_MAX) {
            paths[count++] = argv[at + 1];
        } else {
            return usage();
        }
    }
    int status =
        count > 0 ? bench_files(b, paths, count, argv + at) : bench_drawn(b, argc - at, argv + at);
    fed_threads_close(threads);
    return status;
}
