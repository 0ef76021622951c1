/* Buffers for arriving messages. Sizes are powers of two. None is freed before
 * feddc_tcp_pool_free. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_pool.h"

#include <stdlib.h>

_Static_assert(sizeof(tcp_buffer) <= TCP_BUFFER_HEAD, "a buffer's head has room before its bytes");

enum { SMALLEST = 8 }; /* 256 bytes */

tcp_buffer *feddc_tcp_pool_take(tcp_pool *pool, size_t len) {
    unsigned power = SMALLEST;
    while (((size_t)1 << power) < len) {
        power++;
    }
    tcp_buffer *buffer = pool->idle[power];
    if (buffer != NULL) {
        pool->idle[power] = buffer->next;
    } else {
        buffer = aligned_alloc(TCP_BUFFER_HEAD, TCP_BUFFER_HEAD + ((size_t)1 << power));
        if (buffer == NULL) {
            return NULL;
        }
    }
    *buffer = (tcp_buffer){.next = pool->used, .power = power, .len = len};
    if (pool->used != NULL) {
        pool->used->previous = buffer;
    }
    pool->used = buffer;
    return buffer;
}

void feddc_tcp_pool_give(tcp_pool *pool, tcp_buffer *buffer) {
    if (buffer == NULL) {
        return;
    }
    if (buffer->previous != NULL) {
        buffer->previous->next = buffer->next;
    } else {
        pool->used = buffer->next;
    }
    if (buffer->next != NULL) {
        buffer->next->previous = buffer->previous;
    }
    buffer->next = pool->idle[buffer->power];
    pool->idle[buffer->power] = buffer;
}

static void free_list(tcp_buffer *buffer) {
    while (buffer != NULL) {
        tcp_buffer *next = buffer->next;
        free(buffer);
        buffer = next;
    }
}

void feddc_tcp_pool_free(tcp_pool *pool) {
    for (size_t k = 0; k < TCP_BUFFER_CLASSES; k++) {
        free_list(pool->idle[k]);
    }
    free_list(pool->used);
    *pool = (tcp_pool){0};
}
