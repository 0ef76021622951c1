/* Reference code of the codec powersgd. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_powersgd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "reference_values.h"

typedef struct matrix {
    size_t rows, columns;
    float *v;
} matrix;

static float *at(const matrix *m, size_t i, size_t j) {
    return &m->v[i * m->columns + j];
}

static matrix matrix_of(size_t rows, size_t columns) {
    return (matrix){rows, columns, fed_reference_make(rows * columns, sizeof(float))};
}

/* Return v, if `narrow` rounded to bfloat16, ties to even. */
static float rounded(bool narrow, float v) {
    if (!narrow) {
        return v;
    }
    uint32_t bits = fed_reference_bits(v), low = bits & 0xffff, high = bits - low;
    bool up = low > 0x8000 || (low == 0x8000 && (high >> 16 & 1) == 1);
    high += up ? 0x10000 : 0;
    memcpy(&v, &high, sizeof v);
    return v;
}

static size_t put(uint8_t *dst, size_t len, bool narrow, float v) {
    for (unsigned k = narrow ? 16 : 0; k < 32; k += 8) {
        dst[len++] = (uint8_t)(fed_reference_bits(v) >> k);
    }
    return len;
}

static float get(const uint8_t *src, bool narrow, size_t i) {
    uint32_t bits = 0;
    for (unsigned k = 0; k < (narrow ? 2 : 4); k++) {
        bits |= (uint32_t)src[i * (narrow ? 2 : 4) + k] << (8 * k + (narrow ? 16 : 0));
    }
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* P = M Q, each sum in 16 parts. */
static void make_p(const matrix *m, const matrix *q, matrix *p) {
    for (size_t i = 0; i < m->rows; i++) {
        for (size_t k = 0; k < q->columns; k++) {
            float part[16] = {0.0f};
            for (size_t j = 0; j < m->columns; j++) {
                part[j % 16] += *at(m, i, j) * *at(q, j, k);
            }
            for (size_t width = 8; width > 0; width /= 2) {
                for (size_t l = 0; l < width; l++) {
                    part[l] += part[l + width];
                }
            }
            *at(p, i, k) = part[0];
        }
    }
}

/* Q = M^T P */
static void make_q(const matrix *m, const matrix *p, matrix *q) {
    for (size_t j = 0; j < m->columns; j++) {
        for (size_t k = 0; k < q->columns; k++) {
            float sum = 0.0f;
            for (size_t i = 0; i < m->rows; i++) {
                sum += *at(m, i, j) * *at(p, i, k);
            }
            *at(q, j, k) = sum;
        }
    }
}

/* Return the dot product of columns a and b, in 16 partial sums. */
static double dot(const matrix *p, size_t a, size_t b) {
    double part[16] = {0.0}, sum = 0.0;
    for (size_t i = 0; i < p->rows; i++) {
        part[i % 16] += (double)*at(p, i, a) * (double)*at(p, i, b);
    }
    for (size_t l = 0; l < 16; l++) {
        sum += part[l];
    }
    return sum;
}

/* Make the columns orthonormal, and drop those that depend, or almost, on earlier ones. Returns how
 * many are left. They are at the front. */
static size_t orthonormalise(matrix *p, size_t rank) {
    size_t kept = 0;
    for (size_t k = 0; k < rank; k++) {
        for (size_t i = 0; i < p->rows; i++) {
            *at(p, i, kept) = *at(p, i, k);
        }
        double before = sqrt(dot(p, kept, kept));
        for (size_t time = 0; time < 2; time++) {
            for (size_t other = 0; other < kept; other++) {
                float along = (float)dot(p, kept, other);
                for (size_t i = 0; i < p->rows; i++) {
                    *at(p, i, kept) -= along * *at(p, i, other);
                }
            }
        }
        double length = sqrt(dot(p, kept, kept));
        if (length > ldexp(before, -16)) {
            for (size_t i = 0; i < p->rows; i++) {
                *at(p, i, kept) = (float)((double)*at(p, i, kept) / length);
            }
            kept++;
        }
    }
    return kept;
}

/* Frees m. */
static matrix first_columns(matrix m, size_t columns) {
    matrix some = matrix_of(m.rows, columns);
    for (size_t i = 0; i < m.rows; i++) {
        for (size_t k = 0; k < columns; k++) {
            *at(&some, i, k) = *at(&m, i, k);
        }
    }
    free(m.v);
    return some;
}

static void each(matrix *m, bool narrow, float factor) {
    for (size_t i = 0; i < m->rows * m->columns; i++) {
        m->v[i] = rounded(narrow, m->v[i] * factor);
    }
}

static matrix drawn(size_t rows, size_t rank, float max, float up) {
    fed_rng rng;
    fed_rng_init(&rng, fed_reference_bits(max), 0, 0);
    matrix q = matrix_of(rows, rank);
    for (size_t k = 0; k < rank; k++) {
        for (size_t j = 0; j < rows; j++) {
            *at(&q, j, k) = ldexpf((float)(int32_t)fed_rng_u32(&rng), -31) * up;
        }
    }
    return q;
}

static size_t encode_product(const double *param, const matrix *m, size_t rank, float max,
                             uint8_t *out) {
    const bool narrow = param[2] > 0.0;
    const float up = ldexpf(1.0f, 127 - (int)(fed_reference_bits(max) >> 23));
    matrix q = drawn(m->columns, rank, max, up), p = matrix_of(m->rows, rank);
    for (size_t step = 0; step < (size_t)param[1]; step++) {
        each(&q, false, step > 0 ? up : 1.0f);
        make_p(m, &q, &p);
        rank = orthonormalise(&p, rank);
        p = first_columns(p, rank);
        q = first_columns(q, rank);
        each(&p, narrow, 1.0f);
        make_q(m, &p, &q);
    }
    each(&q, narrow, 1.0f);
    size_t len = 1;
    out[0] = (uint8_t)rank;
    if (rank > 0) {
        out[len++] = narrow ? 1 : 0;
        for (unsigned k = 0; k < 4; k++) {
            out[len++] = (uint8_t)(m->rows >> 8 * k);
        }
    }
    for (size_t k = 0; k < rank; k++) {
        for (size_t i = 0; i < p.rows; i++) {
            len = put(out, len, narrow, *at(&p, i, k));
        }
    }
    for (size_t k = 0; k < rank; k++) {
        for (size_t j = 0; j < q.rows; j++) {
            len = put(out, len, narrow, *at(&q, j, k));
        }
    }
    free(p.v);
    free(q.v);
    return len;
}

static size_t rows_of(double wanted, size_t n) {
    if (wanted > 0.0) {
        return n % (size_t)wanted == 0 && n > 0 ? (size_t)wanted : n;
    }
    size_t rows = n;
    for (size_t k = 1; k * k <= n; k++) {
        rows = n % k == 0 ? k : rows;
    }
    return rows;
}

uint8_t *fed_reference_powersgd_encode(const double *param, float *residual, size_t n,
                                       size_t *len) {
    const size_t rank = (size_t)param[0], rows = rows_of(param[3], n);
    const size_t columns = rows > 0 ? n / rows : 0;
    const size_t factors = 6 + rank * (rows + columns) * (param[2] > 0.0 ? 2 : 4);
    const matrix m = {rows, columns, residual};
    float max = 0.0f, *y = fed_reference_make(n, sizeof *y);
    for (size_t i = 0; i < n; i++) {
        max = fmaxf(max, fabsf(residual[i]));
    }
    uint8_t *out = fed_reference_make(7 + 4 * n, 1);
    *len = 1;
    if (max > 0.0f && factors >= 1 + 4 * n) {
        out[0] = 255;
        for (size_t i = 0; i < n; i++) {
            *len = put(out, *len, false, residual[i]);
        }
    } else if (max >= ldexpf(1.0f, -100) && max < ldexpf(1.0f, 90)) {
        *len = encode_product(param, &m, rank, max, out);
    }
    fed_reference_powersgd_decode(out, y, n);
    for (size_t i = 0; i < n; i++) {
        residual[i] -= y[i];
    }
    free(y);
    return out;
}

void fed_reference_powersgd_decode(const uint8_t *src, float *y, size_t n) {
    const size_t rank = src[0];
    for (size_t i = 0; i < n; i++) {
        y[i] = rank == 255 ? get(src + 1, false, i) : 0.0f;
    }
    if (rank == 0 || rank == 255) {
        return;
    }
    const bool narrow = src[1] == 1;
    const size_t rows = src[2] | (size_t)src[3] << 8 | (size_t)src[4] << 16 | (size_t)src[5] << 24;
    const size_t columns = n / rows;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            for (size_t k = 0; k < rank; k++) {
                float p = get(src + 6, narrow, k * rows + i);
                float q = get(src + 6, narrow, rank * rows + k * columns + j);
                y[i * columns + j] += p * q;
            }
        }
    }
}
