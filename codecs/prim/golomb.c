/* Golomb coding: its parameter and its worst case. */
#include "codecs/prim/golomb.h"

#include <math.h>

unsigned fedcodec_golomb_b(double p) {
    const double phi = 1.6180339887498949; /* (sqrt(5) + 1) / 2 */
    double b = 1.0 + floor(log2(log(phi - 1.0) / log1p(-p)));
    return b < 0.0 ? 0 : b > FEDCODEC_GOLOMB_B_MAX ? FEDCODEC_GOLOMB_B_MAX : (unsigned)b;
}

size_t fedcodec_golomb_bound(size_t n, size_t k, unsigned b) {
    uint64_t bits = (uint64_t)k * (b + 1) + ((uint64_t)n >> b); /* the gaps' sum is at most n */
    return (size_t)((bits + 7) / 8);
}

static void store_big_endian(uint8_t *dst, uint64_t v) {
    for (unsigned i = 0; i < 8; i++) { /* one store, to a compiler */
        dst[i] = (uint8_t)(v >> (56 - 8 * i));
    }
}

fed_status fedcodec_golomb_write(const uint32_t *position, size_t count, unsigned b, uint8_t *dst,
                                 size_t cap, size_t *len) {
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst, cap);
    uint64_t acc = w.acc; /* what changes with each position, in registers */
    unsigned pending = w.pending;
    size_t at = w.len;
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t gap = position[i] - next, ones = gap >> b;
        const uint64_t size = (uint64_t)ones + 1 + b;
        next = position[i] + 1;
        if (size > 32 || cap - at < 8) { /* rare: a long code, or the end of the room */
            w.acc = acc, w.pending = pending, w.len = at;
            fedcodec_golomb_put(&w, gap, b);
            acc = w.acc, pending = w.pending, at = w.len, cap = w.cap;
            continue;
        }
        /* Whole bytes leave at once, without asking whether there are any. */
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

enum { WINDOW_BITS = 57 }; /* of a window that are the stream's, at least */

/* Positions by one look at the stream for as many of them as are probably in it: all but the first
 * then wait for no load. How many were read, at most want; it ends early where not even one is. */
static size_t read_windows(fedcodec_golomb_reader *reader, uint32_t *position, size_t want) {
    fed_bit_reader bits = reader->bits; /* in registers, all of them */
    const uint64_t n = reader->n;
    const unsigned b = reader->b;
    const size_t probably = WINDOW_BITS / (b + 2);
    uint64_t next = reader->next;
    size_t got = 0;
    while (got < want && (bits.pos >> 3) + 8 <= bits.len) {
        const size_t tries = want - got < probably ? want - got : probably;
        uint64_t zeros = ~(fed_bit_window(&bits) << (bits.pos & 7)); /* leading ones are counted */
        uint64_t at = next, last = next;
        unsigned size = 0, used = 0;
        size_t whole = 0;
        for (size_t i = 0; i < tries; i++) { /* those past the window are not what they seem */
            unsigned ones = (unsigned)__builtin_clzll(zeros | 1);
            at += ((uint64_t)ones << b) + (~(zeros << ones << 1) >> 1 >> (63 - b));
            position[got + i] = (uint32_t)at++;
            size += ones + 1 + b;
            zeros <<= (ones + 1 + b) & 63;
            whole += size <= WINDOW_BITS;
            last = size <= WINDOW_BITS ? at : last;
            used = size <= WINDOW_BITS ? size : used;
        }
        if (whole == 0 || last > n) {
            break;
        }
        next = last;
        bits.pos += used;
        got += whole;
    }
    reader->bits.pos = bits.pos;
    reader->next = next;
    return got;
}

bool fedcodec_golomb_read(fedcodec_golomb_reader *r, uint32_t *position, size_t want) {
    size_t i = 0;
    while (i < want) {
        i += read_windows(r, position + i, want - i);
        if (i < want) {
            position[i++] = (uint32_t)fedcodec_golomb_next(r);
        }
    }
    return r->bits.status == FED_OK;
}
