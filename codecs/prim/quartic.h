/* Five three-valued digits a byte: the base-3^5 encoding of 3LC. */
#ifndef FEDCODEC_PRIM_QUARTIC_H
#define FEDCODEC_PRIM_QUARTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
/* Byte i holds the digits of values i, L + i, 2L + i, 3L + i, 4L + i, the first one most
 * significant, where L is the number of bytes. A digit is the value plus 1. */
enum {
    FEDCODEC_QUARTIC_DIGITS = 5,
    FEDCODEC_QUARTIC_BYTES = 243, /* bytes are below it */
    FEDCODEC_QUARTIC_ZERO = 121   /* five zeros */
};

/** Bytes that n values fill. */
static inline size_t fedcodec_quartic_len(size_t n) {
    return n / FEDCODEC_QUARTIC_DIGITS + (n % FEDCODEC_QUARTIC_DIGITS != 0);
}

/** The five values, -1, 0 or 1, of each byte. */
extern const int8_t fedcodec_quartic_values[FEDCODEC_QUARTIC_BYTES][FEDCODEC_QUARTIC_DIGITS];

/** Can src[len] be the bytes of n values, of which at least one is not 0? Digits past the n-th must
 * be zeros. */
bool fedcodec_quartic_valid(const uint8_t *src, size_t len, size_t n);

#endif
