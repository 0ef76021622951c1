/* Buffers for arriving messages, which are used again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_POOL_H
#define FEDDC_TCP_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { TCP_BUFFER_CLASSES = 31, TCP_BUFFER_HEAD = 64 };

/** A buffer's header. The message's bytes follow at TCP_BUFFER_HEAD. */
typedef struct tcp_buffer {
    struct tcp_buffer *next, *previous;
    unsigned power; /* room for 1 << power bytes */
    size_t len;
} tcp_buffer;

/** All zeros: an empty pool. */
typedef struct tcp_pool {
    tcp_buffer *idle[TCP_BUFFER_CLASSES];
    tcp_buffer *used; /* list of buffers that were not given back */
} tcp_pool;

/** A buffer for len bytes, 1 to 1 GiB. NULL: out of memory. */
tcp_buffer *feddc_tcp_pool_take(tcp_pool *pool, size_t len);

/** NULL is allowed. */
void feddc_tcp_pool_give(tcp_pool *pool, tcp_buffer *buffer);

/** Free all buffers, also those not given back. */
void feddc_tcp_pool_free(tcp_pool *pool);

/** The message's bytes, aligned to 64. */
static inline uint8_t *feddc_tcp_bytes(tcp_buffer *buffer) {
    return (uint8_t *)buffer + TCP_BUFFER_HEAD;
}

#endif
