/* Helpers of benchmarks: a clock, medians, memory. Each stops the program on failure. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <time.h>

#include "fed/status.h"

enum { BENCH_ROUNDS_MAX = 1000 };

/** Seconds of one operation in each round. Initialise it with {.count = 0}. */
typedef struct bench_times {
    double s[BENCH_ROUNDS_MAX];
    size_t count;
} bench_times;

double bench_now_s(void);

/** The time of this clock in seconds. CLOCK_PROCESS_CPUTIME_ID and the CPU clock of a thread leave
 * out the time of other programs. */
double bench_clock_s(clockid_t clock);

/** The median of the times, which are then sorted; 0 if there are none. */
double bench_median_s(bench_times *times);

/** The median of up to BENCH_ROUNDS_MAX values, which stay in their order. */
double bench_median(const double *values, size_t count);

#define BENCH_TIME(times, work)                                                                    \
    do {                                                                                           \
        double start_ = bench_now_s();                                                             \
        work;                                                                                      \
        (times)->s[(times)->count++] = bench_now_s() - start_;                                     \
    } while (0)

/** Zeroed memory that begins at a cache line. All its pages have been written, so no page fault
 * falls into a measurement. The caller frees the memory. */
void *bench_alloc(size_t bytes);

/** Unless status is FED_OK, stop the program with a message that names `what`. */
void bench_require(fed_status status, const char *what);

/** The second yardstick besides memcpy: e[i] += g[i], which all error feedback needs. */
void bench_add(float *e, const float *g, size_t n);

#endif
