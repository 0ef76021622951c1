/* Inside the library: the steps of fedcodec_encode, for envelopes: they check all tensors first. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_TENSOR_H
#define FEDCODEC_TENSOR_H

#include "fedcodec/codec.h"

/** Most values of a tensor. On a 32-bit machine fewer, so that no size computed from them, such as
 * of work memory, passes a size_t. */
#define FEDCODEC_VALUES_MAX ((size_t)(SIZE_MAX / 32 < UINT32_MAX ? SIZE_MAX / 32 : UINT32_MAX))

/** Are all parameters within their ranges? */
bool fedcodec_params_valid(const fedcodec *codec);

/** Step 1: are all values finite? Changes nothing. *max: for step 2. Does nothing if the residual
 * is unguarded: then step 2 finds out. Errors as fedcodec_encode. */
fed_status fedcodec_scan(const fedcodec *codec, const float *residual, const float *x, size_t n,
                         float *max) FED_CHECKED;

/** Step 2: encode, given what step 1 found in these values. */
fed_status fedcodec_encode_scanned(const fedcodec *codec, float *residual, const float *x, size_t n,
                                   float max, void *work, uint8_t *dst, size_t cap,
                                   size_t *len) FED_CHECKED;

#endif
