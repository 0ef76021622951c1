/* The fast backend's data in other orders: pictures, convolution weights, sparse gradients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_ARRANGE_H
#define FEDTRAIN_ARRANGE_H

#include "fedclient/train/kernels.h"

/** y float32[columns, rows] <- x float32[rows, columns]. It turns a picture from the model's order
 * (c, h, w) into the fast backend's order (h, w, c), and back. */
void fedtrain_transpose(const fedtrain_kernels *k, const float *x, size_t rows, size_t columns,
                        float *y);

/** The filters of one group of a convolution: float32[out, in, kh, kw], as the model has them.
 * Packed, they are float32[kh, kw, in, out_pad]. Packing does not write the padding, which is 0
 * from the start. */
typedef struct fedtrain_filters {
    size_t out, in, kh, kw, out_pad;
    const uint32_t *order; /* uint32[in, kh, kw]: the packed row that has this weight */
} fedtrain_filters;

void fedtrain_filters_order(const fedtrain_filters *f, uint32_t *order);

void fedtrain_filters_pack(const fedtrain_kernels *k, const fedtrain_filters *f,
                           const float *weight, float *packed);
void fedtrain_filters_unpack(const fedtrain_kernels *k, const fedtrain_filters *f,
                             const float *packed, float *weight);

/**
 * Pack the weights of one phase of the input's gradient (fast_conv.c): those taps of the packed
 * filters that are multiplied with every stride-th input. These are rows ky, ky + stride, ... and
 * columns kx, kx + stride, ..., the last ones first.
 * flipped: float32[rows of taps, columns of taps, out, in_pad]
 */
void fedtrain_filters_pack_backward(const fedtrain_kernels *k, const fedtrain_filters *f,
                                    const float *packed, size_t stride, size_t ky, size_t kx,
                                    size_t in_pad, float *flipped);

/** List the values other than 0 of a convolution's output gradient, a row for each position, if a
 * max-pool without overlap follows. dy float32[windows, out] is the pool's gradient; winner
 * int32[windows, out] has the position that each value belongs to. */
void fedtrain_list_by_position(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, fedtrain_sparse *list);

#endif
