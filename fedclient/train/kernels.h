/* The inner loops (kernels): one table of functions for each vector unit, picked at run time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_KERNELS_H
#define FEDTRAIN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/small.h"
#include "fedclient/train/optimizer_step.h"

/* Pictures are channels-last here, float32[h, w, c], so the values under one row of a
 * convolution's kernel lie side by side. Kernels may read up to FEDTRAIN_SLACK floats past the end
 * of an array, and may write there what they read, or values that are never used. So the arrays of
 * fedtrain_fast_take have that many floats more; "and slack" below means these. */
enum { FEDTRAIN_SLACK = 16 };

/** A dense layer over a batch. In the backward pass w, dy and dw may point into a layer: then
 * `rows` of its outputs are computed. */
typedef struct fedtrain_dense {
    size_t in, out, batch, rows;
} fedtrain_dense;

/** A convolution of one sample, or of a part of it. At each position a patch of the input is
 * multiplied with `out` columns of weights. A patch is `runs` runs of `run` values, which lie side
 * by side in the picture, so no patch needs to be copied. Packed weights are float32[runs * run,
 * out_pad]; columns from `out` on are never used. */
typedef struct fedtrain_conv {
    size_t rows, columns;  /* positions of the output */
    size_t x_row, x_step;  /* floats to the patch below, and to the one on the right */
    size_t y_row, y_step;  /* floats to the output below, and to the one on the right */
    size_t runs, run;      /* of a patch; 0 runs: outputs keep their start values */
    const uint32_t *begin; /* uint32[runs]: where each run begins, from the patch's first value */
    size_t out, out_pad;   /* out_pad is out, rounded up to whole vectors */
} fedtrain_conv;

/* Winograd's F(2x2, 3x3), F(2x4, 3x3) and F(4x4, 3x3): the most rows or columns of a transformed
 * tile, and how many tiles are transformed at once. Channels come in multiples of
 * FEDTRAIN_WINOGRAD. */
enum { FEDTRAIN_WINOGRAD_SIDE = 6, FEDTRAIN_TILES = 32, FEDTRAIN_WINOGRAD = 16 };

/** A convolution with 3x3 filters, stride 1 and padding 1 of a batch of pictures, float32[batch,
 * height rows, width columns, in], to as many positions of `out` channels. */
typedef struct fedtrain_winograd {
    size_t batch, rows, columns; /* rows and columns of tiles */
    size_t height, width;        /* outputs of a tile: 2x2, 2x4 or 4x4 */
    size_t in, out;              /* multiples of FEDTRAIN_WINOGRAD */
    const float *zeros;          /* float32[FEDTRAIN_WINOGRAD_SIDE, in] */
} fedtrain_winograd;

/** The elements of a transformed tile. */
static inline size_t fedtrain_winograd_elements(const fedtrain_winograd *w) {
    return (w->height + 2) * (w->width + 2);
}

/** Number of floats of scratch memory that the kernels winograd and winograd_weight_grad need. */
static inline size_t fedtrain_winograd_scratch(const fedtrain_winograd *w) {
    return fedtrain_winograd_elements(w) * (FEDTRAIN_TILES * (w->in + w->out) + 2 * FEDTRAIN_SLACK);
}

/**
 * A convolution whose output gradient is mostly 0. Its weights are float32[out, kh, row_pad]: kw *
 * in values that lie side by side in a picture, then padding. If several rows of the kernel share
 * a vector, kh counts vectors.
 */
typedef struct fedtrain_sparse_conv {
    size_t out, row_pad, kh, positions;
    size_t segments;         /* vectors in the weights of one output: kh * row_pad / lanes */
    const uint32_t *segment; /* where each vector begins, from its patch's first value */
    const uint32_t *patch;   /* uint32[positions]: the first value of each output's patch */
} fedtrain_sparse_conv;

/** im2col by rows: for each pixel, the `row` values that begin there are copied to the beginning of
 * vectors. If `together` is not 0, the values of that many rows of the picture go into one
 * vector. */
typedef struct fedtrain_im2col {
    size_t rows, columns; /* pixels */
    size_t x_row, x_step; /* floats to the pixel below, and to the one on the right */
    size_t row, together;
    size_t vectors; /* number of vectors for each pixel */
} fedtrain_im2col;

/** A sparse matrix, row by row: entry j of row i is value[i * width + j] at offset[i * width + j],
 * for j < count[i]. If a max-pool follows a convolution, the convolution's output gradient is
 * mostly 0. This struct then holds that gradient, a row for each position. */
typedef struct fedtrain_sparse {
    size_t width;
    uint32_t *count, *offset;
    float *value;
} fedtrain_sparse;

typedef struct fedtrain_pool {
    size_t channels, in_h, in_w, out_h, out_w, kh, kw, stride, pad;
} fedtrain_pool;

/**
 * c[i, j] = start[i, j] + sum_l a[i, l] b[l, j], for i < m, j < n, l < k. b is packed by
 * gemm_pack.
 *
 * a[i, l] is at a[i * a_row + l * a_column], c[i, j] at c[i * c_row + j], and start[i, j] at
 * start[i * start_row + j]. start may be c itself, a bias (start_row 0), or NULL for zeros.
 */
typedef struct fedtrain_gemm {
    size_t m, n, k;
    size_t a_row, a_column, c_row;
    const float *start;
    size_t start_row;
} fedtrain_gemm;

/** gemm_pack needs room for k rows of n floats, with n rounded up to a multiple of this. */
enum { FEDTRAIN_PACKED = 16 };

/** Batch normalization: y = (x - mean) scale + bias, then a ReLU if `relu` is set. mean, scale and
 * bias are float32[width + lanes]: the first channels' values are repeated after the last
 * channel's. */
typedef struct fedtrain_norm {
    size_t rows, width;
    bool relu;
    const float *mean, *scale, *bias;
} fedtrain_norm;

/** A matrix whose row r begins at order[r] * step, or without order at r * step. */
typedef struct fedtrain_rows {
    size_t step;
    const uint32_t *order;
} fedtrain_rows;

typedef void fedtrain_pairs(const float *x, size_t n, size_t apart, float *pairs);

typedef struct fedtrain_kernels {
    const char *isa;
    size_t lanes; /* floats in a vector */
    size_t panel; /* columns of a packed matrix that lie side by side */

#if !FED_SMALL
    /* NULL: all kernels compute in float32. Otherwise gemm, conv and conv_weight_grad read pairs
     * of bfloat16 values, which this function makes. For i < n, pairs[i] has x[i] in its lower 16
     * bits, and x[i + apart] in its upper ones, or 0 if i + apart >= n. pairs may be x. The two
     * values of a pair must follow each other in the sum. So `apart` is a_column for the matrix a,
     * 1 for a convolution's picture, and out_pad for its weights, run by run. For conv_weight_grad
     * it is x_step in the picture and y_step in a row of dy. The kernels read only the pairs of
     * every second value. gemm_pack takes float32 values and makes their pairs itself. */
    fedtrain_pairs *pairs;
#endif

    /* Optimizer steps; and norm, which returns the gradient's norm, for clipping by norm.
     * w, m, v, g float32[n]; w0 float32[n], the weights that the proximal term pulls to, or NULL
     * without that term */
    void (*sgd)(float *w, const float *w0, const float *g, size_t n, const fedtrain_step *s);
    void (*momentum)(float *w, float *v, const float *w0, const float *g, size_t n,
                     const fedtrain_step *s);
    void (*adam)(float *w, float *m, float *v, const float *w0, const float *g, size_t n,
                 const fedtrain_step *s);
    double (*norm)(const float *w, const float *w0, const float *g, size_t n,
                   const fedtrain_step *s);

    /* relu: x <- max(x, 0). relu_grad: dx <- dy, or 0 where the output y is 0; with `add` this is
     * added to dx. dx may be dy.   float32[n] and slack */
    void (*relu)(float *x, size_t n);
    void (*relu_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);

    /* y <- a + b, then a ReLU if `relu` is set; y may be a or b.   float32[n] and slack */
    void (*add)(const float *a, const float *b, float *y, size_t n, bool relu);

    /* Each column's mean, and its sum of squared differences from the mean.
     * x float32[rows, width]; mean, squares float32[width] and slack */
    void (*moments)(const float *x, size_t rows, size_t width, float *mean, float *squares);

    /*
     * Batch normalization.   x, y, dy, dx float32[rows, width] and slack; dx may be dy.
     * normalize_sums: for each column, sum is the sum of dy, and along that of dy (x - mean), both
     * only where the ReLU's output is not 0; float32[width] and slack.
     * normalize_grad: dx <- dy scale + (x - mean) slope + offset, with dy 0 where the ReLU's
     * output is; with `add` this is added to dx.
     */
    void (*normalize)(const fedtrain_norm *n, const float *x, float *y);
    void (*normalize_sums)(const fedtrain_norm *n, const float *x, const float *dy, float *sum,
                           float *along);
    void (*normalize_grad)(const fedtrain_norm *n, const float *slope, const float *offset,
                           const float *x, const float *dy, float *dx, bool add);

    /* y[c, r] <- x[r, c], for r < rows and c < columns. */
    void (*transpose)(const float *x, fedtrain_rows from, size_t rows, size_t columns, float *y,
                      fedtrain_rows to);

    /* Add the rows of x, float32[rows, width], to sum, float32[width] and slack. */
    void (*sum_rows)(const float *x, size_t rows, size_t width, float *sum);

    /*
     * Dense layers.   w, dw float32[rows, in]; x, dx float32[batch, in];
     * y, dy float32[batch, out].
     * dense_many does the same as dense for many samples; xt is float32[in, batch] and two vectors
     * more.
     * dense_grad adds the inputs' gradient to dx, if dx is not NULL, and overwrites dw with the
     * weights' gradient. With a rate > 0 dw must be w: then the weights take a step of that rate
     * down their gradient, with the same result as `sgd`, and the gradient is not stored. A rate
     * needs at least as many inputs as a vector has lanes.
     */
    void (*dense)(const fedtrain_dense *d, const float *w, const float *bias, const float *x,
                  float *y);
    void (*dense_many)(const fedtrain_dense *d, const float *w, const float *bias, const float *xt,
                       float *y);
    void (*dense_grad)(const fedtrain_dense *d, const float *w, const float *x, const float *dy,
                       float *dx, float *dw, float rate);

    /* tanh and sigmoid, the logistic function: y may be x. Their gradients take arguments as
     * relu_grad does. dropout: y <- x * scale, or 0 where keep is 0; with `add` this is added to
     * y. y may be x.   keep uint8[n]; all with slack */
    void (*tanh)(const float *x, float *y, size_t n);
    void (*tanh_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
    void (*sigmoid)(const float *x, float *y, size_t n);
    void (*sigmoid_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
    void (*dropout)(const uint8_t *keep, float scale, const float *x, float *y, size_t n, bool add);

    /* Return -log softmax(score)[label]. Unless grad is NULL, set it to the gradient by the
     * scores, times scale. score, grad float32[n] */
    double (*cross_entropy)(const float *score, size_t n, size_t label, float scale, float *grad);

    /* Product of matrices with a packed b. Packing pays for products with many rows, or several
     * products with the same b. b[l, j] is at b[l * row + j * column], and row or column is 1.
     * Packed, b is a sequence of panels of columns, float32[k, panel] each; the last one's width
     * is rounded up to whole vectors.
     * packed float32[k, n rounded up to FEDTRAIN_PACKED] */
    void (*gemm_pack)(const float *b, size_t row, size_t column, size_t k, size_t n, float *packed);
    void (*gemm)(const fedtrain_gemm *g, const float *a, const float *packed, float *c);

    /*
     * One step of an LSTM for one sample.   gates float32[4, size]: the inputs of the gates i, f,
     * g, o, replaced by their outputs; before, cell, h float32[size]: the cell before and after
     * this step, and the output.
     * lstm_grad replaces gates by their gradients, and dc, the gradient of this step's cell, by
     * that of the cell before.
     */
    void (*lstm)(size_t size, float *gates, const float *before, float *cell, float *h);
    void (*lstm_grad)(size_t size, float *gates, const float *before, const float *cell,
                      const float *dh, float *dc);

    /* Convolution of one sample. start float32[out_pad], a bias: the sums begin with it; NULL:
     * with the values of y. conv_weight_grad adds to packed_grad, which is laid out as packed;
     * columns from `out` on are never used. */
    void (*conv)(const fedtrain_conv *c, const float *packed, const float *start, const float *x,
                 float *y);
    void (*conv_weight_grad)(const fedtrain_conv *c, const float *x, const float *dy,
                             float *packed_grad);

    /*
     * Convolutions with 3x3 filters by Winograd's transform.
     * winograd_weights transforms packed float32[3, 3, in, out] to u float32[elements, in, out];
     * winograd_weights_grad transforms the gradient of u to that of packed.
     * winograd: start float32[out], a bias: y <- start + the sums; NULL: y <- y + the sums.
     * winograd_weight_grad adds to du.
     */
    void (*winograd)(const fedtrain_winograd *w, const float *u, const float *start, const float *x,
                     float *y, float *scratch);
    void (*winograd_weight_grad)(const fedtrain_winograd *w, const float *x, const float *dy,
                                 float *du, float *scratch);
    void (*winograd_weights)(const fedtrain_winograd *w, const float *packed, float *u);
    void (*winograd_weights_grad)(const fedtrain_winograd *w, const float *du, float *packed);

    /*
     * The convolution's gradients if a max-pool follows.   by_position: a sparse matrix with a row
     * for each output position; its offsets lead to an output channel's weights in rows. winner,
     * dy: [windows, out], from the max-pool. The gradients are added to dx and drows.
     */
    void (*sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                              const float *rows, float *dx);
    void (*sparse_weight_grad)(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, const float *x, float *drows);

    /* unrolled float32[rows, columns, vectors]. Lanes after a pixel's values are never used. */
    void (*im2col)(const fedtrain_im2col *l, const float *x, float *unrolled);

    /* Max-pool of one sample.   x float32[in_h, in_w, channels]; y float32[out_h, out_w,
     * channels]; winner int32, shaped as y: the position of the largest value, row * in_w +
     * column; of equal ones the first */
    void (*maxpool)(const fedtrain_pool *p, const float *x, float *y, int32_t *winner);
} fedtrain_kernels;

/** The best table for this processor. */
const fedtrain_kernels *fedtrain_kernels_best(void);

/** The k-th table that this processor can run, best first; NULL past the last. For tests. */
const fedtrain_kernels *fedtrain_kernels_get(size_t k);

/** The k-th table with products of bfloat16 that this processor can run; NULL past the last. */
const fedtrain_kernels *fedtrain_kernels_bfloat16(size_t k);

#endif
