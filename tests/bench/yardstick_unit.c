/* Yardsticks of a processor's speed, compiled once for each vector unit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "yardstick_unit.h"

#include <stdint.h>

#include "fedclient/train/kernels/vector.h"

enum { CHAINS = 12, WAYS = 4 };

static double multiply_adds(size_t rounds) {
    vec sum[CHAINS], factor = (vec){0} + 0.5F, term = (vec){0} + 1.0F;
    KERNEL_UNROLL
    for (int c = 0; c < CHAINS; c++) {
        sum[c] = (vec){0} + (float)c;
    }
    for (size_t r = 0; r < rounds; r++) {
        KERNEL_UNROLL
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = sum[c] * factor + term;
        }
    }
    KERNEL_UNROLL
    for (int c = 1; c < CHAINS; c++) {
        sum[0] += sum[c];
    }
    volatile float result = vec_sum(sum[0]); /* volatile, so that the compiler keeps the loop */
    (void)result;
    return 2.0 * CHAINS * LANES * (double)rounds;
}

static void rewrite_memory(float *x, size_t n) {
    volatile float nothing = 0;
    vec term = (vec){0} + nothing;
    for (size_t i = 0; i + LANES <= n; i += LANES) {
        vec_store(x + i, vec_load(x + i) + term);
    }
}

static void read_memory(const float *x, size_t n) {
    vec sum[WAYS] = {{0}};
    for (size_t i = 0; i + WAYS * LANES <= n; i += WAYS * LANES) {
        KERNEL_UNROLL
        for (int k = 0; k < WAYS; k++) {
            sum[k] += vec_load(x + i + k * LANES);
        }
    }
    volatile float result = vec_sum(sum[0] + sum[1] + sum[2] + sum[3]);
    (void)result;
}

/* Prefetches save time where no cache holds the memory. */
static void write_memory(float *x, size_t n) {
    enum { AHEAD = 2048 };
    const vec one = (vec){0} + 1.0F;
    for (size_t i = 0; i + LANES <= n; i += LANES) {
        __builtin_prefetch((const void *)((uintptr_t)(x + i) + AHEAD * sizeof *x));
        vec_store(x + i, one);
    }
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

extern const yardsticks KERNEL(yardsticks);

const yardsticks KERNEL(yardsticks) = {
    .unit = TEXT(FEDTRAIN_ISA),
    .multiply_adds = multiply_adds,
    .rewrite = rewrite_memory,
    .read = read_memory,
    .write = write_memory,
};
