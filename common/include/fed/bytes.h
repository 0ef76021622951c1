/* Readers and writers of little-endian bytes that check bounds, for all messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_BYTES_H
#define FED_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/status.h"

FED_API_BEGIN

/*
 * Errors are sticky: after the first failure every further call does nothing, and a read returns 0.
 * So a parser reads field after field and checks the status once at the end. Integers are
 * little-endian. A varint is LEB128, at most 10 bytes, in its shortest form; a longer form of the
 * same number is FED_EFORMAT.
 */

/** A position in bytes that are being read. It owns nothing; the bytes must outlive it. */
typedef struct fed_reader {
    const uint8_t *data;
    size_t len;
    size_t pos;
    fed_status status;
} fed_reader;

void fed_reader_init(fed_reader *r, const void *data, size_t len);
uint8_t fed_read_u8(fed_reader *r);
uint16_t fed_read_u16(fed_reader *r);
uint32_t fed_read_u32(fed_reader *r);
uint64_t fed_read_u64(fed_reader *r);
float fed_read_f32(fed_reader *r);  /* IEEE binary32 bits; NaN and infinity pass */
double fed_read_f64(fed_reader *r); /* IEEE binary64 bits; NaN and infinity pass */
uint64_t fed_read_varint(fed_reader *r);

/** Return a pointer to the next len bytes. If fewer are left, return NULL and set FED_EFORMAT. */
const uint8_t *fed_read_bytes(fed_reader *r, size_t len);

/** Read a string of fed_write_str into dst[cap], with a terminating NUL. If the string does not
 * fit or holds a NUL, dst becomes "" and FED_EFORMAT is set. */
void fed_read_str(fed_reader *r, char *dst, size_t cap);

/** Return the number of bytes not yet read. */
size_t fed_reader_left(const fed_reader *r);

/** Return FED_OK if nothing failed and every byte was read, FED_EFORMAT if bytes are left. */
fed_status fed_reader_end(const fed_reader *r) FED_CHECKED;

/** Writes bytes into the caller's memory, or into memory that grows. */
typedef struct fed_writer {
    uint8_t *data; /* the bytes written so far: data[0 .. len) */
    size_t len;
    size_t cap;
    bool grows;
    fed_status status;
} fed_writer;

/** Write into the caller's dst[cap]. Past cap the writer fails with FED_ENOSPC and writes nothing
 * more. */
void fed_writer_fixed(fed_writer *w, void *dst, size_t cap);

/** Write into memory that grows as needed. Free it with fed_writer_free. */
void fed_writer_growing(fed_writer *w);

/** Free a growing writer's memory, and make the writer empty and growing. A fixed writer only
 * forgets its memory. */
void fed_writer_free(fed_writer *w);

void fed_write_u8(fed_writer *w, uint8_t v);
void fed_write_u16(fed_writer *w, uint16_t v);
void fed_write_u32(fed_writer *w, uint32_t v);
void fed_write_u64(fed_writer *w, uint64_t v);
void fed_write_f32(fed_writer *w, float v);
void fed_write_f64(fed_writer *w, double v);
void fed_write_varint(fed_writer *w, uint64_t v);
void fed_write_bytes(fed_writer *w, const void *src, size_t len);
/** Write a varint with the length, then the bytes without the NUL. */
void fed_write_str(fed_writer *w, const char *text);

/** Write formatted text. A NUL follows the text; it needs room, but is not counted. */
void fed_write_printf(fed_writer *w, const char *format, ...) FED_PRINTF(2, 3);

/** Make room for len more bytes and return where to put them; then call fed_writer_advance.
 * Returns NULL on failure. */
uint8_t *fed_writer_reserve(fed_writer *w, size_t len);
void fed_writer_advance(fed_writer *w, size_t len);

/** Return the number of bytes that v takes as a varint: 1 to 10. */
size_t fed_varint_size(uint64_t v);

FED_API_END

#endif
