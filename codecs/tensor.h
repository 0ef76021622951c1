/* Internal to the library: the two steps of fedcodec_encode. Envelopes do the first step for all
 * tensors before the second. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_TENSOR_H
#define FEDCODEC_TENSOR_H

#include "fedcodec/codec.h"

/** The most values of a tensor. On a 32-bit machine this limit is smaller, so that a size_t holds
 * every size computed from it, such as that of work memory. */
#define FEDCODEC_VALUES_MAX ((size_t)(SIZE_MAX / 32 < UINT32_MAX ? SIZE_MAX / 32 : UINT32_MAX))

bool fedcodec_params_valid(const fedcodec *codec);

/** Step 1: check that all values are finite; changes nothing. *max is for step 2. If the residual
 * is NULL or codec->unguarded is set, step 1 does nothing, and step 2 finds NaN and infinity.
 * Errors as fedcodec_encode. */
fed_status fedcodec_scan(const fedcodec *codec, const float *residual, const float *x, size_t n,
                         float *max) FED_CHECKED;

/** Step 2: encode. max: what step 1 returned for these values. */
fed_status fedcodec_encode_scanned(const fedcodec *codec, float *residual, const float *x, size_t n,
                                   float max, void *work, uint8_t *dst, size_t cap,
                                   size_t *len) FED_CHECKED;

#endif
