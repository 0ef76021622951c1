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

enum { WINDOW_BITS = 57 }; /* of a window that are the stream's, at least */

/* Two positions from one look at the stream, as most of them can be: the second one then waits for
 * no load. False, and nothing is read: this is not such a place. */
static inline bool read_two(fedcodec_golomb_reader *r, uint32_t *position) {
    if ((r->bits.pos >> 3) + 8 > r->bits.len) {
        return false;
    }
    uint64_t window = fed_bit_window(&r->bits) << (r->bits.pos & 7); /* zeros are shifted in */
    unsigned ones = (unsigned)__builtin_clzll(~window | 1), first = ones + 1 + r->b;
    if (first >= WINDOW_BITS) {
        return false;
    }
    uint64_t at = r->next + ((uint64_t)ones << r->b) + (window << ones << 1 >> 1 >> (63 - r->b));
    window <<= first;
    ones = (unsigned)__builtin_clzll(~window);
    unsigned both = first + ones + 1 + r->b;
    if (both > WINDOW_BITS) {
        return false;
    }
    position[0] = (uint32_t)at;
    at += 1 + ((uint64_t)ones << r->b) + (window << ones << 1 >> 1 >> (63 - r->b));
    if (at >= r->n) {
        return false;
    }
    position[1] = (uint32_t)at;
    r->next = at + 1;
    r->bits.pos += both;
    return true;
}

bool fedcodec_golomb_read(fedcodec_golomb_reader *reader, uint32_t *position, size_t want) {
    fedcodec_golomb_reader r = *reader; /* in registers */
    size_t i = 0;
    while (i < want) {
        if (want - i >= 2 && read_two(&r, position + i)) {
            i += 2;
        } else {
            position[i++] = (uint32_t)fedcodec_golomb_next(&r);
        }
    }
    *reader = r;
    return r.bits.status == FED_OK;
}
