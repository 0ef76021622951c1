/* The fast backend's data in other orders: pictures, convolution weights, sparse gradients. */
#ifndef FEDTRAIN_ARRANGE_H
#define FEDTRAIN_ARRANGE_H

#include "fedclient/train/kernels.h"

/** One sample between the model's order (c, h, w) and ours (h, w, c); area = h * w. add: to y. */
void fedtrain_to_channels_last(const float *x, size_t channels, size_t area, bool add, float *y);
void fedtrain_to_channels_first(const float *x, size_t channels, size_t area, float *y);

/** The filters of one group of a convolution: float32[out, in, kh, kw], as the model has them. */
typedef struct fedtrain_filters {
    size_t out, in, kh, kw;
} fedtrain_filters;

/** As columns float32[kh, kw, in, out_pad], and such a gradient back. Pads are not written: they
 * are 0 from the start. */
void fedtrain_filters_columns(const fedtrain_filters *f, const float *weight, size_t out_pad,
                              float *columns);
void fedtrain_filters_weight(const fedtrain_filters *f, const float *columns, size_t out_pad,
                             float *weight);

/**
 * What the way back to every stride-th input needs: the filters' rows and columns that meet these
 * inputs, which are ky, ky + stride, ... and kx, kx + stride, ..., the last first.
 * back: float32[those rows, those columns, out, in_pad]
 */
void fedtrain_filters_back(const fedtrain_filters *f, const float *weight, size_t stride, size_t ky,
                           size_t kx, size_t in_pad, float *back);

/** As rows float32[out, kh, row_pad] of kw * in values side by side, and such a gradient back. */
void fedtrain_filters_rows(const fedtrain_filters *f, const float *weight, size_t row_pad,
                           float *rows);
void fedtrain_filters_from_rows(const fedtrain_filters *f, const float *rows, size_t row_pad,
                                float *weight);

/** A convolution's output gradient of one sample, by channel and by position. */
typedef struct fedtrain_conv_grad {
    fedtrain_sparse by_channel;  /* out rows */
    fedtrain_sparse by_position; /* positions rows; not filled where count is NULL */
} fedtrain_conv_grad;

/** What is not 0 of it behind a max-pool without overlap: dy float32[windows, out] goes to the
 * winners int32[windows, out], which are positions of the convolution's output. */
void fedtrain_conv_grad_pooled(const fedtrain_sparse_conv *c, const int32_t *winner,
                               const float *dy, size_t windows, fedtrain_conv_grad *grad);

#endif
