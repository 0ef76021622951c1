/* Buffers for messages. All buffers of a feddc_buffers have one size, and are used again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_BUFFERS_H
#define FEDDC_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/gpu.h"

typedef struct feddc_buffer {
    struct feddc_buffer *next;  /* in the list of idle buffers */
    struct feddc_buffer *other; /* in the list of all buffers */
    size_t len;
    uint32_t uses; /* sends that still read data, and other uses */
    _Alignas(64) uint8_t data[];
} feddc_buffer;

typedef struct feddc_buffers {
    size_t size;  /* bytes of each buffer's data */
    fed_gpu *gpu; /* NULL: buffers lie on the heap; else in pinned memory of this GPU's driver */
    feddc_buffer *idle, *all;
} feddc_buffers;

/** Return a buffer with 0 uses, or NULL when memory is out. */
feddc_buffer *feddc_buffers_get(feddc_buffers *buffers);

/** Take one use away. A buffer without uses goes back to the idle list. */
void feddc_buffers_put(feddc_buffers *buffers, feddc_buffer *buffer);

/** Free all buffers, also those in use. */
void feddc_buffers_free(feddc_buffers *buffers);

/* A send's token says what to release when the link no longer reads the data: nothing, a buffer, or
 * (lowest bit 1) the shard whose sum was sent without a copy. */

enum { FEDDC_TOKEN_NOTHING = 0, FEDDC_TOKEN_IS_SHARD = 1 };

static inline uint64_t feddc_token_of_buffer(const feddc_buffer *buffer) {
    /* a buffer is aligned to 64 bytes, so its lowest bit is 0 */
    return (uint64_t)(uintptr_t)buffer;
}

static inline uint64_t feddc_token_of_shard(size_t shard) {
    return (uint64_t)shard << 1 | FEDDC_TOKEN_IS_SHARD;
}

static inline bool feddc_token_is_shard(uint64_t token) {
    return (token & FEDDC_TOKEN_IS_SHARD) != 0;
}

static inline size_t feddc_token_shard(uint64_t token) {
    return (size_t)(token >> 1);
}

static inline feddc_buffer *feddc_token_buffer(uint64_t token) {
    return (feddc_buffer *)(uintptr_t)token;
}

#endif
