/* Inside the reference backend: the functions of a kind of layer, and their arguments. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_REFERENCE_H
#define FEDTRAIN_REFERENCE_H

#include "fedclient/train/backend_vtable.h"

/* Each layer follows its definition, over a whole batch. Values are float32[batch, c, h, w]. Sums
 * and gradients are double, so they are rounded little. Each layer adds to the gradients, which
 * begin at 0. */

/** A layer in a pass: the arguments of its functions. */
typedef struct fedtrain_reference_op {
    const fed_arch *arch;
    const fed_layer *layer;
    const fedtrain_pass *pass;
    const float *x[FED_LAYER_INPUTS];
    float *y;
    void *kept; /* kept_bytes bytes, 0 at first, kept from call to call */

    const double *dy;             /* gradient of y; dy, dx and grad are for backward only */
    double *dx[FED_LAYER_INPUTS]; /* the inputs' gradients; equal inputs share one */
    double *grad;                 /* float64[trained] */
} fedtrain_reference_op;

typedef struct fedtrain_reference_kind {
    void (*forward)(const fedtrain_reference_op *op);
    void (*backward)(const fedtrain_reference_op *op);

    /* May be NULL. */
    size_t (*kept_bytes)(const fed_layer *layer, size_t max_batch);
    void (*keep_statistics)(const fed_arch *arch, const fed_layer *layer, const void *kept,
                            float *params);
} fedtrain_reference_kind;

extern const fedtrain_reference_kind fedtrain_reference_dense, fedtrain_reference_embedding,
    fedtrain_reference_conv, fedtrain_reference_maxpool, fedtrain_reference_avgpool,
    fedtrain_reference_relu, fedtrain_reference_tanh, fedtrain_reference_sigmoid,
    fedtrain_reference_dropout, fedtrain_reference_batchnorm, fedtrain_reference_lrn,
    fedtrain_reference_lstm, fedtrain_reference_widen, fedtrain_reference_add,
    fedtrain_reference_concat;

/** A tensor's values. */
static inline const float *fedtrain_reference_tensor(const fedtrain_reference_op *op,
                                                     size_t tensor) {
    return op->pass->params + op->arch->layout.tensors[tensor].offset;
}

/** A tensor's gradient. */
static inline double *fedtrain_reference_grad(const fedtrain_reference_op *op, size_t tensor) {
    return op->grad + op->arch->layout.tensors[tensor].offset;
}

static inline fed_shape fedtrain_reference_shape(const fed_arch *arch, size_t value) {
    return value == 0 ? arch->input : arch->layers[value - 1].out;
}

/** An element of an array float32[batch, c, h, w]. In the functions below, s is {c, h, w}. */
typedef struct fedtrain_reference_place {
    size_t b, c, y, x;
} fedtrain_reference_place;

static inline fedtrain_reference_place fedtrain_reference_place_of(fed_shape s, size_t index) {
    return (fedtrain_reference_place){.b = index / s.w / s.h / s.c,
                                      .c = index / s.w / s.h % s.c,
                                      .y = index / s.w % s.h,
                                      .x = index % s.w};
}

static inline size_t fedtrain_reference_at(fed_shape s, size_t b, size_t c, size_t y, size_t x) {
    return ((b * s.c + c) * s.h + y) * s.w + x;
}

/** Find the input position of tap (ky, kx) of an output's window; false: it is in the padding. */
static inline bool fedtrain_reference_tap(const fed_layer *l, fedtrain_reference_place out,
                                          size_t ky, size_t kx, size_t *y, size_t *x) {
    *y = out.y * l->stride + ky - l->pad; /* a negative place becomes a very large one */
    *x = out.x * l->stride + kx - l->pad;
    return *y < l->in.h && *x < l->in.w;
}

#endif
