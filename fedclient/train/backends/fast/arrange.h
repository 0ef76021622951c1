/* The fast backend's data in other orders: pictures, convolution weights, sparse gradients. */
#ifndef FEDTRAIN_ARRANGE_H
#define FEDTRAIN_ARRANGE_H

#include "fedclient/train/kernels.h"

/** One sample between the model's order (c, h, w) and ours (h, w, c); area = h * w. add: to y. */
void fedtrain_to_channels_last(const float *x, size_t channels, size_t area, bool add, float *y);
void fedtrain_to_channels_first(const float *x, size_t channels, size_t area, float *y);

/** A convolution's weight (out, in, kh, kw) as `columns` and as `rows` (see fedtrain_conv), and
 * back. Pads are not written: they are 0 from the start. */
void fedtrain_conv_columns(const fedtrain_conv *c, const float *weight, float *columns);
void fedtrain_conv_rows(const fedtrain_conv *c, const float *weight, float *rows);
void fedtrain_conv_weight(const fedtrain_conv *c, const float *rows, float *weight);

/** A convolution's output gradient of one sample, by channel and by position. */
typedef struct fedtrain_conv_grad {
    fedtrain_sparse by_channel;  /* out rows */
    fedtrain_sparse by_position; /* out_h * out_w rows; not filled where count is NULL */
} fedtrain_conv_grad;

/** What is not 0 of dy float32[out_h, out_w, out]. */
void fedtrain_conv_grad_dense(const fedtrain_conv *c, const float *dy, fedtrain_conv_grad *grad);

/** The same behind a max-pool: dy float32[p->out_h, p->out_w, out] goes to the winners. */
void fedtrain_conv_grad_pooled(const fedtrain_conv *c, const fedtrain_pool *p,
                               const int32_t *winner, const float *dy, fedtrain_conv_grad *grad);

/** dy is added to dx float32[in_h, in_w, channels] at the winners. */
void fedtrain_pool_scatter(const fedtrain_pool *p, const int32_t *winner, const float *dy,
                           float *dx);

#endif
