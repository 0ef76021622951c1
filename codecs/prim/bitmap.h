/* One bit a value, the first one in the most significant bit of a byte; zeros fill the last byte.
 */
#ifndef FEDCODEC_PRIM_BITMAP_H
#define FEDCODEC_PRIM_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes that n bits fill. */
static inline size_t fedcodec_bitmap_len(size_t n) {
    return n / 8 + (n % 8 != 0);
}

/** A byte from eight flags, each 0 or 1. */
static inline uint8_t fedcodec_bitmap_byte(const uint8_t flag[8]) {
    uint64_t flags = (uint64_t)flag[0] | (uint64_t)flag[1] << 8 | (uint64_t)flag[2] << 16 |
                     (uint64_t)flag[3] << 24 | (uint64_t)flag[4] << 32 | (uint64_t)flag[5] << 40 |
                     (uint64_t)flag[6] << 48 | (uint64_t)flag[7] << 56;
    /* The k-th power, 2^(63 - 9k), moves bit 8k to bit 63 - k; no two bits meet elsewhere. */
    return (uint8_t)(flags * UINT64_C(0x8040201008040201) >> 56);
}

/** Are the bits past the n-th zeros? */
static inline bool fedcodec_bitmap_padded(const uint8_t *map, size_t n) {
    return n % 8 == 0 || (map[n / 8] & 0xff >> n % 8) == 0;
}

/** The 64 bits from byte `at` on, the first one most significant; zeros past the end. */
static inline uint64_t fedcodec_bitmap_word(const uint8_t *map, size_t len, size_t at) {
    uint64_t word = 0;
    if (at + 8 <= len) { /* one load, to a compiler */
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

/** How many of the bits are ones. */
static inline size_t fedcodec_bitmap_count(const uint8_t *map, size_t len) {
    size_t count = 0;
    for (size_t at = 0; at < len; at += 8) {
        count += (size_t)__builtin_popcountll(fedcodec_bitmap_word(map, len, at));
    }
    return count;
}

/** The ones of a bitmap, from the first on. */
typedef struct fedcodec_bitmap_reader {
    const uint8_t *map;
    size_t len;    /* bytes */
    size_t at;     /* byte that the word begins with */
    uint64_t word; /* without the ones that were read */
} fedcodec_bitmap_reader;

static inline void fedcodec_bitmap_start(fedcodec_bitmap_reader *r, const uint8_t *map,
                                         size_t len) {
    *r = (fedcodec_bitmap_reader){map, len, 0, fedcodec_bitmap_word(map, len, 0)};
}

/** Where the next one is. Only while there is one left. */
static inline size_t fedcodec_bitmap_next(fedcodec_bitmap_reader *r) {
    while (r->word == 0) {
        r->at += 8;
        r->word = fedcodec_bitmap_word(r->map, r->len, r->at);
    }
    size_t bit = (size_t)__builtin_clzll(r->word);
    r->word ^= UINT64_C(1) << 63 >> bit;
    return 8 * r->at + bit;
}

#endif
