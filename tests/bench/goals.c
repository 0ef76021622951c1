/* The table of goals: single thread, ratios of one run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "goals.h"

#include <string.h>

const size_t goal_sizes[GOAL_SIZES] = {431080, 11200000, 60000000};

/* A unit is NULL where the goal is the same with AVX2 and AVX-512. */
static const struct {
    const char *setting, *unit;
    bench_op op;
    double copy[GOAL_SIZES], add;
} goals[] = {
    {"3lc:s=1.75", "avx512", BENCH_ENCODE, {0.70, 0.75, 0.37}, 0.62},
    {"3lc:s=1.75", "avx2", BENCH_ENCODE, {0.70, 0.75, 0.37}, 0.60},
    {"3lc:s=1.75", NULL, BENCH_DECODE, {1.8, 1.7, 0.95}, 0.0},
    {"3lc:s=1.75", NULL, BENCH_AXPY, {15.0, 20.0, 12.0}, 0.0},
    {"3lc:s=1 dense", "avx512", BENCH_ENCODE, {0.57, 0.75, 0.38}, 0.55},
    {"3lc:s=1 dense", "avx2", BENCH_ENCODE, {0.38, 0.70, 0.35}, 0.0},
    {"3lc:s=1 dense", NULL, BENCH_DECODE, {1.8, 1.7, 0.95}, 0.0},
    {"3lc:s=1 dense", NULL, BENCH_AXPY, {2.0, 1.7, 0.95}, 0.0},
    {"3lc:s=1+entropy", NULL, BENCH_ENCODE, {0.15, 0.15, 0.15}, 0.0},
    {"3lc:s=1.75+entropy", NULL, BENCH_ENCODE, {0.15, 0.15, 0.15}, 0.0},
    {"sbc:p=0.001", NULL, BENCH_ENCODE, {0.85, 0.90, 0.50}, 0.80},
    {"sbc:p=0.01", NULL, BENCH_ENCODE, {0.60, 0.75, 0.38}, 0.60},
    {"sbc:p=0.01", NULL, BENCH_AXPY, {4.0, 3.5, 2.0}, 0.0},
    {"inceptionn", "avx512", BENCH_ENCODE, {0.9, 1.2, 0.85}, 0.0},
    {"inceptionn", "avx512", BENCH_DECODE, {0.95, 1.2, 0.85}, 0.0},
    {"inceptionn", "avx2", BENCH_ENCODE, {0.5, 0.85, 0.7}, 0.0},
    {"inceptionn", "avx2", BENCH_DECODE, {0.5, 0.85, 0.6}, 0.0},
    {"twobit:t=0.002", NULL, BENCH_ENCODE, {1.0, 1.0, 0.6}, 0.0},
    {"twobit:t=0.002", NULL, BENCH_DECODE, {2.5, 1.6, 0.85}, 0.0},
};

static bool covers(const char *of, const char *unit) {
    return of != NULL ? strcmp(of, unit) == 0
                      : strcmp(unit, "avx2") == 0 || strcmp(unit, "avx512") == 0;
}

goal goal_find(const char *setting, const char *unit, bench_op op, size_t n) {
    size_t size = 0;
    op = op == BENCH_UNGUARDED ? BENCH_ENCODE : op;
    while (size < GOAL_SIZES && goal_sizes[size] != n) {
        size++;
    }
    for (size_t k = 0; size < GOAL_SIZES && k < sizeof goals / sizeof goals[0]; k++) {
        if (strcmp(goals[k].setting, setting) == 0 && goals[k].op == op &&
            covers(goals[k].unit, unit)) {
            return (goal){goals[k].copy[size], goals[k].add};
        }
    }
    return (goal){0.0, 0.0};
}

const char *goal_verdict(double part) {
    return part >= 1.0 ? "met" : part >= 0.9 ? "near" : "missed";
}
