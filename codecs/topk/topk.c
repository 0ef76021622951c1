/* topk: a bitmap of the values of largest magnitude, and these values. Format:
 * docs/codec-formats.md#topk   Paper: 3LC, section 5 ("5% sparsification") */
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/registry.h"

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
    memset(job->dst, 0, map);
    for (size_t i = 0; i < chosen.count; i++) {
        uint32_t at = chosen.index[i];
        job->dst[at / 8] |= (uint8_t)(0x80 >> at % 8);
        fedcodec_store_f32(job->dst + map + 4 * i, job->residual[at]);
        job->residual[at] = 0.0f;
    }
    *len = map + 4 * chosen.count;
    return FED_OK;
}

static fed_status topk_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    size_t map = fedcodec_bitmap_len(n);
    FED_REQUIRE(len >= map && fedcodec_bitmap_padded(src, n), FED_EFORMAT);
    FED_REQUIRE((len - map) % 4 == 0, FED_EFORMAT);
    FED_REQUIRE((len - map) / 4 == fedcodec_bitmap_count(src, map), FED_EFORMAT);
    float max = 0.0f;
    for (size_t at = map; at < len; at += 4) {
        float m = fabsf(fedcodec_load_f32(src + at));
        FED_REQUIRE(isfinite(m) && m > 0.0f, FED_EFORMAT);
        max = m > max ? m : max;
    }
    *max_abs = max;
    return FED_OK;
}

static void topk_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    size_t map = fedcodec_bitmap_len(n);
    fedcodec_bitmap_reader r;
    fedcodec_bitmap_start(&r, src, map);
    for (size_t at = map; at < len; at += 4) {
        y[fedcodec_bitmap_next(&r)] += w * fedcodec_load_f32(src + at);
    }
}

static void topk_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    memset(y, 0, n * sizeof *y);
    topk_axpy(src, len, 1.0f, y, n);
}

static void topk_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    size_t map = fedcodec_bitmap_len(n);
    fedcodec_bitmap_reader r;
    fedcodec_bitmap_start(&r, src, map);
    for (size_t at = map; at < len; at += 4) {
        acc[fedcodec_bitmap_next(&r)] += weight * fedcodec_fixed(fedcodec_load_f32(src + at));
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
