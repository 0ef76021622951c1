/* The fast backend's convolutions: what their files share. */
#ifndef FEDTRAIN_FAST_CONV_H
#define FEDTRAIN_FAST_CONV_H

#include "fedclient/train/backends/fast/arrange.h"
#include "fedclient/train/backends/fast/fast_impl.h"

/** How sums over what is not 0 see a picture, and an output's weights: as they are, or lined up. */
typedef struct fast_view {
    fedtrain_sparse_conv sizes;
    size_t line, step;         /* from a patch to that below it, and right of it */
    size_t together;           /* rows of the kernel that share a vector */
    uint32_t *segment, *patch; /* what sizes points to */
    uint32_t *place;           /* uint32[kh, kw]: where an output's weights of one place begin */
} fast_view;

/** Behind a max-pool: only the windows' winners have a gradient, and backward takes just these. */
typedef struct fast_conv_pooled {
    fast_view plain, lined; /* lined: the weights' gradient's, unless lineup.rows is 0 */
    fedtrain_lineup lineup;
    float *rows;          /* the weights */
    float *grad_rows;     /* their gradient; on the way there their columns */
    fedtrain_sparse grad; /* of one sample's output, if inputs want one too */
    float *sample;        /* one's output, before the pool; on the way back its input, lined up */
} fast_conv_pooled;

/** May the pool be merged, and does it pay? */
bool fedtrain_conv_merges_pool(const fed_layer *conv, const fed_layer *pool);

/** columns: floats that the weights take on the way there. */
void fedtrain_conv_pooled_plan(const fast_net *f, const fast_stage *s, size_t columns,
                               fast_conv_pooled *p, fast_arena *a);
void fedtrain_conv_pooled_start(const fast_net *f, const fed_layer *l, fast_conv_pooled *p);

/** Like fast_op's, but what concerns the bias, whose gradient float32[out] is added to. */
void fedtrain_conv_pooled_backward(const fast_net *f, const fast_stage *s, fast_conv_pooled *p,
                                   float *bias, const fast_flow *w);

#endif
