/* The INCEPTIONN wire form: bursts of eight values, as the paper's network card sends them. */
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
 * to read. A network card works on eight values at a time: it wants a vector of 16 tag bits, then
 * the payload of these eight values. The two functions convert one form into the other and recode
 * no value. Layout: docs/codec-formats.md#bursts. They allocate nothing and keep nothing.
 */

/** Most bytes of n values in bursts. */
size_t fedcodec_bursts_bound(size_t n);

/**
 * Convert an inceptionn message of n values into bursts. dst may not overlap src. Errors:
 * FED_EFORMAT src is not such a message; FED_ENOSPC cap is too small for it; FED_ENOTFOUND this
 * build has no inceptionn. An error writes nothing.
 */
fed_status fedcodec_bursts_pack(const uint8_t *src, size_t len, size_t n, uint8_t *dst, size_t cap,
                                size_t *dst_len) FED_CHECKED;

/**
 * Convert bursts back into the same message. src is not trusted. cap: at least fedcodec_bound of
 * the codec. Errors as above, but an error leaves dst's content arbitrary.
 */
fed_status fedcodec_bursts_unpack(const uint8_t *src, size_t len, size_t n, uint8_t *dst,
                                  size_t cap, size_t *dst_len) FED_CHECKED;

/*
 * The same coding for a network card, which sees bytes and not a model. Nothing is refused: values
 * that are not finite travel as they are. x need not be aligned. e: 1 to 15; values under 2^-e
 * become 0. On a machine without a fast unit for it the results are the same bytes.
 */

/** Encode values, float32[n] in the machine's order, as bursts, until cap bytes are full: whole
 * bursts only. Returns how many values fitted: n, or a multiple of eight. *len: bytes written to
 * dst. */
size_t fedcodec_bursts_encode(int e, const void *x, size_t n, uint8_t *dst, size_t cap,
                              size_t *len);

/** Decode n values to x, 4n bytes. src is not trusted. FED_EFORMAT: these bytes are not the bursts
 * of n values; x is arbitrary then. */
fed_status fedcodec_bursts_decode(const uint8_t *src, size_t len, void *x, size_t n) FED_CHECKED;

/** y = what x becomes on its way through a card: encoded and decoded. A second card changes
 * nothing more, since what becomes 0 is always +0. (fedcodec_decode keeps the sign of such a zero
 * where 8 bits are sent.) x and y may be the same memory. */
void fedcodec_bursts_round(int e, const float *x, float *y, size_t n);

FED_API_END

#endif
