/* The part of a coder that works on a GPU: slices to messages and back. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_GPU_CODER_H
#define FEDDC_GPU_CODER_H

#include "fedclient/datacenter/gpu_values.h"
#include "fedclient/datacenter/plan.h"
#include "fedcodec/codec.h"

/** The residual is on the GPU. Messages are those of fedclient/datacenter/coder.h, in host memory,
 * pinned or not. Each call returns when its message is there, or was used. */
typedef struct feddc_gpu_coder feddc_gpu_coder;

/** plan and values outlive it. Errors: FED_ENOTFOUND this codec runs on the processor only;
 * FED_ENOMEM, FED_EIO */
fed_status feddc_gpu_coder_new(const fedcodec *codec, const feddc_plan *plan,
                               const feddc_values *values, feddc_gpu_coder **coder,
                               fed_error *err) FED_CHECKED;
void feddc_gpu_coder_free(feddc_gpu_coder *coder);

/** Encode x, float32 of the shard on the GPU. *bad: the slice that failed, of the shard. Errors:
 * FED_ENONFINITE, FED_ENOMEM, FED_EIO */
fed_status feddc_gpu_coder_encode(feddc_gpu_coder *c, const feddc_shard *shard, const float *x,
                                  uint8_t *dst, size_t *len, size_t *bad) FED_CHECKED;

/** Of the k-th slice of the shard that was encoded last, which is coded by a codec without a
 * residual: how many values became 0. */
fed_status feddc_gpu_coder_zeroed(feddc_gpu_coder *c, const feddc_shard *shard, size_t k,
                                  const float *x, uint64_t *zeroed) FED_CHECKED;

/** y = what the message says, or y += it unless set; y NULL: the residual. FED_EFORMAT */
fed_status feddc_gpu_coder_use(feddc_gpu_coder *c, bool set, const feddc_shard *shard,
                               const uint8_t *src, size_t len, float *y) FED_CHECKED;

/** Copy the residual FED_GPU_DOWN to float32[plan->n] of the host, or back FED_GPU_UP, which only
 * reads `host`. In a stream of its own, from any thread while nothing is encoded. */
fed_status feddc_gpu_coder_residual(const feddc_gpu_coder *c, float *host,
                                    fed_gpu_way way) FED_CHECKED;

#endif
