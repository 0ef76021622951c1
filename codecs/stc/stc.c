/* stc: where the values of largest magnitude are, their signs, and one magnitude for all of them.
 * Format: docs/codec-formats.md#stc   Paper: Sattler et al. 2019, algorithm 1 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/positions.h"
#include "codecs/registry.h"
#include "fed/bytes.h"

static const fedcodec_param stc_params[] = {
    {.key = "p", .preset = 0.01, .low = 1e-6, .high = 0.5, .help = "fraction of values sent"},
    FEDCODEC_POS_PARAM,
    {.key = NULL},
};

/* Of a sign for each of k positions. */
static size_t signs_len(uint64_t k) {
    return (size_t)((k + 7) / 8);
}

static size_t stc_bound(const double *param, size_t n) {
    size_t k = fedcodec_select_most(param[0], n);
    return fed_varint_size(k) + 5 + signs_len(k) + fedcodec_positions_bound(param[0], n, k);
}

static size_t stc_work_size(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

/* Rounding in a long sum could lift a mean past the largest float. */
static float to_float(double mean) {
    return mean > (double)FLT_MAX ? FLT_MAX : (float)mean;
}

/* Signs, a bit each: 1 where the value is negative. What they say is subtracted. */
static fed_status put_signs(float *residual, fedcodec_chosen chosen, float mu, fed_writer *w) {
    fed_bit_writer bits;
    size_t size = 0;
    fed_bit_writer_init(&bits, w->data + w->len, w->cap - w->len);
    for (size_t i = 0; i < chosen.count; i++) {
        float *value = &residual[chosen.index[i]];
        fed_put_bits(&bits, *value < 0.0f, 1);
        *value -= *value < 0.0f ? -mu : mu;
    }
    FED_TRY(fed_bit_writer_finish(&bits, &size));
    fed_writer_advance(w, size);
    return w->status;
}

static fed_status stc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    fed_writer w;
    fed_writer_fixed(&w, job->dst, job->cap);
    fed_write_varint(&w, chosen.count);
    if (chosen.count > 0) {
        uint8_t *how = w.data + w.len;
        float mu = to_float(fedcodec_mean_magnitude(chosen));
        size_t size = 0;
        fed_write_u8(&w, 0); /* its place */
        fed_write_f32(&w, mu);
        FED_TRY(put_signs(job->residual, chosen, mu, &w));
        FED_TRY(fedcodec_positions_put((fedcodec_pos)job->param[1], job->param[0], chosen, job->n,
                                       w.data + w.len, job->cap - w.len, &size, how));
        fed_writer_advance(&w, size);
    }
    *len = w.len;
    return w.status;
}

/* A message, read up to its positions. */
typedef struct message {
    float mu; /* 0 where there are none */
    fed_bit_reader signs;
    fedcodec_positions positions;
} message;

static fed_status open_message(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    uint64_t count = fed_read_varint(&r);
    uint8_t how = 0;
    m->mu = 0.0f;
    if (count > 0) {
        how = fed_read_u8(&r);
        m->mu = fed_read_f32(&r);
        FED_REQUIRE(isfinite(m->mu) && m->mu > 0.0f, FED_EFORMAT);
    }
    FED_REQUIRE(r.status == FED_OK && count <= n && signs_len(count) <= fed_reader_left(&r),
                FED_EFORMAT);
    fed_bit_reader_init(&m->signs, src + r.pos, signs_len(count));
    r.pos += signs_len(count);
    return fedcodec_positions_start(&m->positions, how, src + r.pos, len - r.pos, count, n);
}

/* The next `count` of them. */
static void skip_signs(fed_bit_reader *signs, size_t count) {
    signs->pos += count; /* open_message saw that they are there */
}

static fed_status stc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    message m;
    FED_TRY(open_message(src, len, n, &m));
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0;) {
        skip_signs(&m.signs, got);
    }
    FED_TRY(fedcodec_positions_end(&m.positions));
    FED_TRY(fed_bit_reader_end(&m.signs));
    *max_abs = m.mu;
    return FED_OK;
}

/* A message that stc_check has let pass. */
static void reopen(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_status status = open_message(src, len, n, m);
    assert(status == FED_OK);
    (void)status;
}

static void stc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    message m;
    reopen(src, len, n, &m);
    const float step[2] = {w * m.mu, w * -m.mu};
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            y[m.positions.index[i]] += step[fed_get_bits(&m.signs, 1)];
        }
    }
}

static void stc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    stc_axpy(src, len, 1.0f, y, n);
}

static void stc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    message m;
    reopen(src, len, n, &m);
    const int64_t up = weight * fedcodec_fixed(m.mu), step[2] = {up, -up};
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            acc[m.positions.index[i]] += step[fed_get_bits(&m.signs, 1)];
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(stc) = {
    .id = FEDCODEC_ID_stc,
    .name = "stc",
    .about = "where the values of largest magnitude are, their signs, and their mean (STC)",
    .params = stc_params,
    .feedback = true,
    .bound = stc_bound,
    .work_size = stc_work_size,
    .scan = fedcodec_scan_added,
    .encode = stc_encode,
    .check = stc_check,
    .decode = stc_decode,
    .axpy = stc_axpy,
    .fold = stc_fold,
};
