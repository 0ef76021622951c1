/* The inner loops: one table for each kind of vector unit, picked at run time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_KERNELS_H
#define FEDTRAIN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/small.h"
#include "fedclient/train/optimizer_step.h"

/*
 * Pictures are channels-last here, float32[h, w, c]: the values under one row of a convolution's
 * kernel then lie side by side. Kernels may read up to FEDTRAIN_SLACK floats past the end of a
 * picture, and write there the values they read, or values that are never used. So each allocation
 * has that slack once, after the last sample of a batch.
 */
enum { FEDTRAIN_SLACK = 16 };

/** A dense layer over a batch; or, backward, some `rows` of its outputs, w, dy and dw then pointing
 * to the first. */
typedef struct fedtrain_dense {
    size_t in, out, batch, rows;
} fedtrain_dense;

/**
 * A convolution of one sample, or one group of its channels, or one phase of its input's gradient.
 * At each position a patch of the input is multiplied with `out` columns of weights. A patch is
 * `runs` runs of `run` values; those of a run lie side by side in the picture, so im2col needs no
 * copy. Packed weights are float32[runs * run, out_pad]: what lies from `out` on is never used.
 */
typedef struct fedtrain_conv {
    size_t rows, columns;  /* positions */
    size_t x_row, x_step;  /* floats from a patch to the one below, and to the one on the right */
    size_t y_row, y_step;  /* the same of outputs */
    size_t runs, run;      /* of a patch; 0 runs: outputs are what they start with */
    const uint32_t *begin; /* uint32[runs]: where each run begins, from the patch's first value */
    size_t out, out_pad;   /* rounded up to whole vectors */
} fedtrain_conv;

/**
 * A convolution whose output gradient is mostly 0. Its weights are float32[out, kh, row_pad]: the
 * kw * in values that lie side by side in a picture, and pads. Where rows of the kernel share
 * vectors, kh counts these.
 */
typedef struct fedtrain_sparse_conv {
    size_t out, row_pad, kh, positions;
    size_t segments;         /* vectors in the rows of one output: kh * row_pad / lanes */
    const uint32_t *segment; /* where each meets the picture, from its patch's first value */
    const uint32_t *patch;   /* uint32[positions]: first value of an output's patch */
} fedtrain_sparse_conv;

/**
 * im2col by rows: for each pixel the `row` values that begin there, at the beginning of vectors. Or
 * in one vector those of `together` rows of the picture, one after the other.
 */
typedef struct fedtrain_im2col {
    size_t rows, columns; /* pixels */
    size_t x_row, x_step; /* floats from a pixel to the one below, and to the one on the right */
    size_t row, together;
    size_t vectors; /* of a pixel */
} fedtrain_im2col;

/**
 * A sparse matrix, row by row: entry j of row i is value[i * width + j] at offset[i * width + j],
 * for j < count[i]. If a max-pool follows a convolution, most of the convolution's output gradient
 * is 0, and is kept like this, a row for each output position.
 */
typedef struct fedtrain_sparse {
    size_t width;
    uint32_t *count, *offset;
    float *value;
} fedtrain_sparse;

/** A max-pool. */
typedef struct fedtrain_pool {
    size_t channels, in_h, in_w, out_h, out_w, kh, kw, stride, pad;
} fedtrain_pool;

/**
 * c[i, j] = start[i, j] + sum_l a[i, l] b[l, j], for i < m, j < n, l < k; b as gemm_pack left it.
 *
 * a[i, l] is a[i * a_row + l * a_column], c[i, j] is c[i * c_row + j], and so is start, which may
 * be c itself, a bias (start_row 0), or NULL: zeros.
 */
typedef struct fedtrain_gemm {
    size_t m, n, k;
    size_t a_row, a_column, c_row;
    const float *start;
    size_t start_row;
} fedtrain_gemm;

/** Room for packed matrices: gemm_pack writes k rows of n, rounded up to this. */
enum { FEDTRAIN_PACKED = 16 };

/**
 * Batch normalization: y = (x - mean) scale + bias, and a ReLU if there is one. Coefficients are
 * float32[width + lanes]: after the last channel they begin again.
 */
typedef struct fedtrain_norm {
    size_t rows, width;
    bool relu;
    const float *mean, *scale, *bias;
} fedtrain_norm;

/** A matrix whose rows are in any order: row r begins at (order[r] or r) * step. */
typedef struct fedtrain_rows {
    size_t step;
    const uint32_t *order; /* NULL: as they come */
} fedtrain_rows;

typedef void fedtrain_pairs(const float *x, size_t n, size_t apart, float *pairs);

typedef struct fedtrain_kernels {
    const char *isa;
    size_t lanes; /* floats in a vector */
    size_t panel; /* columns of a packed matrix that lie side by side */

#if !FED_SMALL
    /*
     * NULL: all kernels compute in float32. Else operands of gemm, conv and conv_weight_grad are
     * pairs of bfloat16, which this makes: pairs[i] <- x[i] in the lower 16 bits and x[i + apart],
     * 0 past n, in the upper ones, for i < n. `apart` leads to the next of the values that are
     * summed over: a_column of a, 1 of a convolution's picture, out_pad in a run of its weights;
     * of conv_weight_grad x_step in the picture, y_step in a row of dy. The kernels read the pair
     * of every second value. gemm_pack gives pairs of floats. pairs may be x.
     */
    fedtrain_pairs *pairs;
#endif

    /* Optimizer steps; and the gradient's norm, as clipping by norm meets it.   w, m, v, g
     * float32[n]; w0 float32[n], where the proximal term pulls to; NULL: it doesn't */
    void (*sgd)(float *w, const float *w0, const float *g, size_t n, const fedtrain_step *s);
    void (*momentum)(float *w, float *v, const float *w0, const float *g, size_t n,
                     const fedtrain_step *s);
    void (*adam)(float *w, float *m, float *v, const float *w0, const float *g, size_t n,
                 const fedtrain_step *s);
    double (*norm)(const float *w, const float *w0, const float *g, size_t n,
                   const fedtrain_step *s);

    /* x <- max(x, 0); and dx <- dy, or 0 where the output y is; or added to dx, which may be dy.
     * float32[n] and slack */
    void (*relu)(float *x, size_t n);
    void (*relu_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);

    /* y <- a + b, and a ReLU; y may be either.   float32[n] and slack */
    void (*add)(const float *a, const float *b, float *y, size_t n, bool relu);

    /* Each column's mean, and its sum of squared differences from it.   x float32[rows,
     * width]; mean, squares float32[width] and slack */
    void (*moments)(const float *x, size_t rows, size_t width, float *mean, float *squares);

    /*
     * Batch normalization.   x, y, dy, dx float32[rows, width] and slack; dx may be dy. sum: of dy,
     * along: of dy (x - mean), by column, of what the ReLU lets through; float32[width] and slack.
     * Of that, dx <- dy scale + (x - mean) slope + offset; or added to dx.
     */
    void (*normalize)(const fedtrain_norm *n, const float *x, float *y);
    void (*normalize_sums)(const fedtrain_norm *n, const float *x, const float *dy, float *sum,
                           float *along);
    void (*normalize_grad)(const fedtrain_norm *n, const float *slope, const float *offset,
                           const float *x, const float *dy, float *dx, bool add);

    /* y[c, r] <- x[r, c], for x of `rows` rows and `columns` columns. */
    void (*transpose)(const float *x, fedtrain_rows from, size_t rows, size_t columns, float *y,
                      fedtrain_rows to);

    /* The rows of x float32[rows, width] are added to sum float32[width] and slack. */
    void (*sum_rows)(const float *x, size_t rows, size_t width, float *sum);

    /*
     * Dense.   w, dw float32[rows, in]; x, dx float32[batch, in]; y, dy float32[batch, out].
     * dense_many: the same for many samples; xt float32[in, batch] and two vectors.
     * Backward, the inputs' gradient is added to dx, if that is not NULL, and dw overwritten. With
     * a rate, which takes a vector of inputs at least, dw is w, and goes that far down its
     * gradient: the same as `sgd` makes of it.
     */
    void (*dense)(const fedtrain_dense *d, const float *w, const float *bias, const float *x,
                  float *y);
    void (*dense_many)(const fedtrain_dense *d, const float *w, const float *bias, const float *xt,
                       float *y);
    void (*dense_grad)(const fedtrain_dense *d, const float *w, const float *x, const float *dy,
                       float *dx, float *dw, float rate);

    /* tanh and the logistic function, y may be x; their gradients are like relu's. And y <- x *
     * scale, or 0 where keep is; or added to y, which may be x.   keep uint8[n]; all with slack */
    void (*tanh)(const float *x, float *y, size_t n);
    void (*tanh_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
    void (*sigmoid)(const float *x, float *y, size_t n);
    void (*sigmoid_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
    void (*dropout)(const uint8_t *keep, float scale, const float *x, float *y, size_t n, bool add);

    /* -log softmax(score)[label]; and unless grad is NULL, its gradient by the scores, times scale.
     * score, grad float32[n] */
    double (*cross_entropy)(const float *score, size_t n, size_t label, float scale, float *grad);

    /* Product of matrices with b packed, for products with many rows or more than one with the same
     * b. b[l, j] is b[l * row + j * column], one of which is 1. Packed it is panels of columns, the
     * last one rounded up to whole vectors: float32[k, panel], one after the other.
     * packed float32[k, n rounded up to FEDTRAIN_PACKED] */
    void (*gemm_pack)(const float *b, size_t row, size_t column, size_t k, size_t n, float *packed);
    void (*gemm)(const fedtrain_gemm *g, const float *a, const float *packed, float *c);

    /*
     * One step of an LSTM, one sample.   gates float32[4, size]: i, f, g, o before their functions,
     * then after them; before, cell, h float32[size]: the cell one step ago and now, the output.
     * Backward, gates become their gradients, and dc, the cell's gradient, goes one step back.
     */
    void (*lstm)(size_t size, float *gates, const float *before, float *cell, float *h);
    void (*lstm_grad)(size_t size, float *gates, const float *before, const float *cell,
                      const float *dh, float *dc);

    /*
     * Convolution of one sample.   start float32[out_pad]: what the outputs start with, a bias;
     * NULL: with what is in y. The gradient is added to packed_grad, like packed; what lies there
     * from `out` on is never used.
     */
    void (*conv)(const fedtrain_conv *c, const float *packed, const float *start, const float *x,
                 float *y);
    void (*conv_weight_grad)(const fedtrain_conv *c, const float *x, const float *dy,
                             float *packed_grad);

    /*
     * The same, if a max-pool follows.   by_position: a row an output position, offsets into rows
     * (an output channel); winner, dy: [windows, out], as the max-pool left it. The gradients are
     * added to dx and drows.
     */
    void (*sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                              const float *rows, float *dx);
    void (*sparse_weight_grad)(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, const float *x, float *drows);

    /* unrolled float32[rows, columns, vectors]; what follows a pixel's values is never used. */
    void (*im2col)(const fedtrain_im2col *l, const float *x, float *unrolled);

    /* Max-pool of one sample.   x float32[in_h, in_w, channels]; y float32[out_h, out_w, channels];
     * winner int32, like y: the largest value's position, row * in_w + column; the first on a tie
     */
    void (*maxpool)(const fedtrain_pool *p, const float *x, float *y, int32_t *winner);
} fedtrain_kernels;

/** The best table for this processor. */
const fedtrain_kernels *fedtrain_kernels_best(void);

/** The k-th table that this processor can run, best first; NULL past the last. For tests. */
const fedtrain_kernels *fedtrain_kernels_get(size_t k);

/** The same with products of bfloat16. */
const fedtrain_kernels *fedtrain_kernels_bfloat16(size_t k);

#endif
