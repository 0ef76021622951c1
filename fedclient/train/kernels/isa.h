/* The kernels of one vector unit, described in kernels.h; table.c puts them into its table. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_ISA_H
#define FEDTRAIN_ISA_H

#include "fedclient/train/kernels.h"
#include "fedclient/train/kernels/vector.h"

/* The width of a packed matrix's panel, which leaves enough registers for a tile. */
enum { VECTORS = 3, PANEL = VECTORS * LANES };

void KERNEL(sgd)(float *w, const float *w0, const float *g, size_t n, const fedtrain_step *s);
void KERNEL(momentum)(float *w, float *v, const float *w0, const float *g, size_t n,
                      const fedtrain_step *s);
void KERNEL(adam)(float *w, float *m, float *v, const float *w0, const float *g, size_t n,
                  const fedtrain_step *s);
double KERNEL(norm)(const float *w, const float *w0, const float *g, size_t n,
                    const fedtrain_step *s);
void KERNEL(relu)(float *x, size_t n);
void KERNEL(relu_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
void KERNEL(add)(const float *a, const float *b, float *y, size_t n, bool relu);
void KERNEL(moments)(const float *x, size_t rows, size_t width, float *mean, float *squares);
void KERNEL(normalize)(const fedtrain_norm *n, const float *x, float *y);
void KERNEL(normalize_sums)(const fedtrain_norm *n, const float *x, const float *dy, float *sum,
                            float *along);
void KERNEL(normalize_grad)(const fedtrain_norm *n, const float *slope, const float *offset,
                            const float *x, const float *dy, float *dx, bool add);
void KERNEL(transpose)(const float *x, fedtrain_rows from, size_t rows, size_t columns, float *y,
                       fedtrain_rows to);
void KERNEL(sum_rows)(const float *x, size_t rows, size_t width, float *sum);
void KERNEL(tanh)(const float *x, float *y, size_t n);
void KERNEL(tanh_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
void KERNEL(sigmoid)(const float *x, float *y, size_t n);
void KERNEL(sigmoid_grad)(const float *y, const float *dy, float *dx, size_t n, bool add);
double KERNEL(cross_entropy)(const float *score, size_t n, size_t label, float scale, float *grad);
void PRODUCT(gemm_pack)(const float *b, size_t row, size_t column, size_t k, size_t n,
                        float *packed);
void PRODUCT(gemm)(const fedtrain_gemm *g, const float *a, const float *packed, float *c);
void KERNEL(lstm)(size_t size, float *gates, const float *before, float *cell, float *h);
void KERNEL(lstm_grad)(size_t size, float *gates, const float *before, const float *cell,
                       const float *dh, float *dc);
void KERNEL(dropout)(const uint8_t *keep, float scale, const float *x, float *y, size_t n,
                     bool add);
void KERNEL(dense)(const fedtrain_dense *d, const float *w, const float *bias, const float *x,
                   float *y);
void KERNEL(dense_many)(const fedtrain_dense *d, const float *w, const float *bias, const float *xt,
                        float *y);
void KERNEL(dense_grad)(const fedtrain_dense *d, const float *w, const float *x, const float *dy,
                        float *dx, float *dw, float rate);
void PRODUCT(conv)(const fedtrain_conv *c, const float *columns, const float *start, const float *x,
                   float *y);
void PRODUCT(conv_weight_grad)(const fedtrain_conv *c, const float *x, const float *dy,
                               float *dcolumns);
void PRODUCT(pairs)(const float *x, size_t n, size_t apart, float *pairs);
void KERNEL(sparse_input_grad)(const fedtrain_sparse_conv *c, const fedtrain_sparse *by_position,
                               const float *rows, float *dx);
void KERNEL(sparse_weight_grad)(const fedtrain_sparse_conv *c, const int32_t *winner,
                                const float *dy, size_t windows, const float *x, float *drows);
void KERNEL(im2col)(const fedtrain_im2col *l, const float *x, float *unrolled);
void KERNEL(winograd)(const fedtrain_winograd *w, const float *u, const float *start,
                      const float *x, float *y, float *scratch);
void KERNEL(winograd_weight_grad)(const fedtrain_winograd *w, const float *x, const float *dy,
                                  float *du, float *scratch);
void KERNEL(winograd_weights)(const fedtrain_winograd *w, const float *packed, float *u);
void KERNEL(winograd_weights_grad)(const fedtrain_winograd *w, const float *du, float *packed);
void KERNEL(maxpool)(const fedtrain_pool *p, const float *x, float *y, int32_t *winner);

#endif
