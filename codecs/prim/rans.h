/* Ascending positions by static rANS: the distribution of the gaps between them, sent first, then
 * the gaps. */
#ifndef FEDCODEC_PRIM_RANS_H
#define FEDCODEC_PRIM_RANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * A gap is a symbol (its exponent and two bits of its mantissa) and the bits below those, which
 * take what they are. Format: docs/codec-formats.md#rans
 */
enum {
    FEDCODEC_RANS_SYMBOLS = 124,
    FEDCODEC_RANS_SLOTS = 4096,
    FEDCODEC_RANS_DETAIL_MAX = 7 /* bits of a weight's mantissa */
};

/** How many mantissa bits the weights of k positions' symbols are worth. */
unsigned fedcodec_rans_detail(size_t k);

/** Write k >= 1 ascending positions. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_rans_put(const uint32_t *position, size_t k, unsigned detail, uint8_t *dst,
                             size_t cap, size_t *len) FED_CHECKED;

/** Positions being read back. */
typedef struct fedcodec_rans_reader {
    const uint8_t *src;
    size_t len, at; /* bytes: all, and used */
    uint32_t state;
    bool broken;      /* for good: the bytes ended, or a position was too high */
    uint64_t n, next; /* as fedcodec_golomb_reader's */
    uint16_t start[FEDCODEC_RANS_SYMBOLS + 1]; /* a symbol's first slot; the next one's follows */
    uint8_t symbol[FEDCODEC_RANS_SLOTS];
} fedcodec_rans_reader;

/** FED_EFORMAT: no distribution that could have been sent. */
fed_status fedcodec_rans_start(fedcodec_rans_reader *r, const uint8_t *src, size_t len, size_t n,
                               unsigned detail) FED_CHECKED;

/** The next `want` positions; false, and nothing useful in them, once broken. */
bool fedcodec_rans_read(fedcodec_rans_reader *r, uint32_t *position, size_t want);

/** FED_OK when nothing broke, every byte was used and the state is back where it began. */
fed_status fedcodec_rans_end(const fedcodec_rans_reader *r) FED_CHECKED;

#endif
