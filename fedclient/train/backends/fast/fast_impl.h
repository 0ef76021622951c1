/* Inside the fast backend: values, nodes, and the functions of each kind of layer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FAST_IMPL_H
#define FEDTRAIN_FAST_IMPL_H

#include <stdbool.h>

#include "fed/small.h"
#include "fedclient/train/backend_vtable.h"
#include "fedclient/train/kernels.h"
#include "fedtrain/net.h"

/*
 * A net is a list of nodes, run forward in order and backward in reverse order. A node reads and
 * writes values, which are channels-last: float32[batch, h, w, c]. So a sequence, whose shape is
 * {size, T, 1}, is float32[batch, T, size]. All memory is planned when the net is made:
 *
 * - Nodes of some kinds write their output over an input of the same size, if no other node reads
 *   that input, and if the node that computed the input does not need it for its gradient. Most
 *   other values have memory of their own.
 * - A value has a gradient if it depends on parameters. In the backward pass the first node that
 *   writes the gradient gets memory for it, and later nodes add to it. The memory is free again
 *   when the node that computed the value has read the gradient. A node may write its input's
 *   gradient over its output's.
 * - A node may be merged into the node before, which then does the work of both: its `out` is the
 *   merged node's output.
 */

typedef struct fast_value {
    fed_shape shape;
    size_t size;    /* number of values in a sample */
    size_t readers; /* how many inputs of layers are this value */
    bool trained;   /* the value depends on parameters, so it has a gradient */
    float *data;    /* float32[max_batch, h, w, c]; NULL between merged nodes */
    float *grad;    /* like data: dloss / dvalue; NULL: not needed */
    size_t slot;    /* which of the slots of fast_plan.c holds the gradient */
} fast_value;

typedef struct fast_op fast_op;

typedef struct fast_node {
    const fed_layer *layer;
    const fast_op *op;
    void *own; /* op->own_bytes, zeros at first: data of this kind of layer */
    fast_value *in[FED_LAYER_INPUTS], *out;
    bool adds[FED_LAYER_INPUTS];    /* this input's gradient has values already: add to them */
    bool adds_weight;               /* a later layer shares the weight and has begun its gradient */
    bool begins_grad;               /* no layer reads the output: set its gradient to 0 */
    bool keeps_output;              /* the backward pass reads `out` */
    const struct fast_node *merged; /* the next node, whose work this node does too; NULL: none */
    bool is_merged;                 /* the node before does the work of this node */
} fast_node;

typedef struct fast_net {
    const fed_arch *arch;
    const fedtrain_kernels *kernels;
    size_t max_batch, batch; /* batch: samples of the last forward pass */
    bool has_tied;           /* several layers share a weight */
    bool borrows_scores;     /* the last value and its gradient use the caller's memory */
    fast_value *values;      /* [layer_count + 1] */
    fast_node *nodes;        /* [layer_count] */
    char *own;               /* the memory that the nodes' `own` point into */
    float *memory;           /* all memory that was planned */
    fedtrain_memory bytes;
} fast_net;

typedef enum fast_part {
    FAST_ACTIVATIONS,
    FAST_GRADIENTS,
    FAST_WORKSPACE,
    FAST_SHARED, /* each node uses it only during a call of forward or backward */
    FAST_PARTS
} fast_part;

/** Gives out memory in order. All memory is planned twice: the first time with NULL pointers, to
 * find the sizes. */
typedef struct fast_arena {
    float *base[FAST_PARTS];
    size_t used[FAST_PARTS]; /* floats */
} fast_arena;

/** Number of floats in a cache line. */
enum { FAST_LINE = 16 };

/** Take memory for n values of 4 bytes, and FEDTRAIN_SLACK more. It begins on a cache line, and is
 * 0 at first. */
void *fedtrain_fast_take(fast_arena *a, fast_part part, size_t n);

/** Decide which node reads which value, which nodes are merged, and which values share memory;
 * then allocate the memory. Errors: FED_ENOMEM */
fed_status fedtrain_fast_plan(fast_net *f) FED_CHECKED;

/** A backward pass, and where the gradient goes. */
typedef struct fast_flow {
    const fedtrain_pass *pass;
    float *grad;        /* float32[trained]; with an update, only room for a part of it */
    fedtrain_sink sink; /* done NULL: no sink */
    const fedtrain_update *update; /* NULL: the sink gets whole layers; else parts of layers */
} fast_flow;

/** The functions of a kind of layer. All but forward and backward may be NULL. */
struct fast_op {
    size_t own_bytes;
    bool in_place;      /* the output may be written over an input of the same shape */
    bool grad_in_place; /* an input's gradient may be written over the output's */
    bool keeps_output;  /* the backward pass reads the output */
    bool keeps_merged;  /* backward reads the output if a node is merged into this one */
    bool is_exact;      /* forward writes only the output; backward never writes out->grad */

    /** Return whether this node can do the work of the next node too. Called only if no other node
     * reads this node's output. */
    bool (*merges)(const fed_layer *own, const fed_layer *next);

    /** Set sizes, and take memory other than the values' memory. Called twice, and must take the
     * same memory both times. */
    void (*plan)(fast_net *f, fast_node *s, fast_arena *a);

    /** Called once memory is allocated: fill in data that never changes. */
    void (*start)(const fast_net *f, fast_node *s);

    /** Compute out->data from in[]->data, for pass->batch samples. */
    void (*forward)(const fast_net *f, fast_node *s, const fedtrain_pass *pass);

    /** Compute in[]->grad from out->grad, where in[]->grad is not NULL. Where adds[] is
     * true, add to in[]->grad. Also compute the gradients of the node's parameters. Called only if
     * out->trained. */
    void (*backward)(const fast_net *f, fast_node *s, const fast_flow *w);

    void (*keep_statistics)(const fast_net *f, const fast_node *s, float *params);
    void (*forget)(const fast_net *f, fast_node *s);
};

/** The data of a max-pool; also used by a convolution that the pool is merged into. */
typedef struct fast_pool {
    fedtrain_pool sizes;
    int32_t *winner; /* shaped as the output: the position of each window's largest value */
} fast_pool;

extern const fast_op fedtrain_op_dense, fedtrain_op_each, fedtrain_op_conv, fedtrain_op_maxpool,
    fedtrain_op_avgpool, fedtrain_op_relu, fedtrain_op_tanh, fedtrain_op_sigmoid,
    fedtrain_op_dropout, fedtrain_op_batchnorm, fedtrain_op_lrn, fedtrain_op_embedding,
    fedtrain_op_lstm, fedtrain_op_widen, fedtrain_op_add, fedtrain_op_concat;

static inline size_t fedtrain_fast_offset(const fast_net *f, size_t tensor) {
    return f->arch->layout.tensors[tensor].offset;
}

/** Return where to write the gradient of the parameters from offset on. */
static inline float *fedtrain_fast_grad_at(const fast_flow *w, size_t offset) {
    return w->update != NULL ? w->grad : w->grad + offset;
}

/** Report that the gradient of n parameters from offset on is complete. With an update, the sink
 * gets it now, while it is in cache. */
static inline void fedtrain_fast_grad_done(const fast_flow *w, size_t offset, const float *grad,
                                           size_t n) {
    if (w->update != NULL) {
        w->sink.done(w->sink.user, offset, grad, n);
    }
}

/** The product of many vectors with one weight matrix: y[i, :] = bias + W x[i, :] for i < rows.
 * x float32[rows, in]   y float32[rows, out]   W float32[out, in] */
typedef struct fast_matrix {
    size_t rows, in, out;
} fast_matrix;

/** Number of floats of scratch memory that forward and backward need. */
size_t fedtrain_fast_matrix_scratch(const fast_net *f, const fast_matrix *m);

/** Compute y. bias: NULL for none. */
void fedtrain_fast_matrix_forward(const fast_net *f, const fast_matrix *m, const float *weight,
                                  const float *bias, const float *x, float *y, float *scratch);

/** The operands and results of the backward pass of a product. */
typedef struct fast_matrix_grad {
    const float *x, *dy;
    float *dx; /* overwritten, or with `adds` added to; NULL: not needed */
    bool adds;
    size_t weight; /* the offset of the weight among the parameters */
    bool adds_weight;
    bool has_bias;
    size_t bias;
} fast_matrix_grad;

/** Compute dx and the parameters' gradients; call fedtrain_fast_grad_done for these. */
void fedtrain_fast_matrix_backward(const fast_net *f, const fast_matrix *m,
                                   const fast_matrix_grad *g, const fast_flow *w, float *scratch);

/** Return the function that makes pairs of bfloat16 for products, or NULL if products read
 * float32. */
static inline fedtrain_pairs *fedtrain_fast_pairs(const fast_net *f) {
#if FED_SMALL
    (void)f;
    return NULL;
#else
    return f->kernels->pairs;
#endif
}

/** Return the operand of products for n values: x itself, or its pairs, written to pairs,
 * float32[n]. */
static inline const float *fedtrain_fast_operand(const fast_net *f, const float *x, size_t n,
                                                 size_t apart, float *pairs) {
    if (fedtrain_fast_pairs(f) == NULL) {
        return x;
    }
    fedtrain_fast_pairs(f)(x, n, apart, pairs);
    return pairs;
}

/** `merges` of layers that can apply a ReLU to their output. */
static inline bool fedtrain_fast_merges_relu(const fed_layer *own, const fed_layer *next) {
    (void)own;
    return next->kind == FED_LAYER_RELU;
}

static inline size_t fedtrain_fast_area(fed_shape s) {
    return (size_t)s.h * s.w;
}

static inline size_t fedtrain_fast_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t fedtrain_fast_round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

#endif
