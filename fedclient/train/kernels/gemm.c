/* Products of matrices, one of them packed: tiles of c stay in registers for all of k. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"

/*
 * A panel is up to PANEL columns of b, rounded up to whole vectors, row after row: a tile reads it
 * from its start to its end. What is past n is 0. All panels but the last are PANEL wide.
 */
enum { ROWS = LANES == 16 ? 8 : 4 };

static size_t panel_vectors(size_t columns) {
    size_t vectors = (columns + LANES - 1) / LANES;
    return vectors < VECTORS ? vectors : VECTORS;
}

/* Row by row, where b's rows lie side by side. */
static void pack_rows(const float *b, size_t row, size_t k, size_t columns, float *panel) {
    const size_t width = panel_vectors(columns) * LANES;
    for (size_t l = 0; l < k; l++, b += row, panel += width) {
        for (size_t v = 0; v < width; v += LANES) {
            size_t left = columns - v;
            vec_store(panel + v, vec_load_first(b + v, left < LANES ? left : LANES));
        }
    }
}

/* A vector of columns at a time, where b's columns do: whole vectors are written, few are read. */
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

void KERNEL(gemm_pack)(const float *b, size_t row, size_t column, size_t k, size_t n,
                       float *packed) {
    for (size_t j = 0; j < n; j += PANEL) {
        size_t columns = n - j < PANEL ? n - j : PANEL;
        if (column == 1) {
            pack_rows(b + j, row, k, columns, packed + j * k);
        } else {
            pack_columns(b + j * column, column, k, columns, packed + j * k);
        }
    }
}

/* `rows` rows and `vectors` vectors of c; of the last vector `lanes` lanes. */
KERNEL_INLINE void tile(const fedtrain_gemm *g, const float *a, const float *panel,
                        const float *start, float *c, size_t lanes, const size_t rows,
                        const size_t vectors) {
    vec sum[ROWS][VECTORS] = {0};
    const size_t a_row = g->a_row, a_column = g->a_column;
    for (size_t l = 0; l < g->k; l++, a += a_column, panel += vectors * LANES) {
        vec value[VECTORS];
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            value[v] = vec_load(panel + v * LANES);
        }
        KERNEL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            KERNEL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                sum[r][v] += a[r * a_row] * value[v];
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

/* All rows of a panel. */
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

void KERNEL(gemm)(const fedtrain_gemm *g, const float *a, const float *packed, float *c) {
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
