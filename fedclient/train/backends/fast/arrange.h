/* The fast backend's data in other orders: pictures, convolution weights, sparse gradients. */
#ifndef FEDTRAIN_ARRANGE_H
#define FEDTRAIN_ARRANGE_H

#include "fedclient/train/kernels.h"

/** y float32[columns, rows] <- x float32[rows, columns]. A picture (c, h, w) of the model is ours
 * (h, w, c) turned. */
void fedtrain_turn(const fedtrain_kernels *k, const float *x, size_t rows, size_t columns,
                   float *y);

/** The filters of one group of a convolution: float32[out, in, kh, kw], as the model has them; and
 * how we have them, columns float32[kh, kw, in, out_pad]. Pads are not written: they are 0 from the
 * start. */
typedef struct fedtrain_filters {
    size_t out, in, kh, kw, out_pad;
    const uint32_t *order; /* uint32[in, kh, kw]: the row of columns that has this weight */
} fedtrain_filters;

void fedtrain_filters_order(const fedtrain_filters *f, uint32_t *order);

void fedtrain_filters_columns(const fedtrain_kernels *k, const fedtrain_filters *f,
                              const float *weight, float *columns);
void fedtrain_filters_weight(const fedtrain_kernels *k, const fedtrain_filters *f,
                             const float *columns, float *weight);

/**
 * What the way back to every stride-th input needs: the filters' rows and columns that meet these
 * inputs, which are ky, ky + stride, ... and kx, kx + stride, ..., the last first.
 * back: float32[those rows, those columns, out, in_pad]
 */
void fedtrain_filters_back(const fedtrain_kernels *k, const fedtrain_filters *f,
                           const float *columns, size_t stride, size_t ky, size_t kx, size_t in_pad,
                           float *back);

/** What is not 0 of a convolution's output gradient behind a max-pool without overlap, a row a
 * position: dy float32[windows, out] goes to the winners int32[windows, out]. */
void fedtrain_list_by_position(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, fedtrain_sparse *list);

#endif
