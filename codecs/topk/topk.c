/* topk: a bitmap that marks the values of largest magnitude, and these values.
 * Format: docs/codec-formats.md#topk   Paper: 3LC, section 5 ("5% sparsification") */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/forms.h"
#include "codecs/prim/select.h"
#include "codecs/registry.h"

#if FEDCODEC_AVX512
#include <immintrin.h>
#endif

static const fedcodec_param topk_params[] = {
    {.key = "p", .preset = 0.05, .low = 1e-6, .high = 1.0, .help = "fraction of values sent"},
    FEDCODEC_FORM_PARAM,
    {.key = NULL},
};

/* Before bfloat16 and int8 values comes a NaN that names their form. No float32 value of a message
 * is a NaN, so a message of one form can't be mistaken for one of another. */
enum { NAMES = 0x7fc00000, NAME_LEN = 4 };

static size_t name_len(fedcodec_form form, size_t k) {
    return k > 0 && form != FEDCODEC_FORM_FLOAT32 ? NAME_LEN : 0;
}

static size_t sent_len(fedcodec_form form, size_t k) {
    return name_len(form, k) + fedcodec_values_len(form, k);
}

static size_t topk_bound(const double *param, size_t n) {
    return fedcodec_bitmap_len(n) +
           sent_len((fedcodec_form)param[1], fedcodec_select_most(param[0], n));
}

static fed_status topk_encode(const fedcodec_job *job, size_t *len) {
    const fedcodec_form form = (fedcodec_form)job->param[1];
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    fedcodec_values_keep(form, &chosen);
    const size_t map = fedcodec_bitmap_len(job->n), name = name_len(form, chosen.count);
    fedcodec_bitmap_put(chosen.index, chosen.count, job->dst, map);
    if (name > 0) {
        fedcodec_store_u32(job->dst + map, NAMES + FEDCODEC_FORM_BYTE + form);
    }
    fedcodec_values_put(form, chosen, job->dst + map + name, job->spare ? NULL : job->residual);
    *len = map + sent_len(form, chosen.count);
    return FED_OK;
}

/* The part of a message after its bitmap. */
typedef struct sent {
    fedcodec_form form;
    const uint8_t *values;
    size_t taken;
} sent;

static sent find_sent(const uint8_t *src, size_t len, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    sent s = {.form = FEDCODEC_FORM_FLOAT32, .values = src + map};
    const uint32_t name = len - map >= NAME_LEN ? fedcodec_load_u32(s.values) - NAMES : 0;
    if (name <= UINT8_MAX && fedcodec_form_is_byte((uint8_t)name)) {
        s.form = (fedcodec_form)(name - FEDCODEC_FORM_BYTE);
        s.values += NAME_LEN;
    }
    return s;
}

static fed_status topk_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    const size_t map = fedcodec_bitmap_len(n);
    FED_REQUIRE(len >= map && fedcodec_bitmap_padded(src, n), FED_EFORMAT);
    const size_t count = fedcodec_bitmap_count(src, map);
    const sent s = find_sent(src, len, n);
    FED_REQUIRE(len - map == sent_len(s.form, count), FED_EFORMAT);
    return fedcodec_values_check(s.form, s.values, count, max_abs);
}

enum { WORD = 64 }; /* bits of the bitmap that are read at once */

/* y[i] += w * value for each bit i of a word of the bitmap. Returns the number of values. */
static size_t add_word(uint64_t word, const uint8_t *values, float w, float *y) {
    size_t count = 0;
    for (; word != 0; count++) {
        y[fedcodec_bitmap_take(&word)] += w * fedcodec_load_f32(values + 4 * count);
    }
    return count;
}

#if FEDCODEC_AVX512
/* Do what add_word does, where y has 64 values and as many are readable at `values`. The function
 * stores all 64 values of y, since masked stores delay the loads that follow. */
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

static void axpy_float32(const uint8_t *src, size_t len, float w, float *y, size_t n) {
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

/* Load the next values of a narrow form, one for each bit set in a word, as float32. */
static void load_word(sent *s, uint64_t word, float value[WORD]) {
    const size_t count = (size_t)__builtin_popcountll(word);
    fedcodec_values_load(s->form, s->values, s->taken, count, value);
    s->taken += count;
}

static void axpy_narrow(const uint8_t *src, sent s, float w, float *y, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    for (size_t at = 0; at < map; at += 8) {
        float value[WORD];
        uint64_t word = fedcodec_bitmap_word(src, map, at);
        load_word(&s, word, value);
        for (size_t k = 0; word != 0; k++) {
            y[8 * at + fedcodec_bitmap_take(&word)] += w * value[k];
        }
    }
}

static void topk_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const sent s = find_sent(src, len, n);
    if (s.form == FEDCODEC_FORM_FLOAT32) {
        axpy_float32(src, len, w, y, n);
    } else {
        axpy_narrow(src, s, w, y, n);
    }
}

static void topk_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_clear(y, n);
    topk_axpy(src, len, 1.0f, y, n);
}

static void fold_float32(const uint8_t *src, int64_t weight, int64_t *acc, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    const uint8_t *values = src + map;
    for (size_t at = 0; at < map; at += 8) {
        for (uint64_t word = fedcodec_bitmap_word(src, map, at); word != 0; values += 4) {
            int64_t *to = &acc[8 * at + fedcodec_bitmap_take(&word)];
            *to += weight * fedcodec_fixed(fedcodec_load_f32(values));
        }
    }
}

static void fold_narrow(const uint8_t *src, sent s, int64_t weight, int64_t *acc, size_t n) {
    const size_t map = fedcodec_bitmap_len(n);
    for (size_t at = 0; at < map; at += 8) {
        float value[WORD];
        uint64_t word = fedcodec_bitmap_word(src, map, at);
        load_word(&s, word, value);
        for (size_t k = 0; word != 0; k++) {
            acc[8 * at + fedcodec_bitmap_take(&word)] += weight * fedcodec_fixed(value[k]);
        }
    }
}

static void topk_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const sent s = find_sent(src, len, n);
    if (s.form == FEDCODEC_FORM_FLOAT32) {
        fold_float32(src, weight, acc, n);
    } else {
        fold_narrow(src, s, weight, acc, n);
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(topk) = {
    .id = FEDCODEC_ID_topk,
    .name = "topk",
    .about = "a bitmap of the values of largest magnitude, and these values",
    .params = topk_params,
    .feedback = true,
    .spares = true,
    .bound = topk_bound,
    .work_size = fedcodec_select_magnitude_work,
    .scan = fedcodec_scan_added,
    .encode = topk_encode,
    .check = topk_check,
    .decode = topk_decode,
    .axpy = topk_axpy,
    .fold = topk_fold,
};
