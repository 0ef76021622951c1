/* Where the values of an exchange live, the host's memory or a GPU's, and plain work on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_GPU_VALUES_H
#define FEDDC_GPU_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/gpu.h"

/*
 * Gradients, sums and residuals are values. Messages are bytes of the host's memory.
 *
 * On a GPU all work is in one stream, that of the engine's thread, and is done by the next
 * feddc_values_wait. Until then bytes stay as they are, and are not read. On the host the work is
 * done when a call returns. Both places have the same bits: what differs is where.
 */
typedef struct feddc_values {
    fed_gpu *gpu; /* NULL: the host's memory, and nothing of what follows */
    fed_gpu_stream *stream;
    bool lent; /* the stream is the caller's */
    const fed_gpu_module *module;
    float *room;     /* on the GPU: the values of a message on their way */
    uint32_t *found; /* on the GPU: what a kernel counts */
    uint32_t *told;  /* in pinned memory: the same */
} feddc_values;

/** stream: what to work in, of the caller; NULL: a new one. most: values of the largest message.
 * Errors: FED_ENOMEM, FED_EIO; after one, close it. */
fed_status feddc_values_open(fed_gpu *gpu, fed_gpu_stream *stream, size_t most, feddc_values *v,
                             fed_error *err) FED_CHECKED;

/** Safe on zeroed ones. */
void feddc_values_close(feddc_values *v);

/** Put the GPU's sentence into *err, and return status. */
fed_status feddc_values_explain(const feddc_values *v, fed_status status,
                                fed_error *err) FED_CHECKED;

/** float32[n], 0. FED_ENOMEM, FED_EIO */
fed_status feddc_values_new(const feddc_values *v, size_t n, float **x) FED_CHECKED;
void feddc_values_free(const feddc_values *v, float *x);

/** y = x, or y += x unless set. Both are values. */
fed_status feddc_values_use(const feddc_values *v, bool set, float *y, const float *x,
                            size_t n) FED_CHECKED;

/** The same; x is a message, at any address. */
fed_status feddc_values_use_bytes(const feddc_values *v, bool set, float *y, const uint8_t *x,
                                  size_t n) FED_CHECKED;

/** On a GPU: y -= rate x; and x and y change places. */
fed_status feddc_values_descend(const feddc_values *v, float *y, const float *x, float rate,
                                size_t n) FED_CHECKED;
fed_status feddc_values_swap(const feddc_values *v, float *x, float *y, size_t n) FED_CHECKED;

/** dst = x, as a message. */
fed_status feddc_values_bytes(const feddc_values *v, const float *x, size_t n,
                              uint8_t *dst) FED_CHECKED;

/** *finite: all of x are. Waits. */
fed_status feddc_values_check(const feddc_values *v, const float *x, size_t n,
                              bool *finite) FED_CHECKED;

/** *zeroed: how many are 0 in back and not in x. Waits. */
fed_status feddc_values_zeroed(const feddc_values *v, const float *x, const float *back, size_t n,
                               uint64_t *zeroed) FED_CHECKED;

fed_status feddc_values_wait(const feddc_values *v) FED_CHECKED;

/** Groups for a kernel of gpu_values.cl over n values. */
uint32_t feddc_values_groups(size_t n);

#endif
