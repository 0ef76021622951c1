/* sbc: where the largest values are, and their mean for each of them.
 * Format: docs/codec-formats.md#sbc   Paper: SBC, algorithms 2 to 4 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/golomb.h"
#include "codecs/prim/select.h"
#include "codecs/registry.h"
#include "fed/bytes.h"

static const fedcodec_param sbc_params[] = {
    {.key = "p", .preset = 0.01, .low = 1e-6, .high = 0.5, .help = "fraction of values sent"},
    {.key = NULL},
};

/* How many are sent at most: p * n, rounded up. */
static size_t most_sent(double p, size_t n) {
    double k = ceil(p * (double)n);
    return n == 0 ? 0 : k < 1.0 ? 1 : (size_t)k;
}

static size_t sbc_bound(const double *param, size_t n) {
    size_t k = most_sent(param[0], n);
    return fed_varint_size(k) + 5 + fedcodec_golomb_bound(n, k, fedcodec_golomb_b(param[0]));
}

static size_t sbc_work_size(const double *param, size_t n) {
    return fedcodec_select_work_size(n, most_sent(param[0], n));
}

/* Of the chosen values; 0 where there are none. */
static double mean(const float *x, fedcodec_chosen chosen) {
    double sum = 0.0;
    for (size_t i = 0; i < chosen.count; i++) {
        sum += (double)x[chosen.index[i]];
    }
    return chosen.count > 0 ? sum / (double)chosen.count : 0.0;
}

/* Rounding in a long sum could lift a mean past the largest float. */
static float to_float(double v) {
    return v > (double)FLT_MAX ? FLT_MAX : v < -(double)FLT_MAX ? -FLT_MAX : (float)v;
}

static fed_status put_positions(fedcodec_chosen chosen, unsigned b, fed_writer *w) {
    fed_bit_writer bits;
    fed_bit_writer_init(&bits, w->data + w->len, w->cap - w->len);
    uint32_t next = 0;
    for (size_t i = 0; i < chosen.count; i++) {
        fedcodec_golomb_put(&bits, chosen.index[i] - next, b);
        next = chosen.index[i] + 1;
    }
    size_t len = 0;
    FED_TRY(fed_bit_writer_finish(&bits, &len));
    fed_writer_advance(w, len);
    return w->status;
}

static fed_status sbc_encode(const double *param, float *residual, size_t n, void *work,
                             uint8_t *dst, size_t cap, size_t *len) {
    fedcodec_chosen positive, negative;
    fedcodec_select(residual, n, most_sent(param[0], n), work, &positive, &negative);
    double up = mean(residual, positive), down = mean(residual, negative);
    bool rises = up >= -down;
    fedcodec_chosen chosen = rises ? positive : negative;
    float mu = to_float(rises ? up : down);

    fed_writer w;
    fed_writer_fixed(&w, dst, cap);
    fed_write_varint(&w, chosen.count);
    if (chosen.count > 0) {
        unsigned b = fedcodec_golomb_b(param[0]);
        fed_write_u8(&w, (uint8_t)b);
        fed_write_f32(&w, mu);
        FED_TRY(put_positions(chosen, b, &w));
    }
    for (size_t i = 0; i < chosen.count; i++) {
        residual[chosen.index[i]] -= mu;
    }
    *len = w.len;
    return w.status;
}

/* A message, read up to its positions. */
typedef struct message {
    uint64_t count;
    float mu; /* 0 where count is */
    fedcodec_golomb_reader positions;
} message;

static fed_status open_message(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    m->count = fed_read_varint(&r);
    unsigned b = 0;
    m->mu = 0.0f;
    if (m->count > 0) {
        b = fed_read_u8(&r);
        m->mu = fed_read_f32(&r);
        FED_REQUIRE(isfinite(m->mu) && m->mu != 0.0f, FED_EFORMAT);
    }
    FED_REQUIRE(r.status == FED_OK && m->count <= n && b <= FEDCODEC_GOLOMB_B_MAX, FED_EFORMAT);
    fedcodec_golomb_start(&m->positions, src + r.pos, len - r.pos, n, b);
    return FED_OK;
}

static fed_status sbc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    message m;
    FED_TRY(open_message(src, len, n, &m));
    for (uint64_t i = 0; i < m.count && m.positions.bits.status == FED_OK; i++) {
        fedcodec_golomb_next(&m.positions);
    }
    FED_TRY(fed_bit_reader_end(&m.positions.bits));
    *max_abs = fabsf(m.mu);
    return FED_OK;
}

/* A message that sbc_check has let pass. */
static message reopen(const uint8_t *src, size_t len, size_t n) {
    message m = {.count = 0};
    fed_status status = open_message(src, len, n, &m);
    assert(status == FED_OK);
    (void)status;
    return m;
}

static void sbc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    message m = reopen(src, len, n);
    const float step = w * m.mu;
    for (uint64_t i = 0; i < m.count; i++) {
        y[fedcodec_golomb_next(&m.positions)] += step;
    }
}

static void sbc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    sbc_axpy(src, len, 1.0f, y, n);
}

static void sbc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    message m = reopen(src, len, n);
    const int64_t step = weight * fedcodec_fixed(m.mu);
    for (uint64_t i = 0; i < m.count; i++) {
        acc[fedcodec_golomb_next(&m.positions)] += step;
    }
}

const fedcodec_vtable fedcodec_sbc = {
    .id = FEDCODEC_ID_sbc,
    .name = "sbc",
    .about = "where the largest values of one sign are, and their mean (SBC)",
    .params = sbc_params,
    .feedback = true,
    .bound = sbc_bound,
    .work_size = sbc_work_size,
    .encode = sbc_encode,
    .check = sbc_check,
    .decode = sbc_decode,
    .axpy = sbc_axpy,
    .fold = sbc_fold,
};
