/* Buffers for messages that are on their way: all of one size, used again and again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_BUFFERS_H
#define FEDDC_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/gpu.h"

typedef struct feddc_buffer {
    struct feddc_buffer *next;  /* in the list of idle ones */
    struct feddc_buffer *other; /* in the list of all */
    size_t len;                 /* of its message */
    uint32_t uses;              /* sends that still read it, and other uses; the user counts */
    _Alignas(64) uint8_t data[];
} feddc_buffer;

typedef struct feddc_buffers {
    size_t size;  /* bytes of data of each */
    fed_gpu *gpu; /* NULL: they are of the heap; else of pinned memory */
    feddc_buffer *idle, *all;
} feddc_buffers;

/** A buffer with 0 uses; NULL: no memory. */
feddc_buffer *feddc_buffers_get(feddc_buffers *buffers);

/** One use less; without any the buffer is free again. */
void feddc_buffers_put(feddc_buffers *buffers, feddc_buffer *buffer);

/** Free all of them. */
void feddc_buffers_free(feddc_buffers *buffers);

/* A send's token: a buffer to give back, the shard whose sum was lent, or nothing. */

enum { FEDDC_TOKEN_NOTHING = 0, FEDDC_TOKEN_IS_SHARD = 1 };

static inline uint64_t feddc_token_of_buffer(const feddc_buffer *buffer) {
    return (uint64_t)(uintptr_t)buffer; /* which is aligned: its last bit is 0 */
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
