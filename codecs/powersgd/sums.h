/* powersgd's sums, each in a fixed order, so that every machine gets the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_POWERSGD_SUMS_H
#define FEDCODEC_POWERSGD_SUMS_H

#include <stddef.h>
#include <string.h>

enum {
    POWERSGD_PAIR = 2,  /* rows of M, and columns of Q, that are multiplied together */
    POWERSGD_ROWS = 4,  /* rows of M that are added up together */
    POWERSGD_LANES = 16 /* number of partial sums */
};

/* The dot products of two rows with two columns, each in 16 partial sums. Partial sum l adds the
 * products at l, l + 16 and so on. The partial sums are kept as two vectors, since additions that
 * need not wait for each other run in parallel. */
typedef float powersgd_lanes __attribute__((vector_size(4 * POWERSGD_LANES / 2)));
typedef struct powersgd_sums {
    powersgd_lanes part[POWERSGD_PAIR][POWERSGD_PAIR][2];
} powersgd_sums;

static inline void powersgd_add_products(powersgd_sums *to, const float *m0, const float *m1,
                                         const float *q0, const float *q1) {
    for (size_t h = 0; h < 2; h++) {
        const size_t at = h * POWERSGD_LANES / 2;
        powersgd_lanes a0, a1, b0, b1;
        memcpy(&a0, m0 + at, sizeof a0);
        memcpy(&a1, m1 + at, sizeof a1);
        memcpy(&b0, q0 + at, sizeof b0);
        memcpy(&b1, q1 + at, sizeof b1);
        to->part[0][0][h] += a0 * b0;
        to->part[0][1][h] += a0 * b1;
        to->part[1][0][h] += a1 * b0;
        to->part[1][1][h] += a1 * b1;
    }
}

/* Add up 16 partial sums in a fixed order: l and l + 8, then l and l + 4, and so on. */
static inline float powersgd_add_parts(const powersgd_lanes part[2]) {
    float sum[POWERSGD_LANES / 2];
    const powersgd_lanes both = part[0] + part[1];
    memcpy(sum, &both, sizeof sum);
    for (size_t l = 0; l < 4; l++) {
        sum[l] += sum[l + 4];
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* Compute the dot products of two rows with two columns of n values; zeros pad the last step. */
static inline void powersgd_multiply_pairs(const float *const row[POWERSGD_PAIR],
                                           const float *const q[POWERSGD_PAIR], size_t n,
                                           float to[POWERSGD_PAIR][POWERSGD_PAIR]) {
    powersgd_sums all = {{{{{0}}}}};
    float rest[2 * POWERSGD_PAIR][POWERSGD_LANES] = {{0.0f}};
    const size_t whole = n / POWERSGD_LANES * POWERSGD_LANES;
    for (size_t j = 0; j < whole; j += POWERSGD_LANES) {
        powersgd_add_products(&all, row[0] + j, row[1] + j, q[0] + j, q[1] + j);
    }
    for (size_t t = 0; t < POWERSGD_PAIR; t++) {
        memcpy(rest[t], row[t] + whole, (n - whole) * sizeof(float));
        memcpy(rest[POWERSGD_PAIR + t], q[t] + whole, (n - whole) * sizeof(float));
    }
    powersgd_add_products(&all, rest[0], rest[1], rest[2], rest[3]);
    for (size_t t = 0; t < POWERSGD_PAIR * POWERSGD_PAIR; t++) {
        to[t / POWERSGD_PAIR][t % POWERSGD_PAIR] =
            powersgd_add_parts(all.part[t / POWERSGD_PAIR][t % POWERSGD_PAIR]);
    }
}

/* q[j] += p times four rows of M, added in the order of the rows. */
static inline void powersgd_add_rows(const float *const row[POWERSGD_ROWS],
                                     const float p[POWERSGD_ROWS], size_t n, float *restrict q) {
    const float *restrict m0 = row[0], *restrict m1 = row[1];
    const float *restrict m2 = row[2], *restrict m3 = row[3];
    for (size_t j = 0; j < n; j++) {
        q[j] = q[j] + p[0] * m0[j] + p[1] * m1[j] + p[2] * m2[j] + p[3] * m3[j];
    }
}

/* Return the sum of a[i] * b[i] in binary64, added up in 16 partial sums. */
static inline double powersgd_dot(const float *restrict a, const float *restrict b, size_t n) {
    double lane[POWERSGD_LANES] = {0.0}, sum = 0.0;
    const size_t whole = n / POWERSGD_LANES * POWERSGD_LANES;
    for (size_t i = 0; i < whole; i += POWERSGD_LANES) {
        for (size_t l = 0; l < POWERSGD_LANES; l++) {
            lane[l] += (double)a[i + l] * (double)b[i + l];
        }
    }
    for (size_t i = whole; i < n; i++) {
        lane[i - whole] += (double)a[i] * (double)b[i];
    }
    for (size_t l = 0; l < POWERSGD_LANES; l++) {
        sum += lane[l];
    }
    return sum;
}

#endif
