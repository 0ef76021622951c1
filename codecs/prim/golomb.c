/* Golomb coding of whole lists of positions, many bits at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/golomb.h"

#if FEDCODEC_AVX2
#include <immintrin.h>
#endif

static void store_big_endian(uint8_t *dst, uint64_t v) {
    for (unsigned i = 0; i < 8; i++) { /* compilers can make one store of these bytes */
        dst[i] = (uint8_t)(v >> (56 - 8 * i));
    }
}

fed_status fedcodec_golomb_write(const uint32_t *position, size_t count, unsigned b, uint8_t *dst,
                                 size_t cap, size_t *len) {
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, cap);
    uint64_t acc = w.acc; /* a copy of the writer's members, to keep them in registers */
    unsigned pending = w.pending;
    size_t at = w.len;
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t gap = position[i] - next, ones = gap >> b;
        const uint64_t size = (uint64_t)ones + 1 + b;
        next = position[i] + 1;
        if (size > 32 || cap - at < 8) {
            w.acc = acc, w.pending = pending, w.len = at;
            fedcodec_golomb_put(&w, gap, b);
            acc = w.acc, pending = w.pending, at = w.len, cap = w.cap;
            continue;
        }
        /* Always store eight bytes, without a branch. `at` moves on only past complete bytes. */
        const uint64_t code = (((UINT64_C(1) << ones) - 1) << 1 << b) | (gap - (ones << b));
        acc = acc << size | code;
        pending += (unsigned)size;
        store_big_endian(dst + at, acc << (64 - pending));
        at += pending / 8;
        pending %= 8;
    }
    w.acc = acc, w.pending = pending, w.len = at;
    return fed_bit_writer_finish(&w, len);
}

/* look() loads 64 bits of the stream, of which at least LOOK_BITS are valid. LOOKS: how many bytes
 * must be left in the stream for two calls of look(). */
enum { LOOK_BITS = 57, LOOKS = 16 };

/* Return 64 bits from pos on, inverted, since the caller counts leading ones. */
static uint64_t look(const fed_bit_reader *bits, uint64_t pos) {
    const fed_bit_reader at = {.src = bits->src, .pos = pos};
    return ~(fed_bit_window(&at) << (pos & 7));
}

/* Return the number of leading zeros. For 0 it is 64 or 63; callers ignore that result. */
static unsigned leading_zeros(uint64_t v) {
#if FEDCODEC_AVX2
    return (unsigned)_lzcnt_u64(v);
#else
    return (unsigned)__builtin_clzll(v | 1);
#endif
}

/* Read positions in groups, of as many codes as the loaded bits probably hold. The next bits are
 * loaded meanwhile. A group whose codes need more than the loaded bits ends the loop. Returns the
 * number of positions read, at most want. */
static size_t read_looks(fedcodec_golomb_reader *reader, uint32_t *position, size_t want) {
    const fed_bit_reader bits = reader->bits;
    const uint64_t n = reader->n;
    const unsigned b = reader->b;
    const size_t few = LOOK_BITS / (b + 3);
    uint64_t pos = bits.pos, next = reader->next, zeros = 0;
    size_t got = 0;
    if ((pos >> 3) + LOOKS <= bits.len) {
        const uint64_t low = (UINT64_C(1) << (64 - LOOK_BITS)) - 1;
        zeros = (look(&bits, pos) & ~low) | look(&bits, pos + LOOK_BITS) >> LOOK_BITS;
    }
    while (got < want && (pos >> 3) + LOOKS <= bits.len) {
        const size_t tries = want - got < few ? want - got : few;
        const uint64_t more = look(&bits, pos + 64);
        uint64_t at = next;
        unsigned size = 0;
        /* Codes past the loaded bits come out wrong; the test after the loop drops them. */
        for (size_t i = 0; i < tries; i++) {
            unsigned ones = leading_zeros(zeros), code = ones + 1 + b;
            at += ((uint64_t)ones << b) + (~(zeros << (ones & 63) << 1) >> 1 >> (63 - b));
            position[got + i] = (uint32_t)at++;
            size += code;
            zeros <<= code & 63;
        }
        if (size > LOOK_BITS || at > n) {
            break;
        }
        zeros |= more >> (64 - size);
        next = at;
        pos += size;
        got += tries;
    }
    reader->bits.pos = pos;
    reader->next = next;
    return got;
}

bool fedcodec_golomb_read(fedcodec_golomb_reader *r, uint32_t *position, size_t want) {
    size_t i = 0;
    while (i < want) {
        i += read_looks(r, position + i, want - i);
        if (i < want) {
            position[i++] = (uint32_t)fedcodec_golomb_next(r);
        }
    }
    return r->bits.status == FED_OK;
}
