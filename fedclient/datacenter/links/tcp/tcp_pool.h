/* Memory for arriving messages, used again and again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TCP_POOL_H
#define FEDDC_TCP_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { TCP_BUFFER_CLASSES = 31, TCP_BUFFER_HEAD = 64 };

/** What stands before a message's bytes. */
typedef struct tcp_buffer {
    struct tcp_buffer *next, *previous;
    unsigned power; /* it holds 1 << power bytes */
    size_t len;     /* of the message */
} tcp_buffer;

/** Zero-initialise it. */
typedef struct tcp_pool {
    tcp_buffer *idle[TCP_BUFFER_CLASSES];
    tcp_buffer *used; /* those that somebody holds */
} tcp_pool;

/** A buffer for len bytes, 1 to 1 GiB; NULL: no memory. */
tcp_buffer *feddc_tcp_pool_take(tcp_pool *pool, size_t len);

/** NULL is allowed. */
void feddc_tcp_pool_give(tcp_pool *pool, tcp_buffer *buffer);

/** Free all, also what is held. */
void feddc_tcp_pool_free(tcp_pool *pool);

/** The bytes, aligned to 64. */
static inline uint8_t *feddc_tcp_bytes(tcp_buffer *buffer) {
    return (uint8_t *)buffer + TCP_BUFFER_HEAD;
}

#endif
