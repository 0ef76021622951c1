/* Products of matrices on a GPU, for layers whose kernels' text begins with matrix.cl. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_GPU_MATRIX_H
#define FEDTRAIN_GPU_MATRIX_H

#include "fedclient/train/backends/gpu/gpu_op.h"

/** A convolution of [batch, c, h, w] to [batch, o, oh, ow]; the same struct as in matrix.cl. A
 * product at each position is a convolution with a window of 1 x 1. */
typedef struct fedtrain_gpu_window {
    uint32_t batch, groups;
    uint32_t c, h, w;
    uint32_t o, oh, ow;
    uint32_t kh, kw, stride, pad;
} fedtrain_gpu_window;

/** The operands and results of products, all on the device. */
typedef struct fedtrain_gpu_product {
    fedtrain_gpu_window window;
    const float *weight, *bias; /* bias: NULL for none */
    const float *x, *dy;
    float *y;
    float *dweight, *dbias; /* dbias: NULL for none */
    bool adds_weight;       /* add the gradient to dweight; otherwise overwrite dweight */
    float *dx;              /* NULL: not needed */
    bool adds;              /* add the gradient to dx; otherwise overwrite dx */
} fedtrain_gpu_product;

/** The bytes of op->work that the backward pass needs, for batches of 1 to max_batch. */
size_t fedtrain_gpu_product_work_bytes(fedtrain_gpu_window window, size_t max_batch);

/** Compute y from weight, bias and x. */
fed_status fedtrain_gpu_product_forward(const fedtrain_gpu_op *op,
                                        const fedtrain_gpu_product *p) FED_CHECKED;

/** Compute dweight, dbias and dx, in this order, from weight, x and dy. */
fed_status fedtrain_gpu_product_backward(const fedtrain_gpu_op *op,
                                         const fedtrain_gpu_product *p) FED_CHECKED;

#endif
