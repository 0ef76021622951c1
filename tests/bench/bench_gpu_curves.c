/* Learning curves of one model on several backends: the same weights, batches and optimizer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "curve_case.h"
#include "fed/clock.h"
#include "fed_test.h"
#include "fedtrain/data.h"
#include "fedtrain/train.h"

/*
 *     bench_gpu_curves MODEL DATASET DIR OPTIMIZER STEPS BATCH ROWS SEED NUDGED BACKEND...
 *
 * A backend is fast, reference, or a device such as opencl:0. A row has the mean loss of the steps
 * since the previous row. The last row has the test accuracy of each backend's final weights. Below
 * the table are each backend's time and the largest difference of a step's loss from the first
 * backend's.
 *
 * The last backend also runs NUDGED times with a random last bit in each initial weight. The last
 * columns have the least and the largest value of these runs, the effect of rounding alone.
 */
enum { RUNS = 64, BACKENDS = 4, ARGUMENTS = 10, TESTED = 2000, BATCH = 100 };

typedef struct run {
    const char *backend;
    float *loss, *params;
    double seconds, accuracy;
} run;

static void *memory(size_t count) {
    void *p = calloc(count + 1, sizeof(float));
    if (p == NULL) {
        abort();
    }
    return p;
}

static double accuracy_of(const fed_arch *arch, fedtrain_dataset test, const float *params) {
    fed_error err = {0};
    fedtrain_net *net;
    fedtrain_score score;
    test.count = test.count < TESTED ? test.count : TESTED;
    assert_fed_ok_err(fedtrain_net_new(arch, BATCH, "fast", &net, &err));
    assert_fed_ok_err(fedtrain_evaluate(net, BATCH, &test, params, &score, &err));
    fedtrain_net_free(net);
    return 100.0 * (double)score.correct / (double)score.samples;
}

static double mean(const float *loss, size_t from, size_t to) {
    double sum = 0;
    for (size_t k = from; k < to; k++) {
        sum += (double)loss[k];
    }
    return sum / (double)(to - from);
}

static void print_row(const double *value, size_t backends, size_t runs, const char *unit) {
    double least = INFINITY, most = -INFINITY;
    for (size_t b = 0; b < runs; b++) {
        if (b < backends) {
            printf(" %.4f%s |", value[b], unit);
        } else {
            least = fmin(least, value[b]);
            most = fmax(most, value[b]);
        }
    }
    if (runs > backends) {
        printf(" %.4f%s | %.4f%s |", least, unit, most, unit);
    }
    printf("\n");
}

static void print(const run *runs, size_t backends, size_t count, size_t steps, size_t rows) {
    double value[RUNS];
    printf("| step |");
    for (size_t b = 0; b < backends; b++) {
        printf(" %s |", runs[b].backend);
    }
    printf("%s\n", count > backends ? " nudged, least | nudged, most |" : "");
    for (size_t r = 0; r < rows; r++) {
        const size_t from = r * steps / rows, to = (r + 1) * steps / rows;
        for (size_t b = 0; b < count; b++) {
            value[b] = mean(runs[b].loss, from, to);
        }
        printf("| %zu |", to);
        print_row(value, backends, count, "");
    }
    for (size_t b = 0; b < count; b++) {
        value[b] = runs[b].accuracy;
    }
    printf("| test accuracy |");
    print_row(value, backends, count, " %");
    for (size_t b = 0; b < count; b++) {
        double most = 0, early = 0;
        for (size_t k = 0; k < steps; k++) {
            const double off = fabs((double)runs[b].loss[k] - (double)runs[0].loss[k]);
            most = off > most ? off : most;
            early = k < 10 ? most : early;
        }
        printf(
            "%s%s: %.1f s; a step's loss is %.2g from %s's at most, %.2g in the first ten steps\n",
            runs[b].backend, b < backends ? "" : ", nudged", runs[b].seconds, most, runs[0].backend,
            early);
    }
}

int main(int argc, char **argv) {
    if (argc <= ARGUMENTS || argc > ARGUMENTS + BACKENDS || atoi(argv[7]) < 1 ||
        atoi(argv[5]) < atoi(argv[7]) || atoi(argv[9]) < 0 || atoi(argv[9]) > RUNS - BACKENDS) {
        fprintf(stderr,
                "usage: %s MODEL DATASET DIR OPTIMIZER STEPS BATCH ROWS SEED NUDGED BACKEND...\n",
                argv[0]);
        return 2;
    }
    fed_error err = {0};
    fed_arch arch;
    fedtrain_data train, test;
    assert_fed_ok_err(fed_arch_parse(argv[1], &arch, &err));
    assert_fed_ok_err(fedtrain_data_open(argv[2], argv[3], "train", "train", &train, &err));
    assert_fed_ok_err(fedtrain_data_open(argv[2], argv[3], "test", "train", &test, &err));
    curve_case c = {.arch = &arch,
                    .set = &train.set,
                    .optimizer = argv[4],
                    .steps = (size_t)atoi(argv[5]),
                    .batch = (size_t)atoi(argv[6]),
                    .seed = (uint32_t)atoi(argv[8])};
    const size_t backends = (size_t)(argc - ARGUMENTS), count = backends + (size_t)atoi(argv[9]);
    run runs[RUNS];
    for (size_t b = 0; b < count; b++) {
        runs[b] = (run){.backend = argv[b < backends ? ARGUMENTS + b : (size_t)argc - 1],
                        .loss = memory(c.steps),
                        .params = memory(arch.layout.size)};
        c.nudge = b < backends ? 0 : (uint32_t)(b - backends + 1);
        const int64_t begin_ms = fed_clock_monotonic_ms();
        curve_case_run(&c, runs[b].backend, runs[b].loss, runs[b].params);
        runs[b].seconds = (double)(fed_clock_monotonic_ms() - begin_ms) / 1000;
        runs[b].accuracy = accuracy_of(&arch, test.set, runs[b].params);
    }
    print(runs, backends, count, c.steps, (size_t)atoi(argv[7]));
    for (size_t b = 0; b < count; b++) {
        free(runs[b].loss);
        free(runs[b].params);
    }
    fedtrain_data_free(&train);
    fedtrain_data_free(&test);
    fed_arch_free(&arch);
    return 0;
}
