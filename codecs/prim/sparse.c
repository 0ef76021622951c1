/* Write and read messages of positions and values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/sparse.h"

#include <assert.h>
#include <math.h>

#include "codecs/prim/bitmap.h"
#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "fed/bytes.h"

enum { BLOCK = FEDCODEC_POSITIONS_BLOCK };

static fedcodec_form form_of(fedcodec_sparse kind, const double *param) {
    return kind == FEDCODEC_SPARSE_VALUES ? (fedcodec_form)param[2] : FEDCODEC_FORM_FLOAT32;
}

static size_t values_len(fedcodec_sparse kind, fedcodec_form form, size_t k) {
    return kind == FEDCODEC_SPARSE_VALUES  ? fedcodec_values_len(form, k)
           : kind == FEDCODEC_SPARSE_SIGNS ? 4 + fedcodec_bitmap_len(k)
                                           : 4;
}

/* Return the number of bytes between count and values: the byte that names a narrow form, if there
 * is one, and the byte that says how positions are coded. */
static size_t head_len(fedcodec_form form) {
    return form == FEDCODEC_FORM_FLOAT32 ? 1 : 2;
}

size_t fedcodec_sparse_bound_of(fedcodec_sparse kind, const double *param, double p, size_t n,
                                size_t k) {
    const fedcodec_form form = form_of(kind, param);
    return fed_varint_size(k) + head_len(form) + values_len(kind, form, k) +
           fedcodec_positions_bound(p, n, k);
}

size_t fedcodec_sparse_bound(fedcodec_sparse kind, const double *param, size_t n) {
    return fedcodec_sparse_bound_of(kind, param, param[0], n, fedcodec_select_most(param[0], n));
}

/* Limit a mean to finite floats: rounding in a long sum could give more. */
static float to_float(double mean) {
    return (float)fmax(fmin(mean, (double)FLT_MAX), -(double)FLT_MAX);
}

/* Write the signs as bits: 1 if a value is negative. Ones fill the last byte. */
static void put_signs(fedcodec_chosen chosen, uint8_t *dst) {
    for (size_t i = 0; i < chosen.count; i += 8) {
        uint8_t negative[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        for (size_t k = 0; k < 8 && i + k < chosen.count; k++) {
            negative[k] = chosen.value[i + k] < 0.0f;
        }
        dst[i / 8] = fedcodec_bitmap_byte(negative);
    }
}

/* Subtract what is decoded for each chosen value: mu, or for SIGNS mu with the value's sign. */
static void subtract_mean(fedcodec_sparse kind, fedcodec_chosen chosen, float mu, float *residual) {
    for (size_t i = 0; i < chosen.count; i++) {
        const float value = chosen.value[i];
        const float sent = kind == FEDCODEC_SPARSE_SIGNS ? copysignf(mu, value) : mu;
        __builtin_prefetch(&residual[fedcodec_soon(chosen.index, i, chosen.count)], 1);
        residual[chosen.index[i]] = value - sent;
    }
}

static void put_values(fedcodec_sparse kind, const fedcodec_job *job, fedcodec_chosen chosen,
                       float mu, uint8_t *dst) {
    if (kind == FEDCODEC_SPARSE_VALUES) {
        fedcodec_values_put(form_of(kind, job->param), chosen, dst,
                            job->spare ? NULL : job->residual);
        return;
    }
    fedcodec_store_f32(dst, mu);
    if (kind == FEDCODEC_SPARSE_SIGNS) {
        put_signs(chosen, dst + 4);
    }
    if (!job->spare) {
        subtract_mean(kind, chosen, mu, job->residual);
    }
}

fed_status fedcodec_sparse_put(fedcodec_sparse kind, const fedcodec_job *job, double p,
                               fedcodec_chosen chosen, double mean, size_t *len) {
    const fedcodec_form form = form_of(kind, job->param);
    fed_writer w;
    fed_writer_fixed(&w, job->dst, job->cap);
    fed_write_varint(&w, chosen.count);
    if (chosen.count > 0) {
        if (form != FEDCODEC_FORM_FLOAT32) {
            fed_write_u8(&w, (uint8_t)(FEDCODEC_FORM_BYTE + form));
        }
        const size_t said = 1 + values_len(kind, form, chosen.count);
        FED_TRY(w.status);
        FED_REQUIRE(job->cap - w.len >= said, FED_ENOSPC);
        uint8_t *how = w.data + w.len;
        put_values(kind, job, chosen, to_float(mean), how + 1);
        fed_writer_advance(&w, said);
        size_t size = 0;
        FED_TRY(fedcodec_positions_put((fedcodec_pos)job->param[1], p, chosen, job->n,
                                       w.data + w.len, job->cap - w.len, &size, how));
        fed_writer_advance(&w, size);
    }
    *len = w.len;
    return w.status;
}

typedef struct message {
    uint64_t count;
    float mu; /* the mean; unused for VALUES */
    fedcodec_form form;
    const uint8_t *values; /* the values, or the next signs */
    size_t taken;          /* for VALUES: how many were read */
    fedcodec_positions positions;
} message;

static fed_status open_message(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n,
                               message *m) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    m->count = fed_read_varint(&r);
    uint8_t how = m->count > 0 ? fed_read_u8(&r) : 0;
    m->form = FEDCODEC_FORM_FLOAT32;
    m->taken = 0;
    if (kind == FEDCODEC_SPARSE_VALUES && fedcodec_form_is_byte(how)) {
        m->form = (fedcodec_form)(how - FEDCODEC_FORM_BYTE);
        how = fed_read_u8(&r);
    }
    FED_REQUIRE(r.status == FED_OK && m->count <= n, FED_EFORMAT);
    const uint8_t *values =
        fed_read_bytes(&r, m->count > 0 ? values_len(kind, m->form, (size_t)m->count) : 0);
    FED_TRY(r.status);
    m->mu = 0.0f;
    m->values = values;
    if (m->count > 0 && kind != FEDCODEC_SPARSE_VALUES) {
        m->mu = fedcodec_load_f32(values);
        m->values += 4;
    }
    return fedcodec_positions_start(&m->positions, how, src + r.pos, len - r.pos, m->count, n);
}

static fed_status check_values(fedcodec_sparse kind, const message *m, float *max_abs) {
    if (kind == FEDCODEC_SPARSE_VALUES) {
        return fedcodec_values_check(m->form, m->values, (size_t)m->count, max_abs);
    }
    *max_abs = fabsf(m->mu);
    FED_REQUIRE(isfinite(m->mu) && m->mu != 0.0f, FED_EFORMAT);
    if (kind == FEDCODEC_SPARSE_SIGNS) {
        unsigned padding = 0xff >> ((m->count - 1) % 8 + 1);
        FED_REQUIRE(m->mu > 0.0f, FED_EFORMAT);
        FED_REQUIRE((m->values[(m->count - 1) / 8] & padding) == padding, FED_EFORMAT);
    }
    return FED_OK;
}

fed_status fedcodec_sparse_check(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n,
                                 float *max_abs) {
    message m;
    float max = 0.0f;
    FED_TRY(open_message(kind, src, len, n, &m));
    if (m.count > 0) {
        FED_TRY(check_values(kind, &m, &max));
    }
    while (fedcodec_positions_next(&m.positions) > 0) {
    }
    FED_TRY(fedcodec_positions_end(&m.positions));
    *max_abs = max;
    return FED_OK;
}

static void reopen(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n, message *m) {
    fed_status status = open_message(kind, src, len, n, m);
    assert(status == FED_OK);
    (void)status;
}

/* Read the next block into value[] and m->positions.index. Returns its number of positions. */
static size_t next_block(fedcodec_sparse kind, message *m, float value[BLOCK]) {
    const size_t got = fedcodec_positions_next(&m->positions);
    if (kind == FEDCODEC_SPARSE_VALUES) {
        fedcodec_values_load(m->form, m->values, m->taken, got, value);
        m->taken += got;
    } else if (kind == FEDCODEC_SPARSE_SIGNS) {
        for (size_t i = 0; i < got; i += 8) { /* the signs of a block are whole bytes */
            uint32_t signs = *m->values++;
            for (size_t k = 0; k < 8; k++) {
                value[i + k] = fedcodec_float(fedcodec_bits(m->mu) | (signs << k & 0x80) << 24);
            }
        }
    } else {
        for (size_t i = 0; i < got; i++) {
            value[i] = m->mu;
        }
    }
    return got;
}

void fedcodec_sparse_axpy(fedcodec_sparse kind, const uint8_t *src, size_t len, float w, float *y,
                          size_t n) {
    message m;
    float value[BLOCK];
    reopen(kind, src, len, n, &m);
    const uint32_t *index = m.positions.index;
    for (size_t got; (got = next_block(kind, &m, value)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            __builtin_prefetch(&y[fedcodec_soon(index, i, got)], 1);
            y[index[i]] += w * value[i];
        }
    }
}

void fedcodec_sparse_decode(fedcodec_sparse kind, const uint8_t *src, size_t len, float *y,
                            size_t n) {
    fedcodec_clear(y, n);
    fedcodec_sparse_axpy(kind, src, len, 1.0f, y, n);
}

void fedcodec_sparse_fold(fedcodec_sparse kind, const uint8_t *src, size_t len, int64_t weight,
                          int64_t *acc, size_t n) {
    message m;
    float value[BLOCK];
    reopen(kind, src, len, n, &m);
    const uint32_t *index = m.positions.index;
    for (size_t got; (got = next_block(kind, &m, value)) > 0;) {
        for (size_t i = 0; i < got; i++) {
            __builtin_prefetch(&acc[fedcodec_soon(index, i, got)], 1);
            acc[index[i]] += weight * fedcodec_fixed(value[i]);
        }
    }
}

double fedcodec_sparse_squares(fedcodec_sparse kind, const uint8_t *src, size_t len, size_t n) {
    message m;
    double sum = 0;
    float value[BLOCK];
    reopen(kind, src, len, n, &m);
    if (kind != FEDCODEC_SPARSE_VALUES) { /* all values have the magnitude mu */
        return (double)m.count * ((double)m.mu * (double)m.mu);
    }
    for (size_t done = 0, got; done < m.count; done += got) {
        got = m.count - done < BLOCK ? (size_t)m.count - done : BLOCK;
        fedcodec_values_load(m.form, m.values, done, got, value);
        for (size_t i = 0; i < got; i++) {
            sum += (double)value[i] * (double)value[i];
        }
    }
    return sum;
}
