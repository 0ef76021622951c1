/* 3lc: -m, 0 or m for each value, five values a byte, runs of zeros shortened.
 * Format: docs/codec-formats.md#3lc   Paper: 3LC, section 3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/quartic.h"
#include "codecs/prim/zerorun.h"
#include "codecs/registry.h"
#if FEDCODEC_AVX512
#include "codecs/threelc/digits_avx512_impl.h"
#elif FEDCODEC_AVX2
#include "codecs/threelc/digits_avx2_impl.h"
#elif FEDCODEC_NEON
#include "codecs/threelc/digits_neon_impl.h"
#endif

/* A message is m, then the zero-run encoded bytes. If m is 0, no such bytes follow. */
enum { HEAD = 4, BLOCK = 1024 };

/* CHUNK: bytes of a message inspected at once. DENSE: a chunk is unpacked if its bytes stand for at
 * most this many positions each, on average. PIECE: bytes that are unpacked at once. */
enum { CHUNK = 512, DENSE = 8, PIECE = 128 };

static const char *const switches[] = {"0", "1", NULL};

static const fedcodec_param threelc_params[] = {
    {.key = "s",
     .preset = 1.0,
     .low = 1.0,
     .high = 1.999,
     .help = "sparsity: the magnitude sent, as a multiple of the largest"},
    {.key = "zre",
     .preset = 1,
     .low = 0,
     .high = 1,
     .help = "0: runs of zeros are not shortened",
     .names = switches},
    {.key = NULL},
};

static size_t threelc_bound(const double *param, size_t n) {
    (void)param;
    return HEAD + fedcodec_quartic_len(n);
}

/* Return how many bytes hold five values. Each later byte has a digit of padding. A byte's index
 * is called its position. */
static size_t whole_positions(size_t n) {
    size_t before = (FEDCODEC_QUARTIC_DIGITS - 1) * fedcodec_quartic_len(n);
    return n > before ? n - before : 0;
}

/* Find the values that are digit k of the bytes at count positions from first on. *at becomes the
 * index of the first one. Returns how many there are: values after the n-th are padding. */
static size_t slice(size_t n, size_t k, size_t first, size_t count, size_t *at) {
    size_t start = k * fedcodec_quartic_len(n) + first;
    *at = start < n ? start : n;
    return n - *at < count ? n - *at : count;
}

/* Return the magnitude to send. Half of it must be below the largest value, or no value would ever
 * be sent. With denormals, rounding can raise it above that limit. */
static float magnitude(float max, double s) {
    double scaled = s * (double)max;
    float m = scaled < (double)FLT_MAX ? (float)scaled : FLT_MAX;
    return 0.5f * m < max ? m : max;
}

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

static void quantise(const fedcodec_job *job, float m, size_t first, size_t count, uint8_t *bytes) {
    memset(bytes, 0, count);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        size_t at, values = slice(job->n, k, first, count, &at);
        fedcodec_add(job->residual + at, job->x != NULL ? job->x + at : NULL, values);
        push_digits(job->residual + at, values, m, bytes);
        push_zeros(bytes + values, count - values);
    }
}

/* Quantise as many bytes as whole vectors hold. All hold five values. Returns their number. */
static size_t quantise_groups(const fedcodec_job *job, float m, size_t first, size_t count,
                              uint8_t *bytes) {
    size_t done = 0;
#ifdef GROUPED
    const size_t packed = fedcodec_quartic_len(job->n);
    float *e = job->residual + first;
    const float *x = job->x != NULL ? job->x + first : NULL;
    for (; done + GROUPED <= count; done += GROUPED) {
        quantise_group(e + done, x != NULL ? x + done : NULL, packed, m, bytes + done);
    }
#else
    (void)job, (void)m, (void)first, (void)count, (void)bytes;
#endif
    return done;
}

/* Write the bytes of the positions first to end - 1, in blocks, so that a block's bytes stay in
 * the cache. z NULL: runs are not shortened. */
static void put_positions(const fedcodec_job *job, float m, size_t first, size_t end,
                          fedcodec_zerorun *z) {
    const size_t whole = whole_positions(job->n);
    uint8_t block[BLOCK];
    for (size_t count; first < end; first += count) {
        uint8_t *bytes = z != NULL ? block : job->dst + HEAD + first;
        count = end - first < BLOCK ? end - first : BLOCK;
        size_t done = first + count <= whole ? quantise_groups(job, m, first, count, bytes) : 0;
        quantise(job, m, first + done, count - done, bytes + done);
        if (z != NULL) {
            fedcodec_zerorun_push(z, bytes, count);
        }
    }
}

/* An encode in parts. Each part writes where it would be if no run before it were shortened. */
typedef struct encoding {
    const fedcodec_job *job;
    float m;
    bool shorten;
    size_t packed, parts;
    fedcodec_zerorun piece[FEDCODEC_PARTS_MAX];
} encoding;

static void put_part(void *job, size_t k) {
    encoding *e = job;
    size_t first = fedcodec_part_start(e->packed, e->parts, k, BLOCK);
    size_t end = fedcodec_part_start(e->packed, e->parts, k + 1, BLOCK);
    uint8_t *dst = e->job->dst + HEAD + first;
    e->piece[k] = k == 0 ? fedcodec_zerorun_front(dst) : fedcodec_zerorun_piece(dst);
    put_positions(e->job, e->m, first, end, e->shorten ? &e->piece[k] : NULL);
}

static fed_status threelc_encode(const fedcodec_job *job, size_t *len) {
    encoding e = {.job = job, .m = magnitude(job->max, job->param[0])};
    fedcodec_store_f32(job->dst, e.m);
    *len = HEAD;
    if (!(e.m > 0.0f)) {
        fedcodec_add(job->residual, job->x, job->n); /* all sums are zeros, perhaps -0 */
        return FED_OK;
    }
    e.shorten = job->param[1] != 0.0;
    e.packed = fedcodec_quartic_len(job->n);
    e.parts = fedcodec_parts(job->pool, job->n);
    fedcodec_run_parts(job->pool, e.parts, put_part, &e);
    if (!e.shorten) {
        *len = HEAD + e.packed;
        return FED_OK;
    }
    for (size_t k = 1; k < e.parts; k++) {
        fedcodec_zerorun_join(&e.piece[0], &e.piece[k]);
    }
    *len = (size_t)(fedcodec_zerorun_end(&e.piece[0]) - job->dst);
    return FED_OK;
}

/* Check that the digits after the n-th value, in the last bytes, are 0. Runs stand for zeros. */
static bool padding_is_zero(const uint8_t *src, size_t len, size_t n) {
    size_t packed = fedcodec_quartic_len(n), end = packed; /* unpacked bytes left to check */
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
    const size_t packed = m > 0.0f ? fedcodec_quartic_len(n) : 0;
    src += HEAD;
    len -= HEAD;
    if (len == packed) { /* no run is shortened: zre=0, or no run is long enough */
        FED_REQUIRE(m == 0.0f || fedcodec_quartic_valid(src, len, n), FED_EFORMAT);
    } else {
        FED_TRY(fedcodec_zerorun_check(src, len, packed));
        FED_REQUIRE(padding_is_zero(src, len, n), FED_EFORMAT);
    }
    *max_abs = m;
    return FED_OK;
}

/* The decoded values are stored in y, added to y, or added to acc. */
typedef enum way { SET, ADD, FOLD } way;

typedef struct target {
    size_t n;
    way way;
    float *y, step;
    int64_t *acc, wide_step; /* used by FOLD instead of y and step */
} target;

static void set_digits(float *restrict y, const int8_t *restrict digit, size_t n, float step) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)digit[i] * step;
    }
}

/* Add step, 0 or -step to each value of y. Masks are used, since compilers would make branches of
 * conditions. Zeros are added as -0, which changes nothing, not even the sign of a zero. */
static void add_digits(float *restrict y, const int8_t *restrict digit, size_t n, float step) {
    const uint32_t bits = fedcodec_bits(step);
    for (size_t i = 0; i < n; i++) {
        uint32_t d = (uint32_t)digit[i];
        y[i] += fedcodec_float((bits & (0u - (d & 1))) ^ ((d - 1) & 0x80000000u));
    }
}

static void fold_digits(int64_t *restrict acc, const int8_t *restrict digit, size_t n,
                        int64_t step) {
    for (size_t i = 0; i < n; i++) {
        int64_t sent = -(int64_t)(digit[i] != 0), negative = -(int64_t)(digit[i] < 0);
        acc[i] += ((step ^ negative) - negative) & sent;
    }
}

/* Take the first digit off each byte. The bytes have been scaled to fractions of 256, rounded so
 * that all five digits come out right. */
static void pull_digits(uint8_t *restrict fraction, int8_t *restrict digit, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t f = fraction[i];
        digit[i] = (int8_t)((f > 85) + (f > 170) - 1);
        fraction[i] = (uint8_t)(3 * f);
    }
}

/* Decode count bytes from position first on into the target. Overwrites the bytes. */
static void apply_bytes(const target *t, uint8_t *bytes, size_t count, size_t first) {
    int8_t digit[BLOCK] = {0};
    assert(count <= BLOCK);
    for (size_t i = 0; i < count; i++) {
        uint16_t scaled = (uint16_t)(256u * bytes[i] + FEDCODEC_QUARTIC_BYTES - 1);
        bytes[i] = (uint8_t)(scaled / FEDCODEC_QUARTIC_BYTES);
    }
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        size_t at, values = slice(t->n, k, first, count, &at);
        pull_digits(bytes, digit, count);
        if (t->way == FOLD) {
            fold_digits(t->acc + at, digit, values, t->wide_step);
        } else if (t->way == SET) {
            set_digits(t->y + at, digit, values, t->step);
        } else {
            add_digits(t->y + at, digit, values, t->step);
        }
    }
}

/* Unpacked bytes that are kept until there are enough for whole vectors. */
typedef struct waiting {
    size_t first, count;
    uint8_t bytes[BLOCK + FEDCODEC_ZERORUN_MAX * PIECE + FEDCODEC_ZERORUN_ROOM];
} waiting;

/* Decode as many waiting bytes as whole vectors take. All hold five values. Returns their
 * number. */
static size_t apply_groups(const target *t, const waiting *w) {
    size_t count = 0;
#if FEDCODEC_AVX2
    const size_t packed = fedcodec_quartic_len(t->n), whole = whole_positions(t->n);
    count = w->first < whole ? whole - w->first : 0;
    count = (w->count < count ? w->count : count) / GROUPED * GROUPED;
    if (t->way == FOLD) {
        fold_groups(t->acc + w->first, packed, w->bytes, count, t->wide_step);
    } else if (t->way == SET) {
        set_groups(t->y + w->first, packed, w->bytes, count, t->step);
    } else {
        add_groups(t->y + w->first, packed, w->bytes, count, t->step);
    }
#else
    (void)t, (void)w;
#endif
    return count;
}

/* Decode one byte: add those of its values that are not 0. */
static void apply_byte(const target *t, uint8_t byte, size_t first) {
    const size_t packed = fedcodec_quartic_len(t->n);
    const int8_t *digit = fedcodec_quartic_values[byte];
    unsigned sent = 0;
    for (unsigned k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        sent |= (unsigned)(digit[k] != 0) << k;
    }
    for (; sent != 0; sent &= sent - 1) {
        size_t k = (size_t)__builtin_ctz(sent), at = k * packed + first;
        if (t->way == FOLD) {
            t->acc[at] += digit[k] * t->wide_step;
        } else {
            t->y[at] += (float)digit[k] * t->step;
        }
    }
}

/* Decode part of a message of mostly long runs: only bytes that are no runs are looked at. */
static void apply_sparse(const target *t, const uint8_t *src, size_t len, size_t first) {
    uint8_t found[CHUNK];
    uint32_t at[CHUNK];
    size_t count = fedcodec_zerorun_find(src, len, found, at);
    for (size_t i = 0; i < count; i++) {
        apply_byte(t, found[i], first + at[i]);
    }
}

/* Decode the waiting bytes. Unless all is set, up to BLOCK bytes may wait on for whole vectors. */
static void apply_waiting(const target *t, waiting *w, bool all) {
    size_t done = apply_groups(t, w);
    for (size_t count; w->count - done > (all ? 0 : BLOCK); done += count) {
        count = w->count - done < BLOCK ? w->count - done : BLOCK;
        apply_bytes(t, w->bytes + done, count, w->first + done);
    }
    w->first += done;
    w->count -= done;
    memmove(w->bytes, w->bytes + done, w->count);
}

/* Decode part of a message with few long runs. A few bytes are unpacked at a time, so that
 * prefetches of y overlap with unpacking. */
static void apply_dense(const target *t, const uint8_t *src, size_t len, waiting *w) {
    for (size_t i = 0, count; i < len; i += count) {
        count = len - i < PIECE ? len - i : PIECE;
        w->count += fedcodec_zerorun_unpack(src + i, count, w->bytes + w->count);
        apply_waiting(t, w, false);
    }
}

static void apply(const target *t, const uint8_t *src, size_t len) {
    waiting w;
    w.first = w.count = 0;
    for (size_t i = HEAD, count; i < len; i += count) {
        count = len - i < CHUNK ? len - i : CHUNK;
        /* SET writes all values anyway, so the length of runs does not matter. */
        size_t positions = t->way == SET ? 0 : fedcodec_zerorun_sum(src + i, count);
        if (positions <= DENSE * count) {
            apply_dense(t, src + i, count, &w);
            continue;
        }
        if (w.count > 0) {
            apply_waiting(t, &w, true);
        }
        if (positions < FEDCODEC_ZERORUN_MAX * count) {
            apply_sparse(t, src + i, count, w.first);
        }
        w.first += positions;
    }
    apply_waiting(t, &w, true);
}

static void threelc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    target t = {.n = n, .way = ADD, .y = y, .step = w * fedcodec_load_f32(src)};
    apply(&t, src, len);
}

static void threelc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    target t = {.n = n, .way = SET, .y = y, .step = fedcodec_load_f32(src)};
    if (fedcodec_quartic_len(n) > DENSE * (len - HEAD)) {
        fedcodec_clear(y, n);
        t.way = ADD;
    }
    apply(&t, src, len);
}

static void threelc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    int64_t step = weight * fedcodec_fixed(fedcodec_load_f32(src));
    target t = {.n = n, .way = FOLD, .acc = acc, .wide_step = step};
    apply(&t, src, len);
}

const fedcodec_vtable FEDCODEC_VTABLE(threelc) = {
    .id = FEDCODEC_ID_threelc,
    .name = "3lc",
    .about = "-m, 0 or m for each value, five a byte, runs of zeros shortened (3LC)",
    .params = threelc_params,
    .feedback = true,
    .bound = threelc_bound,
    .scan = fedcodec_scan_sum,
    .absorb = fedcodec_absorb,
    .encode = threelc_encode,
    .check = threelc_check,
    .decode = threelc_decode,
    .axpy = threelc_axpy,
    .fold = threelc_fold,
};
