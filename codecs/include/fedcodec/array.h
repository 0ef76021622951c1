/* One array as one message that says which codec made it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_ARRAY_H
#define FEDCODEC_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A message is an envelope of one tensor (fedcodec/envelope.h, docs/codec-formats.md). Every
 * function allocates and frees the memory that it needs. Several threads may call them at once
 * with different arrays. After a failure *err has a sentence.
 */

/**
 * Compress x[n] and append the message to out.
 *
 * spec      a codec with its parameters: "sbc:p=0.01", "3lc:s=1.75+runs", "float32"
 * residual  float32[n], zeros at first: it is added to x, and then holds what the message leaves
 *           out. NULL: what the message leaves out is lost
 *
 * Errors FED_EINVAL  an unknown codec or parameter; n is 0 or above 2^32 - 1
 *        FED_ENONFINITE  NaN or infinity in x, the residual or their sum; if the residual was
 *                        finite, it is unchanged
 *        FED_ENOMEM, FED_ENOSPC  a writer of fixed size is too small
 */
fed_status fedcodec_array_encode(const char *spec, const float *x, size_t n, float *residual,
                                 fed_writer *out, fed_error *err) FED_CHECKED;

/** Return the rows of the matrix that stands for n values without a shape: the largest divisor of n
 * that is not above its square root; 0 for n = 0. Codecs that factor matrices see each array so. */
size_t fedcodec_array_rows(size_t n);

/** Count the values of a message. A few bytes can stand for billions of zeros: compare *n with what
 * the program expects before it allocates. FED_EFORMAT: the bytes are no valid message.
 * FED_EVERSION: this build can't read the message's version. */
fed_status fedcodec_array_count(const uint8_t *message, size_t len, size_t *n,
                                fed_error *err) FED_CHECKED;

/** y[n] = the values of a message, to the bit. FED_EFORMAT: the bytes are damaged, or are no
 * message of n values. FED_EVERSION: this build can't read the message's version. After an error y
 * is untouched. */
fed_status fedcodec_array_decode(const uint8_t *message, size_t len, float *y, size_t n,
                                 fed_error *err) FED_CHECKED;

/** y[n] += weight * the values of a message. Errors as fedcodec_array_decode. */
fed_status fedcodec_array_add(const uint8_t *message, size_t len, float weight, float *y, size_t n,
                              fed_error *err) FED_CHECKED;

FED_API_END

#endif
