/* Code ascending positions: an adaptive binary range coder codes the gaps between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_RANGE_H
#define FEDCODEC_PRIM_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/** The probability of a 1, in units of 2^-16: an estimate that adapts fast, and a slow one. */
typedef struct fedcodec_range_bit {
    uint16_t fast, slow;
    uint16_t seen; /* bits seen, at most FEDCODEC_RANGE_STEPS - 1 */
} fedcodec_range_bit;

enum { FEDCODEC_RANGE_EXPONENTS = 32, FEDCODEC_RANGE_STEPS = 255 };

/** Probabilities of gap + 1, a number of 1 to 32 bits: a binary tree for its exponent, and for each
 * exponent a tree for the first bits after the leading one. Format: docs/codec-formats.md#range */
typedef struct fedcodec_range_model {
    fedcodec_range_bit exponent[FEDCODEC_RANGE_EXPONENTS];
    fedcodec_range_bit mantissa[FEDCODEC_RANGE_EXPONENTS][4];
    uint16_t step[FEDCODEC_RANGE_STEPS]; /* step[k] / 2^16: the rate for seen = k */
} fedcodec_range_model;

/** Write k >= 1 ascending positions below n. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_range_put(const uint32_t *position, size_t k, size_t n, uint8_t *dst,
                              size_t cap, size_t *len) FED_CHECKED;

typedef struct fedcodec_range_reader {
    const uint8_t *src;
    size_t len, at;           /* bytes of src; bytes that are used up */
    uint32_t code, low, high; /* code: the next four bytes, always between low and high */
    bool broken;              /* stays set: the bytes ended, or a position was too high */
    uint64_t n, next;         /* positions are below n; the next position is at least next */
    fedcodec_range_model model;
} fedcodec_range_reader;

/** Begin to read count positions below n; count is at least 1. */
void fedcodec_range_start(fedcodec_range_reader *r, const uint8_t *src, size_t len, uint64_t count,
                          size_t n);

/** Read the next want positions. Returns false, with arbitrary positions, if r->broken is set. */
bool fedcodec_range_read(fedcodec_range_reader *r, uint32_t *position, size_t want);

/** Call this function after the last position. FED_OK: r->broken is not set, and the bytes end as
 * the encoder ends them. */
fed_status fedcodec_range_end(const fedcodec_range_reader *r) FED_CHECKED;

#endif
