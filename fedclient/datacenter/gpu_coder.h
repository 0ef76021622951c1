/* The part of a coder that works on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_GPU_CODER_H
#define FEDDC_GPU_CODER_H

#include "fedclient/datacenter/gpu_values.h"
#include "fedclient/datacenter/plan.h"
#include "fedcodec/codec.h"

/** Messages have the format of fedclient/datacenter/coder.h and lie in host memory. The residual is
 * on the GPU. Each call returns when its message is complete or was decoded. */
typedef struct feddc_gpu_coder feddc_gpu_coder;

/** plan and values must outlive the coder. Errors: FED_ENOTFOUND the codec has no GPU kernels;
 * FED_ENOMEM, FED_EIO */
fed_status feddc_gpu_coder_new(const fedcodec *codec, const feddc_plan *plan,
                               const feddc_values *values, feddc_gpu_coder **coder,
                               fed_error *err) FED_CHECKED;
void feddc_gpu_coder_free(feddc_gpu_coder *coder);

/** Encode x, float32[shard->n] on the GPU. *bad: the index in the shard of the slice that failed.
 * Errors: FED_ENONFINITE, FED_ENOMEM, FED_EIO */
fed_status feddc_gpu_coder_encode(feddc_gpu_coder *c, const feddc_shard *shard, const float *x,
                                  uint8_t *dst, size_t *len, size_t *bad) FED_CHECKED;

/** Count the values that became 0 in coded slice k of the shard encoded last. Only for a codec
 * without a residual. */
fed_status feddc_gpu_coder_zeroed(feddc_gpu_coder *c, const feddc_shard *shard, size_t k,
                                  const float *x, uint64_t *zeroed) FED_CHECKED;

/** Decode a message: if set, y = its values, else y += its values. y NULL: use the residual as y.
 * Errors: FED_EFORMAT, FED_ENOMEM, FED_EIO */
fed_status feddc_gpu_coder_use(feddc_gpu_coder *c, bool set, const feddc_shard *shard,
                               const uint8_t *src, size_t len, float *y) FED_CHECKED;

/** Copy the residual to float32[plan->n] on the host (FED_GPU_DOWN), or back (FED_GPU_UP). Uses a
 * stream of its own. Callable from any thread while no other call changes the residual. */
fed_status feddc_gpu_coder_residual(const feddc_gpu_coder *c, float *host,
                                    fed_gpu_way way) FED_CHECKED;

#endif
