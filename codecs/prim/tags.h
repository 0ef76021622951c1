/* The tag plane of inceptionn: two bits a value, which say how many bits the value itself takes. */
#ifndef FEDCODEC_PRIM_TAGS_H
#define FEDCODEC_PRIM_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Tags in a byte, the first in its lowest bits. */
enum { FEDCODEC_TAGS = 4 };

static inline size_t fedcodec_tags_len(size_t n) {
    return n / FEDCODEC_TAGS + (n % FEDCODEC_TAGS > 0);
}

/** Bytes of a value with that tag: 0, 1, 2, 4. */
static inline unsigned fedcodec_tag_bytes(unsigned tag) {
    return 1u << tag >> 1;
}

/** Are the tags past the n-th, which only fill the last byte, all 0? */
static inline bool fedcodec_tags_padded(const uint8_t *tags, size_t n) {
    return n % FEDCODEC_TAGS == 0 || tags[n / FEDCODEC_TAGS] >> 2 * (n % FEDCODEC_TAGS) == 0;
}

/** Bytes of all n values, padding being 0. Adds in parallel: a tag of bits h, l takes
 * l + 2h + (l & h) bytes. */
static inline uint64_t fedcodec_tags_payload(const uint8_t *tags, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < fedcodec_tags_len(n); i++) {
        unsigned low = tags[i] & 0x55u, high = tags[i] >> 1 & 0x55u;
        unsigned a = low + high, b = high + (low & high);
        unsigned pairs = (a & 0x33u) + (a >> 2 & 0x33u) + (b & 0x33u) + (b >> 2 & 0x33u);
        sum += (pairs & 15u) + (pairs >> 4);
    }
    return sum;
}

#endif
