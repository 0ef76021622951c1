/* The interface that a codec implements to run on a GPU. Callers of codecs need only
 * fedcodec/gpu_codecs.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_CODEC_VTABLE_H
#define FEDCODEC_GPU_CODEC_VTABLE_H

#include "fedcodec/codec_vtable.h"
#include "fedcodec/gpu_codecs.h"

/*
 * To add a codec, write NAME.cl with its kernels and NAME_gpu.c, which launches them and defines
 * fedcodec_gpu_NAME. Add a line to gpu_codecs.def. contract.test_gpu_codecs compares each codec
 * with the processor's version. codec.cl is the first of a codec's kernel sources. Codecs that
 * write the same number of bits for each value share dense_gpu.c and, except for trunc, dense.cl;
 * sbc, stc and dgc share sparse_gpu.c and sparse.cl, whose positions eden writes, too.
 */

/** A tensor to encode or a message to decode. All pointers from residual on are GPU addresses. */
typedef struct fedcodec_gpu_job {
    fed_gpu_stream *stream;
    const fed_gpu_module *module;
    const double *param; /* the codec's parameters, within their ranges */
    float *residual;     /* encode: float32[n], or NULL for a codec without feedback */
    const float *x;      /* encode: float32[n], or NULL */
    uint8_t *message;    /* encode: output; decode: input */
    uint32_t cap;        /* bytes at message */
    uint32_t n;          /* 0 to 2^31 */
    float w, *y;         /* decode: y = decoded if set, else y += w * decoded */
    bool set;
    fedcodec_gpu_head *head; /* head->status is FED_OK at the start; for encode, head->len is 0 */
    void *work;
} fedcodec_gpu_job;

typedef struct fedcodec_gpu_vtable {
    const char *name;
    const char *kernels[10]; /* sources to join; the last is NULL */

    /** Return a sentence if only the processor supports these parameters, else NULL. The function
     * is NULL if the GPU supports all parameters. */
    const char *(*lacks)(const double *param);
    /** Return the bytes of work memory that encode, bursts and read need at most. NULL: 0 bytes. */
    size_t (*work_size)(const double *param, size_t n);
    fed_status (*encode)(const fedcodec_gpu_job *job) FED_CHECKED;
    /** Encode as bursts (fedcodec/bursts.h); NaN and infinities are allowed. NULL: no bursts. */
    fed_status (*bursts)(const fedcodec_gpu_job *job) FED_CHECKED;
    /** Check the message, then decode it. For an invalid message, the check sets the head's status
     * to an error, and the later kernels do nothing. */
    fed_status (*read)(const fedcodec_gpu_job *job) FED_CHECKED;
} fedcodec_gpu_vtable;

enum { FEDCODEC_GPU_ALIGN = 128 };

/** Return the number of work-groups for n items, if each work-item handles `each` of them. */
static inline uint32_t fedcodec_gpu_groups(size_t n, size_t each) {
    const size_t tile = each * FED_GPU_GROUP;
    return (uint32_t)((n + tile - 1) / tile);
}

/** Round size up to the offset at which the next array may begin. */
static inline size_t fedcodec_gpu_round_up(size_t size) {
    return (size + FEDCODEC_GPU_ALIGN - 1) / FEDCODEC_GPU_ALIGN * FEDCODEC_GPU_ALIGN;
}

#endif
