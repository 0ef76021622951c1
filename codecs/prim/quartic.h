/* Five three-valued digits a byte: the base-3^5 encoding of 3LC. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_QUARTIC_H
#define FEDCODEC_PRIM_QUARTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
/* If n values take L bytes, byte i holds a digit of each value i, L + i, 2L + i, 3L + i, 4L + i.
 * The first one is the most significant. A digit is the value plus 1. */
enum {
    FEDCODEC_QUARTIC_DIGITS = 5,
    FEDCODEC_QUARTIC_BYTES = 243, /* all bytes are below this number */
    FEDCODEC_QUARTIC_ZERO = 121   /* the byte of five values 0 */
};

/** The number of bytes that hold n values. */
static inline size_t fedcodec_quartic_len(size_t n) {
    return n / FEDCODEC_QUARTIC_DIGITS + (n % FEDCODEC_QUARTIC_DIGITS != 0);
}

#define FEDCODEC_QUARTIC_3(X, b) X(b) X((b) + 1) X((b) + 2)
#define FEDCODEC_QUARTIC_9(X, b)                                                                   \
    FEDCODEC_QUARTIC_3(X, b) FEDCODEC_QUARTIC_3(X, (b) + 3) FEDCODEC_QUARTIC_3(X, (b) + 6)
#define FEDCODEC_QUARTIC_27(X, b)                                                                  \
    FEDCODEC_QUARTIC_9(X, b) FEDCODEC_QUARTIC_9(X, (b) + 9) FEDCODEC_QUARTIC_9(X, (b) + 18)
#define FEDCODEC_QUARTIC_81(X, b)                                                                  \
    FEDCODEC_QUARTIC_27(X, b) FEDCODEC_QUARTIC_27(X, (b) + 27) FEDCODEC_QUARTIC_27(X, (b) + 54)
/** For tables: expands to X(0) X(1) ... X(242). */
#define FEDCODEC_QUARTIC_EACH(X)                                                                   \
    FEDCODEC_QUARTIC_81(X, 0) FEDCODEC_QUARTIC_81(X, 81) FEDCODEC_QUARTIC_81(X, 162)

/** The five values of each byte: -1, 0 or 1. */
extern const int8_t fedcodec_quartic_values[FEDCODEC_QUARTIC_BYTES][FEDCODEC_QUARTIC_DIGITS];

/** Could src[len] be the bytes of n values that are not all 0? The digits after the n-th value
 * must stand for 0. */
bool fedcodec_quartic_valid(const uint8_t *src, size_t len, size_t n);

#endif
