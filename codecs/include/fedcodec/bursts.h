/* Bursts of eight values: the form in which INCEPTIONN's network card sends gradients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_BURSTS_H
#define FEDCODEC_BURSTS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/*
 * In memory an inceptionn message has all tags first, then all payloads, which is fast to write and
 * to read. A network card works on eight values at a time: it wants 16 bits of tags, then the
 * payload of these eight values. fedcodec_bursts_pack and fedcodec_bursts_unpack convert one form
 * into the other without decoding values. Layout: docs/codec-formats.md#bursts. Both functions
 * allocate nothing and keep nothing.
 */

/** Return the most bytes that n values take in bursts. */
size_t fedcodec_bursts_bound(size_t n);

/**
 * Convert an inceptionn message of n values into bursts. dst may not overlap src. Errors:
 * FED_EFORMAT    src is not an inceptionn message of n values
 * FED_ENOSPC     cap is too small
 * FED_ENOTFOUND  this build has no inceptionn codec
 * After an error dst is untouched.
 */
fed_status fedcodec_bursts_pack(const uint8_t *src, size_t len, size_t n, uint8_t *dst, size_t cap,
                                size_t *dst_len) FED_CHECKED;

/**
 * Convert bursts back into the same message. src is not trusted. cap: at least fedcodec_bound of
 * the codec. Errors as fedcodec_bursts_pack, but an error leaves dst's content arbitrary.
 */
fed_status fedcodec_bursts_unpack(const uint8_t *src, size_t len, size_t n, uint8_t *dst,
                                  size_t cap, size_t *dst_len) FED_CHECKED;

/*
 * The same coding for a network card, which sees a stream of bytes and knows no model. These
 * functions refuse no value: NaN and infinities are sent unchanged. x need not be aligned. e is
 * the codec's parameter, 1 to 15: values under 2^-e become 0. Every machine gives the same bytes.
 * In a build without the codec inceptionn, encode returns 0, decode returns FED_ENOTFOUND, and
 * round copies x.
 */

/** Encode values, float32[n] in the machine's order, as bursts, until cap bytes are full: whole
 * bursts only. Returns how many values fitted: n, or a multiple of eight. *len: bytes written to
 * dst. */
size_t fedcodec_bursts_encode(int e, const void *x, size_t n, uint8_t *dst, size_t cap,
                              size_t *len);

/** Decode n values to x, 4n bytes. src is not trusted. FED_EFORMAT: these bytes are not the bursts
 * of n values; x is arbitrary then. */
fed_status fedcodec_bursts_decode(const uint8_t *src, size_t len, void *x, size_t n) FED_CHECKED;

/** Set y to what x becomes when a network card sends it: encoded and decoded. A second card on the
 * way changes nothing more, since every value that becomes 0 becomes +0. (fedcodec_decode keeps
 * the sign of such a zero where 8 bits are sent.) x and y may be the same memory. */
void fedcodec_bursts_round(int e, const float *x, float *y, size_t n);

FED_API_END

#endif
