/* randk: send some values unchanged, at random positions that one number in the message
 * determines.
 * Format: docs/codec-formats.md#randk   Paper: Stich, Cordonnier and Jaggi 2018, section 2 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/prim/fetch.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/select.h"
#include "codecs/registry.h"
#include "fed/bytes.h"
#include "fed/hash.h"
#include "fed/rng.h"

/* BLOCK: positions that are drawn at once. DRAW: bytes of the number from which the positions are
 * drawn. */
enum { BLOCK = 256, DRAW = 4 };

static const fedcodec_param randk_params[] = {
    {.key = "p", .preset = 0.01, .low = 1e-6, .high = 1.0, .help = "fraction of values sent"},
    {.key = "seed",
     .preset = 1,
     .low = 1,
     .high = UINT32_MAX,
     .help = "of the random numbers",
     .whole = true},
    {.key = NULL},
};

static size_t randk_bound(const double *param, size_t n) {
    const size_t k = fedcodec_select_most(param[0], n);
    return fed_varint_size(k) + DRAW + 4 * k;
}

/* The positions: one in each of k equal ranges of the tensor. */

typedef struct places {
    fed_rng rng;
    uint64_t n, k, done;
    uint32_t index[BLOCK];
} places;

static void places_start(places *p, uint32_t draw, size_t n, size_t k) {
    fed_rng_init(&p->rng, draw, 0, 0);
    p->n = n;
    p->k = k;
    p->done = 0;
}

/* Draw the next positions into p->index. Returns their number, 0 after the last one. */
static size_t places_next(places *p) {
    const size_t count = p->k - p->done < BLOCK ? (size_t)(p->k - p->done) : BLOCK;
    uint64_t begin = count > 0 ? p->done * p->n / p->k : 0;
    fed_rng_fill(&p->rng, p->index, count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = (p->done + i + 1) * p->n / p->k;
        p->index[i] = (uint32_t)(begin + ((end - begin) * p->index[i] >> 32));
        begin = end;
    }
    p->done += count;
    return count;
}

static bool finds_something(uint32_t draw, const float *residual, size_t n, size_t k) {
    places p;
    places_start(&p, draw, n, k);
    for (size_t count; (count = places_next(&p)) > 0;) {
        for (size_t i = 0; i < count; i++) {
            if (residual[p.index[i]] != 0.0f) {
                return true;
            }
        }
    }
    return false;
}

static void send_values(uint32_t draw, float *residual, size_t n, size_t k, uint8_t *dst) {
    places p;
    places_start(&p, draw, n, k);
    for (size_t count; (count = places_next(&p)) > 0; dst += 4 * count) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(&residual[fedcodec_soon(p.index, i, count)], 1);
            fedcodec_store_f32(dst + 4 * i, residual[p.index[i]] + 0.0f); /* -0 becomes +0 */
            residual[p.index[i]] = 0.0f;
        }
    }
}

/* The number draw is computed from the values, so other values almost surely get other positions,
 * and the same input gets the same positions. If all values at these positions are 0, others are
 * drawn. Otherwise the encoder could send nothing for ever. */
static fed_status randk_encode(const fedcodec_job *job, size_t *len) {
    const size_t n = job->n, k = fedcodec_select_most(job->param[0], n);
    fed_writer w;
    fed_writer_fixed(&w, job->dst, job->cap);
    fed_write_varint(&w, k);
    FED_TRY(w.status);
    fedcodec_add(job->residual, job->x, n);
    if (k > 0) {
        uint32_t draw = (uint32_t)fed_digest(job->residual, n) ^ (uint32_t)job->param[1];
        while (job->max > 0.0f && !finds_something(draw, job->residual, n, k)) {
            draw++;
        }
        fedcodec_store_u32(job->dst + w.len, draw);
        send_values(draw, job->residual, n, k, job->dst + w.len + DRAW);
    }
    *len = w.len + (k > 0 ? DRAW + 4 * k : 0);
    return FED_OK;
}

typedef struct message {
    size_t count;
    uint32_t draw;
    const uint8_t *values;
} message;

static fed_status open_message(const uint8_t *src, size_t len, size_t n, message *m) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    const uint64_t count = fed_read_varint(&r);
    FED_REQUIRE(r.status == FED_OK && count <= n && (count > 0 || n == 0), FED_EFORMAT);
    const uint8_t *draw = fed_read_bytes(&r, count > 0 ? DRAW : 0);
    FED_REQUIRE(r.status == FED_OK && fed_reader_left(&r) / 4 == count, FED_EFORMAT);
    FED_REQUIRE(fed_reader_left(&r) % 4 == 0, FED_EFORMAT);
    *m = (message){.count = (size_t)count, .values = src + r.pos};
    m->draw = count > 0 ? fedcodec_load_u32(draw) : 0;
    return FED_OK;
}

static fed_status randk_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    message m;
    int32_t max = 0;
    bool negative_zero = false;
    FED_TRY(open_message(src, len, n, &m));
    for (size_t i = 0; i < m.count; i++) {
        const float value = fedcodec_load_f32(m.values + 4 * i);
        max = fedcodec_larger(max, fedcodec_magnitude(value));
        negative_zero |= value == 0.0f && signbit(value);
    }
    FED_REQUIRE(max < FEDCODEC_INFINITY && !negative_zero, FED_EFORMAT);
    *max_abs = fedcodec_float((uint32_t)max);
    return FED_OK;
}

static message reopen(const uint8_t *src, size_t len, size_t n, places *p) {
    message m;
    fed_status status = open_message(src, len, n, &m);
    assert(status == FED_OK);
    (void)status;
    places_start(p, m.draw, n, m.count);
    return m;
}

static void randk_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    places p;
    message m = reopen(src, len, n, &p);
    for (size_t count; (count = places_next(&p)) > 0; m.values += 4 * count) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(&y[fedcodec_soon(p.index, i, count)], 1);
            y[p.index[i]] += w * fedcodec_load_f32(m.values + 4 * i);
        }
    }
}

static void randk_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    fedcodec_clear(y, n);
    randk_axpy(src, len, 1.0f, y, n);
}

static void randk_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    places p;
    message m = reopen(src, len, n, &p);
    for (size_t count; (count = places_next(&p)) > 0; m.values += 4 * count) {
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(&acc[fedcodec_soon(p.index, i, count)], 1);
            acc[p.index[i]] += weight * fedcodec_fixed(fedcodec_load_f32(m.values + 4 * i));
        }
    }
}

static double randk_squares(const uint8_t *src, size_t len, size_t n) {
    places p;
    const message m = reopen(src, len, n, &p);
    double sum = 0;
    for (size_t i = 0; i < m.count; i++) {
        const double value = (double)fedcodec_load_f32(m.values + 4 * i);
        sum += value * value;
    }
    return sum;
}

const fedcodec_vtable FEDCODEC_VTABLE(randk) = {
    .id = FEDCODEC_ID_randk,
    .name = "randk",
    .about = "some values at random places, which one number in the message names (random-k)",
    .params = randk_params,
    .feedback = true,
    .bound = randk_bound,
    .scan = fedcodec_scan_sum,
    .absorb = fedcodec_absorb,
    .encode = randk_encode,
    .check = randk_check,
    .decode = randk_decode,
    .axpy = randk_axpy,
    .fold = randk_fold,
    .squares = randk_squares,
};
