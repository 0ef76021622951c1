/* Convolutions by register tiles, forward and backward. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"
#include "fedclient/train/kernels/tile.h"

enum { HEIGHT_LOW = 4, HEIGHT_ONE = FED_SMALL ? HEIGHT_LOW : HEIGHT_1 };

/* Fewer positions do not pay for loading and storing a tile of the weights' gradient. */
enum { DEEP_ENOUGH = 128 };

/* About how much one block's loops read repeatedly: it should stay in cache. */
enum { WEIGHTS_AT_ONCE = 6 * 1024, PICTURE_AT_ONCE = 8 * 1024 }; /* floats */

/* A block of outputs and of a patch's runs, for all positions. */
typedef struct block {
    const fedtrain_conv *c;
    size_t first, end;
    const float *columns; /* packed weights of the first run and output */
    const float *start;   /* sums begin with these values; NULL: with the values of y */
    size_t lanes_left;    /* lanes to write in the last vector; later lanes are other outputs' */
} block;

KERNEL_INLINE void forward_tile(const block *b, const float *x, float *y, size_t done,
                                const size_t height, const size_t vectors) {
    const fedtrain_conv *c = b->c;
    tile sum;
    if (b->start != NULL) {
        tile_load(sum, b->start, 0, height, vectors);
    } else {
        tile_load(sum, y, c->y_step, height, vectors);
    }
    const float *columns = b->columns;
    for (size_t r = b->first; r < b->end; r++, columns += c->run * c->out_pad) {
        const operand patch = {x + c->begin[r], c->x_step, 1}, weights = {columns, 0, c->out_pad};
        tile_add(sum, patch, weights, c->run, height, vectors);
    }
    const size_t full = b->lanes_left < LANES ? vectors - 1 : vectors;
    KERNEL_UNROLL
    for (size_t h = 0; h < height; h++) {
        if (h < done) {
            continue;
        }
        KERNEL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            float *to = y + h * c->y_step + v * LANES;
            vec_store(to, v < full
                              ? sum[h][v]
                              : vec_select(lanes_from(b->lanes_left), vec_load(to), sum[h][v]));
        }
    }
}

/* Compute one row of outputs. The last tile may overlap the one before. */
KERNEL_INLINE void forward_tiles(const block *b, const float *x, float *y, const size_t height,
                                 const size_t vectors) {
    const fedtrain_conv *c = b->c;
    for (size_t q = 0; q < c->columns; q += height) {
        size_t from = q + height <= c->columns ? q : c->columns - height;
        forward_tile(b, x + from * c->x_step, y + from * c->y_step, q - from, height, vectors);
    }
}

KERNEL_INLINE void forward_row(const block *b, const float *x, float *y, const size_t height,
                               const size_t vectors) {
    if (b->c->columns >= height) {
        forward_tiles(b, x, y, height, vectors);
    } else if (b->c->columns >= HEIGHT_LOW) {
        forward_tiles(b, x, y, HEIGHT_LOW, vectors);
    } else {
        forward_tiles(b, x, y, 1, vectors);
    }
}

static void forward_block(const block *b, const float *x, float *y, size_t vectors) {
    const fedtrain_conv *c = b->c;
    for (size_t r = 0; r < c->rows; r++, x += c->x_row, y += c->y_row) {
        switch (vectors) {
        case 1:
            forward_row(b, x, y, HEIGHT_ONE, 1);
            break;
#if !FED_SMALL
        case 2:
            forward_row(b, x, y, HEIGHT_2, 2);
            break;
#endif
#if !FED_SMALL
        case 3:
            forward_row(b, x, y, HEIGHT_3, 3);
            break;
#endif
        default:
            break;
        }
    }
}

/* The tail: one or two outputs that would need a vector for themselves, such as the 49th and 50th
 * output of LeNet. For them a vector goes along the inputs, and each sum of a tile is one output
 * at one position. */
enum { TAIL = 2, TAIL_COLUMNS = LANES / TAIL, TAIL_DEEPEST = 1024 };

static bool has_tail(const fedtrain_conv *c) {
    const size_t left = c->out % LANES;
    return !FED_SMALL && left > 0 && left <= TAIL && PAIR == 1 && c->out > LANES &&
           c->run >= LANES && c->columns >= TAIL_COLUMNS &&
           c->runs * (c->run + LANES) <= TAIL_DEEPEST;
}

/* Copy the tail's weights, run by run, as whole vectors. A run's last vector overlaps the one
 * before; its weights in the overlap are 0. */
static void tail_weights(const fedtrain_conv *c, const float *columns, float *weights) {
    for (size_t r = 0; r < c->runs; r++, columns += c->run * c->out_pad) {
        for (size_t i = 0; i < c->run; i += LANES, weights += TAIL * LANES) {
            const size_t from = kernel_smaller(i, c->run - LANES);
            for (size_t l = 0; l < TAIL * LANES; l++) {
                const size_t k = from + l % LANES;
                weights[l] = k < i ? 0 : columns[k * c->out_pad + l / LANES];
            }
        }
    }
}

static void tail_tile(const fedtrain_conv *c, const float *weights, const float *start,
                      const float *x, float *y, size_t done) {
    vec sum[LANES] = {0};
    for (size_t r = 0; r < c->runs; r++) {
        for (size_t i = 0; i < c->run; i += LANES, weights += TAIL * LANES) {
            const float *from = x + c->begin[r] + kernel_smaller(i, c->run - LANES);
            KERNEL_UNROLL
            for (size_t p = 0; p < TAIL_COLUMNS; p++) {
                const vec value = vec_load(from + p * c->x_step);
                KERNEL_UNROLL
                for (size_t t = 0; t < TAIL; t++) {
                    sum[p * TAIL + t] += value * vec_load(weights + t * LANES);
                }
            }
        }
    }
    float total[LANES];
    vec_store(total, vec_sums(sum));
    for (size_t p = done; p < TAIL_COLUMNS; p++) {
        for (size_t t = 0; t < c->out % LANES; t++) {
            float *to = y + p * c->y_step + t;
            *to = (start != NULL ? start[t] : *to) + total[p * TAIL + t];
        }
    }
}

static void forward_tail(const fedtrain_conv *c, const float *columns, const float *start,
                         const float *x, float *y) {
    _Alignas(vec) float weights[TAIL * TAIL_DEEPEST];
    tail_weights(c, columns, weights);
    for (size_t r = 0; r < c->rows; r++, x += c->x_row, y += c->y_row) {
        for (size_t q = 0; q < c->columns; q += TAIL_COLUMNS) {
            const size_t from = kernel_smaller(q, c->columns - TAIL_COLUMNS);
            tail_tile(c, weights, start, x + from * c->x_step, y + from * c->y_step, q - from);
        }
    }
}

void PRODUCT(conv)(const fedtrain_conv *c, const float *columns, const float *start, const float *x,
                   float *y) {
    const size_t tail = has_tail(c) ? c->out % LANES : 0, out = c->out - tail;
    const size_t width = tile_width((out + LANES - 1) / LANES);
    size_t runs = WEIGHTS_AT_ONCE / (c->run * width * LANES + 1) + 1;
    if (tail > 0) {
        forward_tail(c, columns + out, start != NULL ? start + out : NULL, x, y + out);
    }
    for (size_t o = 0; o < out; o += width * LANES) {
        size_t vectors = kernel_smaller(width, (out - o + LANES - 1) / LANES);
        size_t first = 0;
        do {
            const block b = {.c = c,
                             .first = first,
                             .end = kernel_smaller(first + runs, c->runs),
                             .columns = columns + first * c->run * c->out_pad + o,
                             .start = first == 0 && start != NULL ? start + o : NULL,
                             .lanes_left = out - o - (vectors - 1) * LANES};
            forward_block(&b, x, y + o, vectors);
            first = b.end;
        } while (first < c->runs);
    }
}

/* For some rows of positions: dcolumns[k, o] += sum over the positions of x[k] * dy[o], for
 * `height` of a run's values k. */
KERNEL_INLINE void weight_tile(const fedtrain_conv *c, size_t rows, const float *x, const float *dy,
                               float *dcolumns, const size_t height, const size_t vectors) {
    tile sum;
    tile_load(sum, dcolumns, c->out_pad, height, vectors);
    for (size_t r = 0; r < rows; r++) {
        const operand values = {x + r * c->x_row, 1, c->x_step};
        const operand grads = {dy + r * c->y_row, 0, c->y_step};
        tile_add(sum, values, grads, c->columns, height, vectors);
    }
    tile_store(sum, dcolumns, c->out_pad, height, vectors);
}

KERNEL_INLINE void weight_run(const fedtrain_conv *c, size_t rows, const float *x, const float *dy,
                              float *dcolumns, const size_t height, const size_t vectors) {
    size_t k = 0;
    for (; k + height <= c->run; k += height) {
        weight_tile(c, rows, x + k, dy, dcolumns + k * c->out_pad, height, vectors);
    }
    for (; k + HEIGHT_LOW <= c->run; k += HEIGHT_LOW) {
        weight_tile(c, rows, x + k, dy, dcolumns + k * c->out_pad, HEIGHT_LOW, vectors);
    }
    for (; k < c->run; k++) {
        weight_tile(c, rows, x + k, dy, dcolumns + k * c->out_pad, 1, vectors);
    }
}

static void weight_block(const fedtrain_conv *c, size_t rows, const float *x, const float *dy,
                         float *dcolumns, size_t vectors) {
    for (size_t r = 0; r < c->runs; r++, dcolumns += c->run * c->out_pad) {
        const float *from = x + c->begin[r];
        switch (vectors) {
        case 1:
            weight_run(c, rows, from, dy, dcolumns, HEIGHT_ONE, 1);
            break;
#if !FED_SMALL
        case 2:
            weight_run(c, rows, from, dy, dcolumns, HEIGHT_2, 2);
            break;
#endif
#if !FED_SMALL
        case 3:
            weight_run(c, rows, from, dy, dcolumns, HEIGHT_3, 3);
            break;
#endif
        default:
            break;
        }
    }
}

void PRODUCT(conv_weight_grad)(const fedtrain_conv *c, const float *x, const float *dy,
                               float *dcolumns) {
    const size_t width = tile_width(c->out_pad / LANES),
                 deep_enough = DEEP_ENOUGH / (c->columns + 1) + 1;
    size_t at_once = PICTURE_AT_ONCE / (c->x_row + c->y_row) + 1;
    at_once = at_once > deep_enough ? at_once : deep_enough;
    for (size_t r = 0; r < c->rows; r += at_once) {
        size_t rows = kernel_smaller(at_once, c->rows - r);
        for (size_t o = 0; o < c->out; o += width * LANES) {
            size_t vectors = kernel_smaller(width, (c->out_pad - o) / LANES);
            weight_block(c, rows, x + r * c->x_row, dy + r * c->y_row + o, dcolumns + o, vectors);
        }
    }
}
