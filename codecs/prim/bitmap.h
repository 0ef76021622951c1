/* Bitmaps: one bit a value, the first one most significant; zeros fill the last byte. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_BITMAP_H
#define FEDCODEC_PRIM_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t fedcodec_bitmap_len(size_t n) {
    return n / 8 + (n % 8 != 0);
}

static inline uint8_t fedcodec_bitmap_byte(const uint8_t flag[8]) {
    uint64_t flags = (uint64_t)flag[0] | (uint64_t)flag[1] << 8 | (uint64_t)flag[2] << 16 |
                     (uint64_t)flag[3] << 24 | (uint64_t)flag[4] << 32 | (uint64_t)flag[5] << 40 |
                     (uint64_t)flag[6] << 48 | (uint64_t)flag[7] << 56;
    /* The factor's power 2^(63 - 9k) moves bit 8k to bit 63 - k. Other products don't overlap. */
    return (uint8_t)(flags * UINT64_C(0x8040201008040201) >> 56);
}

/** Are all bits after the n-th 0? */
static inline bool fedcodec_bitmap_padded(const uint8_t *map, size_t n) {
    return n % 8 == 0 || (map[n / 8] & 0xff >> n % 8) == 0;
}

/** Return the 64 bits from byte at on, the first bit most significant; zeros after the end. */
static inline uint64_t fedcodec_bitmap_word(const uint8_t *map, size_t len, size_t at) {
    uint64_t word = 0;
    if (at + 8 <= len) { /* compilers can make one load of these bytes */
        map += at;
        return (uint64_t)map[0] << 56 | (uint64_t)map[1] << 48 | (uint64_t)map[2] << 40 |
               (uint64_t)map[3] << 32 | (uint64_t)map[4] << 24 | (uint64_t)map[5] << 16 |
               (uint64_t)map[6] << 8 | (uint64_t)map[7];
    }
    for (size_t k = at; k < len; k++) {
        word |= (uint64_t)map[k] << 8 * (7 - (k - at));
    }
    return word;
}

static inline size_t fedcodec_bitmap_count(const uint8_t *map, size_t len) {
    size_t count = 0;
    for (size_t at = 0; at < len; at += 8) {
        count += (size_t)__builtin_popcountll(fedcodec_bitmap_word(map, len, at));
    }
    return count;
}

/** Reverse the order of the bits, so that value i becomes bit i. */
static inline uint64_t fedcodec_bitmap_reversed(uint64_t word) {
    word = (word & UINT64_C(0x5555555555555555)) << 1 | (word >> 1 & UINT64_C(0x5555555555555555));
    word = (word & UINT64_C(0x3333333333333333)) << 2 | (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (word >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
    return __builtin_bswap64(word);
}

/** Write a bitmap of len bytes with ones at these positions, which ascend. Overwrites up to three
 * bytes after the bitmap. */
static inline void fedcodec_bitmap_put(const uint32_t *position, size_t count, uint8_t *map,
                                       size_t len) {
    uint32_t word = 0, last = 0;
    memset(map, 0, len);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = position[i] / 32;
        word = (at == last ? word : 0) | UINT32_C(0x80000000) >> position[i] % 32;
        last = at;
        uint8_t *dst = map + 4 * (size_t)at;
        dst[0] = (uint8_t)(word >> 24); /* compilers can make one store of these bytes */
        dst[1] = (uint8_t)(word >> 16);
        dst[2] = (uint8_t)(word >> 8);
        dst[3] = (uint8_t)word;
    }
}

/** Clear the first 1 of a word, and return its bit: 0 is the most significant one. */
static inline unsigned fedcodec_bitmap_take(uint64_t *word) {
    unsigned bit = (unsigned)__builtin_clzll(*word);
    *word ^= UINT64_C(1) << 63 >> bit;
    return bit;
}

#endif
