/* inceptionn: convert words to a payload and back. A tag tells how many upper bytes are sent. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_BYTES_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_BYTES_IMPL_H

#include "codecs/prim/tags.h"
#include "codecs/unit.h"

#if defined(FEDCODEC_NEON)

#include <arm_neon.h>

#include "codecs/inceptionn/block_rows.h"

static inline void move_bytes(const uint8_t *from, const uint8_t row[16], uint8_t *to) {
    vst1q_u8(to, vqtbl1q_u8(vld1q_u8(from), vld1q_u8(row)));
}

static inline uint8_t *put_words(const uint32_t *word, const uint8_t *tags, size_t tag_bytes,
                                 uint8_t *out) {
    for (size_t k = 0; k < tag_bytes; k++) {
        move_bytes((const uint8_t *)(word + FEDCODEC_TAGS * k), put_rows[tags[k]], out);
        out += fedcodec_tags_bytes[tags[k]];
    }
    return out;
}

static inline const uint8_t *get_words(const uint8_t *tags, size_t tag_bytes, const uint8_t *src,
                                       uint32_t *word) {
    for (size_t k = 0; k < tag_bytes; k++) {
        move_bytes(src, get_rows[tags[k]], (uint8_t *)(word + FEDCODEC_TAGS * k));
        src += fedcodec_tags_bytes[tags[k]];
    }
    return src;
}

#else

/* Two words are handled together in 64 bits. first, second: how many bits of each word are sent.
 * bytes: the bytes of both together. */
typedef struct pair {
    uint8_t first, second, bytes;
} pair;

#define PAIR(t)                                                                                    \
    { 8 * FEDCODEC_TAG_BYTES(t, 0), 8 * FEDCODEC_TAG_BYTES(t, 1), FEDCODEC_TAGS_BYTES_2(t) }
static const pair pairs[16] = {FEDCODEC_TAGS_ROWS_16(PAIR, 0)};

static inline uint8_t *put_pair(const uint32_t word[2], pair p, uint8_t *out) {
    uint64_t bytes = (uint64_t)word[0] >> (32 - p.first);
    bytes |= (uint64_t)word[1] >> (32 - p.second) << p.first;
    for (size_t k = 0; k < 8; k++) {
        out[k] = (uint8_t)(bytes >> 8 * k);
    }
    return out + p.bytes;
}

static inline uint8_t *put_words(const uint32_t *word, const uint8_t *tags, size_t tag_bytes,
                                 uint8_t *out) {
    for (size_t k = 0; k < tag_bytes; k++) {
        out = put_pair(word + FEDCODEC_TAGS * k, pairs[tags[k] & 15], out);
        out = put_pair(word + FEDCODEC_TAGS * k + 2, pairs[tags[k] >> 4], out);
    }
    return out;
}

static inline const uint8_t *get_pair(pair p, const uint8_t *src, uint32_t word[2]) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < 8; k++) {
        bytes |= (uint64_t)src[k] << 8 * k;
    }
    word[0] = (uint32_t)(bytes << (32 - p.first));
    word[1] = (uint32_t)(bytes >> p.first << (32 - p.second));
    return src + p.bytes;
}

static inline const uint8_t *get_words(const uint8_t *tags, size_t tag_bytes, const uint8_t *src,
                                       uint32_t *word) {
    for (size_t k = 0; k < tag_bytes; k++) {
        src = get_pair(pairs[tags[k] & 15], src, word + FEDCODEC_TAGS * k);
        src = get_pair(pairs[tags[k] >> 4], src, word + FEDCODEC_TAGS * k + 2);
    }
    return src;
}

#endif

#endif
