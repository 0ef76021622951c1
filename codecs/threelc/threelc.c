/* 3lc: one of -m, 0, m for each value, five of them a byte, runs of zeros shortened.
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

/* A message is m, then the zero-run encoded bytes; if m is 0, nothing follows. */
enum { HEAD = 4, BLOCK = 1024 };

/* CHUNK: bytes of a message that are inspected at once. DENSE: they are unpacked if a byte stands
 * for no more positions than this on average. PIECE: bytes unpacked before their values are
 * decoded. */
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

/* The number of positions whose bytes hold five values; later bytes have padding. */
static size_t whole_positions(size_t n) {
    size_t before = (FEDCODEC_QUARTIC_DIGITS - 1) * fedcodec_quartic_len(n);
    return n > before ? n - before : 0;
}

/* The k-th values of `count` positions from `first` on: where the first one is, and how many there
 * are; after n all is padding. */
static size_t slice(size_t n, size_t k, size_t first, size_t count, size_t *at) {
    size_t start = k * fedcodec_quartic_len(n) + first;
    *at = start < n ? start : n;
    return n - *at < count ? n - *at : count;
}

/* The magnitude to send. Half of it must stay below the largest value, or nothing would ever be
 * sent; with denormals, rounding can lift it there. */
static float magnitude(float max, double s) {
    double scaled = s * (double)max;
    float m = scaled < (double)FLT_MAX ? (float)scaled : FLT_MAX;
    return 0.5f * m < max ? m : max;
}

/* Append the values' digits to those that the bytes hold already, and subtract what is sent. */
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

/* Make the bytes from position `first` on. */
static void quantise(const fedcodec_job *job, float m, size_t first, size_t count, uint8_t *bytes) {
    memset(bytes, 0, count);
    for (size_t k = 0; k < FEDCODEC_QUARTIC_DIGITS; k++) {
        size_t at, values = slice(job->n, k, first, count, &at);
        fedcodec_add(job->residual + at, job->x != NULL ? job->x + at : NULL, values);
        push_digits(job->residual + at, values, m, bytes);
        push_zeros(bytes + values, count - values);
    }
}

/* The same for as many bytes as whole vectors hold; returns their number. All hold five values. */
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

/* Write the part of the message for the positions `first` to `end`, in blocks, so that a block's
 * bytes stay in the cache. z NULL: runs are not shortened. */
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

/* An encode in parts. Each part writes at the offset that it has if no run becomes shorter. */
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
        fedcodec_add(job->residual, job->x, job->n); /* zeros of either sign */
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

/* Digits after the n-th value must be zeros. They are in the last bytes. A run of zeros is all five
 * digits of its bytes, so it needs no check. */
static bool padding_is_zero(const uint8_t *src, size_t len, size_t n) {
    size_t packed = fedcodec_quartic_len(n), end = packed; /* `end` bytes are left to check */
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
    if (len ==
        packed) { /* as many bytes as positions: no run is shortened (zre=0), or there is none */
        FED_REQUIRE(m == 0.0f || fedcodec_quartic_valid(src, len, n), FED_EFORMAT);
    } else {
        FED_TRY(fedcodec_zerorun_check(src, len, packed));
        FED_REQUIRE(padding_is_zero(src, len, n), FED_EFORMAT);
    }
    *max_abs = m;
    return FED_OK;
}

/* What is done with the values of a message: set y, add to y, or add to acc. */
typedef enum way { SET, ADD, FOLD } way;

typedef struct target {
    size_t n;
    way way;
    float *y, step;
    int64_t *acc, wide_step; /* for FOLD, instead of the two before */
} target;

static void set_digits(float *restrict y, const int8_t *restrict digit, size_t n, float step) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)digit[i] * step;
    }
}

/* With masks: compilers would make branches of conditions. Adding -0 changes nothing, not even the
 * sign of a zero. */
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

/* Take the first digit off each byte. The bytes are fractions of 256, rounded so that all five
 * digits come out right. */
static void pull_digits(uint8_t *restrict fraction, int8_t *restrict digit, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t f = fraction[i];
        digit[i] = (int8_t)((f > 85) + (f > 170) - 1);
        fraction[i] = (uint8_t)(3 * f);
    }
}

/* Apply the bytes from position `first` on, and overwrite them. */
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

/* Unpacked positions that wait until there are enough for whole vectors. */
typedef struct waiting {
    size_t first, count;
    uint8_t bytes[BLOCK + FEDCODEC_ZERORUN_MAX * PIECE + FEDCODEC_ZERORUN_ROOM];
} waiting;

/* As many of them as vectors can do at once; returns their number. All hold five values. */
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

/* Mostly one of the five values is sent; no branch depends on which. */
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

/* For bytes that are mostly long runs: look only at the others. */
static void apply_sparse(const target *t, const uint8_t *src, size_t len, size_t first) {
    uint8_t found[CHUNK];
    uint32_t at[CHUNK];
    size_t count = fedcodec_zerorun_find(src, len, found, at);
    for (size_t i = 0; i < count; i++) {
        apply_byte(t, found[i], first + at[i]);
    }
}

/* Apply all positions that wait; or, unless `all`, keep a few for the next whole vector. */
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

/* For other bytes: a few at a time, so that prefetches work while the next ones are unpacked. */
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
        /* SET writes all values, however many a byte stands for: no need to count. */
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
