/* What the benchmarks share: a clock, medians of it, and memory; each stops the program on failure.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>

#include "fed/status.h"

enum { BENCH_ROUNDS_MAX = 1000 };

/** How long one thing took, round by round. At first {.count = 0}. */
typedef struct bench_times {
    double s[BENCH_ROUNDS_MAX];
    size_t count;
} bench_times;

double bench_now_s(void);

/** The median; 0 where there are none. Sorts them. */
double bench_median_s(bench_times *times);

/** Run `work` and add the time that it took to `times`. */
#define BENCH_TIME(times, work)                                                                    \
    do {                                                                                           \
        double start_ = bench_now_s();                                                             \
        work;                                                                                      \
        (times)->s[(times)->count++] = bench_now_s() - start_;                                     \
    } while (0)

/** Zeroed memory that has been written to, so that no page of it is new; free it. On a cache line's
 * bound. */
void *bench_alloc(size_t bytes);

/** Go on only if status is FED_OK; `what` goes with the message. */
void bench_require(fed_status status, const char *what);

/** The yardstick beside memcpy: e[i] += g[i], which no error feedback can do without. */
void bench_add(float *e, const float *g, size_t n);

#endif
