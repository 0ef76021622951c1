/* Ascending positions by an adaptive binary range coder on the gaps between them. */
#ifndef FEDCODEC_PRIM_RANGE_H
#define FEDCODEC_PRIM_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/** How probable it is that a bit is 1, in 2^-16: two estimates, one that forgets soon and one that
 * does not. */
typedef struct fedcodec_range_bit {
    uint16_t fast, slow;
    uint16_t seen; /* how often, up to where both rates are constant */
} fedcodec_range_bit;

enum { FEDCODEC_RANGE_EXPONENTS = 32, FEDCODEC_RANGE_STEPS = 255 };

/** What is known of gap + 1, a number of 1 to 32 bits: its exponent as a binary tree, and the first
 * bits below the leading one as one tree for each exponent. Format: docs/codec-formats.md#range */
typedef struct fedcodec_range_model {
    fedcodec_range_bit exponent[FEDCODEC_RANGE_EXPONENTS];
    fedcodec_range_bit mantissa[FEDCODEC_RANGE_EXPONENTS][4];
    uint16_t step[FEDCODEC_RANGE_STEPS]; /* by `seen`: how far an estimate moves, in 2^-16 */
} fedcodec_range_model;

/** Write k >= 1 ascending positions below n. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_range_put(const uint32_t *position, size_t k, size_t n, uint8_t *dst,
                              size_t cap, size_t *len) FED_CHECKED;

/** Positions being read back. */
typedef struct fedcodec_range_reader {
    const uint8_t *src;
    size_t len, at;           /* bytes: all, and those that the interval left behind */
    uint32_t code, low, high; /* code is the next four bytes, within the interval */
    bool broken;              /* for good: the bytes ended, or a position was too high */
    uint64_t n, next;         /* as fedcodec_golomb_reader's */
    fedcodec_range_model model;
} fedcodec_range_reader;

/** To read `count` >= 1 positions below n. */
void fedcodec_range_start(fedcodec_range_reader *r, const uint8_t *src, size_t len, uint64_t count,
                          size_t n);

/** The next `want` positions; false, and nothing useful in them, once broken. */
bool fedcodec_range_read(fedcodec_range_reader *r, uint32_t *position, size_t want);

/** FED_OK when nothing broke and the bytes end as the encoder would have ended them. */
fed_status fedcodec_range_end(const fedcodec_range_reader *r) FED_CHECKED;

#endif
