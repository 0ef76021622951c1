/* Register tiles, in which convolutions and dense layers keep their sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_TILE_H
#define FEDTRAIN_TILE_H

#include "fed/small.h"
#include "fedclient/train/kernels/product.h"

/* A tile holds `height` x `vectors` sums, as many as leave registers for their operands. AVX-512
 * has 32 registers, AVX2 16. */
enum { WIDE = LANES == 16, MAX_HEIGHT = 16, MAX_VECTORS = 3 };
enum { HEIGHT_1 = WIDE ? 16 : 8, HEIGHT_2 = WIDE ? 8 : 4 }; /* of a tile 1 or 2 vectors wide */
enum { HEIGHT_3 = WIDE ? 8 : 4 };

/* The widest tile of a small build is 1 vector wide. */
#define WIDEST (FED_SMALL ? 1 : MAX_VECTORS)

/* Return the width of blocks of equal width, none of which is over WIDEST vectors. */
KERNEL_INLINE size_t tile_width(size_t vectors) {
    const size_t blocks = (vectors - 1) / WIDEST + 1; /* vectors is not 0 */
    return (vectors - 1) / blocks + 1;
}

typedef vec tile[MAX_HEIGHT][MAX_VECTORS];

/* next: floats to the value for the tile's next row. deep: floats to the next term of the sum. */
typedef struct operand {
    const float *at;
    size_t next, deep;
} operand;

/* sum[h][v] += sum_k a[h, k] * b[k, v], k in steps of PAIR. Rows from `half` on have a pointer of
 * their own, to use the first half's offsets: registers do not suffice for all offsets. */
KERNEL_INLINE void tile_add(tile sum, operand a, operand b, size_t depth, const size_t height,
                            const size_t vectors) {
    const size_t half = (height + 1) / 2;
    const float *upper = a.at, *lower = kernel_apart(a.at + half * a.next);
    const size_t a_step = PAIR * a.deep, b_step = PAIR * b.deep;
    for (size_t k = 0; k < depth; k += PAIR, upper += a_step, lower += a_step, b.at += b_step) {
        KERNEL_UNROLL
        for (size_t pass = 0; pass < PASSES; pass++) {
            vec row[MAX_VECTORS];
            KERNEL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                row[v] = vec_half(vec_load(b.at + v * LANES), pass);
                /* Without vec_apart the compiler would load row[v] once for each of the 2 rows. */
                row[v] = height == 2 ? vec_apart(row[v]) : row[v];
            }
            KERNEL_UNROLL
            for (size_t h = 0; h < height; h++) {
                const float *at = h < half ? upper + h * a.next : lower + (h - half) * a.next;
                const vec value = vec_half(vec_all(at), pass);
                KERNEL_UNROLL
                for (size_t v = 0; v < vectors; v++) {
                    sum[h][v] = vec_add_product(sum[h][v], value, row[v]);
                }
            }
        }
    }
}

/* Each row's address comes from the one before: registers do not suffice for all at once. */
KERNEL_INLINE void tile_load(tile sum, const float *from, size_t step, const size_t height,
                             const size_t vectors) {
    KERNEL_UNROLL
    for (size_t h = 0; h < height; h++, from = kernel_apart(from + step)) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[h][v] = vec_load(from + v * LANES);
        }
    }
}

/* Add the tile in memory. */
KERNEL_INLINE void tile_gather(tile sum, const float *from, size_t step, const size_t height,
                               const size_t vectors) {
    KERNEL_UNROLL
    for (size_t h = 0; h < height; h++, from = kernel_apart(from + step)) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[h][v] += vec_load(from + v * LANES);
        }
    }
}

KERNEL_INLINE void tile_store(tile sum, float *to, size_t step, const size_t height,
                              const size_t vectors) {
    KERNEL_UNROLL
    for (size_t h = 0; h < height; h++, to = kernel_apart_to(to + step)) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            vec_store(to + v * LANES, sum[h][v]);
        }
    }
}

#endif
