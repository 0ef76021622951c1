/* Prefetches farther ahead than processors do by themselves. Worth it in a loop that does more than
 * copy or add. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_FETCH_H
#define FEDCODEC_PRIM_FETCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In values: how far ahead to prefetch (8 KiB), and the size of a cache line on most machines. */
enum { FEDCODEC_FETCH = 2048, FEDCODEC_FETCH_LINE = 16 };

/** Prefetch the value `ahead` values after `at`, or before it if `ahead` is negative. The address
 * need not be valid. */
static inline void fedcodec_fetch(const void *at, ptrdiff_t ahead) {
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead * sizeof(float)));
}

/** For a loop that has reached the n values at `block`: prefetch n values, FEDCODEC_FETCH ahead. */
static inline void fedcodec_fetch_block(const float *block, size_t n) {
    for (size_t k = 0; k < n; k += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(block + k, FEDCODEC_FETCH);
    }
}

/** Values that a cache may hold (8 MiB). In larger buffers it pays to prefetch even values that are
 * only overwritten. */
enum { FEDCODEC_NEAR = 1 << 21 };

/** y = 0. */
static inline void fedcodec_clear(float *y, size_t n) {
    size_t i = 0;
    for (; n > FEDCODEC_NEAR && i + FEDCODEC_FETCH_LINE <= n; i += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(y + i, FEDCODEC_FETCH);
        memset(y + i, 0, FEDCODEC_FETCH_LINE * sizeof *y);
    }
    memset(y + i, 0, (n - i) * sizeof *y);
}

#endif
