/* sbc: where the largest values are, and their mean for each of them.
 * Format: docs/codec-formats.md#sbc   Paper: SBC, algorithms 2 to 4 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/positions.h"
#include "codecs/registry.h"
#include "fed/bytes.h"

static const fedcodec_param sbc_params[] = {
    {.key = "p", .preset = 0.01, .low = 1e-6, .high = 0.5, .help = "fraction of values sent"},
    FEDCODEC_POS_PARAM,
    {.key = NULL},
};

static size_t sbc_bound(const double *param, size_t n) {
    size_t k = fedcodec_select_most(param[0], n);
    return fed_varint_size(k) + 5 + fedcodec_positions_bound(param[0], n, k);
}

static size_t sbc_work_size(const double *param, size_t n) {
    return fedcodec_select_work_size(n, fedcodec_select_most(param[0], n));
}

/* Rounding in a long sum could lift a mean past the largest float. */
static float to_float(double v) {
    return v > (double)FLT_MAX ? FLT_MAX : v < -(double)FLT_MAX ? -FLT_MAX : (float)v;
}

static fed_status sbc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen positive, negative;
    FED_TRY(
        fedcodec_select(job, fedcodec_select_most(job->param[0], job->n), &positive, &negative));
    double up = fedcodec_mean_magnitude(positive), down = fedcodec_mean_magnitude(negative);
    bool rises = up >= down;
    fedcodec_chosen chosen = rises ? positive : negative;
    float mu = to_float(rises ? up : -down);

    fed_writer w;
    fed_writer_fixed(&w, job->dst, job->cap);
    fed_write_varint(&w, chosen.count);
    if (chosen.count > 0) {
        uint8_t *how = w.data + w.len;
        fed_write_u8(&w, 0); /* its place */
        fed_write_f32(&w, mu);
        size_t size = 0;
        FED_TRY(w.status);
        FED_TRY(fedcodec_positions_put((fedcodec_pos)job->param[1], job->param[0], chosen, job->n,
                                       w.data + w.len, job->cap - w.len, &size, how));
        fed_writer_advance(&w, size);
    }
    for (size_t i = 0; i < chosen.count; i++) {
        job->residual[chosen.index[i]] -= mu;
    }
    *len = w.len;
    return w.status;
}

/* A message, read up to its positions. */
typedef struct message {
    float mu; /* 0 where there are none */
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
        FED_REQUIRE(isfinite(m->mu) && m->mu != 0.0f, FED_EFORMAT);
    }
    FED_REQUIRE(r.status == FED_OK && count <= n, FED_EFORMAT);
    return fedcodec_positions_start(&m->positions, how, src + r.pos, len - r.pos, count, n);
}

static fed_status sbc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    message m;
    FED_TRY(open_message(src, len, n, &m));
    while (fedcodec_positions_next(&m.positions) > 0) {
    }
    FED_TRY(fedcodec_positions_end(&m.positions));
    *max_abs = fabsf(m.mu);
    return FED_OK;
}

/* A message that sbc_check has let pass. */
static void reopen(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_status status = open_message(src, len, n, m);
    assert(status == FED_OK);
    (void)status;
}

static void sbc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    message m;
    reopen(src, len, n, &m);
    const float step = w * m.mu;
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            y[m.positions.index[i]] += step;
        }
    }
}

static void sbc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    sbc_axpy(src, len, 1.0f, y, n);
}

static void sbc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    message m;
    reopen(src, len, n, &m);
    const int64_t step = weight * fedcodec_fixed(m.mu);
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            acc[m.positions.index[i]] += step;
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(sbc) = {
    .id = FEDCODEC_ID_sbc,
    .name = "sbc",
    .about = "where the largest values of one sign are, and their mean (SBC)",
    .params = sbc_params,
    .feedback = true,
    .bound = sbc_bound,
    .work_size = sbc_work_size,
    .scan = fedcodec_scan_added,
    .encode = sbc_encode,
    .check = sbc_check,
    .decode = sbc_decode,
    .axpy = sbc_axpy,
    .fold = sbc_fold,
};
