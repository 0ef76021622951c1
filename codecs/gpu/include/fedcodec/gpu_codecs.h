/* Gradient codecs on a GPU: the same messages as fedcodec/codec.h, for gradients in GPU memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_CODECS_H
#define FEDCODEC_GPU_CODECS_H

#include "fed/gpu.h"
#include "fedcodec/codec.h"

FED_API_BEGIN

/*
 * Messages, residuals and decoded values are bit for bit those of the processor. The pointers
 * to values, residuals, messages, heads and work memory are addresses on the GPU, multiples of 16.
 * No function waits for the GPU or reads its results, so a graph can record the calls
 * (fed_gpu_keep). A message's length and status stay on the GPU, in a head.
 */

/** The head of a message, in GPU memory. */
typedef struct fedcodec_gpu_head {
    uint32_t
        status;   /* FED_OK; encode: FED_ENONFINITE; decode and axpy: FED_EFORMAT, FED_EVERSION */
    uint32_t len; /* bytes of the message */
    uint32_t reserved[6];
} fedcodec_gpu_head;

typedef struct fedcodec_gpu fedcodec_gpu;

/**
 * Build the kernels of a codec for this GPU. The codec is copied; its pool is not used.
 *
 * Errors  FED_ENOTFOUND  the codec, or a parameter's value, runs on the processor only: *err
 *                        says what runs on GPUs
 *         FED_EIO, FED_ENOMEM, FED_EINVAL
 * Owner   free it with fedcodec_gpu_free, before fed_gpu_close
 */
fed_status fedcodec_gpu_new(fed_gpu *gpu, const fedcodec *codec, fedcodec_gpu **made,
                            fed_error *err) FED_CHECKED;
void fedcodec_gpu_free(fedcodec_gpu *c);

/** Does this codec run on GPUs? It may not run with some values of its parameters, such as sbc's
 * pos=auto. fedcodec_gpu_new refuses such a value, and its error names the values that run. */
bool fedcodec_gpu_has(const fedcodec_vtable *codec);

/** Bytes of work memory that encode, decode and axpy of n values need, at an address that is a
 * multiple of 128. n is at most 2^31. Only one stream at a time may use the memory; its content
 * is arbitrary. */
size_t fedcodec_gpu_work_size(const fedcodec_gpu *c, size_t n);

/**
 * Encode as fedcodec_encode does with codec->unguarded set. If some residual + x is NaN or
 * infinite, head->status becomes FED_ENONFINITE, head->len becomes 0, and the residual is
 * undefined.
 *
 * residual  float32[n]; NULL for a codec without feedback
 * x         float32[n]; with feedback it may be NULL: nothing is added
 * dst, cap  cap is fedcodec_bound(codec, n) at least; bytes past head->len may change, up to cap
 * Errors    FED_ENOSPC; FED_EINVAL; those of fed_gpu_launch
 */
fed_status fedcodec_gpu_encode(fedcodec_gpu *c, fed_gpu_stream *stream, float *residual,
                               const float *x, size_t n, void *work, uint8_t *dst, size_t cap,
                               fedcodec_gpu_head *head) FED_CHECKED;

/**
 * Encode x as a network card's bursts, as fedcodec_bursts_encode does (fedcodec/bursts.h), with the
 * codec "inceptionn". Values need not be finite.
 *
 * x         float32[n]
 * dst, cap  cap is fedcodec_bursts_bound(n) at least; bytes past head->len may change, up to cap
 * Errors    FED_ENOTFOUND: the codec has no bursts; FED_ENOSPC; FED_EINVAL; those of launches
 */
fed_status fedcodec_gpu_bursts(fedcodec_gpu *c, fed_gpu_stream *stream, const float *x, size_t n,
                               void *work, uint8_t *dst, size_t cap,
                               fedcodec_gpu_head *head) FED_CHECKED;

/**
 * Decode a message as fedcodec_axpy (y += w * decoded) and fedcodec_decode (y = decoded) do.
 * head->len is the message's length. This length is not trusted: if it exceeds cap, the bytes at
 * src, the status is FED_EFORMAT.
 *
 * These calls set head->status:
 * FED_OK        the message is valid
 * FED_EFORMAT   the message is invalid; y is unchanged
 * FED_EVERSION  only the processor can decode the message; y is unchanged. These are sbc, stc
 *               and dgc with pos=rans or pos=range; dgc and topk with values=bfloat16 or int8;
 *               eden with p < 1, unless the p of this codec is below 1 and pos=golomb or rice
 *               wrote the message
 */
fed_status fedcodec_gpu_axpy(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                             size_t cap, fedcodec_gpu_head *head, float w, float *y, size_t n,
                             void *work) FED_CHECKED;
fed_status fedcodec_gpu_decode(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                               size_t cap, fedcodec_gpu_head *head, float *y, size_t n,
                               void *work) FED_CHECKED;

FED_API_END

#endif
