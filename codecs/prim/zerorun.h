/* Runs of the byte 121 in one byte: the zero-run encoding of 3LC. */
#ifndef FEDCODEC_PRIM_ZERORUN_H
#define FEDCODEC_PRIM_ZERORUN_H

#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * Input bytes are 0 .. 242. A run of k bytes 121, 2 <= k <= 14, becomes the byte 241 + k; a longer
 * one is cut into runs of 14 from its front. So a message has one form only.
 */
enum { FEDCODEC_ZERORUN_MAX = 14 };

/** How many bytes 121 a byte of the output stands for: 0 for any other byte. */
static inline unsigned fedcodec_zerorun_len(uint8_t b) {
    return b >= 243 ? b - 241u : b == 121;
}

/** Encode src[len]; returns how many bytes were written, len at most. dst may be src. */
size_t fedcodec_zerorun_pack(const uint8_t *src, size_t len, uint8_t *dst);

/** FED_OK when src[len] is what fedcodec_zerorun_pack makes of some `unpacked` bytes, of which at
 * least one is not 121. */
fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) FED_CHECKED;

#endif
