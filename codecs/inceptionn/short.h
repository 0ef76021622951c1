/* inceptionn's short blocks, in which no value takes more than 8 bits: most blocks of gradients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_INCEPTIONN_SHORT_H
#define FEDCODEC_INCEPTIONN_SHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Masks for the lower bit and for the upper bit of each of 32 tags. */
#define LOWER UINT64_C(0x5555555555555555)
#define UPPER UINT64_C(0xaaaaaaaaaaaaaaaa)

/* LEAST_IN_8: the bits of 2^-7, the least magnitude that is not 0 in 8 bits. MAGNITUDE_8: the bits
 * of a magnitude in 8 bits; the other bit is the sign. */
enum { LEAST_IN_8 = 0x3c000000, MAGNITUDE_8 = 0x7f };

/* Is a block short? Then *len = the bytes of its payload: one for each tag that is not 0. */
static inline bool is_short(const uint8_t *tags, size_t *len) {
    uint64_t t[2];
    memcpy(t, tags, sizeof t);
    *len = (size_t)__builtin_popcountll(t[0]) + (size_t)__builtin_popcountll(t[1]);
    return ((t[0] | t[1]) & UPPER) == 0;
}

#endif
