/* Inside the fast backend: values, nodes, and what each kind of layer implements. */
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
 * writes values, which are channels-last: float32[batch, h, w, c]; a sequence {size, T, 1} is so
 * float32[batch, T, size]. All memory is planned when the net is made:
 *
 * - A value has memory of its own, unless a node may write over its input. It may where no other
 *   node reads that input, and the node that gave it does not need it for its gradient.
 * - A value has a gradient if parameters have a part in it. In the backward pass the first node
 *   that writes the gradient takes memory for it, later ones add to it. The memory is free again
 *   when the node that gave the value has read it. A node may write its input's gradient over its
 *   output's.
 * - A node may be merged into the one before, which then does both: its `out` is the merged one's.
 */

typedef struct fast_value {
    fed_shape shape;
    size_t size;    /* values a sample */
    size_t readers; /* layers that take it */
    bool trained;   /* parameters have a part in it: it has a gradient */
    float *data;    /* float32[max_batch, h, w, c]; NULL between merged nodes */
    float *grad;    /* like data: dloss / dvalue; NULL where nobody wants it */
    size_t slot;    /* of the gradients' memory; fast_plan.c */
} fast_value;

typedef struct fast_op fast_op;

typedef struct fast_node {
    const fed_layer *layer;
    const fast_op *op;
    void *own; /* op->own_bytes, zeros at first: what only this kind knows */
    fast_value *in[FED_LAYER_INPUTS], *out;
    bool adds[FED_LAYER_INPUTS]; /* this input's gradient is begun: add to it */
    bool adds_weight;            /* a later layer has the same weight, and has begun its gradient */
    bool begins_grad;            /* nobody reads the output: its gradient is 0 */
    bool keeps_output;           /* backward reads `out` */
    const struct fast_node *merged; /* the next node, whose work this one does too; or NULL */
    bool is_merged;                 /* the node before does this one's work */
} fast_node;

typedef struct fast_net {
    const fed_arch *arch;
    const fedtrain_kernels *kernels;
    size_t max_batch, batch; /* batch: of the last forward pass */
    bool has_tied;           /* some weights have more than one layer */
    bool borrows_scores;     /* the last value's memory, and its gradient's, are the caller's */
    fast_value *values;      /* [layer_count + 1] */
    fast_node *nodes;        /* [layer_count] */
    char *own;               /* the nodes' */
    float *memory;           /* all that is planned */
    fedtrain_memory bytes;
} fast_net;

/* ---- Memory ---- */

typedef enum fast_part {
    FAST_ACTIVATIONS,
    FAST_GRADIENTS,
    FAST_WORKSPACE,
    FAST_SHARED, /* each node may use it during its forward and its backward, then it is lost */
    FAST_PARTS
} fast_part;

/** Deals memory out in order. Everything is planned twice: first to count, all pointers NULL. */
typedef struct fast_arena {
    float *base[FAST_PARTS];
    size_t used[FAST_PARTS]; /* floats */
} fast_arena;

/** Floats in a line of cache. */
enum { FAST_LINE = 16 };

/** Memory for n values of 4 bytes, 0 at first, on a cache line, then FEDTRAIN_SLACK. */
void *fedtrain_fast_take(fast_arena *a, fast_part part, size_t n);

/** Plans which node reads which value, merged nodes, and shared memory; then allocates it.
 * Errors: FED_ENOMEM */
fed_status fedtrain_fast_plan(fast_net *f) FED_CHECKED;

/* ---- Layers ---- */

/** A backward pass, and where its gradient goes. */
typedef struct fast_flow {
    const fedtrain_pass *pass;
    float *grad;        /* float32[trained]; with an update, only room for a part of it */
    fedtrain_sink sink; /* done NULL: nobody asks */
    const fedtrain_update *update; /* NULL: the sink gets whole layers, else any parts of them */
} fast_flow;

/** What a kind of layer implements; may be NULL: merges, plan, start, keep_statistics, forget. */
struct fast_op {
    size_t own_bytes;
    bool in_place;      /* may write over an input of the same shape */
    bool grad_in_place; /* may write an input's gradient over the output's */
    bool keeps_output;  /* backward reads what it gave */
    bool keeps_merged;  /* so it does with another one merged */
    bool is_exact;      /* writes no more than its output, whose gradient it only reads */

    /** May this node do the work of the next one too, the only one to read its output? */
    bool (*merges)(const fed_layer *own, const fed_layer *next);

    /** Sizes, and memory other than the values'. Called twice: the same must be taken. */
    void (*plan)(fast_net *f, fast_node *s, fast_arena *a);

    /** Once there is memory: what never changes. */
    void (*start)(const fast_net *f, fast_node *s);

    /** in[]->data to out->data, pass->batch samples. */
    void (*forward)(const fast_net *f, fast_node *s, const fedtrain_pass *pass);

    /** out->grad to in[]->grad where that is not NULL, overwritten or (adds[]) added to; and to the
     * gradients of the node's parameters. Called only where out->trained. */
    void (*backward)(const fast_net *f, fast_node *s, const fast_flow *w);

    void (*keep_statistics)(const fast_net *f, const fast_node *s, float *params);
    void (*forget)(const fast_net *f, fast_node *s);
};

/** What a max-pool keeps; a convolution that it is merged into uses it. */
typedef struct fast_pool {
    fedtrain_pool sizes;
    int32_t *winner; /* int32, like the output */
} fast_pool;

extern const fast_op fedtrain_op_dense, fedtrain_op_each, fedtrain_op_conv, fedtrain_op_maxpool,
    fedtrain_op_avgpool, fedtrain_op_relu, fedtrain_op_tanh, fedtrain_op_sigmoid,
    fedtrain_op_dropout, fedtrain_op_batchnorm, fedtrain_op_lrn, fedtrain_op_embedding,
    fedtrain_op_lstm, fedtrain_op_widen, fedtrain_op_add, fedtrain_op_concat;

/** Where a tensor's values begin among the parameters. */
static inline size_t fedtrain_fast_offset(const fast_net *f, size_t tensor) {
    return f->arch->layout.tensors[tensor].offset;
}

/** Where the gradient of the parameters from offset on is to be written. */
static inline float *fedtrain_fast_grad_at(const fast_flow *w, size_t offset) {
    return w->update != NULL ? w->grad : w->grad + offset;
}

/** The gradient of n parameters from offset on is summed: an update takes it, still in cache. */
static inline void fedtrain_fast_grad_done(const fast_flow *w, size_t offset, const float *grad,
                                           size_t n) {
    if (w->update != NULL) {
        w->sink.done(w->sink.user, offset, grad, n);
    }
}

/** Many vectors times one weight: y[i, :] = bias + W x[i, :] for i < rows.
 * x float32[rows, in]   y float32[rows, out]   W float32[out, in] */
typedef struct fast_matrix {
    size_t rows, in, out;
} fast_matrix;

/** Floats that forward and backward need to work. */
size_t fedtrain_fast_matrix_scratch(const fast_net *f, const fast_matrix *m);

/** bias: NULL for none */
void fedtrain_fast_matrix_forward(const fast_net *f, const fast_matrix *m, const float *weight,
                                  const float *bias, const float *x, float *y, float *scratch);

/** What gradients come from, and where they go. */
typedef struct fast_matrix_grad {
    const float *x, *dy;
    float *dx; /* overwritten, or (adds) added to; NULL: nobody wants it */
    bool adds;
    size_t weight; /* among the parameters */
    bool adds_weight;
    bool has_bias;
    size_t bias;
} fast_matrix_grad;

/** dx, and the gradients of weight and bias, which are put to use. */
void fedtrain_fast_matrix_backward(const fast_net *f, const fast_matrix *m,
                                   const fast_matrix_grad *g, const fast_flow *w, float *scratch);

/** The function that makes the pairs of bfloat16 which this net's products read. NULL: they read
 * float32. */
static inline fedtrain_pairs *fedtrain_fast_pairs(const fast_net *f) {
#if FED_SMALL
    (void)f;
    return NULL;
#else
    return f->kernels->pairs;
#endif
}

/** What products read of n values: themselves, or their pairs, which are made in float32[n]. */
static inline const float *fedtrain_fast_operand(const fast_net *f, const float *x, size_t n,
                                                 size_t apart, float *pairs) {
    if (fedtrain_fast_pairs(f) == NULL) {
        return x;
    }
    fedtrain_fast_pairs(f)(x, n, apart, pairs);
    return pairs;
}

/** The `merges` of a layer that can do a ReLU, too. */
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
