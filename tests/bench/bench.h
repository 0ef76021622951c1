/* Helpers of benchmarks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <time.h>

#include "fed/status.h"

enum { BENCH_ROUNDS_MAX = 1000 };

/** Seconds of one operation in each round. Initialize it with {.count = 0}. */
typedef struct bench_times {
    double s[BENCH_ROUNDS_MAX];
    size_t count;
} bench_times;

double bench_now_s(void);

/** Return the time of this clock in seconds. */
double bench_clock_s(clockid_t clock);

/** Return the median, and sort the times. 0: there are none. */
double bench_median_s(bench_times *times);

/** Return the median of up to BENCH_ROUNDS_MAX values, without changing their order. */
double bench_median(const double *values, size_t count);

#define BENCH_TIME(times, work)                                                                    \
    do {                                                                                           \
        double start_ = bench_now_s();                                                             \
        work;                                                                                      \
        (times)->s[(times)->count++] = bench_now_s() - start_;                                     \
    } while (0)

/** Allocate zeroed memory, aligned to a cache line and without later page faults. The caller frees
 * it. */
void *bench_alloc(size_t bytes);

/** Unless status is FED_OK, end the program with a message that contains `what`. */
void bench_require(fed_status status, const char *what);

/** e[i] += g[i], the least work of an encoder with error feedback. */
void bench_add(float *e, const float *g, size_t n);

#endif
