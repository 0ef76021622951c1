/* Helpers for tests of codecs: encode some values, check the message, decode it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CODEC_CASE_H
#define FED_CODEC_CASE_H

#include "fedcodec/codec_vtable.h"

enum { CODEC_CASE_VALUES = 64, CODEC_CASE_BYTES = 512 };

/** Encode the residual x[n] into dst[cap]. Returns the message's length. */
size_t codec_case_encode(const char *spec, float *x, size_t n, uint8_t *dst, size_t cap);

typedef struct codec_case {
    uint8_t message[CODEC_CASE_BYTES];
    size_t len;
    float residual[CODEC_CASE_VALUES];
    float decoded[CODEC_CASE_VALUES];
} codec_case;

/** Encode x[n], n <= CODEC_CASE_VALUES, and decode the message. */
codec_case codec_case_of(const char *spec, const float *x, size_t n);

/** Encode 65,536 values, most of them small, in at most a byte each. Returns the squared 2-norm of
 * the message's error, divided by that of the values. */
double codec_case_error(const char *spec);

/** Check that the message for x[n] has these bytes, and that decoding it gives y[n]. */
void assert_codec_message(const char *spec, const float *x, const float *y, size_t n,
                          const void *bytes, size_t len);

/** Check that src[len] is refused as a message of n <= CODEC_CASE_VALUES values. */
void assert_codec_refuses(uint8_t id, const void *src, size_t len, size_t n);
void assert_codec_accepts(uint8_t id, const void *src, size_t len, size_t n);

#define assert_refuses(id, text, n) assert_codec_refuses(id, text, sizeof(text) - 1, n)
#define assert_accepts(id, text, n) assert_codec_accepts(id, text, sizeof(text) - 1, n)

#endif
