/* eden: rotate each bucket at random, so that its values are nearly normally distributed, then send
 * each value in one to four bits, or only the largest values. Format: docs/codec-formats.md#eden
 * Papers: DRIVE (Vargaftik et al., NeurIPS 2021), sections 3 to 5; EDEN (ICML 2022), section 3 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/eden/few.h"
#include "codecs/prim/pack.h"
#include "codecs/prim/parts.h"
#include "codecs/registry.h"
#include "fed/hash.h"

/* What follows the lead if all values are sent: a float32 scale for each bucket, then the codes. A
 * code is a sign and the index of a magnitude. */
enum { SCALE = 4, MAGNITUDES = 1 << (EDEN_BITS_MAX - 1) };

static const char *const bucket_words[] = {"64", "128", "256", "512", "1024", NULL};
static const char *const rotations_words[] = {"auto", "1", "2", NULL};
static const char *const scale_words[] = {"bucket", "tensor", NULL};
static const fedcodec_param eden_params[] = {
    {.key = "bits",
     .preset = 1,
     .low = 1,
     .high = EDEN_BITS_MAX,
     .help = "of a value, with its sign, where p = 1",
     .whole = true},
    {.key = "bucket",
     .preset = EDEN_SHIFT_MAX - EDEN_SHIFT_MIN,
     .low = 0,
     .high = EDEN_SHIFT_MAX - EDEN_SHIFT_MIN,
     .help = "values that are rotated together",
     .names = bucket_words},
    {.key = "seed",
     .preset = 1,
     .low = 1,
     .high = UINT32_MAX,
     .help = "of the random numbers",
     .whole = true},
    {.key = "p",
     .preset = 1,
     .low = 0.0005,
     .high = 1,
     .help = "fraction of the rotated values sent"},
    {.key = "rotations",
     .preset = EDEN_ROTATIONS_AUTO,
     .low = 0,
     .high = EDEN_ROTATIONS_TWO,
     .help = "of a bucket; auto: 1 for p = 1, else 2",
     .names = rotations_words},
    {.key = "scale",
     .preset = 0,
     .low = 0,
     .high = 1,
     .help = "what has a scale, where p < 1",
     .names = scale_words},
    {.key = "pos",
     .preset = FEDCODEC_POS_AUTO,
     .low = 0,
     .high = FEDCODEC_POS_AUTO,
     .help = "how positions are coded, where p < 1",
     .names = fedcodec_pos_names},
    {.key = NULL},
};

static const char *eden_conflict(const double *param) {
    if (param[EDEN_PARAM_P] < 1.0 && param[EDEN_PARAM_BITS] > 1.0) {
        return "with p below 1 a value is sent as its sign: leave bits out";
    }
    return param[EDEN_PARAM_P] == 1.0 && param[EDEN_PARAM_SCALE] > 0.0
               ? "scale=tensor needs a p below 1"
               : NULL;
}

static eden_layout layout_for(const double *param, size_t n) {
    return eden_layout_of(eden_flags_of(param), eden_shift_of(param), n);
}

/* The magnitudes for bits = 1 to 4: the best levels for a normal distribution, in 1/1024 of its
 * standard deviation (Max, "Quantizing for minimum distortion", 1960). A single bit needs no other
 * magnitude than 1, as the scale is fitted to it. */
static const float magnitudes[EDEN_BITS_MAX][MAGNITUDES] = {
    {1},
    {464, 1546},
    {251, 774, 1376, 2204},
    {131, 397, 673, 965, 1286, 1657, 2119, 2798},
};

/* The offset of bucket k's codes, and the length of a message in which all values are sent. */
static size_t codes_at(const eden_layout *l, size_t k) {
    return EDEN_LEAD + SCALE * l->buckets + eden_first(l, k) / 8 * l->bits;
}

static size_t all_len(const eden_layout *l) {
    return EDEN_LEAD + SCALE * l->buckets + eden_width_of_all(l) / 8 * l->bits;
}

static size_t eden_bound(const double *param, size_t n) {
    const eden_layout l = layout_for(param, n);
    return l.few ? EDEN_LEAD + fedcodec_eden_few_bound(param, &l) : all_len(&l);
}

static size_t eden_work_size(const double *param, size_t n) {
    const eden_layout l = layout_for(param, n);
    return l.few ? fedcodec_eden_few_work(param, &l) : 0;
}

/* first: the least magnitude. step[k]: magnitude k minus magnitude k - 1. limit[k]: a larger value
 * gets at least magnitude k. */
typedef struct steps {
    float first, step[MAGNITUDES], limit[MAGNITUDES];
} steps;

static steps steps_of(unsigned bits, double norm) {
    const float *magnitude = magnitudes[bits - 1];
    steps s = {.first = magnitude[0]};
    for (size_t k = 1; k < (size_t)1 << (bits - 1); k++) {
        s.step[k] = magnitude[k] - magnitude[k - 1];
        s.limit[k] = (float)((double)(magnitude[k - 1] + magnitude[k]) / 2048.0 * norm);
    }
    return s;
}

/* Write the code of each value, and set v[i] = |v[i]| * the code's magnitude. bits is a constant at
 * each call, so that the compiler can unroll the inner loop. */
static inline void choose_with(float *restrict v, size_t n, unsigned bits, const steps *by,
                               uint8_t *restrict code) {
    for (size_t i = 0; i < n; i++) {
        const float x = fabsf(v[i]);
        float sent = by->first;
        int32_t number = v[i] < 0.0f ? 1 << (bits - 1) : 0;
        for (size_t k = 1; k < (size_t)1 << (bits - 1); k++) {
            number += x > by->limit[k];
            sent += x > by->limit[k] ? by->step[k] : 0.0f;
        }
        code[i] = (uint8_t)number;
        v[i] = x * sent;
    }
}

static void choose_codes(float *v, size_t n, unsigned bits, double norm, uint8_t *code) {
    const steps by = steps_of(bits, norm);
    switch (bits) {
    case 1:
        choose_with(v, n, 1, &by, code);
        return;
    case 2:
        choose_with(v, n, 2, &by, code);
        return;
    case 3:
        choose_with(v, n, 3, &by, code);
        return;
    default:
        choose_with(v, n, EDEN_BITS_MAX, &by, code);
    }
}

static double sum_all(const float *v, size_t n) {
    double lane[EDEN_SUMS] = {0.0}, sum = 0.0;
    size_t i = 0;
    for (; i + EDEN_SUMS <= n; i += EDEN_SUMS) {
        for (size_t k = 0; k < EDEN_SUMS; k++) {
            lane[k] += (double)v[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i % EDEN_SUMS] += (double)v[i];
    }
    for (size_t k = 0; k < EDEN_SUMS; k++) {
        sum += lane[k];
    }
    return sum;
}

typedef struct writer {
    eden_layout to;
    const float *x;
    uint8_t *dst;
    uint32_t draw;
    size_t parts;
    bool wrong[FEDCODEC_PARTS_MAX]; /* [k]: part k of the tensor has a NaN or an infinity */
} writer;

/* Rotate bucket k and choose a code for each of its values. wide: the number of values with
 * padding. largest: the bits of the largest magnitude. Returns the bucket's scale. */
static float encode_bucket(const writer *w, size_t k, int32_t largest, size_t wide, uint8_t *code) {
    const size_t count = eden_count(&w->to, k);
    float v[EDEN_BUCKET_MAX], up = 1.0f;
    if (!eden_copy(w->x + eden_first(&w->to, k), count, wide, largest, v, &up)) {
        return 0.0f;
    }
    const double squares = eden_squares(v, count);
    eden_turn(&w->to, w->draw, k, v, wide);
    choose_codes(v, wide, w->to.bits, sqrt(w->to.twice ? squares * (double)wide : squares), code);
    const double scale = squares / sum_all(v, wide) / (double)up;
    return scale < (double)FLT_MIN ? 0.0f
                                   : (float)fmin(scale, (double)eden_scale_max(&w->to, wide));
}

static void write_bucket(const writer *w, size_t k, int32_t largest) {
    uint8_t code[EDEN_BUCKET_MAX + FEDCODEC_PACK_MORE],
        packed[EDEN_BUCKET_MAX / 8 * EDEN_BITS_MAX + FEDCODEC_PACK_MORE];
    const size_t wide = eden_width(eden_count(&w->to, k)), len = wide / 8 * w->to.bits;
    uint8_t *dst = w->dst + codes_at(&w->to, k);
    const float scale = encode_bucket(w, k, largest, wide, code);
    fedcodec_store_f32(w->dst + EDEN_LEAD + SCALE * k, scale);
    if (scale > 0.0f) {
        fedcodec_pack(code, wide, w->to.bits, packed);
        memcpy(dst, packed, len);
    } else {
        memset(dst, 0, len);
    }
}

static void write_part(void *job, size_t part) {
    writer *w = job;
    const size_t end = fedcodec_part_start(w->to.buckets, w->parts, part + 1, 1);
    for (size_t k = fedcodec_part_start(w->to.buckets, w->parts, part, 1); k < end; k++) {
        const int32_t largest =
            fedcodec_largest(w->x + eden_first(&w->to, k), eden_count(&w->to, k));
        w->wrong[part] |= largest >= FEDCODEC_INFINITY;
        if (!w->wrong[part]) {
            write_bucket(w, k, largest);
        }
    }
}

static fed_status encode_all(const fedcodec_job *job, const eden_layout *to, uint32_t draw) {
    writer w = {.to = *to, .x = job->x, .dst = job->dst, .draw = draw};
    w.parts = fedcodec_parts(job->pool, job->n);
    fedcodec_run_parts(job->pool, w.parts, write_part, &w);
    for (size_t k = 0; k < w.parts; k++) {
        FED_REQUIRE(!w.wrong[k], FED_ENONFINITE);
    }
    return FED_OK;
}

static fed_status eden_encode(const fedcodec_job *job, size_t *len) {
    const eden_layout to = layout_for(job->param, job->n);
    const uint32_t draw =
        (uint32_t)fed_digest(job->x, job->n) ^ (uint32_t)job->param[EDEN_PARAM_SEED];
    job->dst[0] = eden_flags_of(job->param);
    job->dst[1] = (uint8_t)to.shift;
    fedcodec_store_u32(job->dst + 2, draw);
    if (to.few) {
        FED_TRY(fedcodec_eden_few_encode(job, &to, draw, job->dst + EDEN_LEAD, len));
        *len += EDEN_LEAD;
        return FED_OK;
    }
    FED_TRY(encode_all(job, &to, draw));
    *len = all_len(&to);
    return FED_OK;
}

/* Set v to the magnitudes, with their signs, that the codes of bucket k name. Returns the scale. */
static float read_codes(const uint8_t *src, const eden_layout *l, size_t k, float *v, size_t wide) {
    uint8_t code[EDEN_BUCKET_MAX + FEDCODEC_PACK_MORE],
        packed[EDEN_BUCKET_MAX / 8 * EDEN_BITS_MAX + FEDCODEC_PACK_MORE];
    float value[1 << EDEN_BITS_MAX];
    const int signs = 1 << (l->bits - 1);
    for (int i = 0; i < signs; i++) {
        value[i] = magnitudes[l->bits - 1][i];
        value[i + signs] = -value[i];
    }
    memcpy(packed, src + codes_at(l, k), wide / 8 * l->bits);
    memset(packed + wide / 8 * l->bits, 0, FEDCODEC_PACK_MORE);
    fedcodec_unpack(packed, wide, l->bits, code);
    for (size_t i = 0; i < wide; i++) {
        v[i] = value[code[i]];
    }
    return fedcodec_load_f32(src + EDEN_LEAD + SCALE * k);
}

/* A reader of the buckets of any message. */
typedef struct reader {
    eden_layout l;
    const uint8_t *src;
    fedcodec_eden_few few; /* unless all values are sent */
} reader;

static fed_status open_message(reader *r, const uint8_t *src, size_t len, size_t n) {
    r->l = eden_layout_of(src[0], src[1], n);
    r->src = src;
    return r->l.few ? fedcodec_eden_few_open(&r->few, &r->l, src + EDEN_LEAD, len - EDEN_LEAD)
                    : FED_OK;
}

static size_t read_few(reader *r, size_t k, float *v) {
    const size_t count = eden_count(&r->l, k), wide = eden_width(count);
    int16_t whole[EDEN_BUCKET_MAX];
    const float scale = fedcodec_eden_few_read(&r->few, &r->l, k, whole, wide);
    if (scale > 0.0f) {
        eden_turn_back_wholes(&r->l, fedcodec_load_u32(r->src + 2), k, whole, wide);
    }
    for (size_t i = 0; i < count; i++) {
        v[i] = (float)whole[i] * scale + 0.0f; /* adding 0 turns -0 into +0 */
    }
    return scale < 0.0f ? 0 : count;
}

/* Decode bucket k into v, which has room for a whole bucket. Returns its number of values; 0 if
 * the message is malformed. */
static size_t read_bucket(reader *r, size_t k, float *v) {
    const size_t count = eden_count(&r->l, k), wide = eden_width(count);
    assert(count <= wide && wide >= EDEN_LANES);
    if (r->l.few) {
        return read_few(r, k, v);
    }
    const float scale = read_codes(r->src, &r->l, k, v, wide);
    eden_turn_back(&r->l, fedcodec_load_u32(r->src + 2), k, v, wide);
    for (size_t i = 0; i < count; i++) {
        v[i] = v[i] * scale + 0.0f;
    }
    return count;
}

static bool all_zero(const uint8_t *src, size_t len) {
    uint8_t any = 0;
    for (size_t i = 0; i < len; i++) {
        any |= src[i];
    }
    return any == 0;
}

static bool codes_valid(const uint8_t *src, const eden_layout *l, size_t k) {
    const float scale = fedcodec_load_f32(src + EDEN_LEAD + SCALE * k);
    const size_t wide = eden_width(eden_count(l, k));
    return fedcodec_bits(scale) == 0 ? all_zero(src + codes_at(l, k), wide / 8 * l->bits)
                                     : scale >= FLT_MIN && scale <= eden_scale_max(l, wide);
}

static bool lead_valid(const uint8_t *src) {
    const unsigned flags = src[0], bits = flags & EDEN_BITS;
    const bool few = (flags & EDEN_FEW) != 0, one_scale = (flags & EDEN_ONE_SCALE) != 0;
    return flags < 2 * EDEN_ONE_SCALE && bits >= 1 && bits <= (few ? 1 : EDEN_BITS_MAX) &&
           (few || !one_scale) && src[1] >= EDEN_SHIFT_MIN && src[1] <= EDEN_SHIFT_MAX;
}

static fed_status eden_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    FED_REQUIRE(len >= EDEN_LEAD && lead_valid(src), FED_EFORMAT);
    reader r;
    FED_TRY(open_message(&r, src, len, n));
    FED_REQUIRE(r.l.few || len == all_len(&r.l), FED_EFORMAT);
    int32_t max = 0;
    float v[EDEN_BUCKET_MAX];
    for (size_t k = 0; k < r.l.buckets; k++) {
        FED_REQUIRE(r.l.few || codes_valid(src, &r.l, k), FED_EFORMAT);
        const size_t count = read_bucket(&r, k, v);
        FED_REQUIRE(count > 0, FED_EFORMAT);
        max = fedcodec_larger(max, fedcodec_largest(v, count));
    }
    if (r.l.few) {
        FED_TRY(fedcodec_eden_few_end(&r.few));
    }
    *max_abs = fedcodec_float((uint32_t)max);
    return FED_OK;
}

/* Open a message that eden_check has accepted. */
static void open_checked(reader *r, const uint8_t *src, size_t len, size_t n) {
    const fed_status status = open_message(r, src, len, n);
    assert(status == FED_OK);
    (void)status;
}

static void eden_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    reader r;
    float v[EDEN_BUCKET_MAX];
    open_checked(&r, src, len, n);
    for (size_t k = 0; k < r.l.buckets; k++) {
        const size_t count = read_bucket(&r, k, v);
        memcpy(y + eden_first(&r.l, k), v, count * sizeof *v);
    }
}

static void eden_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    reader r;
    float v[EDEN_BUCKET_MAX];
    open_checked(&r, src, len, n);
    for (size_t k = 0; k < r.l.buckets; k++) {
        const size_t count = read_bucket(&r, k, v);
        for (size_t i = 0; i < count; i++) {
            y[eden_first(&r.l, k) + i] += w * v[i];
        }
    }
}

static void eden_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    reader r;
    float v[EDEN_BUCKET_MAX];
    open_checked(&r, src, len, n);
    for (size_t k = 0; k < r.l.buckets; k++) {
        const size_t count = read_bucket(&r, k, v);
        for (size_t i = 0; i < count; i++) {
            acc[eden_first(&r.l, k) + i] += weight * fedcodec_fixed(v[i]);
        }
    }
}

/* What is left of the squared length of normally distributed values if they arrive as codes of 1 to
 * 4 bits, with the scale that has the least error: 1 less the quantizer's distortion. */
static const double kept_of_codes[EDEN_BITS_MAX] = {0.63662, 0.8825, 0.96546, 0.990503};

/* Where the scale of least error keeps a fraction of the squared length, the unbiased one makes the
 * length larger by its inverse. */
static double eden_stretch(const double *param) {
    const eden_layout l = layout_for(param, 0);
    const double kept = l.few ? fedcodec_eden_few_kept(param, &l) : kept_of_codes[l.bits - 1];
    return 1.0 / sqrt(kept);
}

static bool eden_fits(const double *param, const uint8_t *src) {
    const eden_layout l = layout_for(param, 0);
    return src[0] == eden_flags_of(param) && src[1] == l.shift &&
           (!l.few || fedcodec_eden_few_fits(param, &l, src + EDEN_LEAD));
}

/* Return the sum of squares of bucket k as decoded. A rotation multiplies this sum by the width, so
 * few values need not be rotated back where the bucket has no padding. */
static double bucket_squares(reader *r, size_t k, float *v) {
    const size_t count = eden_count(&r->l, k), wide = eden_width(count);
    if (!r->l.few || count < wide) {
        return eden_squares(v, read_bucket(r, k, v));
    }
    const double scale = (double)fedcodec_eden_few_skip(&r->few, &r->l, k, wide);
    const size_t growth = r->l.twice ? wide * wide : wide;
    return scale * scale * (double)(fedcodec_eden_few_sent(&r->few, &r->l, wide) * growth);
}

static double eden_squares_sum(const uint8_t *src, size_t len, size_t n) {
    reader r;
    float v[EDEN_BUCKET_MAX];
    double sum = 0.0;
    open_checked(&r, src, len, n);
    for (size_t k = 0; k < r.l.buckets; k++) {
        sum += bucket_squares(&r, k, v);
    }
    return sum;
}

const fedcodec_vtable FEDCODEC_VTABLE(eden) = {
    .id = FEDCODEC_ID_eden,
    .name = "eden",
    .about = "each bucket rotated at random, a tenth of a bit to four bits a value (DRIVE, EDEN)",
    .params = eden_params,
    .newer = EDEN_PARAM_P,
    .feedback = false,
    .conflict = eden_conflict,
    .bound = eden_bound,
    .work_size = eden_work_size,
    .scan = fedcodec_scan_sum,
    .encode = eden_encode,
    .check = eden_check,
    .decode = eden_decode,
    .axpy = eden_axpy,
    .fold = eden_fold,
    .squares = eden_squares_sum,
    .stretch = eden_stretch,
    .fits = eden_fits,
};
