/* An exchange's values, which lie in host or GPU memory, and copies, sums and checks of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_GPU_VALUES_H
#define FEDDC_GPU_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/gpu.h"

/* Gradients, sums and residuals are values. Messages are bytes in host memory. On a GPU all work is
 * in one stream, and is done after the next feddc_values_wait. Until then a message given to a call
 * must not change, and one written by a call must not be read. On the host the work is done when a
 * call returns. Host and GPU give the same bits. */
typedef struct feddc_values {
    fed_gpu *gpu; /* NULL: values lie in host memory, and the other members are unused */
    fed_gpu_stream *stream;
    bool lent; /* the stream belongs to the caller */
    const fed_gpu_module *module;
    float *room;     /* GPU memory for the values of one message */
    uint32_t *found; /* GPU memory for a kernel's count */
    uint32_t *told;  /* a copy of *found, in pinned host memory */
} feddc_values;

/** stream: the caller's stream to work in; NULL: a new one. most: values of the largest message.
 * Errors: FED_ENOMEM, FED_EIO; call feddc_values_close also after an error. */
fed_status feddc_values_open(fed_gpu *gpu, fed_gpu_stream *stream, size_t most, feddc_values *v,
                             fed_error *err) FED_CHECKED;

/** Also allowed for a zeroed struct. */
void feddc_values_close(feddc_values *v);

/** Return status. For an error, *err gets a text: with a GPU, its last error message. */
fed_status feddc_values_explain(const feddc_values *v, fed_status status,
                                fed_error *err) FED_CHECKED;

/** Allocate float32[n] with all values 0. Errors: FED_ENOMEM, FED_EIO */
fed_status feddc_values_new(const feddc_values *v, size_t n, float **x) FED_CHECKED;
void feddc_values_free(const feddc_values *v, float *x);

/** If set, y = x, else y += x. Both are values. */
fed_status feddc_values_use(const feddc_values *v, bool set, float *y, const float *x,
                            size_t n) FED_CHECKED;

/** If set, y = x, else y += x. x is a message in host memory, with any alignment. */
fed_status feddc_values_use_bytes(const feddc_values *v, bool set, float *y, const uint8_t *x,
                                  size_t n) FED_CHECKED;

/** Only on a GPU. descend: y -= rate x; swap: x and y are swapped. */
fed_status feddc_values_descend(const feddc_values *v, float *y, const float *x, float rate,
                                size_t n) FED_CHECKED;
fed_status feddc_values_swap(const feddc_values *v, float *x, float *y, size_t n) FED_CHECKED;

fed_status feddc_values_bytes(const feddc_values *v, const float *x, size_t n,
                              uint8_t *dst) FED_CHECKED;

/** Set *finite to whether all values of x are finite. Waits for the stream. */
fed_status feddc_values_check(const feddc_values *v, const float *x, size_t n,
                              bool *finite) FED_CHECKED;

/** Set *zeroed to the number of values that are 0 in back and not 0 in x. Waits for the stream. */
fed_status feddc_values_zeroed(const feddc_values *v, const float *x, const float *back, size_t n,
                               uint64_t *zeroed) FED_CHECKED;

fed_status feddc_values_wait(const feddc_values *v) FED_CHECKED;

/** The number of work-groups for a kernel over n values. */
uint32_t feddc_values_groups(size_t n);

#endif
