/* Convert floats to bits, bytes and fixed-point numbers; scan whole arrays of floats. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_FLOATS_H
#define FEDCODEC_PRIM_FLOATS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/* Client and coordinator must get the same bits, so intermediates must have float's precision. */
_Static_assert(
    FLT_EVAL_METHOD == 0,
    "float arithmetic must be in float: -mfpmath=sse on x87, -fexcess-precision=fast on s390");

/** The mask of a magnitude's bits; infinity's bits. As integers, magnitudes keep their order. */
enum { FEDCODEC_MAGNITUDE = 0x7fffffff, FEDCODEC_INFINITY = 0x7f800000 };

static inline uint32_t fedcodec_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static inline float fedcodec_float(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint16_t fedcodec_load_u16(const uint8_t *src) {
    return (uint16_t)(src[0] | src[1] << 8);
}

/* Use one store on a little-endian machine: few compilers vectorise stores of single bytes. */
static inline void fedcodec_store_u16(uint8_t *dst, uint16_t v) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(dst, &v, sizeof v);
#else
    dst[0] = (uint8_t)v;
    dst[1] = (uint8_t)(v >> 8);
#endif
}

/* Return v in little-endian order, by a byte swap: few compilers vectorise loops over bytes. */
static inline uint32_t fedcodec_little_u32(uint32_t v) {
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap32(v);
}

static inline uint32_t fedcodec_load_u32(const uint8_t *src) {
    uint32_t v;
    memcpy(&v, src, sizeof v);
    return fedcodec_little_u32(v);
}

static inline void fedcodec_store_u32(uint8_t *dst, uint32_t v) {
    v = fedcodec_little_u32(v);
    memcpy(dst, &v, sizeof v);
}

static inline float fedcodec_load_f32(const uint8_t *src) {
    return fedcodec_float(fedcodec_load_u32(src));
}

static inline void fedcodec_store_f32(uint8_t *dst, float v) {
    fedcodec_store_u32(dst, fedcodec_bits(v));
}

/**
 * rint(v * 2^30) for |v| <= FEDCODEC_FOLD_LIMIT, ties to even, but faster than rint. Doubles near
 * 1.5 * 2^52 are integers, so adding that number rounds, and leaves the integer in the low bits.
 */
static inline int64_t fedcodec_fixed(float v) {
    const double shift = 0x1.8p52;
    double sum = (double)v * (double)(INT64_C(1) << FEDCODEC_FOLD_BITS) + shift;
    int64_t sum_bits, shift_bits;
    memcpy(&sum_bits, &sum, sizeof sum_bits);
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    return sum_bits - shift_bits;
}

/* Return a magnitude's bits, signed since vector units have a maximum of signed integers. */
static inline int32_t fedcodec_magnitude(float v) {
    return (int32_t)(fedcodec_bits(v) & FEDCODEC_MAGNITUDE);
}

static inline int32_t fedcodec_larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/** Return the bits of the largest magnitude; NaN's are above infinity's. The four quarters of the
 * array are read side by side, so that their memory accesses overlap. */
static inline int32_t fedcodec_largest(const float *x, size_t n) {
    const size_t quarter = n / 4;
    const float *second = x + quarter, *third = second + quarter, *fourth = third + quarter;
    int32_t max = 0;
    for (size_t i = 0; i < quarter; i++) {
        int32_t m = fedcodec_larger(fedcodec_magnitude(x[i]), fedcodec_magnitude(second[i]));
        int32_t k = fedcodec_larger(fedcodec_magnitude(third[i]), fedcodec_magnitude(fourth[i]));
        max = fedcodec_larger(max, fedcodec_larger(m, k));
    }
    for (size_t i = 4 * quarter; i < n; i++) {
        max = fedcodec_larger(max, fedcodec_magnitude(x[i]));
    }
    return max;
}

/** For a codec's scan: returns the largest |residual[i] + x[i]|, or 0 if n is 0. The result is not
 * finite if any sum is not. x may be NULL. */
float fedcodec_scan_sum(const float *residual, const float *x, size_t n);

/** For a codec's scan, if encode does not use the largest sum. If the residual is finite, the
 * result is finite exactly if all sums are. Usually only x is read. */
float fedcodec_scan_added(const float *residual, const float *x, size_t n);

/** For a codec's absorb: residual += x, unless x is NULL. Returns the largest |residual[i]|, which
 * is not finite if any value is not. */
float fedcodec_absorb(float *residual, const float *x, size_t n);

static inline void fedcodec_store_values(uint8_t *restrict dst, const float *restrict v,
                                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        fedcodec_store_f32(dst + 4 * i, v[i]);
    }
}

/** Check the values in src: FED_EFORMAT if one is 0 or not finite. *max_abs = the largest
 * magnitude; 0 if count is 0. */
fed_status fedcodec_check_values(const uint8_t *src, size_t count, float *max_abs) FED_CHECKED;

/** In a loop over count positions: return the position to prefetch in iteration i. */
static inline uint32_t fedcodec_soon(const uint32_t *index, size_t i, size_t count) {
    enum { AHEAD = 24 };
    return index[i + AHEAD < count ? i + AHEAD : i];
}

/** Return residual[i] + x[i]. x may be NULL; compilers can move the test of x out of a loop. */
static inline float fedcodec_sum(const float *residual, const float *x, size_t i) {
    return x != NULL ? residual[i] + x[i] : residual[i];
}

static inline void fedcodec_add(float *restrict residual, const float *restrict x, size_t n) {
    for (size_t i = 0; x != NULL && i < n; i++) {
        residual[i] += x[i];
    }
}

#endif
