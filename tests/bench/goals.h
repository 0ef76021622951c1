/* How fast each codec is meant to be. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GOALS_H
#define GOALS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum bench_op {
    BENCH_ENCODE,
    BENCH_UNGUARDED, /* encode, with a residual that may be lost; same goals */
    BENCH_DECODE,
    BENCH_AXPY, /* decode and add */
    BENCH_FOLD, /* the same, exact */
    BENCH_OPS
} bench_op;

/** The sizes that goals are set for, in values. */
enum { GOAL_SIZES = 3 };
extern const size_t goal_sizes[GOAL_SIZES];

/** A speed as a ratio to memcpy, or one to e[i] += g[i]: either will do. 0: not set. */
typedef struct goal {
    double copy, add;
} goal;

/** Of a setting's operation, with the code for that unit of the processor, on n values. */
goal goal_find(const char *setting, const char *unit, bench_op op, size_t n);

/** What to say of a result that is that part of a goal: "met"; "near", within the 10 % that goals
 * allow for noise; "missed". */
const char *goal_verdict(double part);

#endif
