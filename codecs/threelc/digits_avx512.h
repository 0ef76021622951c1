/* 3LC's digits, 64 bytes of them at a time, with AVX-512: from values, and back. */
#ifndef FEDCODEC_THREELC_DIGITS_AVX512_H
#define FEDCODEC_THREELC_DIGITS_AVX512_H

#include <immintrin.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/threelc/values.h"

/* Of 64 values: which are sent as 1, and which as -1. */
typedef fedcodec_trits digits;

static inline void quantise_group(float *e, const float *x, size_t stride, float m,
                                  uint8_t *bytes) {
    static const int8_t weight[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    __m512i sum = _mm512_set1_epi8(FEDCODEC_QUARTIC_ZERO);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        digits d = quantise_values(e + k * stride, x != NULL ? x + k * stride : NULL, m);
        __m512i w = _mm512_set1_epi8(weight[k]);
        sum = _mm512_mask_add_epi8(sum, d.plus, sum, w);
        sum = _mm512_mask_sub_epi8(sum, d.minus, sum, w);
    }
    _mm512_storeu_si512(bytes, sum);
}

/* A digit is how often its power goes in: 0 to 2 times. */
static inline void split_group(const uint8_t *bytes, digits *d) {
    static const uint8_t power[FEDCODEC_QUARTIC_DIGITS] = {81, 27, 9, 3, 1};
    __m512i rest = _mm512_loadu_si512(bytes);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        __m512i once = _mm512_set1_epi8((char)power[k]);
        __mmask64 some = _mm512_cmpge_epu8_mask(rest, once);
        rest = _mm512_mask_sub_epi8(rest, some, rest, once);
        d[k].plus = _mm512_mask_cmpge_epu8_mask(some, rest, once);
        d[k].minus = ~some;
        rest = _mm512_mask_sub_epi8(rest, d[k].plus, rest, once);
    }
}

static inline void set_group(float *y, const digits *d, float step) {
    const __m512 up = _mm512_set1_ps(step), down = _mm512_set1_ps(-step);
    for (unsigned j = 0; j < GROUPED; j += 16) {
        fedcodec_fetch(y + j, AHEAD);
        __m512 v = _mm512_maskz_mov_ps((__mmask16)(d->plus >> j), up);
        _mm512_storeu_ps(y + j, _mm512_mask_mov_ps(v, (__mmask16)(d->minus >> j), down));
    }
}

static inline void add_group(float *y, const digits *d, float step) {
    const __m512 up = _mm512_set1_ps(step);
    for (unsigned j = 0; j < GROUPED; j += 16) {
        fedcodec_fetch(y + j, AHEAD);
        __m512 v = _mm512_loadu_ps(y + j);
        v = _mm512_mask_add_ps(v, (__mmask16)(d->plus >> j), v, up);
        _mm512_storeu_ps(y + j, _mm512_mask_sub_ps(v, (__mmask16)(d->minus >> j), v, up));
    }
}

static inline void fold_group(int64_t *acc, const digits *d, int64_t step) {
    const __m512i up = _mm512_set1_epi64(step);
    for (unsigned j = 0; j < GROUPED; j += 8) {
        fedcodec_fetch(acc + j, AHEAD);
        __m512i v = _mm512_loadu_si512(acc + j);
        v = _mm512_mask_add_epi64(v, (__mmask8)(d->plus >> j), v, up);
        v = _mm512_mask_sub_epi64(v, (__mmask8)(d->minus >> j), v, up);
        _mm512_storeu_si512(acc + j, v);
    }
}

#endif
