/* The INCEPTIONN wire form: bursts of eight values, as the paper's network card sends them. */
#ifndef FEDCODEC_BURSTS_H
#define FEDCODEC_BURSTS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/*
 * In memory an inceptionn message has all its tags first, then all payloads: that is fast to write
 * and read. A network card works on eight values at a time, and wants a tag vector of 16 bits
 * before their payload. These two convert where the one meets the other; nothing is recoded.
 * Layout: docs/codec-formats.md#bursts. No allocation, nothing is kept.
 */

/** Most bytes of n values in bursts. */
size_t fedcodec_bursts_bound(size_t n);

/**
 * An inceptionn message of n values to bursts; dst may not overlap src. Errors: FED_EFORMAT src is
 * not such a message, FED_ENOSPC cap is too small for it, FED_ENOTFOUND this build has no
 * inceptionn; then nothing is written.
 */
fed_status fedcodec_bursts_pack(const uint8_t *src, size_t len, size_t n, uint8_t *dst, size_t cap,
                                size_t *dst_len) FED_CHECKED;

/**
 * Back: the same bytes. src is not trusted; cap is that of the codec's bound. Errors likewise, but
 * dst's content is then arbitrary.
 */
fed_status fedcodec_bursts_unpack(const uint8_t *src, size_t len, size_t n, uint8_t *dst,
                                  size_t cap, size_t *dst_len) FED_CHECKED;

FED_API_END

#endif
