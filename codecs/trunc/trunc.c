/* trunc: each value without its b least significant bits. Format: docs/codec-formats.md#trunc
 * Paper: INCEPTIONN, section III and figure 14 ("16b-T" and its like) */
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/registry.h"
#include "fed/bits.h"

/* A message: b, then 32 - b bits for each value. */
enum { HEAD = 1, BITS_MAX = 31 };

static const fedcodec_param trunc_params[] = {
    {.key = "b", .preset = 16, .low = 1, .high = BITS_MAX, .help = "bits dropped", .whole = true},
    {.key = NULL},
};

/* Bits of n values, each without b of its 32. */
static uint64_t packed_bits(size_t n, unsigned b) {
    return (uint64_t)n * (32 - b);
}

static size_t packed_len(size_t n, unsigned b) {
    return (size_t)((packed_bits(n, b) + 7) / 8);
}

static size_t trunc_bound(const double *param, size_t n) {
    return HEAD + packed_len(n, (unsigned)param[0]);
}

static size_t trunc_work_size(const double *param, size_t n) {
    (void)param;
    (void)n;
    return 0;
}

static fed_status trunc_encode(const double *param, float *residual, size_t n, void *work,
                               uint8_t *dst, size_t cap, size_t *len) {
    (void)work;
    const unsigned b = (unsigned)param[0];
    fed_bit_writer w;
    fed_bit_writer_init(&w, dst + HEAD, cap - HEAD);
    for (size_t i = 0; i < n; i++) {
        fed_put_bits(&w, fedcodec_bits(residual[i]) >> b, 32 - b);
    }
    fed_put_bits(&w, 0, (unsigned)(8 * packed_len(n, b) - packed_bits(n, b)));
    FED_TRY(fed_bit_writer_finish(&w, len));
    memset(residual, 0, n * sizeof *residual);
    dst[0] = (uint8_t)b;
    *len += HEAD;
    return FED_OK;
}

static fed_status trunc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD && src[0] >= 1 && src[0] <= BITS_MAX, FED_EFORMAT);
    const unsigned b = src[0];
    FED_REQUIRE(len - HEAD == packed_len(n, b), FED_EFORMAT);
    fed_bit_reader r;
    fed_bit_reader_init(&r, src + HEAD, len - HEAD);
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = fed_get_bits(&r, 32 - b) << b & FEDCODEC_MAGNITUDE;
        max = m > max ? m : max;
    }
    uint32_t padding = fed_get_bits(&r, (unsigned)(8 * (len - HEAD) - packed_bits(n, b)));
    FED_REQUIRE(padding == 0 && isfinite(fedcodec_float(max)), FED_EFORMAT);
    *max_abs = fedcodec_float(max);
    return FED_OK;
}

/* The values of a message, one after the other. */
typedef struct values {
    fed_bit_reader bits;
    unsigned b;
} values;

static values open_values(const uint8_t *src, size_t len) {
    values v = {.b = src[0]};
    fed_bit_reader_init(&v.bits, src + HEAD, len - HEAD);
    return v;
}

static inline float next_value(values *v) {
    return fedcodec_float(fed_get_bits(&v->bits, 32 - v->b) << v->b);
}

static void trunc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    values v = open_values(src, len);
    for (size_t i = 0; i < n; i++) {
        y[i] = next_value(&v);
    }
}

static void trunc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    values v = open_values(src, len);
    for (size_t i = 0; i < n; i++) {
        y[i] += w * next_value(&v);
    }
}

static void trunc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    values v = open_values(src, len);
    for (size_t i = 0; i < n; i++) {
        acc[i] += weight * fedcodec_fixed(next_value(&v));
    }
}

const fedcodec_vtable fedcodec_trunc = {
    .id = FEDCODEC_ID_trunc,
    .name = "trunc",
    .about = "each value without its b least significant bits (INCEPTIONN's baseline)",
    .params = trunc_params,
    .feedback = false,
    .bound = trunc_bound,
    .work_size = trunc_work_size,
    .encode = trunc_encode,
    .check = trunc_check,
    .decode = trunc_decode,
    .axpy = trunc_axpy,
    .fold = trunc_fold,
};
