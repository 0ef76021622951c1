/* What a codec provides to run on a GPU. Callers need fedcodec/gpu_codecs.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_CODEC_VTABLE_H
#define FEDCODEC_GPU_CODEC_VTABLE_H

#include "fedcodec/codec_vtable.h"
#include "fedcodec/gpu_codecs.h"

/*
 * A codec is NAME.cl, its kernels, and NAME_gpu.c, the order of their launches, which defines
 * `fedcodec_gpu_NAME`; and a line of gpu_codecs.def. contract.test_gpu_codecs compares each with
 * the processor's. Texts that codecs share stand before NAME.cl, codec.cl first. Codecs that write
 * the same number of bits for each value share dense_gpu.c and dense.cl; sbc, stc and dgc share
 * sparse_gpu.c and sparse.cl.
 */

/** A tensor to encode, or a message to read; all pointers are the device's. */
typedef struct fedcodec_gpu_job {
    fed_gpu_stream *stream;
    const fed_gpu_module *module; /* of this codec's kernels */
    const double *param;          /* encode: in range */
    float *residual;              /* encode: float32[n], or NULL for a codec without feedback */
    const float *x;               /* encode: float32[n], or NULL */
    uint8_t *message;             /* encode: where to; else what is read */
    uint32_t cap;                 /* bytes at message */
    uint32_t n;                   /* 1 to 2^31 */
    float w, *y;                  /* y += w decoded; or y = decoded, if set */
    bool set;
    fedcodec_gpu_head *head; /* encode, read: status is FED_OK already; encode: len is 0 */
    void *work;
} fedcodec_gpu_job;

typedef struct fedcodec_gpu_vtable {
    const char *name;       /* the codec's, as in a spec */
    const char *kernels[6]; /* texts, joined; the last is NULL */

    /** NULL, or a sentence: what these parameters need that only the processor has. NULL: all
     * parameters run. */
    const char *(*lacks)(const double *param);
    /** Bytes of work memory: the most that encode, bursts and read use. NULL: 0. */
    size_t (*work_size)(const double *param, size_t n);
    fed_status (*encode)(const fedcodec_gpu_job *job) FED_CHECKED;
    /** The same values as bursts, which may be not finite. NULL: a codec without bursts. */
    fed_status (*bursts)(const fedcodec_gpu_job *job) FED_CHECKED;
    /** Check the message, then read it. If encode could not have made the message, the check puts
     * another status into the head, and the kernels after it do nothing. */
    fed_status (*read)(const fedcodec_gpu_job *job) FED_CHECKED;
} fedcodec_gpu_vtable;

enum { FEDCODEC_GPU_ALIGN = 128 };

/** Groups, if each work-item takes `each` of n items. */
static inline uint32_t fedcodec_gpu_groups(size_t n, size_t each) {
    const size_t tile = each * FED_GPU_GROUP;
    return (uint32_t)((n + tile - 1) / tile);
}

/** size up to where the next array may begin. */
static inline size_t fedcodec_gpu_round_up(size_t size) {
    return (size + FEDCODEC_GPU_ALIGN - 1) / FEDCODEC_GPU_ALIGN * FEDCODEC_GPU_ALIGN;
}

#endif
