/* Patches: blocks of integer differences between values' bits, entropy coded. Format:
 * docs/codec-formats.md#patch */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/patch.h"

#include <stdlib.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/rans.h"

enum {
    BLOCK = FEDCODEC_PATCH_BLOCK,
    AS_THEY_ARE = 0,   /* words of four bytes each */
    NUMBERS = 1,       /* words, coded by rANS */
    BELOW_THE_TOP = 2, /* distances from the largest word, coded by rANS */
    HEAD_MOST = 4,     /* bytes of a block's head: how it is coded, the varint of its length */
    CHUNK = 256        /* words decoded at a time */
};

/* Map floats to integers of the same order. The integers of neighbouring floats differ by one. */
static inline uint32_t order_of(float v) {
    uint32_t bits = fedcodec_bits(v);
    return bits >> 31 ? ~(bits & FEDCODEC_MAGNITUDE) : bits;
}

static inline float value_of(uint32_t order) {
    return fedcodec_float(order >> 31 ? ~order | ~(uint32_t)FEDCODEC_MAGNITUDE : order);
}

/* Return a small number for a small difference of either sign (a zigzag code). */
static inline uint32_t word_of(uint32_t difference) {
    return difference << 1 ^ (0u - (difference >> 31));
}

static inline uint32_t difference_of(uint32_t word) {
    return word >> 1 ^ (0u - (word & 1));
}

size_t fedcodec_patch_bound(size_t n) {
    return 4 * n + HEAD_MOST * (n / BLOCK + (n % BLOCK > 0));
}

static fed_status take_words(const float *from, const float *to, size_t n, uint32_t *word) {
    for (size_t i = 0; i < n; i++) {
        word[i] = word_of(order_of(to[i]) - (from != NULL ? order_of(from[i]) : 0));
    }
    return fedcodec_largest(to, n) < FEDCODEC_INFINITY ? FED_OK : FED_ENONFINITE;
}

/* Decide how a block of a snapshot is coded. Returns true if distances from the largest word,
 * written to below[], are estimated to be shorter than the words. *top becomes the largest word. */
static bool use_distances(uint32_t *word, uint32_t *below, size_t n, uint32_t *top) {
    for (size_t i = 0; i < n; i++) {
        *top = word[i] > *top ? word[i] : *top;
    }
    for (size_t i = 0; i < n; i++) {
        below[i] = *top - word[i];
    }
    return fedcodec_rans_cost(below, n) + 256 * 32 < fedcodec_rans_cost(word, n);
}

/* Write a block's body into dst[4 * n]. *len becomes its length. work: memory for 2 * n words. */
static fed_status put_body(const float *from, const float *to, size_t n, uint32_t *work,
                           uint8_t *how, uint8_t *dst, size_t *len) {
    uint32_t *number = work, top = 0;
    size_t head = 0;
    FED_TRY(take_words(from, to, n, work));
    *how = NUMBERS;
    if (from == NULL && use_distances(work, work + n, n, &top)) {
        *how = BELOW_THE_TOP;
        number = work + n;
        fedcodec_store_u32(dst, top);
        head = 4;
    }
    if (fedcodec_rans_put_numbers(number, n, fedcodec_rans_detail(n), dst + head, 4 * n - head,
                                  len) == FED_OK) {
        *len += head;
        return FED_OK;
    }
    *how = AS_THEY_ARE;
    *len = 4 * n;
    for (size_t i = 0; i < n; i++) {
        fedcodec_store_u32(dst + 4 * i, work[i]);
    }
    return FED_OK;
}

static fed_status put_block(const float *from, const float *to, size_t n, uint32_t *work,
                            fed_writer *out) {
    uint8_t how, *dst = out->data + out->len + HEAD_MOST;
    size_t len = 0;
    FED_TRY(put_body(from, to, n, work, &how, dst, &len));
    fed_write_u8(out, how);
    fed_write_varint(out, len);
    memmove(out->data + out->len, dst, len);
    fed_writer_advance(out, len);
    return out->status;
}

fed_status fedcodec_patch_write(const float *from, const float *to, size_t n, fed_writer *out) {
    FED_REQUIRE(n == 0 || fed_writer_reserve(out, fedcodec_patch_bound(n)) != NULL, out->status);
    uint32_t *work = malloc(2 * (n < BLOCK ? n + 1 : BLOCK) * sizeof *work);
    FED_REQUIRE(work != NULL, FED_ENOMEM);
    size_t before = out->len;
    fed_status status = FED_OK;
    for (size_t at = 0; at < n && status == FED_OK; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        status = put_block(from != NULL ? from + at : NULL, to + at, count, work, out);
    }
    out->len = status == FED_OK ? out->len : before;
    free(work);
    return status;
}

/* Add a block's decoded differences to the values. is_below: the numbers are distances from top. */
static fed_status add_words(const uint32_t *number, size_t n, bool is_below, uint32_t top,
                            float *values) {
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word = is_below ? top - number[i] : number[i];
        values[i] = value_of(order_of(values[i]) + difference_of(word));
        uint32_t magnitude = fedcodec_bits(values[i]) & FEDCODEC_MAGNITUDE;
        most = magnitude > most ? magnitude : most;
    }
    return most < FEDCODEC_INFINITY ? FED_OK : FED_EFORMAT;
}

static fed_status apply_words(const uint8_t *src, size_t len, float *values, size_t n) {
    uint32_t number[CHUNK];
    FED_REQUIRE(len == 4 * n, FED_EFORMAT);
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < CHUNK ? n - at : CHUNK;
        for (size_t i = 0; i < count; i++) {
            number[i] = fedcodec_load_u32(src + 4 * (at + i));
        }
        FED_TRY(add_words(number, count, false, 0, values + at));
    }
    return FED_OK;
}

static fed_status apply_numbers(const uint8_t *src, size_t len, bool is_below, float *values,
                                size_t n) {
    fedcodec_rans_reader r;
    uint32_t number[CHUNK], top = 0;
    if (is_below) {
        FED_REQUIRE(len >= 4, FED_EFORMAT);
        top = fedcodec_load_u32(src);
        src += 4;
        len -= 4;
    }
    FED_TRY(fedcodec_rans_start(&r, src, len, n, fedcodec_rans_detail(n)));
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < CHUNK ? n - at : CHUNK;
        FED_REQUIRE(fedcodec_rans_read_numbers(&r, number, count), FED_EFORMAT);
        FED_TRY(add_words(number, count, is_below, top, values + at));
    }
    return fedcodec_rans_end(&r);
}

static fed_status apply_block(fed_reader *r, float *values, size_t n) {
    uint8_t how = fed_read_u8(r);
    uint64_t len = fed_read_varint(r);
    FED_REQUIRE(r->status == FED_OK && len <= 4 * n && how <= BELOW_THE_TOP, FED_EFORMAT);
    const uint8_t *body = fed_read_bytes(r, (size_t)len);
    FED_REQUIRE(body != NULL, FED_EFORMAT);
    return how == AS_THEY_ARE ? apply_words(body, (size_t)len, values, n)
                              : apply_numbers(body, (size_t)len, how == BELOW_THE_TOP, values, n);
}

fed_status fedcodec_patch_apply(const uint8_t *src, size_t len, float *values, size_t n) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    for (size_t at = 0; at < n; at += BLOCK) {
        FED_TRY(apply_block(&r, values + at, n - at < BLOCK ? n - at : BLOCK));
    }
    return fed_reader_end(&r);
}
