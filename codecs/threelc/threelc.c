/* 3lc: one of -m, 0, m for each value, five of them a byte, runs of zeros shortened.
 * Format: docs/codec-formats.md#3lc   Paper: 3LC, section 3 */
#include <float.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/quartic.h"
#include "codecs/prim/zerorun.h"
#include "codecs/registry.h"

/* A message: m, then the zero-run encoded bytes; nothing follows where m is 0. */
enum { HEAD = 4, BLOCK = 1024 };

static const fedcodec_param threelc_params[] = {
    {.key = "s",
     .preset = 1.0,
     .low = 1.0,
     .high = 1.999,
     .help = "sparsity: the magnitude sent, as a multiple of the largest"},
    {.key = NULL},
};

static size_t threelc_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + fedcodec_quartic_len(n);
}

/* The magnitude sent. Half of it must stay below the largest value, or nothing would ever be sent:
 * among the denormals, rounding can lift it there. */
static float magnitude(float max, double s) {
    double scaled = s * (double)max;
    float m = scaled < (double)FLT_MAX ? (float)scaled : FLT_MAX;
    return 0.5f * m < max ? m : max;
}

/* Put the values' digits behind those that the bytes hold already, and subtract what they say. */
static void push_digits(float *restrict e, size_t n, float m, uint8_t *restrict bytes) {
    const float half = 0.5f * m;
    for (size_t i = 0; i < n; i++) {
        float v = e[i];
        int digit = (v > half) - (v < -half);
        e[i] = v - (float)digit * m;
        bytes[i] = (uint8_t)(3 * bytes[i] + digit + 1);
    }
}

static void push_zeros(uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(3 * bytes[i] + 1);
    }
}

/* In blocks, so that their bytes stay in the cache for all five digits. */
static void quantise(float *e, size_t n, float m, uint8_t *bytes, size_t len) {
    memset(bytes, 0, len);
    for (size_t start = 0; start < len; start += BLOCK) {
        size_t block = len - start < BLOCK ? len - start : BLOCK;
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            size_t first = k * len + start; /* past n: padding */
            size_t left = first < n ? n - first : 0;
            size_t values = left < block ? left : block;
            push_digits(e + (n - left), values, m, bytes + start);
            push_zeros(bytes + start + values, block - values);
        }
    }
}

static fed_status threelc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_add(job->residual, job->x, job->n);
    float m = magnitude(job->max, job->param[0]);
    fedcodec_store_f32(job->dst, m);
    *len = HEAD;
    if (m > 0.0f) {
        size_t packed = fedcodec_quartic_len(job->n);
        quantise(job->residual, job->n, m, job->dst + HEAD, packed);
        *len += fedcodec_zerorun_pack(job->dst + HEAD, packed, job->dst + HEAD);
    }
    return FED_OK;
}

/* Digits past the n-th value must be zeros. They are in the last bytes; five are all of a byte's
 * digits, so runs of zeros are beyond doubt. */
static bool padding_is_zero(const uint8_t *src, size_t len, size_t n) {
    size_t packed = fedcodec_quartic_len(n), end = packed; /* `end` bytes are left to look at */
    while (len > 0 && 4 * packed + end > n) {
        uint8_t byte = src[--len];
        unsigned run = fedcodec_zerorun_len(byte);
        end -= run > 0 ? run : 1;
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS && run == 0; k++) {
            if (k * packed + end >= n && fedcodec_quartic_values[byte][k] != 0) {
                return false;
            }
        }
    }
    return true;
}

static fed_status threelc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= HEAD, FED_EFORMAT);
    float m = fedcodec_load_f32(src);
    FED_REQUIRE(isfinite(m) && !signbit(m), FED_EFORMAT);
    if (m > 0.0f) {
        FED_TRY(fedcodec_zerorun_check(src + HEAD, len - HEAD, fedcodec_quartic_len(n)));
        FED_REQUIRE(padding_is_zero(src + HEAD, len - HEAD, n), FED_EFORMAT);
    } else {
        FED_REQUIRE(len == HEAD, FED_EFORMAT);
    }
    *max_abs = m;
    return FED_OK;
}

static void threelc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const float step = w * fedcodec_load_f32(src);
    const size_t packed = fedcodec_quartic_len(n);
    size_t at = 0;
    for (size_t i = HEAD; i < len; i++) {
        unsigned run = fedcodec_zerorun_len(src[i]);
        if (run > 0) {
            at += run;
            continue;
        }
        const int8_t *value = fedcodec_quartic_values[src[i]];
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            if (value[k] != 0) {
                y[k * packed + at] += value[k] > 0 ? step : -step;
            }
        }
        at++;
    }
}

static void threelc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    threelc_axpy(src, len, 1.0f, y, n);
}

static void threelc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const int64_t step = weight * fedcodec_fixed(fedcodec_load_f32(src));
    const size_t packed = fedcodec_quartic_len(n);
    size_t at = 0;
    for (size_t i = HEAD; i < len; i++) {
        unsigned run = fedcodec_zerorun_len(src[i]);
        if (run > 0) {
            at += run;
            continue;
        }
        const int8_t *value = fedcodec_quartic_values[src[i]];
        for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
            if (value[k] != 0) {
                acc[k * packed + at] += value[k] * step;
            }
        }
        at++;
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(threelc) = {
    .id = FEDCODEC_ID_threelc,
    .name = "3lc",
    .about = "-m, 0 or m for each value, five a byte, runs of zeros shortened (3LC)",
    .params = threelc_params,
    .feedback = true,
    .bound = threelc_bound,
    .scan = fedcodec_scan_sum,
    .encode = threelc_encode,
    .check = threelc_check,
    .decode = threelc_decode,
    .axpy = threelc_axpy,
    .fold = threelc_fold,
};
