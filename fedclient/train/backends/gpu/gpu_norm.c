/* Normalizations on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

/* ---- Batch normalization: keeps mean and variance of the last batch of training ---- */

/* The sizes of bn_channel and bn_sums in norm.cl. */
enum { CHANNEL_BYTES = 3 * sizeof(double), SUMS_BYTES = 2 * sizeof(double) };

enum { BUSY = 512, LEAST = 1024 };

/* Return the number of work-groups that share a channel. Several keep a device busy, but small ones
 * do not pay. Only the shapes decide, so all devices sum in the same order. */
static uint32_t bn_parts(const fed_layer *l, size_t batch) {
    const size_t values = batch * l->out.h * l->out.w, most = values / LEAST + 1;
    const size_t wanted = BUSY / l->out.c + 1, parts = wanted < most ? wanted : most;
    return (uint32_t)(parts < batch ? parts : batch);
}

static size_t bn_kept_bytes(const fed_layer *layer, size_t max_batch) {
    (void)max_batch;
    return layer->out.c * CHANNEL_BYTES;
}

static size_t bn_work_bytes(const fed_layer *layer, size_t max_batch) {
    return (size_t)layer->out.c * bn_parts(layer, max_batch) * SUMS_BYTES;
}

/* The same struct as in norm.cl. */
typedef struct bn_sizes {
    uint32_t batch, channels, area, parts;
} bn_sizes;

static bn_sizes bn_sizes_of(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    return (bn_sizes){op->batch, l->out.c, l->out.h * l->out.w, bn_parts(l, op->batch)};
}

static fed_status bn_forward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const bn_sizes s = bn_sizes_of(op);
    const void *seen = op->training ? op->kept : NULL;
    const fed_gpu_arg measure[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->work)};
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),
                                FED_GPU_AT(op->x[0]),
                                FED_GPU_AT(op->work),
                                FED_GPU_AT(seen),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->state)),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->state + 1)),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight)),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->bias)),
                                FED_GPU_AT(op->y)};
    if (op->training) {
        FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "bn_measure", s.channels * s.parts, measure));
    }
    return FEDTRAIN_GPU_LAUNCH(op, "bn_forward", s.channels * s.parts, args);
}

static fed_status bn_backward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const bn_sizes s = bn_sizes_of(op);
    const uint32_t adds = op->adds[0];
    const fed_gpu_arg sums[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->kept),
                                FED_GPU_AT(op->dy), FED_GPU_AT(op->work)};
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),
                                FED_GPU_AT(op->x[0]),
                                FED_GPU_AT(op->kept),
                                FED_GPU_AT(op->dy),
                                FED_GPU_AT(op->work),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight)),
                                FED_GPU_AT(fedtrain_gpu_grad(op, l->weight)),
                                FED_GPU_AT(fedtrain_gpu_grad(op, l->bias)),
                                FED_GPU_AT(op->dx[0]),
                                FED_GPU_VALUE(adds)};
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "bn_gradient_sums", s.channels * s.parts, sums));
    return FEDTRAIN_GPU_LAUNCH(op, "bn_backward", s.channels * s.parts, args);
}

static fed_status bn_keep_statistics(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const uint32_t channels = l->out.c;
    const fed_gpu_arg args[] = {FED_GPU_AT(op->kept), FED_GPU_VALUE(channels),
                                FED_GPU_AT(op->failed),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->state)),
                                FED_GPU_AT(fedtrain_gpu_tensor(op, l->state + 1))};
    return FEDTRAIN_GPU_LAUNCH(op, "bn_follow", fedtrain_gpu_groups(channels, 1), args);
}

extern const fedtrain_gpu_kind fedtrain_gpu_batchnorm, fedtrain_gpu_lrn;

const fedtrain_gpu_kind fedtrain_gpu_batchnorm = {
    .text = fedtrain_gpu_norm_text,
    .forward = bn_forward,
    .backward = bn_backward,
    .kept_bytes = bn_kept_bytes,
    .work_bytes = bn_work_bytes,
    .keep_statistics = bn_keep_statistics,
};

/* ---- Local response normalization: keeps the divisors between the passes ---- */

/* The same struct as in norm.cl. */
typedef struct lrn_sizes {
    uint32_t n, channels, area, before, after;
    float ratio, beta, k;
} lrn_sizes;

static lrn_sizes lrn_sizes_of(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    return (lrn_sizes){fedtrain_gpu_values(op, l->out),
                       l->in.c,
                       l->in.h * l->in.w,
                       l->span / 2,
                       (l->span - 1) / 2,
                       l->alpha / (float)l->span,
                       l->beta,
                       l->k};
}

static size_t lrn_kept_bytes(const fed_layer *layer, size_t max_batch) {
    return max_batch * fedtrain_shape_size(layer->out) * sizeof(float);
}

static fed_status lrn_forward(const fedtrain_gpu_op *op) {
    const lrn_sizes s = lrn_sizes_of(op);
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y),
                                FED_GPU_AT(op->kept)};
    return FEDTRAIN_GPU_LAUNCH(op, "lrn_forward", fedtrain_gpu_groups(s.n, 1), args);
}

static fed_status lrn_backward(const fedtrain_gpu_op *op) {
    const lrn_sizes s = lrn_sizes_of(op);
    const uint32_t adds = op->adds[0];
    if (op->dx[0] == NULL) {
        return FED_OK;
    }
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),     FED_GPU_AT(op->x[0]), FED_GPU_AT(op->y),
                                FED_GPU_AT(op->kept), FED_GPU_AT(op->dy),   FED_GPU_AT(op->dx[0]),
                                FED_GPU_VALUE(adds)};
    return FEDTRAIN_GPU_LAUNCH(op, "lrn_backward", fedtrain_gpu_groups(s.n, 1), args);
}

const fedtrain_gpu_kind fedtrain_gpu_lrn = {
    .text = fedtrain_gpu_norm_text,
    .forward = lrn_forward,
    .backward = lrn_backward,
    .kept_bytes = lrn_kept_bytes,
};
