/* Buffers for messages that are on their way: all of one size, used again and again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_BUFFERS_H
#define FEDDC_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct feddc_buffer {
    struct feddc_buffer *next;  /* in the list of idle ones */
    struct feddc_buffer *other; /* in the list of all */
    size_t len;                 /* of its message */
    uint32_t uses;              /* sends that still read it, and other uses; the user counts */
    _Alignas(64) uint8_t data[];
} feddc_buffer;

typedef struct feddc_buffers {
    size_t size; /* bytes of data of each */
    feddc_buffer *idle, *all;
} feddc_buffers;

/** A buffer with 0 uses; NULL: no memory. */
feddc_buffer *feddc_buffers_get(feddc_buffers *buffers);

/** One use less; without any the buffer is free again. */
void feddc_buffers_put(feddc_buffers *buffers, feddc_buffer *buffer);

/** Free all of them. */
void feddc_buffers_free(feddc_buffers *buffers);

#endif
