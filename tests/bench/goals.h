/* The goals: how fast each codec is meant to be. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GOALS_H
#define GOALS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum bench_op {
    BENCH_ENCODE,
    BENCH_UNGUARDED, /* encode without guard: an error may lose the residual; same goals */
    BENCH_DECODE,
    BENCH_AXPY, /* decode and add */
    BENCH_FOLD, /* decode and add exactly */
    BENCH_OPS
} bench_op;

/** The sizes that goals are set for, in values. */
enum { GOAL_SIZES = 3 };
extern const size_t goal_sizes[GOAL_SIZES];

/** A speed as a ratio to memcpy, or as a ratio to e[i] += g[i]. Reaching one is enough. 0: not set.
 */
typedef struct goal {
    double copy, add;
} goal;

/** The goal of a setting's operation on n values, with the code for this vector unit. */
goal goal_find(const char *setting, const char *unit, bench_op op, size_t n);

/** The verdict on a result that reaches this part of a goal: "met"; "near", within the 10 % that
 * goals allow for noise; or "missed". */
const char *goal_verdict(double part);

#endif
