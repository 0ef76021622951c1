/* Treat values without a shape as a matrix. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_MATRIX_H
#define FEDCODEC_MATRIX_H

#include <math.h>
#include <stddef.h>

/** Return the rows of the matrix of n values that is as square as possible. The result is the
 * largest divisor of n that is not above its square root; 0 for n = 0. */
static inline size_t fedcodec_square_rows(size_t n) {
    size_t rows = (size_t)sqrt((double)n);
    while (rows > 1 && n % rows != 0) {
        rows--;
    }
    return rows;
}

#endif
