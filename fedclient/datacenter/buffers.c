/* Message buffers: idle buffers are kept in a list and used again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/buffers.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static feddc_buffer *new_buffer(const feddc_buffers *buffers) {
    void *at = NULL;
    const size_t size = (sizeof(feddc_buffer) + buffers->size + ALIGN - 1) / ALIGN * ALIGN;
    if (buffers->gpu == NULL) {
        return aligned_alloc(ALIGN, size);
    }
    return fed_gpu_alloc_host(buffers->gpu, size, &at) == FED_OK ? at : NULL;
}

feddc_buffer *feddc_buffers_get(feddc_buffers *buffers) {
    feddc_buffer *buffer = buffers->idle;
    if (buffer != NULL) {
        buffers->idle = buffer->next;
    } else {
        buffer = new_buffer(buffers);
        if (buffer != NULL) {
            buffer->other = buffers->all;
            buffers->all = buffer;
        }
    }
    if (buffer != NULL) {
        buffer->next = NULL;
        buffer->len = 0;
        buffer->uses = 0;
    }
    return buffer;
}

void feddc_buffers_put(feddc_buffers *buffers, feddc_buffer *buffer) {
    if (buffer->uses > 0) {
        buffer->uses--;
    }
    if (buffer->uses == 0) {
        buffer->next = buffers->idle;
        buffers->idle = buffer;
    }
}

void feddc_buffers_free(feddc_buffers *buffers) {
    while (buffers->all != NULL) {
        feddc_buffer *buffer = buffers->all;
        buffers->all = buffer->other;
        if (buffers->gpu == NULL) {
            free(buffer);
        } else {
            fed_gpu_free_host(buffers->gpu, buffer);
        }
    }
    buffers->idle = NULL;
}
