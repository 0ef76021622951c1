/* A list of buffers that wait for the next message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/buffers.h"

#include <stdlib.h>

enum { ALIGN = 64 };

feddc_buffer *feddc_buffers_get(feddc_buffers *buffers) {
    feddc_buffer *buffer = buffers->idle;
    if (buffer != NULL) {
        buffers->idle = buffer->next;
    } else {
        size_t size = sizeof *buffer + buffers->size;
        buffer = aligned_alloc(ALIGN, (size + ALIGN - 1) / ALIGN * ALIGN);
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
        free(buffer);
    }
    buffers->idle = NULL;
}
