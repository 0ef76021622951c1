/* Readers and writers of little-endian bytes. After a failure they do nothing more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARINT_BYTES = 10, FIRST_CAPACITY = 256 };

void fed_reader_init(fed_reader *r, const void *data, size_t len) {
    /* The pointer is never NULL, so that empty data needs no special case below. */
    *r = (fed_reader){.data = data != NULL ? data : (const uint8_t *)"", .len = len};
}

const uint8_t *fed_read_bytes(fed_reader *r, size_t len) {
    if (r->status == FED_OK && len > r->len - r->pos) {
        r->status = FED_EFORMAT;
    }
    if (r->status != FED_OK) {
        return NULL;
    }
    const uint8_t *at = r->data + r->pos;
    r->pos += len;
    return at;
}

static inline uint64_t read_le(fed_reader *r, size_t size) {
    const uint8_t *at = fed_read_bytes(r, size);
    uint64_t v = 0;
    for (size_t i = 0; at != NULL && i < size; i++) {
        v |= (uint64_t)at[i] << (8 * i);
    }
    return v;
}

uint8_t fed_read_u8(fed_reader *r) {
    return (uint8_t)read_le(r, 1);
}

uint16_t fed_read_u16(fed_reader *r) {
    return (uint16_t)read_le(r, 2);
}

uint32_t fed_read_u32(fed_reader *r) {
    return (uint32_t)read_le(r, 4);
}

uint64_t fed_read_u64(fed_reader *r) {
    return read_le(r, 8);
}

float fed_read_f32(fed_reader *r) {
    uint32_t bits = fed_read_u32(r);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

double fed_read_f64(fed_reader *r) {
    uint64_t bits = fed_read_u64(r);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

uint64_t fed_read_varint(fed_reader *r) {
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_BYTES; i++) {
        uint8_t byte = fed_read_u8(r);
        /* The tenth byte can hold only the one bit that is left. A last byte of 0 would be a
         * longer form of the same number. */
        if ((i == VARINT_BYTES - 1 && byte > 1) || (i > 0 && byte == 0)) {
            break;
        }
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            return v;
        }
    }
    r->status = FED_EFORMAT;
    return 0;
}

void fed_read_str(fed_reader *r, char *dst, size_t cap) {
    uint64_t len = fed_read_varint(r);
    dst[0] = '\0';
    if (r->status == FED_OK && len >= cap) {
        r->status = FED_EFORMAT;
    }
    const uint8_t *at = fed_read_bytes(r, (size_t)len);
    if (at == NULL) {
        return;
    }
    if (memchr(at, '\0', (size_t)len) != NULL) {
        r->status = FED_EFORMAT;
        return;
    }
    memcpy(dst, at, (size_t)len);
    dst[len] = '\0';
}

size_t fed_reader_left(const fed_reader *r) {
    return r->len - r->pos;
}

fed_status fed_reader_end(const fed_reader *r) {
    FED_TRY(r->status);
    FED_REQUIRE(r->pos == r->len, FED_EFORMAT);
    return FED_OK;
}

void fed_writer_fixed(fed_writer *w, void *dst, size_t cap) {
    *w = (fed_writer){.data = dst, .cap = cap};
}

void fed_writer_growing(fed_writer *w) {
    *w = (fed_writer){.grows = true};
}

void fed_writer_free(fed_writer *w) {
    if (w->grows) {
        free(w->data);
    }
    fed_writer_growing(w);
}

static fed_status grow(fed_writer *w, size_t len) {
    FED_REQUIRE(w->grows, FED_ENOSPC);
    FED_REQUIRE(len <= SIZE_MAX / 2 - w->len, FED_ENOMEM);
    size_t cap = w->cap < FIRST_CAPACITY ? FIRST_CAPACITY : w->cap * 2;
    if (cap < w->len + len) {
        cap = w->len + len;
    }
    uint8_t *data = realloc(w->data, cap);
    FED_REQUIRE(data != NULL, FED_ENOMEM);
    w->data = data;
    w->cap = cap;
    return FED_OK;
}

uint8_t *fed_writer_reserve(fed_writer *w, size_t len) {
    if (w->status == FED_OK && (len > w->cap - w->len || w->data == NULL)) {
        w->status = grow(w, len);
    }
    return w->status == FED_OK ? w->data + w->len : NULL;
}

void fed_writer_advance(fed_writer *w, size_t len) {
    if (w->status == FED_OK) {
        w->len += len;
    }
}

static inline void write_le(fed_writer *w, uint64_t v, size_t size) {
    uint8_t *at = fed_writer_reserve(w, size);
    for (size_t i = 0; at != NULL && i < size; i++) {
        at[i] = (uint8_t)(v >> (8 * i));
    }
    fed_writer_advance(w, size);
}

void fed_write_u8(fed_writer *w, uint8_t v) {
    write_le(w, v, 1);
}

void fed_write_u16(fed_writer *w, uint16_t v) {
    write_le(w, v, 2);
}

void fed_write_u32(fed_writer *w, uint32_t v) {
    write_le(w, v, 4);
}

void fed_write_u64(fed_writer *w, uint64_t v) {
    write_le(w, v, 8);
}

void fed_write_f32(fed_writer *w, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    fed_write_u32(w, bits);
}

void fed_write_f64(fed_writer *w, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    fed_write_u64(w, bits);
}

void fed_write_varint(fed_writer *w, uint64_t v) {
    uint8_t bytes[VARINT_BYTES];
    size_t len = 0;
    for (; v >= 0x80; v >>= 7) {
        bytes[len++] = (uint8_t)(v | 0x80);
    }
    bytes[len++] = (uint8_t)v;
    fed_write_bytes(w, bytes, len);
}

void fed_write_bytes(fed_writer *w, const void *src, size_t len) {
    if (len == 0) {
        return; /* src may be NULL, which memcpy does not allow */
    }
    uint8_t *at = fed_writer_reserve(w, len);
    if (at != NULL) {
        memcpy(at, src, len);
        w->len += len;
    }
}

void fed_write_str(fed_writer *w, const char *text) {
    size_t len = strlen(text);
    if (fed_writer_reserve(w, fed_varint_size(len) + len) == NULL) {
        return; /* no part of the text is kept */
    }
    fed_write_varint(w, len);
    fed_write_bytes(w, text, len);
}

void fed_write_printf(fed_writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0) {
        w->status = w->status != FED_OK ? w->status : FED_EINVAL;
        return;
    }
    uint8_t *at = fed_writer_reserve(w, (size_t)len + 1);
    if (at == NULL) {
        return;
    }
    va_start(args, format);
    vsnprintf((char *)at, (size_t)len + 1, format, args);
    va_end(args);
    w->len += (size_t)len;
}

size_t fed_varint_size(uint64_t v) {
    size_t size = 1;
    for (; v >= 0x80; v >>= 7) {
        size++;
    }
    return size;
}
