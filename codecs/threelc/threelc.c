/* 3lc: one of -m, 0, m for each value, five of them a byte, runs of zeros shortened.
 * Format: docs/codec-formats.md#3lc   Paper: 3LC, section 3 */
#include <float.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/quartic.h"
#include "codecs/prim/zerorun.h"
#include "codecs/registry.h"
#if FEDCODEC_AVX512
#include "codecs/threelc/quantise_avx512.h"
#elif FEDCODEC_AVX2
#include "codecs/threelc/quantise_avx2.h"
#elif FEDCODEC_NEON
#include "codecs/threelc/quantise_neon.h"
#endif

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

/* The positions, of the front, whose bytes hold five values: the others have padding. */
static size_t whole_positions(size_t n) {
    size_t before = (FEDCODEC_QUARTIC_DIGITS - 1) * fedcodec_quartic_len(n);
    return n > before ? n - before : 0;
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

/* The bytes from position `first` on. */
static void quantise(const fedcodec_job *job, float m, size_t first, size_t count, uint8_t *bytes) {
    const size_t packed = fedcodec_quartic_len(job->n);
    memset(bytes, 0, count);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        size_t at = k * packed + first; /* past n: padding */
        size_t left = at < job->n ? job->n - at : 0;
        size_t values = left < count ? left : count;
        if (values > 0) {
            fedcodec_add(job->residual + at, job->x != NULL ? job->x + at : NULL, values);
            push_digits(job->residual + at, values, m, bytes);
        }
        push_zeros(bytes + values, count - values);
    }
}

/* As many of these as vectors can do at once; returns their number. All hold five values. */
static size_t quantise_groups(const fedcodec_job *job, float m, size_t first, size_t count,
                              uint8_t *bytes) {
    size_t done = 0;
#ifdef QUANTISED
    const size_t packed = fedcodec_quartic_len(job->n);
    float *e = job->residual + first;
    const float *x = job->x != NULL ? job->x + first : NULL;
    for (; done + QUANTISED <= count; done += QUANTISED) {
        quantise_group(e + done, x != NULL ? x + done : NULL, packed, m, bytes + done);
    }
#else
    (void)job, (void)m, (void)first, (void)count, (void)bytes;
#endif
    return done;
}

/* The part of the message that is about the positions `first` to `end`: in blocks, so that their
 * bytes stay in the cache. */
static void put_positions(const fedcodec_job *job, float m, size_t first, size_t end,
                          fedcodec_zerorun *z) {
    const size_t whole = whole_positions(job->n);
    uint8_t bytes[BLOCK];
    for (size_t count; first < end; first += count) {
        count = end - first < BLOCK ? end - first : BLOCK;
        size_t done = first + count <= whole ? quantise_groups(job, m, first, count, bytes) : 0;
        quantise(job, m, first + done, count - done, bytes + done);
        fedcodec_zerorun_push(z, bytes, count);
    }
}

/* An encode in parts, each of which writes where it would if no run became shorter. */
typedef struct encoding {
    const fedcodec_job *job;
    float m;
    size_t packed, parts;
    fedcodec_zerorun piece[FEDCODEC_PARTS_MAX];
} encoding;

static void put_part(void *job, size_t k) {
    encoding *e = job;
    size_t first = fedcodec_part_start(e->packed, e->parts, k, BLOCK);
    size_t end = fedcodec_part_start(e->packed, e->parts, k + 1, BLOCK);
    uint8_t *dst = e->job->dst + HEAD + first;
    e->piece[k] = k == 0 ? fedcodec_zerorun_front(dst) : fedcodec_zerorun_piece(dst);
    put_positions(e->job, e->m, first, end, &e->piece[k]);
}

static fed_status threelc_encode(const fedcodec_job *job, size_t *len) {
    encoding e = {.job = job, .m = magnitude(job->max, job->param[0])};
    fedcodec_store_f32(job->dst, e.m);
    *len = HEAD;
    if (!(e.m > 0.0f)) {
        fedcodec_add(job->residual, job->x, job->n); /* zeros, but of which sign? */
        return FED_OK;
    }
    e.packed = fedcodec_quartic_len(job->n);
    e.parts = fedcodec_parts(job->pool, job->n);
    fedcodec_run_parts(job->pool, e.parts, put_part, &e);
    for (size_t k = 1; k < e.parts; k++) {
        fedcodec_zerorun_join(&e.piece[0], &e.piece[k]);
    }
    *len = (size_t)(fedcodec_zerorun_end(&e.piece[0]) - job->dst);
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
