/* Find the k-th greatest value of a list exactly: count keys in bins, then compare the few keys of
 * one bin. Included by select.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_RANK_IMPL_H
#define FEDCODEC_PRIM_RANK_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/lanes.h"
#include "fed/small.h"

enum {
    BINS_LOG2 = FED_SMALL ? 6 : 9, /* small builds use less stack */
    BINS = 1 << BINS_LOG2,
    CHUNK = 256,              /* values whose keys are counted together */
    CHUNK_ROOM = 16,          /* spare entries at a list's end, as whole vectors are stored */
    FEW = 32,                 /* up to this many keys are compared pairwise */
    WAYS = FED_SMALL ? 1 : 4, /* sets of bins, used in turn, which is faster */
    KEY_MAX = 0x7fffffff
};

/* The values that compete: the values of one sign, or all values. A value's key is its magnitude if
 * it competes, else a number above KEY_MAX. */
typedef struct side {
    uint32_t flip, mask;
} side;

static const side POSITIVE = {0, 0xffffffff}, NEGATIVE = {0x80000000, 0xffffffff},
                  EITHER = {0, KEY_MAX};

static uint32_t key_of(float v, side of) {
    return (fedcodec_bits(v) ^ of.flip) & of.mask;
}

/* A range of keys, both ends included. */
typedef struct range {
    uint32_t low, high;
} range;

static const range ALL = {1, KEY_MAX}; /* all keys but those of zeros */

static bool holds(range r, uint32_t key) {
    return key - r.low <= r.high - r.low;
}

/* The choice on one side: all keys above the member magnitude, and of the keys equal to it the
 * first ones, as many as ties. */
typedef struct cut {
    uint32_t magnitude; /* as bits */
    size_t ties;
} cut;

static const cut EVERYTHING = {1, SIZE_MAX}; /* all values but zeros */

/* Write the keys within a range, as floats, and return how many there are. *above becomes the
 * number of greater keys. dst may be the same memory as value. */
static size_t narrow(const float *value, size_t count, side of, range r, float *dst,
                     size_t *above) {
    size_t i = 0, got = 0, greater = 0;
#ifdef FEDCODEC_LANES
    const fedcodec_lanes flip = fedcodec_lanes_all(of.flip), mask = fedcodec_lanes_all(of.mask);
    const fedcodec_lanes low = fedcodec_lanes_all(r.low - 1), high = fedcodec_lanes_all(r.high);
    for (; i + FEDCODEC_LANES <= count; i += FEDCODEC_LANES) {
        fedcodec_lanes key = fedcodec_lanes_xor(fedcodec_lanes_load(value + i), flip);
        key = fedcodec_lanes_and(key, mask);
        uint32_t over = fedcodec_lanes_above(key, high);
        got += fedcodec_lanes_put(dst + got, fedcodec_lanes_above(key, low) & ~over, key);
        greater += (size_t)__builtin_popcount(over);
    }
#endif
    for (; i < count; i++) {
        uint32_t key = key_of(value[i], of);
        dst[got] = fedcodec_float(key);
        got += holds(r, key);
        greater += (key > r.high) & (key <= KEY_MAX);
    }
    *above = greater;
    return got;
}

/* Count the keys within a range in bins; a bin is 1 << shift keys wide. */
static void fill_bins(const float *value, size_t count, side of, range r, unsigned shift,
                      uint32_t bins[BINS]) {
    uint32_t way[WAYS][BINS] = {0};
    float key[CHUNK + CHUNK_ROOM];
    for (size_t i = 0; i < count; i += CHUNK) {
        size_t chunk = count - i < CHUNK ? count - i : CHUNK, above;
        size_t inside = narrow(value + i, chunk, of, r, key, &above);
        for (size_t j = 0; j < inside; j++) {
            way[j % WAYS][(fedcodec_bits(key[j]) - r.low) >> shift]++;
        }
    }
    for (size_t bin = 0; bin < BINS; bin++) {
        bins[bin] = 0;
        for (size_t k = 0; k < WAYS; k++) {
            bins[bin] += way[k][bin];
        }
    }
}

/* Narrow the range to the bin that holds its *rank-th greatest key. *rank becomes that key's
 * rank in the bin. Returns the number of keys in the bin, or 0 if the range has fewer than
 * *rank keys. */
static size_t find_bin(const float *value, size_t count, side of, range *r, size_t *rank) {
    uint32_t bins[BINS];
    const unsigned bits = 32 - (unsigned)__builtin_clz((r->high - r->low) | 1);
    const unsigned shift = bits > BINS_LOG2 ? bits - BINS_LOG2 : 0;
    fill_bins(value, count, of, *r, shift, bins);
    size_t left = *rank;
    for (uint32_t bin = ((r->high - r->low) >> shift) + 1; bin-- > 0;) {
        if (left <= bins[bin]) {
            uint32_t last = ((bin + 1) << shift) - 1;
            *rank = left;
            r->high = last < r->high - r->low ? r->low + last : r->high;
            r->low += bin << shift;
            return bins[bin];
        }
        left -= bins[bin];
    }
    return 0;
}

/* Return the cut at the rank-th greatest of a few keys, 1 <= rank <= count. */
static cut compare_all(const float *key, size_t count, size_t rank) {
    cut c = EVERYTHING;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = fedcodec_bits(key[i]), above = 0, equal = 0;
        for (size_t j = 0; j < count; j++) {
            above += fedcodec_bits(key[j]) > magnitude;
            equal += fedcodec_bits(key[j]) == magnitude;
        }
        if (above < rank && rank <= above + equal) {
            c = (cut){magnitude, rank - above};
        }
    }
    return c;
}

/* Return the cut at the rank-th greatest of any number of keys, none below low. The keys are
 * positive floats. They may be overwritten. */
static cut find_among(float *key, size_t count, uint32_t low, size_t rank) {
    range r = {low, (uint32_t)fedcodec_largest(key, count)};
    while (count > FEW) {
        if (r.low == r.high) {
            return (cut){r.low, rank};
        }
        size_t in_bin = find_bin(key, count, POSITIVE, &r, &rank), above;
        (void)narrow(key, count, POSITIVE, r, key, &above);
        count = in_bin;
    }
    return compare_all(key, count, rank);
}

/* Find the cut at the rank-th greatest key of all values that compete, rank > 0. Returns false if
 * fewer than rank compete. few[room]: memory for the keys of the last bin, once they fit. */
static bool find_cut(const float *value, size_t count, side of, size_t rank, float *few,
                     size_t room, cut *c) {
    range r = ALL;
    for (size_t left = count; left > room && r.low < r.high;) {
        left = find_bin(value, count, of, &r, &rank);
        if (left == 0) {
            return false;
        }
    }
    if (r.low == r.high) {
        *c = (cut){r.low, rank};
        return true;
    }
    size_t above, among = narrow(value, count, of, r, few, &above);
    if (among < rank) {
        return false;
    }
    *c = find_among(few, among, r.low, rank);
    return true;
}

#endif
