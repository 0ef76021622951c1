/* bfloat16: the upper half of each float32, rounded. Format: docs/codec-formats.md#bfloat16 */
#include "codecs/prim/narrow.h"
#include "codecs/registry.h"

enum { LARGEST = 0x7f7f0000, INFINITE = 0x7f80 }; /* bits: of a float32, of a bfloat16 */

static const fedcodec_param bfloat16_params[] = {{.key = NULL}};

static inline uint16_t to_bfloat16(float v) {
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t rounded = (m + 0x7fff + (m >> 16 & 1)) >> 16;
    return (uint16_t)((bits >> 16 & 0x8000) | rounded);
}

static inline float from_bfloat16(uint16_t v) {
    return fedcodec_float((uint32_t)v << 16);
}

static size_t bfloat16_bound(const double *param, size_t n) {
    (void)param;
    return 2 * n;
}

static void encode_block(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    (void)with;
    fedcodec_narrow_encode(block, to_bfloat16, from_bfloat16);
}

static fed_status bfloat16_encode(const fedcodec_job *job, size_t *len) {
    FED_TRY(fedcodec_dense_encode(job, 0, 16, encode_block, NULL));
    *len = 2 * job->n;
    return FED_OK;
}

static fed_status bfloat16_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    uint16_t max = 0;
    FED_TRY(fedcodec_narrow_check(src, len, n, INFINITE, &max));
    *max_abs = from_bfloat16(max);
    return FED_OK;
}

static void bfloat16_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    fedcodec_narrow_decode(src, y, n, from_bfloat16);
}

static void bfloat16_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    fedcodec_narrow_axpy(src, w, y, n, from_bfloat16);
}

static void bfloat16_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    fedcodec_narrow_fold(src, weight, acc, n, from_bfloat16);
}

const fedcodec_vtable FEDCODEC_VTABLE(bfloat16) = {
    .id = FEDCODEC_ID_bfloat16,
    .name = "bfloat16",
    .about = "the upper half of each float32, rounded",
    .params = bfloat16_params,
    .feedback = true,
    .bound = bfloat16_bound,
    .scan = fedcodec_scan_added,
    .encode = bfloat16_encode,
    .check = bfloat16_check,
    .decode = bfloat16_decode,
    .axpy = bfloat16_axpy,
    .fold = bfloat16_fold,
};
