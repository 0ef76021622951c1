/* powersgd: a matrix as the product of two narrow ones. Format: docs/codec-formats.md#powersgd
 * Paper: PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019), algorithms 1 and 2
 *
 * A tensor is a matrix M of rows and columns. An encoder draws Q at random. It computes P = M Q,
 * makes P's columns orthonormal, and computes Q = M^T P. It sends P and Q; P Q^T is the projection
 * of M onto P's columns. In the paper the workers sum up their P and then their Q, so all have the
 * same P. Devices of a federation do not exchange P while they encode. So each device has its own
 * P, and the coordinator sums up the products. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "codecs/powersgd/sums.h"
#include "codecs/prim/floats.h"
#include "codecs/prim/forms.h"
#include "codecs/prim/matrix.h"
#include "codecs/prim/parts.h"
#include "codecs/prim/rounding.h"
#include "codecs/registry.h"
#include "fed/rng.h"

/* A message is the byte ONLY_VALUES and the values, or begins with a byte for the rank. If the rank
 * is not 0, these follow: the form of the numbers, the number of rows, P and Q. P and Q are stored
 * column by column. */
enum {
    ONLY_VALUES = 255,
    LEAD = 6,
    RANK_MAX = 32,
    POWER_MAX = 4,
    WIDE = 1024, /* columns of M that are summed at once, to stay in a cache */
    CHUNK = 256  /* values that are decoded at once */
};

/* The largest value of rows in a spec. With more digits the longest spec, with "+entropy", would
 * not fit into FEDCODEC_SPEC. An envelope may set a larger number. */
#define ROWS_MAX 999999999

/* A matrix whose largest magnitude is less than SMALLEST, or is LIMIT or more, is not sent and
 * stays in the residual. Its sums could lose bits or become infinite. */
#define SMALLEST 0x1p-100f
#define LIMIT    0x1p90f

/* A column of P is left out if removing its components along earlier columns leaves at most this
 * share of its length. The remainder would be only rounding errors. */
#define NOTHING_NEW 0x1p-16

enum { PARAM_RANK, PARAM_POWER, PARAM_VALUES, PARAM_ROWS };

/* Indexed by fedcodec_form. */
static const char *const value_names[] = {"float32", "bfloat16", NULL};
static const fedcodec_param powersgd_params[] = {
    {.key = "rank",
     .preset = 2,
     .low = 1,
     .high = RANK_MAX,
     .help = "columns of each factor, if that is shorter",
     .whole = true},
    {.key = "power",
     .preset = 1,
     .low = 1,
     .high = POWER_MAX,
     .help = "steps of subspace iteration",
     .whole = true},
    {.key = "values",
     .preset = FEDCODEC_FORM_FLOAT32,
     .low = FEDCODEC_FORM_FLOAT32,
     .high = FEDCODEC_FORM_BFLOAT16,
     .help = "how a factor's number is sent",
     .names = value_names},
    {.key = "rows",
     .preset = 0,
     .low = 0,
     .high = ROWS_MAX,
     .help = "of a tensor without a shape; 0: as square as it can be",
     .whole = true},
    {.key = NULL},
};

/* The contents of a message. rank: 0 for all zeros, ONLY_VALUES for the values themselves. */
typedef struct product {
    unsigned rank;
    fedcodec_form form;
    size_t rows, columns;
    const uint8_t *p, *q; /* addresses of P and Q. ONLY_VALUES: p is the address of the values */
} product;

/* Return a message's length for any rank and rows. It may be too large for a size_t. */
static uint64_t len_of(const product *m) {
    return LEAD + m->rank * (uint64_t)fedcodec_values_len(m->form, m->rows + m->columns);
}

static size_t values_len(size_t n) {
    return 1 + sizeof(float) * n;
}

static bool is_shorter(const product *m) {
    return len_of(m) < values_len(m->rows * m->columns);
}

static product product_for(const double *param, size_t n) {
    product m = {.rank = (unsigned)param[PARAM_RANK], .form = (fedcodec_form)param[PARAM_VALUES]};
    m.rows = param[PARAM_ROWS] > 0.0 ? (size_t)param[PARAM_ROWS] : fedcodec_square_rows(n);
    if (m.rows == 0 || n % m.rows != 0) {
        m.rows = n;
    }
    m.columns = n > 0 ? n / m.rows : 0;
    return m;
}

static size_t powersgd_bound(const double *param, size_t n) {
    const product m = product_for(param, n);
    return is_shorter(&m) ? (size_t)len_of(&m) : values_len(n);
}

static size_t powersgd_work_size(const double *param, size_t n) {
    const product m = product_for(param, n);
    return is_shorter(&m) ? m.rank * (m.rows + m.columns) * sizeof(float) : 0;
}

static fed_status product_read(const uint8_t *src, size_t len, size_t n, product *m) {
    FED_REQUIRE(len > 0, FED_EFORMAT);
    *m = (product){.rank = src[0], .p = src + 1};
    if (m->rank == ONLY_VALUES || m->rank == 0) {
        return len == (m->rank == 0 ? 1 : values_len(n)) ? FED_OK : FED_EFORMAT;
    }
    FED_REQUIRE(m->rank <= RANK_MAX && len >= LEAD && src[1] <= FEDCODEC_FORM_BFLOAT16,
                FED_EFORMAT);
    m->form = (fedcodec_form)src[1];
    m->rows = fedcodec_load_u32(src + 2);
    FED_REQUIRE(m->rows > 0 && n % m->rows == 0, FED_EFORMAT);
    m->columns = n / m->rows;
    FED_REQUIRE(is_shorter(m) && len == len_of(m), FED_EFORMAT);
    m->p = src + LEAD;
    m->q = m->p + m->rank * fedcodec_values_len(m->form, m->rows);
    return FED_OK;
}

static product product_of(const uint8_t *src, size_t len, size_t n) {
    product m;
    const fed_status status = product_read(src, len, n, &m);
    assert(status == FED_OK);
    (void)status;
    return m;
}

static inline float load(fedcodec_form form, const uint8_t *src, size_t i) {
    return form == FEDCODEC_FORM_BFLOAT16 ? fedcodec_from_bfloat16(fedcodec_load_u16(src + 2 * i))
                                          : fedcodec_load_f32(src + 4 * i);
}

/* Decode count values of row i, from a column on. form is a constant at each call, so that the
 * compiler vectorises the inner loop. Columns of Q are added in pairs; the last of an odd number
 * is paired with itself times 0. */
static inline void multiply_as(fedcodec_form form, const product *m, size_t i, size_t column,
                               size_t count, float *restrict y) {
    const size_t width = form == FEDCODEC_FORM_BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
    memset(y, 0, count * sizeof *y);
    for (size_t k = 0; k < m->rank; k += POWERSGD_PAIR) {
        const bool both = k + 1 < m->rank;
        const uint8_t *q0 = m->q + width * (k * m->columns + column);
        const uint8_t *q1 = both ? q0 + width * m->columns : q0;
        const float p0 = load(form, m->p, k * m->rows + i);
        const float p1 = both ? load(form, m->p, (k + 1) * m->rows + i) : 0.0f;
        for (size_t j = 0; j < count; j++) {
            y[j] = y[j] + p0 * load(form, q0, j) + p1 * load(form, q1, j);
        }
    }
}

/* Decode from index at on into y[CHUNK], not past the end of a row. Returns the number of
 * values. */
static size_t multiply(const product *m, size_t at, float *y) {
    assert(m->columns > 0);
    const size_t i = at / m->columns, column = at % m->columns, left = m->columns - column;
    const size_t count = left < CHUNK ? left : CHUNK;
    if (m->form == FEDCODEC_FORM_BFLOAT16) {
        multiply_as(FEDCODEC_FORM_BFLOAT16, m, i, column, count, y);
    } else {
        multiply_as(FEDCODEC_FORM_FLOAT32, m, i, column, count, y);
    }
    return count;
}

/* Decode as multiply does, but also messages of ONLY_VALUES. m->rank is not 0. */
static size_t some_values(const product *m, size_t n, size_t at, float *y) {
    if (m->rank != ONLY_VALUES) {
        return multiply(m, at, y);
    }
    const size_t count = n - at < CHUNK ? n - at : CHUNK;
    fedcodec_values_load(FEDCODEC_FORM_FLOAT32, m->p, at, count, y);
    return count;
}

static fed_status powersgd_check(const uint8_t *src, size_t len, size_t n, float *max_abs) {
    product m;
    FED_TRY(product_read(src, len, n, &m));
    int32_t max = 0;
    float y[CHUNK];
    for (size_t at = 0, count; m.rank > 0 && at < n; at += count) {
        count = some_values(&m, n, at, y);
        max = fedcodec_larger(max, fedcodec_largest(y, count));
    }
    FED_REQUIRE(max < FEDCODEC_INFINITY && (max > 0 || m.rank != ONLY_VALUES), FED_EFORMAT);
    *max_abs = fedcodec_float((uint32_t)max);
    return FED_OK;
}

static void powersgd_decode(const uint8_t *src, size_t len, float *y, size_t n) {
    const product m = product_of(src, len, n);
    if (m.rank == 0) {
        memset(y, 0, n * sizeof *y);
        return;
    }
    for (size_t at = 0; at < n;) {
        at += some_values(&m, n, at, y + at);
    }
}

static void powersgd_axpy(const uint8_t *src, size_t len, float w, float *y, size_t n) {
    const product m = product_of(src, len, n);
    float some[CHUNK];
    for (size_t at = 0, count; m.rank > 0 && at < n; at += count) {
        count = some_values(&m, n, at, some);
        for (size_t i = 0; i < count; i++) {
            y[at + i] += w * some[i];
        }
    }
}

static void powersgd_fold(const uint8_t *src, size_t len, int64_t weight, int64_t *acc, size_t n) {
    const product m = product_of(src, len, n);
    float some[CHUNK];
    for (size_t at = 0, count; m.rank > 0 && at < n; at += count) {
        count = some_values(&m, n, at, some);
        for (size_t i = 0; i < count; i++) {
            acc[at + i] += weight * fedcodec_fixed(some[i]);
        }
    }
}

/* The matrix M, which is the residual, and its factors P and Q, stored column by column. */
typedef struct factors {
    product to;     /* to.rank: columns of P and Q in use */
    float *m;       /* float32[rows][columns] */
    const float *x; /* added to M in the first step, or NULL */
    float *p, *q;   /* float32[rank][rows], float32[rank][columns] */
    size_t parts;
} factors;

/* P = M Q for the rows i and next. next is i if there is no other row. */
static void make_p_rows(const factors *f, size_t i, size_t next) {
    const size_t rows = f->to.rows, columns = f->to.columns;
    const float *row[POWERSGD_PAIR] = {f->m + i * columns, f->m + next * columns};
    for (size_t k = 0; k < f->to.rank; k += POWERSGD_PAIR) {
        const size_t after = k + 1 < f->to.rank ? k + 1 : k;
        const float *q[POWERSGD_PAIR] = {f->q + k * columns, f->q + after * columns};
        float to[POWERSGD_PAIR][POWERSGD_PAIR];
        powersgd_multiply_pairs(row, q, columns, to);
        f->p[k * rows + i] = to[0][0];
        f->p[k * rows + next] = to[1][0];
        f->p[after * rows + i] = to[0][after - k];
        f->p[after * rows + next] = to[1][after - k];
    }
}

static void make_p(void *job, size_t part) {
    const factors *f = job;
    const size_t columns = f->to.columns;
    const size_t end = fedcodec_part_start(f->to.rows, f->parts, part + 1, 1);
    for (size_t i = fedcodec_part_start(f->to.rows, f->parts, part, 1); i < end;
         i += POWERSGD_PAIR) {
        const size_t next = i + 1 < end ? i + 1 : i;
        if (f->x != NULL) {
            fedcodec_add(f->m + i * columns, f->x + i * columns, (next - i + 1) * columns);
        }
        make_p_rows(f, i, next);
    }
}

/* Q = M^T P for count columns of M from column on. Rows are added four at a time. After the last
 * row, that row is added again, times 0. */
static void make_q_from(const factors *f, size_t column, size_t count) {
    const size_t rows = f->to.rows, columns = f->to.columns;
    for (size_t k = 0; k < f->to.rank; k++) {
        memset(f->q + k * columns + column, 0, count * sizeof *f->q);
    }
    for (size_t i = 0; i < rows; i += POWERSGD_ROWS) {
        const float *row[POWERSGD_ROWS];
        for (size_t t = 0; t < POWERSGD_ROWS; t++) {
            row[t] = f->m + (i + t < rows ? i + t : rows - 1) * columns + column;
        }
        for (size_t k = 0; k < f->to.rank; k++) {
            float p[POWERSGD_ROWS] = {0.0f};
            memcpy(p, f->p + k * rows + i,
                   (rows - i < POWERSGD_ROWS ? rows - i : POWERSGD_ROWS) * sizeof *p);
            powersgd_add_rows(row, p, count, f->q + k * columns + column);
        }
    }
}

static void make_q(void *job, size_t part) {
    const factors *f = job;
    const size_t end = fedcodec_part_start(f->to.columns, f->parts, part + 1, POWERSGD_LANES);
    for (size_t j = fedcodec_part_start(f->to.columns, f->parts, part, POWERSGD_LANES); j < end;
         j += WIDE) {
        make_q_from(f, j, end - j < WIDE ? end - j : WIDE);
    }
}

static float rounded(fedcodec_form form, float v) {
    return form == FEDCODEC_FORM_BFLOAT16 ? fedcodec_from_bfloat16(fedcodec_to_bfloat16(v)) : v;
}

/* Subtract from column k of P its components along earlier columns, twice because of rounding. */
static void make_square(float *p, size_t k, size_t rows) {
    float *restrict own = p + k * rows;
    for (size_t step = 0; step < 2 * k; step++) {
        const float *restrict other = p + step % k * rows;
        const float along = (float)powersgd_dot(own, other, rows);
        for (size_t i = 0; i < rows; i++) {
            own[i] -= along * other[i];
        }
    }
}

/* Make P's columns orthonormal (modified Gram-Schmidt). Drop columns of mere rounding errors. */
static void orthonormalise(factors *f) {
    const size_t rows = f->to.rows;
    unsigned kept = 0;
    for (unsigned k = 0; k < f->to.rank; k++) {
        float *own = f->p + kept * rows;
        memmove(own, f->p + k * rows, rows * sizeof *own);
        const double before = sqrt(powersgd_dot(own, own, rows));
        make_square(f->p, kept, rows);
        const double length = sqrt(powersgd_dot(own, own, rows));
        for (size_t i = 0; i < rows; i++) {
            own[i] = (float)((double)own[i] / length);
        }
        kept += length > NOTHING_NEW * before;
    }
    for (size_t i = 0; i < kept * rows; i++) {
        f->p[i] = rounded(f->to.form, f->p[i]);
    }
    f->to.rank = kept;
}

static void draw_q(const factors *f, float max, float up) {
    fed_rng rng;
    fed_rng_init(&rng, fedcodec_bits(max), 0, 0);
    for (size_t i = 0; i < f->to.rank * f->to.columns; i++) {
        f->q[i] = (float)(int32_t)fed_rng_u32(&rng) * (up * 0x1p-31f);
    }
}

static void find_factors(factors *f, const fedcodec_job *job) {
    /* up is the power of two that brings the largest magnitude into [1, 2). */
    const float up = fedcodec_float((uint32_t)(254 - (fedcodec_bits(job->max) >> 23)) << 23);
    draw_q(f, job->max, up);
    for (unsigned step = 0; step < (unsigned)job->param[PARAM_POWER]; step++) {
        for (size_t i = 0; step > 0 && i < f->to.rank * f->to.columns; i++) {
            f->q[i] *= up;
        }
        fedcodec_run_parts(job->pool, f->parts, make_p, f);
        f->x = NULL;
        orthonormalise(f);
        fedcodec_run_parts(job->pool, f->parts, make_q, f);
    }
}

static void put(fedcodec_form form, const float *v, size_t n, uint8_t *dst) {
    if (form == FEDCODEC_FORM_FLOAT32) {
        fedcodec_store_values(dst, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        fedcodec_store_u16(dst + 2 * i, fedcodec_to_bfloat16(v[i]));
    }
}

static void subtract(void *job, size_t part) {
    const factors *f = job;
    const size_t columns = f->to.columns;
    const size_t end = fedcodec_part_start(f->to.rows, f->parts, part + 1, 1) * columns;
    size_t at = fedcodec_part_start(f->to.rows, f->parts, part, 1) * columns;
    float y[CHUNK];
    for (size_t count; at < end; at += count) {
        count = multiply(&f->to, at, y);
        for (size_t i = 0; i < count; i++) {
            f->m[at + i] -= y[i];
        }
    }
}

static size_t encode_product(const fedcodec_job *job, product to) {
    factors f = {.to = to, .m = job->residual, .x = job->x, .p = job->work};
    f.q = f.p + to.rank * to.rows;
    f.parts = fedcodec_parts(job->pool, job->n);
    find_factors(&f, job);
    job->dst[0] = (uint8_t)f.to.rank;
    if (f.to.rank == 0) {
        return 1;
    }
    uint8_t *p = job->dst + LEAD, *q = p + f.to.rank * fedcodec_values_len(to.form, to.rows);
    job->dst[1] = (uint8_t)to.form;
    fedcodec_store_u32(job->dst + 2, (uint32_t)to.rows);
    put(to.form, f.p, f.to.rank * to.rows, p);
    put(to.form, f.q, f.to.rank * to.columns, q);
    f.to.p = p;
    f.to.q = q;
    fedcodec_run_parts(job->pool, f.parts, subtract, &f);
    return (size_t)len_of(&f.to);
}

static size_t encode_values(const fedcodec_job *job) {
    fedcodec_add(job->residual, job->x, job->n);
    job->dst[0] = ONLY_VALUES;
    fedcodec_store_values(job->dst + 1, job->residual, job->n);
    memset(job->residual, 0, job->n * sizeof *job->residual);
    return values_len(job->n);
}

static fed_status powersgd_encode(const fedcodec_job *job, size_t *len) {
    const product to = product_for(job->param, job->n);
    assert(job->scanned || job->n == 0);
    if (job->max > 0.0f && !is_shorter(&to)) {
        *len = encode_values(job);
    } else if (job->max >= SMALLEST && job->max < LIMIT) {
        *len = encode_product(job, to);
    } else {
        fedcodec_add(job->residual, job->x, job->n);
        job->dst[0] = 0;
        *len = 1;
    }
    return FED_OK;
}

const fedcodec_vtable FEDCODEC_VTABLE(powersgd) = {
    .id = FEDCODEC_ID_powersgd,
    .name = "powersgd",
    .about = "a matrix as the product of two narrow ones (PowerSGD); vectors as they are",
    .params = powersgd_params,
    .rows_param = 1 + PARAM_ROWS,
    .feedback = true,
    .bound = powersgd_bound,
    .work_size = powersgd_work_size,
    .scan = fedcodec_scan_sum,
    .absorb = fedcodec_absorb,
    .encode = powersgd_encode,
    .check = powersgd_check,
    .decode = powersgd_decode,
    .axpy = powersgd_axpy,
    .fold = powersgd_fold,
};
