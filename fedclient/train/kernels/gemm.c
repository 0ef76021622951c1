/* Products of matrices, one of which is packed: each tile of the result c stays in registers for
 * the whole sum. Also makes the pairs of bfloat16 that products read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/product.h"

/*
 * A panel holds up to PANEL columns of b, rounded up to whole vectors, row after row; a tile reads
 * it from start to end. Columns past n are 0. All panels but the last are PANEL wide.
 */
enum { ROWS = LANES == 16 ? 8 : 4 };

#ifdef FEDTRAIN_PRODUCTS

enum { INFINITY_BITS = 0x7f800000, QUIET_BIT = 0x400000 };

/* Round each lane to the nearest bfloat16, to even on a tie, in its upper half. NaN stays NaN. */
KERNEL_INLINE ivec nearest(vec v) {
    const ivec bits = (ivec)v, odd = (bits >> 16) & 1;
    const ivec is_nan = (bits & INT32_MAX) > (ivec){0} + INFINITY_BITS;
    return ivec_select(is_nan, bits | QUIET_BIT, bits + 0x7fff + odd) & (int32_t)0xffff0000;
}

KERNEL_INLINE vec pair_of(vec first, vec second) {
    return (vec)(((nearest(first) >> 16) & 0xffff) | nearest(second));
}

void PRODUCT(pairs)(const float *x, size_t n, size_t apart, float *pairs) {
    const size_t both = n > apart ? n - apart : 0;
    size_t i = 0;
    for (; i + LANES <= both; i += LANES) {
        vec_store(pairs + i, pair_of(vec_load(x + i), vec_load(x + i + apart)));
    }
    for (; i < n; i += LANES) {
        const size_t left = kernel_smaller(n - i, LANES);
        const size_t seconds = i < both ? kernel_smaller(both - i, LANES) : 0;
        const vec second = seconds > 0 ? vec_load_first(x + i + apart, seconds) : (vec){0};
        vec_store_first(pairs + i, pair_of(vec_load_first(x + i, left), second), left);
    }
}

#endif

static size_t panel_vectors(size_t columns) {
    size_t vectors = (columns + LANES - 1) / LANES;
    return vectors < VECTORS ? vectors : VECTORS;
}

/* Pack columns row by row, for a b whose rows are contiguous. */
static void pack_rows(const float *b, size_t row, size_t k, size_t columns, float *panel) {
    const size_t width = panel_vectors(columns) * LANES;
    for (size_t l = 0; l < k; l++, b += row, panel += width) {
        for (size_t v = 0; v < width; v += LANES) {
            size_t left = columns - v;
            vec_store(panel + v, vec_load_first(b + v, left < LANES ? left : LANES));
        }
    }
}

/* Pack a b whose columns are contiguous: stores are whole vectors, loads single values. */
static void pack_columns(const float *b, size_t column, size_t k, size_t columns, float *panel) {
    const size_t width = panel_vectors(columns) * LANES;
    for (size_t v = 0; v < width; v += LANES) {
        size_t count = columns - v < LANES ? columns - v : LANES;
        const float *from = b + v * column;
        for (size_t l = 0; l < k; l++) {
            float *to = panel + l * width + v;
            for (size_t j = 0; j < count; j++) {
                to[j] = from[j * column + l];
            }
            for (size_t j = count; j < LANES; j++) {
                to[j] = 0;
            }
        }
    }
}

void PRODUCT(gemm_pack)(const float *b, size_t row, size_t column, size_t k, size_t n,
                        float *packed) {
    for (size_t j = 0; j < n; j += PANEL) {
        size_t columns = n - j < PANEL ? n - j : PANEL;
        if (column == 1) {
            pack_rows(b + j, row, k, columns, packed + j * k);
        } else {
            pack_columns(b + j * column, column, k, columns, packed + j * k);
        }
#ifdef FEDTRAIN_PRODUCTS
        const size_t width = panel_vectors(columns) * LANES;
        PRODUCT(pairs)(packed + j * k, k * width, width, packed + j * k);
#endif
    }
}

/* Compute a tile of c: `rows` rows and `vectors` vectors, the last of which has `lanes` lanes. */
KERNEL_INLINE void tile(const fedtrain_gemm *g, const float *a, const float *panel,
                        const float *start, float *c, size_t lanes, const size_t rows,
                        const size_t vectors) {
    vec sum[ROWS][VECTORS] = {0};
    const size_t a_row = g->a_row, a_step = PAIR * g->a_column;
    for (size_t l = 0; l < g->k; l += PAIR, a += a_step, panel += PAIR * vectors * LANES) {
        KERNEL_UNROLL
        for (size_t pass = 0; pass < PASSES; pass++) {
            vec value[VECTORS];
            KERNEL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                value[v] = vec_half(vec_load(panel + v * LANES), pass);
            }
            KERNEL_UNROLL
            for (size_t r = 0; r < rows; r++) {
                const vec left = vec_half(vec_all(a + r * a_row), pass);
                KERNEL_UNROLL
                for (size_t v = 0; v < vectors; v++) {
                    sum[r][v] = vec_add_product(sum[r][v], left, value[v]);
                }
            }
        }
    }
    KERNEL_UNROLL
    for (size_t r = 0; r < rows; r++) {
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            size_t width = v + 1 < vectors ? LANES : lanes;
            float *to = c + r * g->c_row + v * LANES;
            vec first = {0};
            if (start != NULL) {
                first = vec_load_first(start + r * g->start_row + v * LANES, width);
            }
            vec_store_first(to, first + sum[r][v], width);
        }
    }
}

KERNEL_INLINE void panel_rows(const fedtrain_gemm *g, const float *a, const float *panel,
                              const float *start, float *c, size_t lanes, const size_t vectors) {
    size_t i = 0;
    for (size_t rows = ROWS; rows > 0; rows /= 2) {
        for (; i + rows <= g->m; i += rows) {
            const float *from = start != NULL ? start + i * g->start_row : NULL;
            const float *left = a + i * g->a_row;
            float *to = c + i * g->c_row;
            switch (rows) {
            case 1:
                tile(g, left, panel, from, to, lanes, 1, vectors);
                break;
            case 2:
                tile(g, left, panel, from, to, lanes, 2, vectors);
                break;
            case 4:
                tile(g, left, panel, from, to, lanes, 4, vectors);
                break;
            default:
                tile(g, left, panel, from, to, lanes, ROWS, vectors);
                break;
            }
        }
    }
}

void PRODUCT(gemm)(const fedtrain_gemm *g, const float *a, const float *packed, float *c) {
    for (size_t j = 0; j < g->n; j += PANEL) {
        const float *start = g->start != NULL ? g->start + j : NULL, *panel = packed + j * g->k;
        size_t vectors = panel_vectors(g->n - j);
        size_t last = g->n - j - (vectors - 1) * LANES;
        size_t lanes = last < LANES ? last : LANES;
        switch (vectors) {
        case 1:
            panel_rows(g, a, panel, start, c + j, lanes, 1);
            break;
        case 2:
            panel_rows(g, a, panel, start, c + j, lanes, 2);
            break;
        default:
            panel_rows(g, a, panel, start, c + j, lanes, VECTORS);
            break;
        }
    }
}
