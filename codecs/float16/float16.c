/* float16: each value as the nearest IEEE 754 binary16. Format: docs/codec-formats.md#float16 */
#include "codecs/prim/narrow.h"
#include "codecs/registry.h"

enum {
    REBIAS = (127 - 15) << 23, /* between the exponents of binary32 and binary16 */
    NORMAL = (127 - 14) << 23, /* bits of 2^-14, the least normal half */
    LARGEST = 0x477fe000,      /* bits of 65504 */
    INFINITE = 0x7c00          /* half bits */
};

static const fedcodec_param float16_params[] = {{.key = NULL}};

/* a if holds, else b. With masks: compilers turn "?:" with floats into branches, and do not
 * vectorise the loop then. */
static inline uint32_t choose(bool holds, uint32_t a, uint32_t b) {
    return b ^ ((a ^ b) & (0u - (uint32_t)holds));
}

static inline uint16_t to_half(float v) {
    uint32_t bits = fedcodec_bits(v), m = bits & FEDCODEC_MAGNITUDE;
    m = m < LARGEST ? m : LARGEST;
    uint32_t normal = (m - REBIAS + 0xfff + (m >> 13 & 1)) >> 13;
    /* Below, a half's last bit is 2^-24: the sum with 0.5 is rounded to exactly that. */
    uint32_t small = fedcodec_bits(fedcodec_float(m) + 0.5f) - fedcodec_bits(0.5f);
    return (uint16_t)((bits >> 16 & 0x8000) | choose(m < NORMAL, small, normal));
}

static inline float from_half(uint16_t v) {
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, m = v & 0x7fff;
    uint32_t normal = (m << 13) + REBIAS;
    uint32_t small = fedcodec_bits((float)(int)m * 0x1p-24f);
    return fedcodec_float(sign | choose(m < 0x400, small, normal));
}

static size_t float16_bound(const double *param, size_t n) {
    (void)param;
    return 2 * n;
}

static void encode_block(const fedcodec_job *block, size_t k, void *with) {
    (void)k;
    (void)with;
    fedcodec_narrow_encode(block, to_half, from_half);
}

static fed_status float16_encode(const fedcodec_job *job, size_t *len) {
    FED_TRY(fedcodec_dense_encode(job, 0, 16, encode_block, NULL));
    *len = 2 * job->n;
    return FED_OK;
}

static fed_status float16_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    uint16_t max = 0;
    FED_TRY(fedcodec_narrow_check(src, len, n, INFINITE, &max));
    *max_abs = from_half(max);
    return FED_OK;
}

static void float16_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    (void)len;
    fedcodec_narrow_decode(src, y, n, from_half);
}

static void float16_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    (void)len;
    fedcodec_narrow_axpy(src, w, y, n, from_half);
}

static void float16_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    (void)len;
    fedcodec_narrow_fold(src, weight, acc, n, from_half);
}

const fedcodec_vtable FEDCODEC_VTABLE(float16) = {
    .id = FEDCODEC_ID_float16,
    .name = "float16",
    .about = "each value as the nearest half (IEEE 754 binary16)",
    .params = float16_params,
    .feedback = true,
    .bound = float16_bound,
    .scan = fedcodec_scan_added,
    .encode = float16_encode,
    .check = float16_check,
    .decode = float16_decode,
    .axpy = float16_axpy,
    .fold = float16_fold,
};
