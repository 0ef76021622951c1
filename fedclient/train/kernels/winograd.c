/* Convolutions with 3x3 filters by Winograd's transform, forward and backward. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/tile.h"

/*
 * Lavin and Gray 2016. A tile of outputs y reads inputs d, two rows and two columns more. With g
 * the filter,
 *
 *     y = A' [ (G g G') * (B' d B) ] A
 *
 * where * multiplies element by element. For all tiles, inputs and outputs each of the elements is
 * a product of matrices. The gradient of g is that of this sum: G' [ (A dy A') * (B' d B) ] G.
 * A tile has 2 or 4 outputs on each side, so one side of A, B and G may be for 2, the other for 4.
 * For 2 outputs
 *
 *     A' = | 1 1  1  0 |   B' = | 1  0 -1  0 |   G = | 1    0   0 |
 *          | 0 1 -1 -1 |        | 0  1  1  0 |       | 1/2  1/2 1/2 |
 *                               | 0 -1  1  0 |       | 1/2 -1/2 1/2 |
 *                               | 0  1  0 -1 |       | 0    0   1 |
 *
 * and for 4 outputs, with the points 0, p, -p, q, -q and infinity, p = 5/8, q = 3/2, a = p p,
 * b = q q, k = 1 / (2 a (a - b)) and l = 1 / (2 b (b - a)),
 *
 *     A' = | 1 1    1    1    1    0 |   B' = | ab  0  -a-b  0   1 0 |   G = | 1/ab  0    0 |
 *          | 0 p   -p    q   -q    0 |        | 0  -pb -b    p   1 0 |       | k     kp   ka |
 *          | 0 a    a    b    b    0 |        | 0   pb -b   -p   1 0 |       | k    -kp   ka |
 *          | 0 ppp -ppp  qqq -qqq  1 |        | 0  -qa -a    q   1 0 |       | l     lq   lb |
 *                                             | 0   qa -a   -q   1 0 |       | l    -lq   lb |
 *                                             | 0   ab  0  -a-b  0 1 |       | 0     0    1 |
 *
 * Of the points with few bits these round least: 1, 2 and 1/2 round twice as much.
 */

enum { MOST = FEDTRAIN_WINOGRAD_SIDE, TILES = FEDTRAIN_TILES };
enum { TAPS = 3, LINE = FEDTRAIN_SLACK, OUTPUTS = 4 };

/* Of F(4x4), so few products are summed at most, and these sums are then added: they round less. */
enum { CHAIN = 16 };

static const float P = 0.625F, Q = 1.5F, A = 0.625F * 0.625F, B = 1.5F * 1.5F;
static const float K = 1 / (2 * 0.625F * 0.625F * (0.625F * 0.625F - 1.5F * 1.5F));
static const float L = 1 / (2 * 1.5F * 1.5F * (1.5F * 1.5F - 0.625F * 0.625F));

/* Call f with a tile's height and width as constants. */
#define WITH_TILE(w, f, ...)                                                                       \
    do {                                                                                           \
        if ((w)->width == 2) {                                                                     \
            f(w, __VA_ARGS__, 2, 2);                                                               \
        } else if ((w)->height == 2) {                                                             \
            f(w, __VA_ARGS__, 2, OUTPUTS);                                                         \
        } else {                                                                                   \
            f(w, __VA_ARGS__, OUTPUTS, OUTPUTS);                                                   \
        }                                                                                          \
    } while (0)

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

/* The first value of a tile's outputs in pictures of so many channels. */
KERNEL_INLINE size_t first_of(const fedtrain_winograd *w, place at, size_t channels,
                              const size_t height, const size_t width) {
    const size_t row = (at.picture * w->rows + at.row) * height;
    return (row * w->columns + at.column) * width * channels;
}

/* Fetch rows of the tile below into the cache: `line` floats apart, `run` floats each. The
 * processor does not foresee that a tile's rows follow each other so. */
KERNEL_INLINE void fetch_rows(const float *row, size_t rows, size_t line, size_t run,
                              const bool written) {
    for (size_t i = 0; i < rows; i++, row += line) {
        for (size_t c = 0; c < run; c += LINE) {
            if (written) {
                __builtin_prefetch(row + c, 1, 3);
            } else {
                __builtin_prefetch(row + c, 0, 3);
            }
        }
    }
}

/* B' d, for a row or column of d. */
KERNEL_INLINE void combine_inputs(const vec *d, vec *to, const size_t outputs) {
    if (outputs == 2) {
        to[0] = d[0] - d[2];
        to[1] = d[1] + d[2];
        to[2] = d[2] - d[1];
        to[3] = d[1] - d[3];
        return;
    }
    const vec even_p = d[4] - B * d[2], odd_p = d[3] - B * d[1];
    const vec even_q = d[4] - A * d[2], odd_q = d[3] - A * d[1];
    to[0] = d[4] + (A * B * d[0] - (A + B) * d[2]);
    to[1] = even_p + P * odd_p;
    to[2] = even_p - P * odd_p;
    to[3] = even_q + Q * odd_q;
    to[4] = even_q - Q * odd_q;
    to[5] = d[5] + (A * B * d[1] - (A + B) * d[3]);
}

/* V = B' d B of one tile. row[i] points to the tile's second input in row i. `left`, `right`: the
 * first or last column of d lies outside the picture, and is 0. */
KERNEL_INLINE void input_tile(const float *const *row, size_t channels, float *v, const bool left,
                              const bool right, const size_t height, const size_t width) {
    const size_t apart = apart_of(channels), rows = height + 2, columns = width + 2;
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[MOST][MOST]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < columns; j++) {
            vec d[MOST];
            KERNEL_UNROLL
            for (size_t i = 0; i < rows; i++) {
                const bool outside = (left && j == 0) || (right && j == columns - 1);
                d[i] = outside ? (vec){0} : vec_load(row[i] + j * channels + c - channels);
            }
            combine_inputs(d, half[j], height);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < rows; i++) {
            vec d[MOST], whole[MOST];
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                d[j] = half[j][i];
            }
            combine_inputs(d, whole, width);
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                vec_store(v + (i * columns + j) * apart + c, whole[j]);
            }
        }
    }
}

KERNEL_INLINE void inputs_by(const fedtrain_winograd *w, const float *x, size_t channels, place at,
                             size_t count, float *v, const size_t height, const size_t width) {
    const size_t line = width * w->columns * channels;
    for (size_t t = 0; t < count; t++, v += channels, at = next_place(w, at)) {
        const float *first = x + first_of(w, at, channels, height, width);
        const float *row[MOST];
        for (size_t i = 0; i < height + 2; i++) {
            const size_t y = height * at.row + i; /* counted from the row above the picture */
            row[i] = y == 0 || y > height * w->rows ? w->zeros + channels : first + i * line - line;
        }
        fetch_rows(first + (height + 1) * line, height, line, width * channels, false);
        const bool left = at.column == 0, right = at.column + 1 == w->columns;
        if (left && right) {
            input_tile(row, channels, v, true, true, height, width);
        } else if (left) {
            input_tile(row, channels, v, true, false, height, width);
        } else if (right) {
            input_tile(row, channels, v, false, true, height, width);
        } else {
            input_tile(row, channels, v, false, false, height, width);
        }
    }
}

/* Fill in V, float32[elements, apart], for `count` tiles. */
static void transform_inputs(const fedtrain_winograd *w, const float *x, size_t channels, place at,
                             size_t count, float *v) {
    WITH_TILE(w, inputs_by, x, channels, at, count, v);
}

/* A' m, for a row or column of m. */
KERNEL_INLINE void combine_products(const vec *m, vec *to, const size_t outputs) {
    if (outputs == 2) {
        to[0] = m[0] + m[1] + m[2];
        to[1] = m[1] - m[2] - m[3];
        return;
    }
    const vec even_p = m[1] + m[2], odd_p = m[1] - m[2];
    const vec even_q = m[3] + m[4], odd_q = m[3] - m[4];
    to[0] = m[0] + (even_p + even_q);
    to[1] = P * odd_p + Q * odd_q;
    to[2] = A * even_p + B * even_q;
    to[3] = m[5] + (P * A * odd_p + Q * B * odd_q);
}

/* y = A' M A of one tile, added to start, or to y where start is NULL. */
KERNEL_INLINE void output_tile(const float *m, const float *start, float *y, size_t line,
                               size_t channels, const size_t height, const size_t width) {
    const size_t apart = apart_of(channels), rows = height + 2, columns = width + 2;
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[MOST][OUTPUTS]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < columns; j++) {
            vec e[MOST];
            KERNEL_UNROLL
            for (size_t i = 0; i < rows; i++) {
                e[i] = vec_load(m + (i * columns + j) * apart + c);
            }
            combine_products(e, half[j], height);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < height; i++) {
            float *to = y + i * line + c;
            vec e[MOST], sum[OUTPUTS];
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                e[j] = half[j][i];
            }
            combine_products(e, sum, width);
            KERNEL_UNROLL
            for (size_t j = 0; j < width; j++, to += channels) {
                vec_store(to, (start != NULL ? vec_load(start + c) : vec_load(to)) + sum[j]);
            }
        }
    }
}

KERNEL_INLINE void outputs_by(const fedtrain_winograd *w, const float *m, const float *start,
                              place at, size_t count, float *y, const size_t height,
                              const size_t width) {
    const size_t channels = w->out, line = width * w->columns * channels;
    for (size_t t = 0; t < count; t++, m += channels, at = next_place(w, at)) {
        float *to = y + first_of(w, at, channels, height, width);
        fetch_rows(to + height * line, height, line, width * channels, true);
        if (start != NULL) {
            output_tile(m, start, to, line, channels, height, width);
        } else {
            output_tile(m, NULL, to, line, channels, height, width);
        }
    }
}

static void transform_outputs(const fedtrain_winograd *w, const float *m, const float *start,
                              place at, size_t count, float *y) {
    WITH_TILE(w, outputs_by, m, start, at, count, y);
}

/* A dy, for a row or column of dy. */
KERNEL_INLINE void spread_grads(const vec *dy, vec *to, const size_t outputs) {
    to[0] = dy[0];
    if (outputs == 2) {
        to[1] = dy[0] + dy[1];
        to[2] = dy[0] - dy[1];
        to[3] = -dy[1];
        return;
    }
    const vec even_p = dy[0] + A * dy[2], odd_p = dy[1] + A * dy[3];
    const vec even_q = dy[0] + B * dy[2], odd_q = dy[1] + B * dy[3];
    to[1] = even_p + P * odd_p;
    to[2] = even_p - P * odd_p;
    to[3] = even_q + Q * odd_q;
    to[4] = even_q - Q * odd_q;
    to[5] = dy[3];
}

/* A dy A' of one tile. */
KERNEL_INLINE void grad_tile(const float *dy, size_t line, size_t channels, float *m,
                             const size_t height, const size_t width) {
    const size_t apart = apart_of(channels), rows = height + 2, columns = width + 2;
    for (size_t c = 0; c < channels; c += LANES) {
        vec half[OUTPUTS][MOST]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < width; j++) {
            vec d[OUTPUTS];
            KERNEL_UNROLL
            for (size_t i = 0; i < height; i++) {
                d[i] = vec_load(dy + i * line + j * channels + c);
            }
            spread_grads(d, half[j], height);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < rows; i++) {
            vec d[OUTPUTS], whole[MOST];
            KERNEL_UNROLL
            for (size_t j = 0; j < width; j++) {
                d[j] = half[j][i];
            }
            spread_grads(d, whole, width);
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                vec_store(m + (i * columns + j) * apart + c, whole[j]);
            }
        }
    }
}

KERNEL_INLINE void grads_by(const fedtrain_winograd *w, const float *dy, place at, size_t count,
                            float *m, const size_t height, const size_t width) {
    const size_t channels = w->out, line = width * w->columns * channels;
    for (size_t t = 0; t < count; t++, m += channels, at = next_place(w, at)) {
        const float *from = dy + first_of(w, at, channels, height, width);
        fetch_rows(from + height * line, height, line, width * channels, false);
        grad_tile(from, line, channels, m, height, width);
    }
}

static void transform_grads(const fedtrain_winograd *w, const float *dy, place at, size_t count,
                            float *m) {
    WITH_TILE(w, grads_by, dy, at, count, m);
}

/* m[t, o] = sum_i v[t, i] u[i, o] for the tiles of a block, for `vectors` vectors of outputs. */
KERNEL_INLINE void multiply_tiles(const fedtrain_winograd *w, const float *v, const float *u,
                                  float *m, size_t count, const size_t height,
                                  const size_t vectors) {
    const size_t chain = w->height == OUTPUTS ? kernel_smaller(w->in / 4, CHAIN) : w->in;
    for (size_t t = 0; t < count; t += height) {
        float *to = m + t * w->out;
        for (size_t i = 0; i < w->in; i += chain) {
            tile sum = {0};
            const operand inputs = {v + t * w->in + i, w->in, 1};
            const operand weights = {u + i * w->out, 0, w->out};
            tile_add(sum, inputs, weights, kernel_smaller(chain, w->in - i), height, vectors);
            if (i > 0) {
                tile_gather(sum, to, w->out, height, vectors);
            }
            tile_store(sum, to, w->out, height, vectors);
        }
    }
}

static void multiply(const fedtrain_winograd *w, const float *v, const float *u, float *m,
                     size_t count) {
    const size_t width = tile_width(w->out / LANES), elements = fedtrain_winograd_elements(w);
    for (size_t e = 0; e < elements; e++) {
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
    const size_t chain = w->height == OUTPUTS ? CHAIN : count;
    for (size_t i = 0; i < w->in; i += height) {
        float *to = du + i * w->out;
        for (size_t t = 0; t < count; t += chain) {
            tile sum = {0};
            const operand values = {v + t * w->in + i, 1, w->in};
            const operand grads = {m + t * w->out, 0, w->out};
            tile_add(sum, values, grads, kernel_smaller(chain, count - t), height, vectors);
            tile_gather(sum, to, w->out, height, vectors);
            tile_store(sum, to, w->out, height, vectors);
        }
    }
}

static void multiply_grads(const fedtrain_winograd *w, const float *v, const float *m, float *du,
                           size_t count) {
    const size_t width = tile_width(w->out / LANES), elements = fedtrain_winograd_elements(w);
    for (size_t e = 0; e < elements; e++) {
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
    float *m = scratch + fedtrain_winograd_elements(w) * apart_of(w->in);
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
    float *m = scratch + fedtrain_winograd_elements(w) * apart_of(w->in);
    for (size_t first = 0; first < tiles; first += TILES) {
        const size_t count = kernel_smaller(TILES, tiles - first);
        const place at = place_of(w, first);
        transform_inputs(w, x, w->in, at, count, scratch);
        transform_grads(w, dy, at, count, m);
        multiply_grads(w, scratch, m, du, count);
    }
}

/* G g, for a row or column of the filter. */
KERNEL_INLINE void combine_taps(const vec g[TAPS], vec *to, const size_t outputs) {
    to[0] = g[0];
    if (outputs == 2) {
        const vec ends = 0.5F * (g[0] + g[2]), middle = 0.5F * g[1];
        to[1] = ends + middle;
        to[2] = ends - middle;
        to[3] = g[2];
        return;
    }
    const vec even_p = K * (g[0] + A * g[2]), even_q = L * (g[0] + B * g[2]);
    to[0] = g[0] * (1 / (A * B));
    to[1] = even_p + K * P * g[1];
    to[2] = even_p - K * P * g[1];
    to[3] = even_q + L * Q * g[1];
    to[4] = even_q - L * Q * g[1];
    to[5] = g[2];
}

KERNEL_INLINE void weights_by(const fedtrain_winograd *w, const float *packed, float *u,
                              const size_t height, const size_t width) {
    const size_t size = w->in * w->out, rows = height + 2, columns = width + 2;
    for (size_t k = 0; k < size; k += LANES) {
        vec half[TAPS][MOST]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < TAPS; j++) {
            const vec g[TAPS] = {vec_load(packed + j * size + k),
                                 vec_load(packed + (TAPS + j) * size + k),
                                 vec_load(packed + (2 * TAPS + j) * size + k)};
            combine_taps(g, half[j], height);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < rows; i++) {
            const vec g[TAPS] = {half[0][i], half[1][i], half[2][i]};
            vec whole[MOST];
            combine_taps(g, whole, width);
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                vec_store(u + (i * columns + j) * size + k, whole[j]);
            }
        }
    }
}

void KERNEL(winograd_weights)(const fedtrain_winograd *w, const float *packed, float *u) {
    WITH_TILE(w, weights_by, packed, u);
}

/* G' du, for a row or column. */
KERNEL_INLINE void combine_grads(const vec *d, vec to[TAPS], const size_t outputs) {
    if (outputs == 2) {
        const vec sum = 0.5F * (d[1] + d[2]);
        to[0] = d[0] + sum;
        to[1] = 0.5F * (d[1] - d[2]);
        to[2] = sum + d[3];
        return;
    }
    const vec even_p = K * (d[1] + d[2]), even_q = L * (d[3] + d[4]);
    to[0] = d[0] * (1 / (A * B)) + (even_p + even_q);
    to[1] = K * P * (d[1] - d[2]) + L * Q * (d[3] - d[4]);
    to[2] = A * even_p + B * even_q + d[5];
}

KERNEL_INLINE void weights_grad_by(const fedtrain_winograd *w, const float *du, float *packed,
                                   const size_t height, const size_t width) {
    const size_t size = w->in * w->out, rows = height + 2, columns = width + 2;
    for (size_t k = 0; k < size; k += LANES) {
        vec half[MOST][TAPS]; /* column by column */
        KERNEL_UNROLL
        for (size_t j = 0; j < columns; j++) {
            vec d[MOST];
            KERNEL_UNROLL
            for (size_t i = 0; i < rows; i++) {
                d[i] = vec_load(du + (i * columns + j) * size + k);
            }
            combine_grads(d, half[j], height);
        }
        KERNEL_UNROLL
        for (size_t i = 0; i < TAPS; i++) {
            vec d[MOST], whole[TAPS];
            KERNEL_UNROLL
            for (size_t j = 0; j < columns; j++) {
                d[j] = half[j][i];
            }
            combine_grads(d, whole, width);
            KERNEL_UNROLL
            for (size_t j = 0; j < TAPS; j++) {
                vec_store(packed + (i * TAPS + j) * size + k, whole[j]);
            }
        }
    }
}

void KERNEL(winograd_weights_grad)(const fedtrain_winograd *w, const float *du, float *packed) {
    WITH_TILE(w, weights_grad_by, du, packed);
}
