/* Dense layers and convolutions on a GPU: three products of matrices, and the biases' sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

/* As in matrix.cl. */
typedef struct window {
    uint32_t batch, groups;
    uint32_t c, h, w;
    uint32_t o, oh, ow;
    uint32_t kh, kw, stride, pad;
} window;

enum { TILE = 64, SLAB = 16, PART = 512, BUSY = 256 };

/* Without "each" a dense layer has one position, and the whole of a sample as its channels. */
static window window_of(const fed_layer *l, uint32_t batch) {
    if (l->kind == FED_LAYER_CONV) {
        return (window){batch,    l->groups, l->in.c, l->in.h, l->in.w,   l->out.c,
                        l->out.h, l->out.w,  l->kh,   l->kw,   l->stride, l->pad};
    }
    const uint32_t h = l->each ? l->in.h : 1, w = l->each ? l->in.w : 1;
    const uint32_t c = (uint32_t)fedtrain_shape_size(l->in) / (h * w);
    return (window){batch, 1, c, h, w, l->out.c, h, w, 1, 1, 1, 0};
}

static uint32_t tiles(uint32_t rows, uint32_t columns) {
    return ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
}

static uint32_t weights(const window *s) {
    return s->o * (s->c / s->groups) * s->kh * s->kw;
}

/* The positions of one part of a weight's sum: enough parts to keep a device busy, each of PART
 * positions at least. The shapes alone decide, so all devices sum alike. */
static uint32_t part_size(const window *s, uint32_t *parts) {
    const uint32_t all = s->batch * s->oh * s->ow;
    const uint32_t made = s->groups * tiles(s->o / s->groups, s->c / s->groups * s->kh * s->kw);
    const uint32_t most = all / PART + 1, wanted = BUSY / made + 1;
    const uint32_t count = wanted < most ? wanted : most;
    const uint32_t each = ((all + count - 1) / count + SLAB - 1) / SLAB * SLAB;
    *parts = (all + each - 1) / each;
    return each;
}

static size_t matrix_work_bytes(const fed_layer *layer, size_t max_batch) {
    size_t most = 0;
    for (uint32_t batch = 1; batch <= max_batch; batch++) {
        const window s = window_of(layer, batch);
        uint32_t parts;
        part_size(&s, &parts);
        const size_t bytes = (size_t)parts * weights(&s) * sizeof(float);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static fed_status matrix_forward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const window s = window_of(l, op->batch);
    const float *bias = l->has_bias ? fedtrain_gpu_tensor(op, l->bias) : NULL;
    const uint32_t by_product = s.oh * s.ow == 1;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),  FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight)),
                                FED_GPU_AT(bias),  FED_GPU_AT(op->x[0]),
                                FED_GPU_AT(op->y), FED_GPU_VALUE(by_product)};
    const uint32_t groups = s.groups * tiles(s.o / s.groups, s.batch * s.oh * s.ow);
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_forward", groups, args);
}

static fed_status weight_backward(const fedtrain_gpu_op *op, const window *s) {
    uint32_t parts;
    const uint32_t each = part_size(s, &parts), n = weights(s), adds = op->adds_weight;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(*s), FED_GPU_AT(op->x[0]), FED_GPU_AT(op->dy),
                                FED_GPU_AT(op->work), FED_GPU_VALUE(each)};
    const fed_gpu_arg sum[] = {FED_GPU_AT(op->work),
                               FED_GPU_AT(fedtrain_gpu_grad(op, op->layer->weight)),
                               FED_GPU_VALUE(n), FED_GPU_VALUE(parts), FED_GPU_VALUE(adds)};
    const uint32_t made =
        s->groups * tiles(s->o / s->groups, s->c / s->groups * s->kh * s->kw) * parts;
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "matrix_weight", made, args));
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_parts", fedtrain_gpu_groups(n, 1), sum);
}

static fed_status input_backward(const fedtrain_gpu_op *op, const window *s) {
    const uint32_t adds = op->adds[0], by_product = s->oh * s->ow == 1;
    const fed_gpu_arg args[] = {
        FED_GPU_VALUE(*s),   FED_GPU_AT(fedtrain_gpu_tensor(op, op->layer->weight)),
        FED_GPU_AT(op->dy),  FED_GPU_AT(op->dx[0]),
        FED_GPU_VALUE(adds), FED_GPU_VALUE(by_product)};
    const uint32_t groups = s->groups * tiles(s->c / s->groups, s->batch * s->h * s->w);
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_input", groups, args);
}

static fed_status matrix_backward(const fedtrain_gpu_op *op) {
    const window s = window_of(op->layer, op->batch);
    FED_TRY(weight_backward(op, &s));
    if (op->layer->has_bias) {
        const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(op->dy),
                                    FED_GPU_AT(fedtrain_gpu_grad(op, op->layer->bias))};
        FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "matrix_bias", s.o, args));
    }
    return op->dx[0] != NULL ? input_backward(op, &s) : FED_OK;
}

extern const fedtrain_gpu_kind fedtrain_gpu_dense, fedtrain_gpu_conv;

const fedtrain_gpu_kind fedtrain_gpu_dense = {
    .text = fedtrain_gpu_matrix_text,
    .forward = matrix_forward,
    .backward = matrix_backward,
    .work_bytes = matrix_work_bytes,
};

const fedtrain_gpu_kind fedtrain_gpu_conv = {
    .text = fedtrain_gpu_matrix_text,
    .forward = matrix_forward,
    .backward = matrix_backward,
    .work_bytes = matrix_work_bytes,
};
