/* Memory asked for farther ahead than processors do by themselves: 8 KiB. */
#ifndef FEDCODEC_PRIM_FETCH_H
#define FEDCODEC_PRIM_FETCH_H

#include <stddef.h>

/* In values: how far, and how many of them a line of cache holds on most machines. */
enum { FEDCODEC_FETCH = 2048, FEDCODEC_FETCH_LINE = 16 };

/** For the n values at `block`, as far ahead of them; past the end of memory it does nothing. */
static inline void fedcodec_fetch_to_read(const float *block, size_t n) {
    for (size_t k = 0; k < n; k += FEDCODEC_FETCH_LINE) {
        __builtin_prefetch(block + k + FEDCODEC_FETCH, 0);
    }
}

static inline void fedcodec_fetch_to_write(const float *block, size_t n) {
    for (size_t k = 0; k < n; k += FEDCODEC_FETCH_LINE) {
        __builtin_prefetch(block + k + FEDCODEC_FETCH, 1);
    }
}

#endif
