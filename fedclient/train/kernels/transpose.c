/* Transposes matrices, a square of LANES x LANES values at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"

/* Swap halves of two blocks: the lanes of row j whose bit h is set, with the lanes of row j + h
 * whose bit h is clear. */
#define EXCHANGE(v, j, h)                                                                          \
    do {                                                                                           \
        const vec a = (v)[j], b = (v)[(j) + (h)];                                                  \
        (v)[j] = __builtin_shufflevector(a, b, KERNEL_ALL(h, 0));                                  \
        (v)[(j) + (h)] = __builtin_shufflevector(a, b, KERNEL_ALL(h, h));                          \
    } while (0)

KERNEL_INLINE void transpose_square(vec v[LANES]) {
#if FEDTRAIN_LANES >= 16
    KERNEL_UNROLL
    for (int j = 0; j < 8; j++) {
        EXCHANGE(v, j, 8);
    }
#endif
#if FEDTRAIN_LANES >= 8
    KERNEL_UNROLL
    for (int j = 0; j < LANES / 2; j++) {
        EXCHANGE(v, j / 4 * 8 + j % 4, 4);
    }
#endif
    KERNEL_UNROLL
    for (int j = 0; j < LANES / 2; j++) {
        EXCHANGE(v, j / 2 * 4 + j % 2, 2);
    }
    KERNEL_UNROLL
    for (int j = 0; j < LANES / 2; j++) {
        EXCHANGE(v, j * 2, 1);
    }
}

static inline size_t row_at(const fedtrain_rows *r, size_t row) {
    return (r->order != NULL ? r->order[row] : row) * r->step;
}

static void turn_square(const float *x, const fedtrain_rows *from, float *y,
                        const fedtrain_rows *to, size_t row, size_t column) {
    vec v[LANES];
    KERNEL_UNROLL
    for (size_t k = 0; k < LANES; k++) {
        v[k] = vec_load(x + row_at(from, row + k) + column);
    }
    transpose_square(v);
    KERNEL_UNROLL
    for (size_t k = 0; k < LANES; k++) {
        vec_store(y + row_at(to, column + k) + row, v[k]);
    }
}

static void turn_one_by_one(const float *x, const fedtrain_rows *from, size_t rows, size_t columns,
                            float *y, const fedtrain_rows *to) {
    for (size_t r = 0; r < rows; r++) {
        const float *values = x + row_at(from, r);
        for (size_t c = 0; c < columns; c++) {
            y[row_at(to, c) + r] = values[c];
        }
    }
}

/* If rows or columns are no whole number of vectors, the last square overlaps the one before. */
void KERNEL(transpose)(const float *x, fedtrain_rows from, size_t rows, size_t columns, float *y,
                       fedtrain_rows to) {
    if (rows < LANES || columns < LANES) {
        turn_one_by_one(x, &from, rows, columns, y, &to);
        return;
    }
    for (size_t c = 0; c < columns; c += LANES) {
        for (size_t r = 0; r < rows; r += LANES) {
            turn_square(x, &from, y, &to, kernel_smaller(r, rows - LANES),
                        kernel_smaller(c, columns - LANES));
        }
    }
}
