/* Bounded bit readers and writers, most significant bit first, for the entropy coders. */
#ifndef FED_BITS_H
#define FED_BITS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * Bit k of the stream is bit 7 - k % 8 of byte k / 8, on every machine. Sticky like fed_reader and
 * fed_writer.
 */

typedef struct fed_bit_writer {
    uint8_t *dst;
    size_t cap;   /* bytes */
    size_t len;   /* whole bytes flushed so far */
    uint64_t acc; /* pending bits, right-aligned */
    unsigned pending;
    fed_status status;
} fed_bit_writer;

void fed_bit_writer_init(fed_bit_writer *w, void *dst, size_t cap);

/** Append the low `count` bits of value, highest first. count 0 to 32. */
void fed_put_bits(fed_bit_writer *w, uint32_t value, unsigned count);

/** Append `ones` one bits, then a zero bit. Any count; takes ones / 8 steps. */
void fed_put_unary(fed_bit_writer *w, uint64_t ones);

/** Fill the last byte with one bits and flush. *len = bytes written. FED_ENOSPC if they did not
 * fit. */
fed_status fed_bit_writer_finish(fed_bit_writer *w, size_t *len) FED_CHECKED;

typedef struct fed_bit_reader {
    const uint8_t *src;
    size_t len;   /* bytes */
    uint64_t pos; /* bits read */
    fed_status status;
} fed_bit_reader;

void fed_bit_reader_init(fed_bit_reader *r, const void *src, size_t len);

/** The next `count` bits, 0 to 32. Past the end: FED_EFORMAT, and 0. */
uint32_t fed_get_bits(fed_bit_reader *r, unsigned count);

/** How many one bits come before the next zero bit, which is consumed. More than `limit` of them,
 * or no zero bit before the end, is FED_EFORMAT. */
uint64_t fed_get_unary(fed_bit_reader *r, uint64_t limit);

/** FED_OK when nothing failed and what is left is under 8 bits, all ones (fed_bit_writer_finish's
 * padding). */
fed_status fed_bit_reader_end(const fed_bit_reader *r) FED_CHECKED;

#endif
