/* The fast backend's convolutions: what their files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FAST_CONV_H
#define FEDTRAIN_FAST_CONV_H

#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

/** How sparse sums find a picture's patches and an output's weights: plain, or by im2col. */
typedef struct fast_view {
    fedtrain_sparse_conv sizes;
    size_t line, step;         /* floats from a patch to the one below, and on the right */
    size_t together;           /* rows of the kernel that share a vector */
    uint32_t *segment, *patch; /* what sizes points to */
    uint32_t *tap;             /* uint32[kh, kw]: where an output's weights of one tap begin */
} fast_view;

/** A max-pool follows: only the windows' winners have a gradient, and the backward pass
 * takes just these. */
typedef struct fast_conv_pooled {
    fast_view plain, unrolled; /* unrolled: the weights' gradient's, unless im2col.rows is 0 */
    fedtrain_im2col im2col;
    float *rows;          /* the weights */
    fedtrain_sparse grad; /* of one sample's output, if inputs want one too */

    /* Two regions of memory, each with a name for the forward and one for the backward pass. */
    float *packed, *grad_rows;  /* the packed weights; the gradient of rows */
    float *output, *unrolled_x; /* one sample's output, before the pool; its input by im2col */
} fast_conv_pooled;

/** May the pool be merged, and does it pay? */
bool fedtrain_conv_merges_pool(const fed_layer *conv, const fed_layer *pool);

/** packed: floats that the packed weights take. */
void fedtrain_conv_pooled_plan(const fast_net *f, const fast_node *s, size_t packed,
                               fast_conv_pooled *p, fast_arena *a);
void fedtrain_conv_pooled_start(const fast_net *f, const fed_layer *l, fast_conv_pooled *p);

/** Like fast_op's, but what concerns the bias, whose gradient float32[out] is added to. */
void fedtrain_conv_pooled_backward(const fast_net *f, const fast_node *s, fast_conv_pooled *p,
                                   float *bias, const fast_flow *w);

#endif
