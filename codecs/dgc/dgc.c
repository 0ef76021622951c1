/* dgc: the values of largest magnitude as they are, and where they belong (gradient dropping).
 * Format: docs/codec-formats.md#dgc   Paper: Aji and Heafield 2017; Lin et al. 2018, section 3 */
#include <assert.h>
#include <math.h>

#include "codecs/prim/floats.h"
#include "codecs/prim/positions.h"
#include "codecs/registry.h"
#include "fed/bytes.h"

static const fedcodec_param dgc_params[] = {
    {.key = "p", .preset = 0.001, .low = 1e-6, .high = 0.5, .help = "fraction of values sent"},
    FEDCODEC_POS_PARAM,
    {.key = NULL},
};

static size_t dgc_bound(const double *param, size_t n) {
    size_t k = fedcodec_select_most(param[0], n);
    return fed_varint_size(k) + 1 + 4 * k + fedcodec_positions_bound(param[0], n, k);
}

static size_t dgc_work_size(const double *param, size_t n) {
    return fedcodec_select_magnitude_work_size(n, fedcodec_select_most(param[0], n));
}

static fed_status dgc_encode(const fedcodec_job *job, size_t *len) {
    fedcodec_chosen chosen;
    FED_TRY(fedcodec_select_magnitude(job, fedcodec_select_most(job->param[0], job->n), &chosen));
    fed_writer w;
    fed_writer_fixed(&w, job->dst, job->cap);
    fed_write_varint(&w, chosen.count);
    if (chosen.count > 0) {
        uint8_t *how = w.data + w.len;
        fed_write_u8(&w, 0); /* its place */
        for (size_t i = 0; i < chosen.count; i++) {
            fed_write_f32(&w, job->residual[chosen.index[i]]);
        }
        size_t size = 0;
        FED_TRY(w.status);
        FED_TRY(fedcodec_positions_put((fedcodec_pos)job->param[1], job->param[0], chosen, job->n,
                                       w.data + w.len, job->cap - w.len, &size, how));
        fed_writer_advance(&w, size);
    }
    for (size_t i = 0; i < chosen.count; i++) {
        job->residual[chosen.index[i]] = 0.0f;
    }
    *len = w.len;
    return w.status;
}

/* A message, read up to its positions. */
typedef struct message {
    uint64_t count;
    const uint8_t *values; /* the next one */
    fedcodec_positions positions;
} message;

static fed_status open_message(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    m->count = fed_read_varint(&r);
    uint8_t how = m->count > 0 ? fed_read_u8(&r) : 0;
    FED_REQUIRE(r.status == FED_OK && m->count <= n && m->count <= fed_reader_left(&r) / 4,
                FED_EFORMAT);
    m->values = src + r.pos;
    r.pos += 4 * (size_t)m->count;
    return fedcodec_positions_start(&m->positions, how, src + r.pos, len - r.pos, m->count, n);
}

static fed_status dgc_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    message m;
    FED_TRY(open_message(src, len, n, &m));
    float max = 0.0f;
    for (uint64_t i = 0; i < m.count; i++) {
        float magnitude = fabsf(fedcodec_load_f32(m.values + 4 * i));
        FED_REQUIRE(isfinite(magnitude) && magnitude > 0.0f, FED_EFORMAT);
        max = magnitude > max ? magnitude : max;
    }
    while (fedcodec_positions_next(&m.positions) > 0) {
    }
    FED_TRY(fedcodec_positions_end(&m.positions));
    *max_abs = max;
    return FED_OK;
}

/* A message that dgc_check has let pass. */
static void reopen(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_status status = open_message(src, len, n, m);
    assert(status == FED_OK);
    (void)status;
}

static void dgc_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    message m;
    reopen(src, len, n, &m);
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0; m.values += 4 * got) {
        for (size_t i = 0; i < got; i++) {
            y[m.positions.index[i]] += w * fedcodec_load_f32(m.values + 4 * i);
        }
    }
}

static void dgc_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
    dgc_axpy(src, len, 1.0f, y, n);
}

static void dgc_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    message m;
    reopen(src, len, n, &m);
    for (size_t got; (got = fedcodec_positions_next(&m.positions)) > 0; m.values += 4 * got) {
        for (size_t i = 0; i < got; i++) {
            float value = fedcodec_load_f32(m.values + 4 * i);
            acc[m.positions.index[i]] += weight * fedcodec_fixed(value);
        }
    }
}

const fedcodec_vtable FEDCODEC_VTABLE(dgc) = {
    .id = FEDCODEC_ID_dgc,
    .name = "dgc",
    .about = "the values of largest magnitude and where they are (gradient dropping, DGC)",
    .params = dgc_params,
    .feedback = true,
    .bound = dgc_bound,
    .work_size = dgc_work_size,
    .scan = fedcodec_scan_added,
    .encode = dgc_encode,
    .check = dgc_check,
    .decode = dgc_decode,
    .axpy = dgc_axpy,
    .fold = dgc_fold,
};
