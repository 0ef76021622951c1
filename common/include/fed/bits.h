/* Bounded bit readers and writers, most significant bit first, for the entropy coders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_BITS_H
#define FED_BITS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/*
 * Bit k of the stream is bit 7 - k % 8 of byte k / 8, on every machine. Errors are sticky, as those
 * of fed_reader and fed_writer (fed/bytes.h).
 *
 * An entropy coder calls these functions once or twice a position. So the common case is inline and
 * works on a machine word. The functions named *_slow handle the last bytes and failures.
 */

typedef struct fed_bit_writer {
    uint8_t *dst;
    size_t cap;       /* size of dst; equals len after a failure, which stops writing */
    size_t len;       /* whole bytes flushed so far */
    uint64_t acc;     /* pending bits, right-aligned; the bits above them were written already */
    unsigned pending; /* number of pending bits, under 32 between calls */
    fed_status status;
} fed_bit_writer;

void fed_bit_writer_init(fed_bit_writer *w, void *dst, size_t cap);

/** Append the low count bits of value, highest first. count is 0 to 32. */
static inline void fed_put_bits(fed_bit_writer *w, uint32_t value, unsigned count);

/** Append `ones` one bits, then a zero bit. Any number of ones is allowed; the call takes ones / 32
 * iterations. */
static inline void fed_put_unary(fed_bit_writer *w, uint64_t ones);

/** Fill the last byte with one bits and flush. *len: bytes written. FED_ENOSPC: dst was too
 * small. */
fed_status fed_bit_writer_finish(fed_bit_writer *w, size_t *len) FED_CHECKED;

typedef struct fed_bit_reader {
    const uint8_t *src;
    size_t len;   /* bytes */
    uint64_t pos; /* bits read; after a failure the end, so that nothing more is read */
    fed_status status;
} fed_bit_reader;

void fed_bit_reader_init(fed_bit_reader *r, const void *src, size_t len);

/** Read the next count bits, 0 to 32. Past the end the reader fails with FED_EFORMAT, and the
 * result is 0. */
static inline uint32_t fed_get_bits(fed_bit_reader *r, unsigned count);

/** Count the one bits before the next zero bit, and consume them and the zero bit. If there are
 * more than limit one bits, or no zero bit, the reader fails with FED_EFORMAT, and the result is
 * 0. */
static inline uint64_t fed_get_unary(fed_bit_reader *r, uint64_t limit);

/** Return FED_OK if nothing failed and fewer than 8 bits are left, all ones. fed_bit_writer_finish
 * pads with such bits. */
fed_status fed_bit_reader_end(const fed_bit_reader *r) FED_CHECKED;

/* ---- The implementation, inline; not for callers ---- */

void fed_bit_flush_slow(fed_bit_writer *w);
void fed_put_unary_slow(fed_bit_writer *w, uint64_t ones);
uint32_t fed_get_bits_slow(fed_bit_reader *r, unsigned count);
uint64_t fed_get_unary_slow(fed_bit_reader *r, uint64_t limit);

static inline void fed_put_bits(fed_bit_writer *w, uint32_t value, unsigned count) {
    w->acc = w->acc << count | (value & ((UINT64_C(1) << count) - 1));
    w->pending += count;
    if (w->pending < 32) {
        return;
    }
    if (w->cap - w->len < 4) {
        fed_bit_flush_slow(w);
        return;
    }
    w->pending -= 32;
    uint32_t word = (uint32_t)(w->acc >> w->pending);
    uint8_t *at = w->dst + w->len;
    at[0] = (uint8_t)(word >> 24); /* compilers can make one store of these four */
    at[1] = (uint8_t)(word >> 16);
    at[2] = (uint8_t)(word >> 8);
    at[3] = (uint8_t)word;
    w->len += 4;
}

static inline void fed_put_unary(fed_bit_writer *w, uint64_t ones) {
    if (ones < 32) {
        fed_put_bits(w, (uint32_t)((UINT64_C(2) << ones) - 2), (unsigned)ones + 1);
    } else {
        fed_put_unary_slow(w, ones);
    }
}

/* Return 64 bits from the byte that holds bit pos on. The caller checks that 8 bytes are there. */
static inline uint64_t fed_bit_window(const fed_bit_reader *r) {
    const uint8_t *at = r->src + (r->pos >> 3);
    return (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 |
           (uint64_t)at[3] << 32 | (uint64_t)at[4] << 24 | (uint64_t)at[5] << 16 |
           (uint64_t)at[6] << 8 | (uint64_t)at[7];
}

static inline uint32_t fed_get_bits(fed_bit_reader *r, unsigned count) {
    if ((r->pos >> 3) + 8 > r->len) {
        return fed_get_bits_slow(r, count);
    }
    uint64_t window = fed_bit_window(r) << (r->pos & 7);
    r->pos += count;
    return (uint32_t)(window >> 32 >> (32 - count));
}

static inline uint64_t fed_get_unary(fed_bit_reader *r, uint64_t limit) {
    if ((r->pos >> 3) + 8 > r->len) {
        return fed_get_unary_slow(r, limit);
    }
    /* At least the 57 highest bits belong to the stream; zeros are shifted in below them. */
    uint64_t zeros = ~(fed_bit_window(r) << (r->pos & 7));
    if (zeros >> 7 == 0) {
        return fed_get_unary_slow(r, limit);
    }
    uint64_t ones = (uint64_t)__builtin_clzll(zeros);
    if (ones > limit) {
        return fed_get_unary_slow(r, limit);
    }
    r->pos += ones + 1;
    return ones;
}

FED_API_END

#endif
