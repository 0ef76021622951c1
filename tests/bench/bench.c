/* Helpers of the benchmarks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now_s(void) {
    return bench_clock_s(CLOCK_MONOTONIC);
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

double bench_median_s(bench_times *times) {
    qsort(times->s, times->count, sizeof *times->s, ascending);
    return times->count > 0 ? times->s[times->count / 2] : 0.0;
}

double bench_median(const double *values, size_t count) {
    bench_times times = {.count = count};
    memcpy(times.s, values, count * sizeof *values);
    return bench_median_s(&times);
}

void *bench_alloc(size_t bytes) {
    enum { LINE = 64 };
    size_t size = (bytes / LINE + 1) * LINE;
    void *memory = aligned_alloc(LINE, size);
    bench_require(memory != NULL ? FED_OK : FED_ENOMEM, "memory");
    return memset(memory, 0, size);
}

void bench_require(fed_status status, const char *what) {
    if (status != FED_OK) {
        fprintf(stderr, "%s: %s\n", what, fed_status_name(status));
        exit(EXIT_FAILURE);
    }
}

void bench_add(float *e, const float *g, size_t n) {
    for (size_t i = 0; i < n; i++) {
        e[i] += g[i];
    }
}
