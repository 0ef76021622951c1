/* Convolutions with 3x3 filters by Winograd's F(2x2, 3x3), forward and backward. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/tile.h"

/*
 * Lavin and Gray 2016. A tile of 2x2 outputs y reads 4x4 inputs d. With g the filter,
 *
 *     y = A' [ (G g G') * (B' d B) ] A
 *
 * where * multiplies element by element, so 16 multiplications do the work of 36. For all tiles,
 * inputs and outputs each of the 16 elements is a product of matrices. The gradient of g is that
 * of this sum: G' [ (A dy A') * (B' d B) ] G.
 *
 *     A' = | 1 1  1  0 |   B' = | 1  0 -1  0 |   G = | 1    0   0 |
 *          | 0 1 -1 -1 |        | 0  1  1  0 |       | 1/2  1/2 1/2 |
 *                               | 0 -1  1  0 |       | 1/2 -1/2 1/2 |
 *                               | 0  1  0 -1 |       | 0    0   1 |
 */

enum { SIDE = 4, ELEMENTS = FEDTRAIN_ELEMENTS, TILES = FEDTRAIN_TILES };
enum { TAPS = 3, LINE = FEDTRAIN_SLACK };

/* Floats from a block's element to its next one. Not a power of 2, or all elements would compete
 * for the same lines of the cache. */
KERNEL_INLINE size_t apart_of(size_t channels) {
    return TILES * channels + LINE;
}

typedef struct place {
    size_t picture, row, column; /* of a tile */
} place;

KERNEL_INLINE place next_place(const fedtrain_winograd *w, place at) {
    at.column++;
    if (at.column == w->columns) {
        at.column = 0;
        at.row++;
    }
    if (at.row == w->rows) {
        at.row = 0;
        at.picture++;
    }
    return at;
}

/* The combination of a row or column of d: B' d. */
KERNEL_INLINE void combine_inputs(const vec d[SIDE], vec to[SIDE]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
}

/* V = B' d B of one tile. row[i] points to the tile's second input in row i. `left`, `right`: the
 * first or last column of d lies outside the picture, and is 0. */
KERNEL_INLINE void input_tile(const float *const row[SIDE], size_t channels, float *v, size_t apart,
                              const bool left, const bool right) {
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[SIDE][SIDE]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < SIDE; j++) {
            vec d[SIDE];
            KERNEL_UNROLL
            for (size_t i = 0; i < SIDE; i++) {
                const bool outside = (left && j == 0) || (right && j == SIDE - 1);
                d[i] = outside ? (vec){0} : vec_load(row[i] + j * channels + c - channels);
            }
            combine_inputs(d, half[j]);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < SIDE; i++) {
            const vec d[SIDE] = {half[0][i], half[1][i], half[2][i], half[3][i]};
            vec whole[SIDE];
            combine_inputs(d, whole);
            KERNEL_UNROLL
            for (size_t j = 0; j < SIDE; j++) {
                vec_store(v + (i * SIDE + j) * apart + c, whole[j]);
            }
        }
    }
}

/* Fill in V, float32[ELEMENTS, apart], for `count` tiles. */
static void transform_inputs(const fedtrain_winograd *w, const float *x, size_t channels, place at,
                             size_t count, float *v) {
    const size_t apart = apart_of(channels), line = 2 * w->columns * channels;
    for (size_t t = 0; t < count; t++, v += channels, at = next_place(w, at)) {
        const float *picture = x + at.picture * 2 * w->rows * line;
        const float *row[SIDE];
        for (size_t i = 0; i < SIDE; i++) {
            const size_t y = 2 * at.row + i; /* counted from the row above the picture */
            row[i] = y == 0 || y > 2 * w->rows
                         ? w->zeros + channels
                         : picture + (y - 1) * line + 2 * at.column * channels;
        }
        const bool left = at.column == 0, right = at.column + 1 == w->columns;
        if (left && right) {
            input_tile(row, channels, v, apart, true, true);
        } else if (left) {
            input_tile(row, channels, v, apart, true, false);
        } else if (right) {
            input_tile(row, channels, v, apart, false, true);
        } else {
            input_tile(row, channels, v, apart, false, false);
        }
    }
}

/* y = A' M A of one tile, added to start, or to y where start is NULL. */
KERNEL_INLINE void output_tile(const float *m, size_t apart, const float *start, float *y,
                               size_t line, size_t channels) {
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[2][SIDE];
        KERNEL_UNROLL
        for (size_t j = 0; j < SIDE; j++) {
            vec e[SIDE];
            KERNEL_UNROLL
            for (size_t i = 0; i < SIDE; i++) {
                e[i] = vec_load(m + (i * SIDE + j) * apart + c);
            }
            half[0][j] = e[0] + e[1] + e[2];
            half[1][j] = e[1] - e[2] - e[3];
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < 2; i++) {
            float *to = y + i * line + c;
            const vec *h = half[i];
            const vec first = start != NULL ? vec_load(start + c) : vec_load(to);
            const vec second = start != NULL ? first : vec_load(to + channels);
            vec_store(to, first + (h[0] + h[1] + h[2]));
            vec_store(to + channels, second + (h[1] - h[2] - h[3]));
        }
    }
}

static void transform_outputs(const fedtrain_winograd *w, const float *m, const float *start,
                              place at, size_t count, float *y) {
    const size_t channels = w->out, apart = apart_of(channels), line = 2 * w->columns * channels;
    for (size_t t = 0; t < count; t++, m += channels, at = next_place(w, at)) {
        float *to = y + (at.picture * 2 * w->rows + 2 * at.row) * line + 2 * at.column * channels;
        if (start != NULL) {
            output_tile(m, apart, start, to, line, channels);
        } else {
            output_tile(m, apart, NULL, to, line, channels);
        }
    }
}

/* A dy A' of one tile. */
KERNEL_INLINE void grad_tile(const float *dy, size_t line, size_t channels, float *m,
                             size_t apart) {
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[2][SIDE]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < 2; j++) {
            const vec above = vec_load(dy + j * channels + c);
            const vec below = vec_load(dy + line + j * channels + c);
            half[j][0] = above;
            half[j][1] = above + below;
            half[j][2] = above - below;
            half[j][3] = -below;
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < SIDE; i++) {
            float *to = m + i * SIDE * apart + c;
            vec_store(to, half[0][i]);
            vec_store(to + apart, half[0][i] + half[1][i]);
            vec_store(to + 2 * apart, half[0][i] - half[1][i]);
            vec_store(to + 3 * apart, -half[1][i]);
        }
    }
}

static void transform_grads(const fedtrain_winograd *w, const float *dy, place at, size_t count,
                            float *m) {
    const size_t channels = w->out, apart = apart_of(channels), line = 2 * w->columns * channels;
    for (size_t t = 0; t < count; t++, m += channels, at = next_place(w, at)) {
        grad_tile(dy + (at.picture * 2 * w->rows + 2 * at.row) * line + 2 * at.column * channels,
                  line, channels, m, apart);
    }
}

/* m[t, o] = sum_i v[t, i] u[i, o] for the tiles of a block, for `vectors` vectors of outputs. */
KERNEL_INLINE void multiply_tiles(const fedtrain_winograd *w, const float *v, const float *u,
                                  float *m, size_t count, const size_t height,
                                  const size_t vectors) {
    for (size_t t = 0; t < count; t += height) {
        tile sum = {0};
        const operand inputs = {v + t * w->in, w->in, 1}, weights = {u, 0, w->out};
        tile_add(sum, inputs, weights, w->in, height, vectors);
        tile_store(sum, m + t * w->out, w->out, height, vectors);
    }
}

static void multiply(const fedtrain_winograd *w, const float *v, const float *u, float *m,
                     size_t count) {
    const size_t width = tile_width(w->out / LANES);
    for (size_t e = 0; e < ELEMENTS; e++) {
        const float *values = v + e * apart_of(w->in), *weights = u + e * w->in * w->out;
        float *to = m + e * apart_of(w->out);
        for (size_t o = 0; o < w->out; o += width * LANES) {
            switch (kernel_smaller(width, (w->out - o) / LANES)) {
            case 1:
                multiply_tiles(w, values, weights + o, to + o, count, HEIGHT_1, 1);
                break;
            case 2:
                multiply_tiles(w, values, weights + o, to + o, count, HEIGHT_2, 2);
                break;
            default:
                multiply_tiles(w, values, weights + o, to + o, count, HEIGHT_3, 3);
                break;
            }
        }
    }
}

/* du[i, o] += sum_t v[t, i] m[t, o], for `vectors` vectors of outputs. */
KERNEL_INLINE void add_products(const fedtrain_winograd *w, const float *v, const float *m,
                                float *du, size_t count, const size_t height,
                                const size_t vectors) {
    for (size_t i = 0; i < w->in; i += height) {
        tile sum;
        const operand values = {v + i, 1, w->in}, grads = {m, 0, w->out};
        tile_load(sum, du + i * w->out, w->out, height, vectors);
        tile_add(sum, values, grads, count, height, vectors);
        tile_store(sum, du + i * w->out, w->out, height, vectors);
    }
}

static void multiply_grads(const fedtrain_winograd *w, const float *v, const float *m, float *du,
                           size_t count) {
    const size_t width = tile_width(w->out / LANES);
    for (size_t e = 0; e < ELEMENTS; e++) {
        const float *values = v + e * apart_of(w->in), *grads = m + e * apart_of(w->out);
        float *to = du + e * w->in * w->out;
        for (size_t o = 0; o < w->out; o += width * LANES) {
            switch (kernel_smaller(width, (w->out - o) / LANES)) {
            case 1:
                add_products(w, values, grads + o, to + o, count, HEIGHT_1, 1);
                break;
            case 2:
                add_products(w, values, grads + o, to + o, count, HEIGHT_2, 2);
                break;
            default:
                add_products(w, values, grads + o, to + o, count, HEIGHT_3, 3);
                break;
            }
        }
    }
}

static place place_of(const fedtrain_winograd *w, size_t number) {
    const size_t in_picture = number % (w->rows * w->columns);
    return (place){number / (w->rows * w->columns), in_picture / w->columns,
                   in_picture % w->columns};
}

void KERNEL(winograd)(const fedtrain_winograd *w, const float *u, const float *start,
                      const float *x, float *y, float *scratch) {
    const size_t tiles = w->batch * w->rows * w->columns;
    float *m = scratch + ELEMENTS * apart_of(w->in);
    for (size_t first = 0; first < tiles; first += TILES) {
        const size_t count = kernel_smaller(TILES, tiles - first);
        const place at = place_of(w, first);
        transform_inputs(w, x, w->in, at, count, scratch);
        multiply(w, scratch, u, m, count);
        transform_outputs(w, m, start, at, count, y);
    }
}

void KERNEL(winograd_weight_grad)(const fedtrain_winograd *w, const float *x, const float *dy,
                                  float *du, float *scratch) {
    const size_t tiles = w->batch * w->rows * w->columns;
    float *m = scratch + ELEMENTS * apart_of(w->in);
    for (size_t first = 0; first < tiles; first += TILES) {
        const size_t count = kernel_smaller(TILES, tiles - first);
        const place at = place_of(w, first);
        transform_inputs(w, x, w->in, at, count, scratch);
        transform_grads(w, dy, at, count, m);
        multiply_grads(w, scratch, m, du, count);
    }
}

/* G g, for a row or column of the filter. */
KERNEL_INLINE void combine_taps(const vec g[TAPS], vec to[SIDE]) {
    const vec ends = 0.5F * (g[0] + g[2]), middle = 0.5F * g[1];
    to[0] = g[0];
    to[1] = ends + middle;
    to[2] = ends - middle;
    to[3] = g[2];
}

void KERNEL(winograd_weights)(size_t size, const float *packed, float *u) {
    for (size_t k = 0; k < size; k += LANES) {
        vec half[TAPS][SIDE];
        KERNEL_UNROLL
        for (size_t j = 0; j < TAPS; j++) {
            const vec g[TAPS] = {vec_load(packed + j * size + k),
                                 vec_load(packed + (TAPS + j) * size + k),
                                 vec_load(packed + (2 * TAPS + j) * size + k)};
            combine_taps(g, half[j]);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < SIDE; i++) {
            const vec g[TAPS] = {half[0][i], half[1][i], half[2][i]};
            vec whole[SIDE];
            combine_taps(g, whole);
            KERNEL_UNROLL
            for (size_t j = 0; j < SIDE; j++) {
                vec_store(u + (i * SIDE + j) * size + k, whole[j]);
            }
        }
    }
}

/* G' du, for a row or column. */
KERNEL_INLINE void combine_grads(const vec d[SIDE], vec to[TAPS]) {
    const vec sum = 0.5F * (d[1] + d[2]);
    to[0] = d[0] + sum;
    to[1] = 0.5F * (d[1] - d[2]);
    to[2] = sum + d[3];
}

void KERNEL(winograd_weights_grad)(size_t size, const float *du, float *packed) {
    for (size_t k = 0; k < size; k += LANES) {
        vec half[SIDE][TAPS];
        KERNEL_UNROLL
        for (size_t j = 0; j < SIDE; j++) {
            const vec d[SIDE] = {vec_load(du + j * size + k), vec_load(du + (SIDE + j) * size + k),
                                 vec_load(du + (2 * SIDE + j) * size + k),
                                 vec_load(du + (3 * SIDE + j) * size + k)};
            combine_grads(d, half[j]);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < TAPS; i++) {
            const vec d[SIDE] = {half[0][i], half[1][i], half[2][i], half[3][i]};
            vec whole[TAPS];
            combine_grads(d, whole);
            KERNEL_UNROLL
            for (size_t j = 0; j < TAPS; j++) {
                vec_store(packed + (i * TAPS + j) * size + k, whole[j]);
            }
        }
    }
}
