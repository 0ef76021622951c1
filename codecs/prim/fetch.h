/* Prefetch farther ahead than most processors do by themselves. Also clear large arrays without
 * loading them into the caches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_FETCH_H
#define FEDCODEC_PRIM_FETCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* FEDCODEC_FETCH: how many values ahead to prefetch (8 KiB). FEDCODEC_FETCH_LINE: values of a cache
 * line on most machines. */
enum { FEDCODEC_FETCH = 2048, FEDCODEC_FETCH_LINE = 16 };

/** Prefetch at[ahead]; ahead may be negative. The address need not be valid. */
static inline void fedcodec_fetch(const void *at, ptrdiff_t ahead) {
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead * sizeof(float)));
}

/** Arrays of more values than this (8 MiB) are assumed not to fit into the caches. */
enum { FEDCODEC_NEAR = 1 << 21 };

/** Prefetch the n values that lie FEDCODEC_FETCH values after block, where a loop works now. */
static inline void fedcodec_fetch_block(const float *block, size_t n) {
    for (size_t k = 0; k < n; k += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(block + k, FEDCODEC_FETCH);
    }
}

/** As fedcodec_fetch_block, for an array of `all` values; nothing if caches have room for it. There
 * prefetches would only cost time. */
static inline void fedcodec_fetch_far(const float *block, size_t n, size_t all) {
    if (all > FEDCODEC_NEAR) {
        fedcodec_fetch_block(block, n);
    }
}

/** Set y to 0. In a large array the zeros are written past the caches, so that the processor does
 * not first read the values that they replace. */
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
