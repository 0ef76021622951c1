/* inceptionn's short blocks for AVX2 and AVX-512: tags to masks, and masks to tags. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_SHORT_AVX2_IMPL_H
#define FEDCODEC_INCEPTIONN_SHORT_AVX2_IMPL_H

#include <immintrin.h>

#include "codecs/inceptionn/short.h"

/* Return a short block's mask of the values that have a byte. */
static inline uint64_t sent_of(const uint8_t *tags) {
    uint64_t t[2];
    memcpy(t, tags, sizeof t);
    return _pext_u64(t[0], LOWER) | _pext_u64(t[1], LOWER) << 32;
}

static inline void put_sent(uint64_t sent, uint8_t *tags) {
    const uint64_t t[2] = {_pdep_u64(sent, LOWER), _pdep_u64(sent >> 32, LOWER)};
    memcpy(tags, t, sizeof t);
}

#endif
