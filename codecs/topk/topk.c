/* topk: a bitmap of the values of largest magnitude, and these values. Format:
 * docs/codec-formats.md#topk   Paper: 3LC, section 5 ("5% sparsification") */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/registry.h"

#if FEDCODEC_AVX512
#include <immintrin.h>
#endif

static const fedcodec_param topk_params[] = {
    {.key = "p", .preset = 0.05, .low = 1e-6, .high = 1.0, .help = "fraction of values sent"},
    {.key = NULL},
};

static size_t topk_bound(const double *param, size_t n) {
    return fedcodec_bitmap_len(n) + 4 * fedcodec_select_most(param[0], n);
}

static size_t topk_work_size(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status topk_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    size_t map = fedcodec_bitmap_len(job->n);
    fedcodec_bitmap_put(chosen.index, chosen.count, job->dst, map);
    fedcodec_store_values(job->dst + map, chosen.value, chosen.count);
    for (size_t i = 0; i < chosen.count; i++) {
        __builtin_prefetch(&job->residual[fedcodec_soon(chosen.index, i, chosen.count)], 1);
        job->residual[chosen.index[i]] = 0.0f;
    }
    *len = map + 4 * chosen.count;
    return FED_OK;
}

static fed_status topk_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    size_t map = fedcodec_bitmap_len(n);
    FED_REQUIRE(len >= map && fedcodec_bitmap_padded(src, n), FED_EFORMAT);
    FED_REQUIRE((len - map) % 4 == 0, FED_EFORMAT);
    FED_REQUIRE((len - map) / 4 == fedcodec_bitmap_count(src, map), FED_EFORMAT);
    return fedcodec_check_values(src + map, (len - map) / 4, max_abs);
}

/* y[i] += w * value for each bit of a word of the map. Returns their number. */
static size_t add_word(uint64_t word, const uint8_t *values, float w, float *y) {
    size_t count = 0;
    for (; word != 0; count++) {
        y[fedcodec_bitmap_take(&word)] += w * fedcodec_load_f32(values + 4 * count);
    }
    return count;
}

#if FEDCODEC_AVX512
enum { WORD = 64 };

/* The same if y has a value for each bit of the word, and as many values are readable at `values`.
 * It stores all of y's values: stores through masks delay the next loads. */
static inline size_t add_whole_word(uint64_t word, const uint8_t *values, float w, float *y) {
    uint64_t lanes = fedcodec_bitmap_reversed(word);
    size_t count = 0;
    for (size_t i = 0; i < WORD; i += 16, lanes >>= 16) {
        const __mmask16 ones = (__mmask16)lanes;
        const __m512 before = _mm512_loadu_ps(y + i);
        __m512 v = _mm512_maskz_expand_ps(ones, _mm512_loadu_ps(values + 4 * count));
        v = _mm512_mul_ps(_mm512_set1_ps(w), v);
        _mm512_storeu_ps(y + i, _mm512_mask_add_ps(before, ones, before, v));
        count += (size_t)__builtin_popcount(ones);
    }
    return count;
}
#endif

static void topk_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    const uint8_t *values = src + map;
    size_t at = 0;
    (void)len;
#if FEDCODEC_AVX512
    for (; 8 * at + WORD <= n && (size_t)(src + len - values) >= 4 * WORD; at += 8) {
        const uint64_t word = fedcodec_bitmap_word(src, map, at);
        fedcodec_fetch_block(y + 8 * at, WORD);
        values += word != 0 ? 4 * add_whole_word(word, values, w, y + 8 * at) : 0;
    }
#endif
    for (; at < map; at += 8) {
        values += 4 * add_word(fedcodec_bitmap_word(src, map, at), values, w, y + 8 * at);
    }
}

static void topk_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_clear(y, n);
    topk_axpy(src, len, 1.0f, y, n);
}

static void topk_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    const uint8_t *values = src + map;
    (void)len;
    for (size_t at = 0; at < map; at += 8) {
        for (uint64_t word = fedcodec_bitmap_word(src, map, at); word != 0; values += 4) {
            int64_t *to = &acc[8 * at + fedcodec_bitmap_take(&word)];
            *to += weight * fedcodec_fixed(fedcodec_load_f32(values));
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(topk) = {
    .id = FEDCODEC_ID_topk,
    .name = "topk",
    .about = "a bitmap of the values of largest magnitude, and these values",
    .params = topk_params,
    .feedback = true,
    .bound = topk_bound,
    .work_size = topk_work_size,
    .scan = fedcodec_scan_added,
    .encode = topk_encode,
    .check = topk_check,
    .decode = topk_decode,
    .axpy = topk_axpy,
    .fold = topk_fold,
};
