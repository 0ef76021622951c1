/* Inside the GPU backend: the functions of a kind of layer, and their arguments. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_GPU_OP_H
#define FEDTRAIN_GPU_OP_H

#include "fed/gpu.h"
#include "fedclient/train/backend_vtable.h"

/*
 * A kind of layer is a row of the table in gpu_kinds.c. Its functions put kernels into a stream
 * and never wait. Values and gradients of values are float32[batch, c, h, w]. All arrays of numbers
 * are on the device.
 *
 * The launches of a call may depend only on the layer, the batch's size and `training`, since they
 * are recorded and run again for other samples. Sums have a fixed order, so that each run gives
 * the same bits.
 */

/** A layer in a pass: the arguments of its functions. */
typedef struct fedtrain_gpu_op {
    const fed_arch *arch;
    const fed_layer *layer;
    size_t index;
    fed_gpu_stream *stream;
    const fed_gpu_module *module; /* the compiled kernels of the layer's kind */
    uint32_t batch;
    size_t max_batch;
    bool training;
    const uint64_t *seed; /* on the device; a recorded pass runs again with another seed there */
    float *params;        /* float32[layout.size]; only keep_statistics writes it */

    const float *x[FED_LAYER_INPUTS];
    float *y;
    void *kept; /* kept_bytes bytes, 0 at first, kept from call to call */
    void *work; /* work_bytes bytes, which the next layer overwrites */

    /* For backward only. */
    const float *dy;
    float *dx[FED_LAYER_INPUTS]; /* inputs' gradients; NULL: not needed; equal inputs share one */
    bool adds[FED_LAYER_INPUTS]; /* dx holds a gradient already: add to it, in the inputs' order */
    float *grad;                 /* float32[trained] */
    bool adds_weight;            /* a later layer shares the weight: add to its gradient */

    /* *failed is not 0 if the loss was not finite: then keep_statistics changes nothing. */
    const uint32_t *failed;
} fedtrain_gpu_op;

typedef struct fedtrain_gpu_kind {
    const char *text; /* the text of X.cl, fedtrain_gpu_X_text; compiled after trainer.cl */
    fed_status (*forward)(const fedtrain_gpu_op *op) FED_CHECKED;
    fed_status (*backward)(const fedtrain_gpu_op *op) FED_CHECKED;

    /* May be NULL. */
    size_t (*kept_bytes)(const fed_layer *layer, size_t max_batch);
    size_t (*work_bytes)(const fed_layer *layer, size_t max_batch);
    fed_status (*keep_statistics)(const fedtrain_gpu_op *op) FED_CHECKED;
    bool forgets; /* the backend's `forget` sets the kept bytes to 0 */
} fedtrain_gpu_kind;

const fedtrain_gpu_kind *fedtrain_gpu_kind_of(fed_layer_kind kind);

/* The texts of the kernels, which CMake makes of the .cl files. */
extern const char fedtrain_gpu_trainer_text[], fedtrain_gpu_step_text[], fedtrain_gpu_matrix_text[],
    fedtrain_gpu_elementwise_text[], fedtrain_gpu_pool_text[], fedtrain_gpu_norm_text[],
    fedtrain_gpu_join_text[], fedtrain_gpu_embedding_text[], fedtrain_gpu_lstm_text[];

/** A tensor's values. */
static inline float *fedtrain_gpu_tensor(const fedtrain_gpu_op *op, size_t tensor) {
    return op->params + op->arch->layout.tensors[tensor].offset;
}

/** A tensor's gradient. */
static inline float *fedtrain_gpu_grad(const fedtrain_gpu_op *op, size_t tensor) {
    return op->grad + op->arch->layout.tensors[tensor].offset;
}

/** The number of values of a batch in a shape; below 2^31, as checked when the net is opened. */
static inline uint32_t fedtrain_gpu_values(const fedtrain_gpu_op *op, fed_shape shape) {
    return op->batch * (uint32_t)fedtrain_shape_size(shape);
}

static inline uint32_t fedtrain_gpu_groups(uint32_t n, uint32_t each) {
    const uint32_t tile = each * FED_GPU_GROUP;
    return n / tile + (n % tile != 0);
}

#define FEDTRAIN_GPU_LAUNCH(op, kernel, groups, args)                                              \
    fed_gpu_launch((op)->stream, (op)->module, kernel, groups, args,                               \
                   sizeof(args) / sizeof((args)[0]))

#endif
