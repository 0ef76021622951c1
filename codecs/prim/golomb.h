/* Golomb coding of ascending positions, as in SBC's algorithms 3 and 4. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_GOLOMB_H
#define FEDCODEC_PRIM_GOLOMB_H

#include <math.h>
#include <stdbool.h>

#include "codecs/unit.h"
#include "fed/bits.h"

/*
 * A gap is the number of positions between a position and the one before it. The gap is coded as
 * gap >> b bits of 1, a bit of 0, and the low b bits of the gap.
 */
enum { FEDCODEC_GOLOMB_B_MAX = 31 };

/** Return the best b if each position is chosen with probability p, 0 < p < 1: b* of SBC's
 * equation 8. */
static inline unsigned fedcodec_golomb_b(double p) {
    const double phi = 1.6180339887498949; /* (sqrt(5) + 1) / 2 */
    double b = 1.0 + floor(log2(log(phi - 1.0) / log1p(-p)));
    return b < 0.0 ? 0 : b > FEDCODEC_GOLOMB_B_MAX ? FEDCODEC_GOLOMB_B_MAX : (unsigned)b;
}

/** Return the most bytes that k positions below n take. */
static inline size_t fedcodec_golomb_bound(size_t n, size_t k, unsigned b) {
    uint64_t bits = (uint64_t)k * (b + 1) + ((uint64_t)n >> b); /* the gaps add up to at most n */
    return (size_t)((bits + 7) / 8);
}

/** Append a gap. b <= FEDCODEC_GOLOMB_B_MAX, gap < 2^32. */
static inline void fedcodec_golomb_put(fed_bit_writer *w, uint64_t gap, unsigned b) {
    uint64_t ones = gap >> b;
    uint32_t low = (uint32_t)(gap & ((UINT64_C(1) << b) - 1));
    if (ones + 1 + b <= 32) {
        fed_put_bits(w, (((UINT32_C(1) << ones) - 1) << 1 << b) | low, (unsigned)ones + 1 + b);
    } else {
        fed_put_unary(w, ones);
        fed_put_bits(w, low, b);
    }
}

/** Write count ascending positions. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_golomb_write(const uint32_t *position, size_t count, unsigned b, uint8_t *dst,
                                 size_t cap, size_t *len) FED_CHECKED;

typedef struct fedcodec_golomb_reader {
    fed_bit_reader bits;
    uint64_t n;    /* all positions are below n */
    uint64_t next; /* the lowest possible next position */
    unsigned b;
} fedcodec_golomb_reader;

static inline void fedcodec_golomb_start(fedcodec_golomb_reader *r, const void *src, size_t len,
                                         size_t n, unsigned b) {
    fed_bit_reader_init(&r->bits, src, len);
    r->n = n;
    r->next = 0;
    r->b = b;
}

/** Read the next position. If the position is not below n, or if the bytes end, bits.status is set
 * and n is returned; all later calls return n, too. */
static inline uint64_t fedcodec_golomb_next(fedcodec_golomb_reader *r) {
    if (r->next >= r->n) {
        r->bits.status = FED_EFORMAT;
        return r->n;
    }
    uint64_t high = fed_get_unary(&r->bits, (r->n - 1 - r->next) >> r->b);
    uint64_t position = r->next + (high << r->b) + fed_get_bits(&r->bits, r->b);
    if (r->bits.status != FED_OK || position >= r->n) {
        r->bits.status = FED_EFORMAT;
        return r->next = r->n;
    }
    r->next = position + 1;
    return position;
}

/** Read the next want positions. Returns false after a failure, with arbitrary positions. */
bool fedcodec_golomb_read(fedcodec_golomb_reader *r, uint32_t *position, size_t want);

#endif
