/* Prefetch farther ahead than processors do by themselves, which pays in a loop that does more than
 * copy or add. Also clear large arrays without loading them into the caches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_FETCH_H
#define FEDCODEC_PRIM_FETCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* How many values ahead to prefetch (8 KiB), and the values of a cache line on most machines. */
enum { FEDCODEC_FETCH = 2048, FEDCODEC_FETCH_LINE = 16 };

/** Prefetch the value at at[ahead]; ahead may be negative. The address need not be valid. */
static inline void fedcodec_fetch(const void *at, ptrdiff_t ahead) {
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead * sizeof(float)));
}

/** In a loop that now handles n values at block: prefetch n values, FEDCODEC_FETCH values later. */
static inline void fedcodec_fetch_block(const float *block, size_t n) {
    for (size_t k = 0; k < n; k += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(block + k, FEDCODEC_FETCH);
    }
}

/** How many values a cache may hold (8 MiB). */
enum { FEDCODEC_NEAR = 1 << 21 };

/** y = 0. In a large array the zeros are written past the caches, so that the processor does not
 * first read the values that they replace. */
static inline void fedcodec_clear(float *y, size_t n) {
    size_t done = 0;
#ifdef __SSE2__
    if (n > FEDCODEC_NEAR) {
        for (; (uintptr_t)(y + done) % 16 != 0; done++) {
            y[done] = 0.0f;
        }
        for (; done + 4 <= n; done += 4) {
            _mm_stream_ps(y + done, _mm_setzero_ps());
        }
        _mm_sfence();
    }
#endif
    memset(y + done, 0, (n - done) * sizeof *y);
}

#endif
