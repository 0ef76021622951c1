/* twobit: -t, 0 or t for each value, four of them a byte. Format: docs/codec-formats.md#twobit
 * Paper: CD-SGD, section 2 (MXNet's 2-bit quantization) */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/prim/dense.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/ternary.h"
#include "codecs/registry.h"

/* A message is the threshold t, then the codes; the first code is in a byte's top two bits. */
enum { HEAD = 4, BLOCK = FEDCODEC_DENSE_BLOCK, PLUS = 3, MINUS = 2, AHEAD = 1024 };

static const fedcodec_param twobit_params[] = {
    {.key = "t", .preset = 0.5, .low = 1e-6, .high = 16.0, .help = "threshold, and what is sent"},
    {.key = NULL},
};

static size_t packed_len(size_t n) {
    return n / 4 + (n % 4 != 0);
}

static size_t twobit_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + packed_len(n);
}

/* Make a byte from four codes: the product moves them to bits 30, 28, 26 and 24. */
static inline uint8_t pack(const uint8_t code[4]) {
    return (uint8_t)(fedcodec_load_u32(code) * UINT32_C(0x40100401) >> 24);
}

/* Write the bytes of a group of values: join neighbouring codes, then neighbouring pairs. */
#if FEDCODEC_AVX512
static inline void put_group(fedcodec_trits d, uint8_t *dst) {
    __m512i code = _mm512_maskz_set1_epi8(d.minus, MINUS);
    code = _mm512_mask_mov_epi8(code, d.plus, _mm512_set1_epi8(PLUS));
    code = _mm512_maddubs_epi16(code, _mm512_set1_epi16(1 << 8 | 4));
    code = _mm512_madd_epi16(code, _mm512_set1_epi32(1 << 16 | 16));
    _mm_storeu_si128((__m128i *)(void *)dst, _mm512_cvtepi32_epi8(code));
}
#elif FEDCODEC_AVX2
/* A table lookup turns trits into codes; an index below 0 gives 0. The table's entries are MINUS,
 * 0 and PLUS, each XORed with MINUS, which is undone afterwards. The upper half of the trits has
 * the codes of every other output byte, so it is multiplied by factors that are 2^8 larger. */
static inline void put_group(fedcodec_trits d, uint8_t *dst) {
    const __m256i codes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0 ^ MINUS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, PLUS ^ MINUS));
    const __m256i fours =
        _mm256_setr_m128i(_mm_set1_epi32(1 << 16 | 16), _mm_set1_epi32(1 << 24 | 16 << 8));
    __m256i code = _mm256_shuffle_epi8(codes, d);
    code = _mm256_maddubs_epi16(code, _mm256_set1_epi16(1 << 8 | 4));
    code = _mm256_madd_epi16(code, fours);
    __m128i bytes = _mm_or_si128(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    bytes = _mm_xor_si128(_mm_packus_epi32(bytes, bytes), _mm_set1_epi8((char)(MINUS * 0x55)));
    _mm_storel_epi64((__m128i *)(void *)dst, bytes);
}
#elif FEDCODEC_NEON
static inline void put_group(fedcodec_trits d, uint8_t *dst) {
    int8x16_t sent = vabsq_s8(d), code = vaddq_s8(vaddq_s8(sent, sent), vmaxq_s8(d, vdupq_n_s8(0)));
    uint32x4_t four = vmulq_n_u32(vreinterpretq_u32_s8(code), UINT32_C(0x40100401));
    uint16x4_t bytes = vshrn_n_u32(vshrq_n_u32(four, 8), 16);
    uint8x8_t packed = vmovn_u16(vcombine_u16(bytes, bytes));
    uint32_t group = vget_lane_u32(vreinterpret_u32_u8(packed), 0);
    memcpy(dst, &group, sizeof group);
}
#endif

/* Quantise as many values as whole vectors hold. Returns their number. fedcodec_ternary compares
 * with > and not >=, so it gets the float just below t. */
static size_t quantise_groups(const fedcodec_job *block, float t) {
    size_t i = 0;
#ifdef FEDCODEC_TERNARY
    const fedcodec_job b = *block; /* a copy, which no store below can change */
    const float below = fedcodec_float(fedcodec_bits(t) - 1);
    for (; i + FEDCODEC_TERNARY <= b.n; i += FEDCODEC_TERNARY) {
        const float *x = b.x != NULL ? b.x + i : NULL;
        fedcodec_ternary_fetch(b.residual + i, x, AHEAD);
        put_group(fedcodec_ternary(b.residual + i, x, t, below), b.dst + i / 4);
    }
#else
    (void)t;
    fedcodec_dense_fetch(block);
#endif
    return i;
}

/* Quantise the values that quantise_groups has left. Codes are made first, as bytes, so that
 * compilers vectorise both loops. */
static void quantise_rest(float *restrict e, const float *restrict x, size_t n, float t,
                          uint8_t *restrict dst) {
    uint8_t code[BLOCK + 4];
    for (size_t i = 0; i < n; i++) {
        float v = fedcodec_sum(e, x, i);
        int plus = v >= t, minus = v <= -t;
        e[i] = v - (float)(plus - minus) * t;
        code[i] = (uint8_t)(PLUS * plus | MINUS * minus);
    }
    memset(code + n, 0, 4);
    for (size_t i = 0; i < packed_len(n); i++) {
        dst[i] = pack(code + 4 * i);
    }
}

static void quantise(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    const float t = *(const float *)with;
    assert(block->residual != NULL);
    const float *x = block->x;
    size_t done = quantise_groups(block, t);
    quantise_rest(block->residual + done, x != NULL ? x + done : NULL, block->n - done, t,
                  block->dst + done / 4);
}

static fed_status twobit_encode(const fedcodec_job *job, size_t *len) {
    float t = (float)job->param[0];
    fedcodec_store_f32(job->dst, t);
    FED_TRY(fedcodec_dense_encode_added(job, HEAD, 2, quantise, &t));
    *len = HEAD + packed_len(job->n);
    return FED_OK;
}

static fed_status twobit_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len == HEAD + packed_len(n), FED_EFORMAT);
    float t = fedcodec_load_f32(src);
    FED_REQUIRE(isfinite(t) && t > 0.0f, FED_EFORMAT);
    uint8_t unused = 0, any = 0;
    for (size_t i = HEAD; i < len; i++) {
        unused |= src[i] & ~(src[i] >> 1) & 0x55; /* finds the invalid code 01 */
        any |= src[i];
    }
    bool padded = n % 4 == 0 || (src[len - 1] & 0xff >> 2 * (n % 4)) == 0;
    FED_REQUIRE(unused == 0 && padded, FED_EFORMAT);
    *max_abs = any != 0 ? t : 0.0f;
    return FED_OK;
}

/* Spread a byte's four codes to bytes, then make multiples of t: 11 becomes 1, 10 becomes -1. */
static inline uint32_t unpack(uint8_t byte) {
    uint32_t codes = byte * UINT32_C(0x01004010) | byte >> 6; /* the products do not overlap */
    uint32_t plus = codes & UINT32_C(0x01010101), sent = codes >> 1 & UINT32_C(0x01010101);
    return plus | (sent ^ plus) * 255;
}

/* Unpack multiples of t from value start on, a multiple of 4. Returns their number, at most
 * BLOCK. */
static size_t unpack_block(const uint8_t *restrict src, size_t n, size_t start,
                           int8_t multiple[restrict BLOCK]) {
    size_t count = n - start < BLOCK ? n - start : BLOCK;
    for (size_t i = 0; i < packed_len(count); i++) {
        fedcodec_store_u32((uint8_t *)multiple + 4 * i, unpack(src[HEAD + start / 4 + i]));
    }
    return count;
}

/* Choose sixteen times among four values, by two-bit codes. Each code is shifted to the low end of
 * a lane. */
#if FEDCODEC_AVX512
static inline void choose_16(const uint8_t *codes, const float values[4], float *y) {
    const __m512i at = _mm512_setr_epi32(6, 4, 2, 0, 14, 12, 10, 8, 22, 20, 18, 16, 30, 28, 26, 24);
    __m512i all = _mm512_srlv_epi32(_mm512_set1_epi32((int)fedcodec_load_u32(codes)), at);
    _mm512_storeu_ps(y, _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(values)), all));
}
#elif FEDCODEC_AVX2
static inline void choose_16(const uint8_t *codes, const float values[4], float *y) {
    const __m256i first = _mm256_setr_epi32(6, 4, 2, 0, 14, 12, 10, 8);
    const __m256i second = _mm256_add_epi32(first, _mm256_set1_epi32(16));
    const __m256i all = _mm256_set1_epi32((int)fedcodec_load_u32(codes));
    const __m256 among = _mm256_broadcast_ps((const __m128 *)(const void *)values);
    _mm256_storeu_ps(y, _mm256_permutevar_ps(among, _mm256_srlv_epi32(all, first)));
    _mm256_storeu_ps(y + 8, _mm256_permutevar_ps(among, _mm256_srlv_epi32(all, second)));
}
#endif

static size_t decode_groups(const uint8_t *codes, float t, float *y, size_t n) {
    size_t i = 0;
#if FEDCODEC_AVX2
    const float values[4] = {0.0f, 0.0f, -t, t}; /* for the codes 00, 01 (invalid), 10, 11 */
    for (; i + FEDCODEC_FETCH_LINE <= n; i += FEDCODEC_FETCH_LINE) {
        fedcodec_fetch(y + i, FEDCODEC_FETCH);
        choose_16(codes + i / 4, values, y + i);
    }
#else
    (void)codes, (void)t, (void)y, (void)n;
#endif
    return i;
}

static void twobit_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    const float t = fedcodec_load_f32(src);
    int8_t multiple[BLOCK] = {0};
    for (size_t start = decode_groups(src + HEAD, t, y, n); start < n; start += BLOCK) {
        fedcodec_fetch_block(y + start, BLOCK);
        size_t count = unpack_block(src, n, start, multiple);
        for (size_t i = 0; i < count; i++) {
            y[start + i] = (float)multiple[i] * t;
        }
    }
}

/* Are all codes from start on, at most BLOCK, zeros? If so, y need not be read. */
static bool adds_nothing(const uint8_t *src, size_t len, size_t start) {
    size_t at = HEAD + start / 4, end = len - at < BLOCK / 4 ? len : at + BLOCK / 4;
    uint8_t any = 0;
    for (; at < end; at++) {
        any |= src[at];
    }
    return any == 0;
}

static void twobit_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const float t = fedcodec_load_f32(src); /* w * t may be infinite, and 0 * infinity is NaN */
    int8_t multiple[BLOCK] = {0};
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = adds_nothing(src, len, start) ? 0 : unpack_block(src, n, start, multiple);
        for (size_t i = 0; i < count; i++) {
            y[start + i] += w * ((float)multiple[i] * t);
        }
    }
}

static void twobit_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const float t = fedcodec_load_f32(src); /* above FEDCODEC_FOLD_LIMIT only if all values are 0 */
    const int64_t step = t <= FEDCODEC_FOLD_LIMIT ? weight * fedcodec_fixed(t) : 0;
    int8_t multiple[BLOCK] = {0};
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t count = adds_nothing(src, len, start) ? 0 : unpack_block(src, n, start, multiple);
        for (size_t i = 0; i < count; i++) {
            acc[start + i] += multiple[i] * step;
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(twobit) = {
    .id = FEDCODEC_ID_twobit,
    .name = "twobit",
    .about = "-t, 0 or t for each value, four a byte (MXNet's 2-bit quantization)",
    .params = twobit_params,
    .feedback = true,
    .bound = twobit_bound,
    .scan = fedcodec_scan_added,
    .encode = twobit_encode,
    .check = twobit_check,
    .decode = twobit_decode,
    .axpy = twobit_axpy,
    .fold = twobit_fold,
};
