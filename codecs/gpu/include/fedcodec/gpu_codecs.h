/* Gradient codecs on a GPU: the same bytes as fedcodec/codec.h, where the gradients are. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_CODECS_H
#define FEDCODEC_GPU_CODECS_H

#include "fed/gpu.h"
#include "fedcodec/codec.h"

FED_API_BEGIN

/*
 * Messages, residuals and decoded values have the processor's bits. All pointers but the codec's
 * own are the device's, at multiples of 16 bytes. Nothing here waits for the device or reads what
 * it computed, so a graph can keep it (fed_gpu_keep). Length and status stay on the device, in a
 * head.
 */

/** On the device. */
typedef struct fedcodec_gpu_head {
    uint32_t status; /* a fed_status: FED_OK, FED_ENONFINITE of encode, FED_EFORMAT of axpy */
    uint32_t len;    /* bytes of the message */
    uint32_t reserved[6];
} fedcodec_gpu_head;

typedef struct fedcodec_gpu fedcodec_gpu;

/**
 * A codec on this GPU: builds its kernels. The codec is copied; its pool is not used.
 *
 * Errors  FED_ENOTFOUND  this codec, or a parameter's value, runs on the processor only: *err says
 *                        which ones do not
 *         FED_EIO, FED_ENOMEM, FED_EINVAL
 * Owner   fedcodec_gpu_free, before fed_gpu_close
 */
fed_status fedcodec_gpu_new(fed_gpu *gpu, const fedcodec *codec, fedcodec_gpu **made,
                            fed_error *err) FED_CHECKED;
void fedcodec_gpu_free(fedcodec_gpu *c);

/** Does a codec of this name run on GPUs? With some of its parameters' values it may not, such as
 * sbc's pos=auto: fedcodec_gpu_new refuses these, and says which ones run. */
bool fedcodec_gpu_has(const fedcodec_vtable *codec);

/** Bytes of work memory, at a multiple of 128, that encode, decode and axpy of n values need: n up
 * to 2^31. One stream at a time uses it; its content is arbitrary. */
size_t fedcodec_gpu_work_size(const fedcodec_gpu *c, size_t n);

/**
 * As fedcodec_encode of an unguarded codec: if head->status is FED_ENONFINITE, the residual is
 * spoilt, and head->len is 0.
 *
 * residual  float32[n]; NULL for a codec without feedback
 * x         float32[n]; NULL: nothing to add, with feedback only
 * dst, cap  cap is fedcodec_bound(codec, n) at least; bytes past head->len may change, up to cap
 * Errors    FED_ENOSPC; FED_EINVAL; those of launches
 */
fed_status fedcodec_gpu_encode(fedcodec_gpu *c, fed_gpu_stream *stream, float *residual,
                               const float *x, size_t n, void *work, uint8_t *dst, size_t cap,
                               fedcodec_gpu_head *head) FED_CHECKED;

/**
 * As fedcodec_bursts_encode (fedcodec/bursts.h): x as a network card's bursts, by a codec
 * "inceptionn". Values need not be finite.
 *
 * x         float32[n]
 * dst, cap  cap is fedcodec_bursts_bound(n) at least; bytes past head->len may change, up to cap
 * Errors    FED_ENOTFOUND: a codec without bursts; FED_ENOSPC; FED_EINVAL; those of launches
 */
fed_status fedcodec_gpu_bursts(fedcodec_gpu *c, fed_gpu_stream *stream, const float *x, size_t n,
                               void *work, uint8_t *dst, size_t cap,
                               fedcodec_gpu_head *head) FED_CHECKED;

/**
 * As fedcodec_axpy and fedcodec_decode: y += w decoded, and y = decoded. head->len is the message's
 * length, which is not trusted; src has cap bytes, and a longer head->len is FED_EFORMAT. A message
 * that encode could not have made sets head->status and leaves y alone; a good one sets FED_OK.
 * FED_EVERSION: a message that the processor may read, but no GPU: sbc, stc and dgc with positions
 * in the codes rans and range; dgc and topk with values as bfloat16 and int8.
 */
fed_status fedcodec_gpu_axpy(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                             size_t cap, fedcodec_gpu_head *head, float w, float *y, size_t n,
                             void *work) FED_CHECKED;
fed_status fedcodec_gpu_decode(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                               size_t cap, fedcodec_gpu_head *head, float *y, size_t n,
                               void *work) FED_CHECKED;

FED_API_END

#endif
