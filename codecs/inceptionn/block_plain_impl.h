/* inceptionn's inner loops for machines without AVX2: the compiler vectorises the arithmetic, and
 * block_bytes_impl.h moves the bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_PLAIN_IMPL_H
#define FEDCODEC_INCEPTIONN_BLOCK_PLAIN_IMPL_H

#include "codecs/inceptionn/block_bytes_impl.h"
#include "codecs/inceptionn/short.h"

typedef int32_t largest;

static inline int32_t largest_of(largest max) {
    return max;
}

static inline int16_t smaller16(int16_t a, int16_t b) {
    return a < b ? a : b;
}

static inline int16_t larger16(int16_t a, int16_t b) {
    return a > b ? a : b;
}

/* Compute words and tags. Only sent values below 1.0 are multiplied: denormals would be slow. */
static inline int32_t classify(const float *restrict x, classes c, uint32_t *restrict word,
                               uint8_t *restrict tag) {
    int32_t max = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t bits = fedcodec_bits(x[i]);
        int32_t m = (int32_t)(bits & FEDCODEC_MAGNITUDE);
        uint32_t sent = when(m >= c.low), middling = when(m >= c.middle), large = when(m >= ONE);
        float inside = fedcodec_float((uint32_t)m & sent & ~large);
        word[i] = (bits & (SIGN | large)) | (uint32_t)(int32_t)(inside * 0x1p31f);
        tag[i] = (uint8_t)(0u - (sent + middling + large));
        max = m > max ? m : max;
    }
    return max;
}

/* Pack the tags of four values, one byte each, into one byte. */
static inline void put_tags(const uint8_t *tag, uint8_t *tags, size_t tag_bytes) {
    for (size_t k = 0; k < tag_bytes; k++) {
        uint32_t four = fedcodec_load_u32(tag + FEDCODEC_TAGS * k);
        tags[k] = (uint8_t)(four | four >> 6 | four >> 12 | four >> 18);
    }
}

static inline uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out,
                                    largest *max) {
    uint32_t word[BLOCK];
    uint8_t tag[BLOCK];
    int32_t m = classify(x, c, word, tag);
    *max = m > *max ? m : *max;
    put_tags(tag, tags, BLOCK_TAGS);
    return put_words(word, tags, BLOCK_TAGS, out);
}

static inline uint8_t *encode_bursts(const uint8_t *x, size_t count, classes c, uint8_t *out) {
    float values[BLOCK];
    uint32_t word[BLOCK];
    uint8_t tag[BLOCK];
    memcpy(values, x, sizeof values);
    classify(values, c, word, tag);
    for (size_t k = 0; k < count; k++) {
        put_tags(tag + BURST * k, out, BURST_TAGS);
        out = put_words(word + BURST * k, out, BURST_TAGS, out + BURST_TAGS);
    }
    return out;
}

static inline const uint8_t *words_and_tags(const uint8_t *tags, size_t tag_bytes,
                                            const uint8_t *src, uint32_t *word, uint8_t *tag) {
    for (size_t k = 0; k < tag_bytes; k++) {
        uint32_t b = tags[k], four = (b | b << 6 | b << 12 | b << 18) & 0x03030303;
        fedcodec_store_u32(tag + FEDCODEC_TAGS * k, four);
    }
    return get_words(tags, tag_bytes, src, word);
}

static inline const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src,
                                          float *restrict y) {
    uint32_t word[BLOCK];
    uint8_t tag[BLOCK];
    src = words_and_tags(tags, BLOCK_TAGS, src, word, tag);
    for (size_t i = 0; i < BLOCK; i++) {
        float value = (float)(int32_t)(word[i] & FEDCODEC_MAGNITUDE) * 0x1p-31f;
        y[i] = fedcodec_float(
            pick(when(tag[i] == 3), word[i], fedcodec_bits(value) | (word[i] & SIGN)));
    }
    return src;
}

static inline const uint8_t *decode_bursts(const uint8_t *src, size_t count, uint8_t *y) {
    uint32_t word[BLOCK] = {0};
    uint8_t tag[BLOCK] = {0};
    for (size_t k = 0; k < BURST * count; k += BURST) {
        src = words_and_tags(src, BURST_TAGS, src + BURST_TAGS, word + k, tag + k);
    }
    for (size_t i = 0; i < BLOCK; i++) {
        float value = signed_value((int32_t)(word[i] & FEDCODEC_MAGNITUDE), word[i]);
        word[i] = pick(when(tag[i] == 3), word[i], fedcodec_bits(value));
    }
    memcpy(y, word, BURST * count * sizeof *word);
    return src;
}

/* Are all values of a short block zero? len: the bytes of its payload. */
static inline bool only_zeros(const uint8_t *src, size_t len) {
    uint8_t some = 0;
    for (size_t i = 0; i < len; i++) {
        some |= src[i];
    }
    return (some & MAGNITUDE_8) == 0;
}

typedef ranges seen;

static inline seen nothing_seen(void) {
    return (seen){INT16_MAX, 0, INT16_MAX, 0, INT32_MAX, 0};
}

static inline ranges ranges_seen(const seen *s) {
    return *s;
}

static inline void see_large(const uint32_t *word, const uint8_t *tag, seen *s) {
    for (size_t i = 0; i < BLOCK; i++) {
        int32_t m = (int32_t)(word[i] & FEDCODEC_MAGNITUDE);
        if (tag[i] == 3) {
            s->least32 = m < s->least32 ? m : s->least32;
            s->most32 = m > s->most32 ? m : s->most32;
        }
    }
}

static inline const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s) {
    uint32_t word[BLOCK];
    uint8_t tag[BLOCK], any_large = 0;
    src = words_and_tags(tags, BLOCK_TAGS, src, word, tag);
    seen r = *s;
    for (size_t i = 0; i < BLOCK; i++) { /* 16-bit numbers: more of them fit into a vector */
        int16_t m = (int16_t)(word[i] >> 16 & INT16_MAX);
        int16_t in8 = (int16_t) - (tag[i] == 1), in16 = (int16_t) - (tag[i] == 2);
        r.least8 = smaller16(r.least8, (int16_t)(m | (~in8 & INT16_MAX)));
        r.most8 = larger16(r.most8, (int16_t)(m & in8));
        r.least16 = smaller16(r.least16, (int16_t)(m | (~in16 & INT16_MAX)));
        r.most16 = larger16(r.most16, (int16_t)(m & in16));
    }
    for (size_t k = 0; k < BLOCK_TAGS; k++) {
        any_large |= tags[k] & tags[k] >> 1 & 0x55;
    }
    *s = r;
    if (any_large != 0) {
        see_large(word, tag, s);
    }
    return src;
}

#endif
