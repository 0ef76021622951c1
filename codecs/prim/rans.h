/* Static rANS coding of numbers, or of ascending positions by the gaps between them. A message has
 * the numbers' distribution, then the numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_RANS_H
#define FEDCODEC_PRIM_RANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * A number consists of a symbol (its exponent and two bits of its mantissa) and of lower bits,
 * which are coded with probability 1/2 each. Format: docs/codec-formats.md#rans
 */
enum {
    FEDCODEC_RANS_SYMBOLS = 124,
    FEDCODEC_RANS_SLOTS = 4096,
    FEDCODEC_RANS_DETAIL_MAX = 7 /* the most mantissa bits of a symbol's weight */
};

/** Return how many mantissa bits the symbols' weights should have, for k numbers. */
unsigned fedcodec_rans_detail(size_t k);

/** Write k ascending positions, k >= 1. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_rans_put(const uint32_t *position, size_t k, unsigned detail, uint8_t *dst,
                             size_t cap, size_t *len) FED_CHECKED;

/** Write k numbers, k >= 1. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_rans_put_numbers(const uint32_t *number, size_t k, unsigned detail,
                                     uint8_t *dst, size_t cap, size_t *len) FED_CHECKED;

/** Return an estimate of the bits that these numbers take, times 256, without the distribution. */
uint64_t fedcodec_rans_cost(const uint32_t *number, size_t k);

typedef struct fedcodec_rans_reader {
    const uint8_t *src;
    size_t len, at; /* bytes of src; bytes that are used */
    uint32_t state;
    bool broken;      /* stays set: the bytes ended, or a position was too high */
    uint64_t n, next; /* positions are below n; the next position is at least next */
    uint16_t start[FEDCODEC_RANS_SYMBOLS + 1]; /* first slot of each symbol */
    uint8_t symbol[FEDCODEC_RANS_SLOTS];
} fedcodec_rans_reader;

/** Read the distribution. FED_EFORMAT: the encoder can't have written it. */
fed_status fedcodec_rans_start(fedcodec_rans_reader *r, const uint8_t *src, size_t len, size_t n,
                               unsigned detail) FED_CHECKED;

/** Read the next want positions. Returns false, with arbitrary positions, if r->broken is set. */
bool fedcodec_rans_read(fedcodec_rans_reader *r, uint32_t *position, size_t want);

/** Read the next want numbers, as fedcodec_rans_read, but without the limit n. */
bool fedcodec_rans_read_numbers(fedcodec_rans_reader *r, uint32_t *number, size_t want);

/** Call this function after the last number. FED_OK: r->broken is not set, every byte was used, and
 * the reader's state equals the encoder's first state. */
fed_status fedcodec_rans_end(const fedcodec_rans_reader *r) FED_CHECKED;

#endif
