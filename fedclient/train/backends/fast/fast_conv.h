/* Declarations that the files of the fast backend's convolutions share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FAST_CONV_H
#define FEDTRAIN_FAST_CONV_H

#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

/** A view tells where the sparse sums find the patches of a picture and the weights of an output:
 * in the picture itself (plain), or in its copy by im2col (unrolled). */
typedef struct fast_view {
    fedtrain_sparse_conv sizes;
    size_t line, step;         /* floats to the patch below, and to the one on the right */
    size_t together;           /* number of rows of the kernel that share a vector */
    uint32_t *segment, *patch; /* the arrays that sizes points to */
    uint32_t *tap;             /* uint32[kh, kw]: where an output's weights of one tap begin */
} fast_view;

/** A convolution with a max-pool merged into it. Only the largest value of each of the pool's
 * windows has a gradient, so the backward pass visits only these. */
typedef struct fast_conv_pooled {
    fast_view plain, unrolled; /* unrolled: for the weights' gradient, unless im2col.rows is 0 */
    fedtrain_im2col im2col;
    float *rows;          /* the weights, as load_rows in fast_conv_pooled.c lays them out */
    fedtrain_sparse grad; /* gradient of one sample's output, if the input needs a gradient */

    /* Two regions of memory, each with one use in the forward and another in the backward pass. */
    float *packed, *grad_rows;  /* forward: the packed weights; backward: the gradient of rows */
    float *output, *unrolled_x; /* forward: y before the pool; backward: x after im2col */
} fast_conv_pooled;

/** Return whether this pool can be merged into this convolution. */
bool fedtrain_conv_merges_pool(const fed_layer *conv, const fed_layer *pool);

/** Plan the memory. packed: number of floats of the packed weights. */
void fedtrain_conv_pooled_plan(const fast_net *f, const fast_node *s, size_t packed,
                               fast_conv_pooled *p, fast_arena *a);
void fedtrain_conv_pooled_start(const fast_net *f, const fed_layer *l, fast_conv_pooled *p);

/** Do what fast_op's backward does, except that the bias's gradient is added to bias, float32[out],
 * and not given to the sink. */
void fedtrain_conv_pooled_backward(const fast_net *f, const fast_node *s, fast_conv_pooled *p,
                                   float *bias, const fast_flow *w);

#endif
