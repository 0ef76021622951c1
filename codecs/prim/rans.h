/* Static rANS of numbers, or of ascending positions by the gaps between them: first their
 * distribution, then the numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_RANS_H
#define FEDCODEC_PRIM_RANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/unit.h"
#include "fed/status.h"

/*
 * A number is a symbol (its exponent and two bits of its mantissa) and the lower bits, which are
 * written as they are. Format: docs/codec-formats.md#rans
 */
enum {
    FEDCODEC_RANS_SYMBOLS = 124,
    FEDCODEC_RANS_SLOTS = 4096,
    FEDCODEC_RANS_DETAIL_MAX = 7 /* bits of a weight's mantissa */
};

/** The mantissa bits that the weights of symbols should have, for k numbers. */
unsigned fedcodec_rans_detail(size_t k);

/** Write k >= 1 ascending positions. FED_ENOSPC: they take more than cap bytes. */
fed_status fedcodec_rans_put(const uint32_t *position, size_t k, unsigned detail, uint8_t *dst,
                             size_t cap, size_t *len) FED_CHECKED;

/** Likewise k >= 1 numbers. */
fed_status fedcodec_rans_put_numbers(const uint32_t *number, size_t k, unsigned detail,
                                     uint8_t *dst, size_t cap, size_t *len) FED_CHECKED;

/** An estimate of the bits of these numbers, times 256, without their distribution. */
uint64_t fedcodec_rans_cost(const uint32_t *number, size_t k);

/** Reading positions or numbers. */
typedef struct fedcodec_rans_reader {
    const uint8_t *src;
    size_t len, at; /* bytes: all, and used */
    uint32_t state;
    bool broken;      /* for ever: the bytes ended, or a position was too high */
    uint64_t n, next; /* as fedcodec_golomb_reader's */
    uint16_t start[FEDCODEC_RANS_SYMBOLS + 1]; /* a symbol's first slot; the next one's follows */
    uint8_t symbol[FEDCODEC_RANS_SLOTS];
} fedcodec_rans_reader;

/** FED_EFORMAT: the encoder can't have sent that distribution. */
fed_status fedcodec_rans_start(fedcodec_rans_reader *r, const uint8_t *src, size_t len, size_t n,
                               unsigned detail) FED_CHECKED;

/** Read the next `want` positions. False once broken: their content is arbitrary. */
bool fedcodec_rans_read(fedcodec_rans_reader *r, uint32_t *position, size_t want);

/** The same for numbers, which n does not limit. */
bool fedcodec_rans_read_numbers(fedcodec_rans_reader *r, uint32_t *number, size_t want);

/** FED_OK: nothing broke, every byte was used, and the state is the encoder's first one. */
fed_status fedcodec_rans_end(const fedcodec_rans_reader *r) FED_CHECKED;

#endif
