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

FED_API_END

#endif
