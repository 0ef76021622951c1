/* Pooling on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

/* The same struct as in pool.cl. */
typedef struct pool_sizes {
    uint32_t in_h, in_w, out_h, out_w, kh, kw, stride, pad;
    uint32_t n; /* number of outputs; in the backward pass, of inputs */
} pool_sizes;

static pool_sizes sizes_of(const fed_layer *l, uint32_t n) {
    return (pool_sizes){l->in.h, l->in.w, l->out.h, l->out.w, l->kh, l->kw, l->stride, l->pad, n};
}

/* ---- Max-pool: keeps the position of each window's largest value ---- */

static size_t maxpool_kept_bytes(const fed_layer *layer, size_t max_batch) {
    return max_batch * fedtrain_shape_size(layer->out) * sizeof(uint32_t);
}

static fed_status maxpool_forward(const fedtrain_gpu_op *op) {
    const pool_sizes s = sizes_of(op->layer, fedtrain_gpu_values(op, op->layer->out));
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y),
                                FED_GPU_AT(op->kept)};
    return FEDTRAIN_GPU_LAUNCH(op, "maxpool_forward", fedtrain_gpu_groups(s.n, 1), args);
}

static fed_status maxpool_backward(const fedtrain_gpu_op *op) {
    const pool_sizes s = sizes_of(op->layer, fedtrain_gpu_values(op, op->layer->in));
    const uint32_t adds = op->adds[0];
    if (op->dx[0] == NULL) {
        return FED_OK;
    }
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->kept), FED_GPU_AT(op->dy),
                                FED_GPU_AT(op->dx[0]), FED_GPU_VALUE(adds)};
    return FEDTRAIN_GPU_LAUNCH(op, "maxpool_backward", fedtrain_gpu_groups(s.n, 1), args);
}

extern const fedtrain_gpu_kind fedtrain_gpu_maxpool, fedtrain_gpu_avgpool;

const fedtrain_gpu_kind fedtrain_gpu_maxpool = {
    .text = fedtrain_gpu_pool_text,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
    .kept_bytes = maxpool_kept_bytes,
};

/* ---- Average pool ---- */

static fed_status avgpool_forward(const fedtrain_gpu_op *op) {
    const pool_sizes s = sizes_of(op->layer, fedtrain_gpu_values(op, op->layer->out));
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y)};
    return FEDTRAIN_GPU_LAUNCH(op, "avgpool_forward", fedtrain_gpu_groups(s.n, 1), args);
}

static fed_status avgpool_backward(const fedtrain_gpu_op *op) {
    const pool_sizes s = sizes_of(op->layer, fedtrain_gpu_values(op, op->layer->in));
    const uint32_t adds = op->adds[0];
    if (op->dx[0] == NULL) {
        return FED_OK;
    }
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->dy), FED_GPU_AT(op->dx[0]),
                                FED_GPU_VALUE(adds)};
    return FEDTRAIN_GPU_LAUNCH(op, "avgpool_backward", fedtrain_gpu_groups(s.n, 1), args);
}

const fedtrain_gpu_kind fedtrain_gpu_avgpool = {
    .text = fedtrain_gpu_pool_text,
    .forward = avgpool_forward,
    .backward = avgpool_backward,
};
