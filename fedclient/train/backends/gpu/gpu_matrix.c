/* Dense layers and convolutions on a GPU: three products of matrices, and the biases' sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_matrix.h"

enum { TILE = 64, SLAB = 16, PART = 512, BUSY = 256 };

/* A dense layer without "each" has one position, and all values of a sample as its channels. */
static fedtrain_gpu_window window_of(const fed_layer *l, uint32_t batch) {
    if (l->kind == FED_LAYER_CONV) {
        return (fedtrain_gpu_window){batch,    l->groups, l->in.c, l->in.h, l->in.w,   l->out.c,
                                     l->out.h, l->out.w,  l->kh,   l->kw,   l->stride, l->pad};
    }
    const uint32_t h = l->each ? l->in.h : 1, w = l->each ? l->in.w : 1;
    const uint32_t c = (uint32_t)fedtrain_shape_size(l->in) / (h * w);
    return (fedtrain_gpu_window){batch, 1, c, h, w, l->out.c, h, w, 1, 1, 1, 0};
}

static uint32_t tiles(uint32_t rows, uint32_t columns) {
    return ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
}

static uint32_t weights(const fedtrain_gpu_window *s) {
    return s->o * (s->c / s->groups) * s->kh * s->kw;
}

/* A weight's gradient is a sum over the output's positions, which is computed in parts to keep a
 * device busy. Returns the positions of a part. Only the shapes decide, so every device adds in the
 * same order. */
static uint32_t part_size(const fedtrain_gpu_window *s, uint32_t *parts) {
    const uint32_t all = s->batch * s->oh * s->ow;
    const uint32_t made = s->groups * tiles(s->o / s->groups, s->c / s->groups * s->kh * s->kw);
    const uint32_t most = all / PART + 1, wanted = BUSY / made + 1;
    const uint32_t count = wanted < most ? wanted : most;
    const uint32_t share = count > 0 ? (all + count - 1) / count : all;
    const uint32_t each = (share + SLAB - 1) / SLAB * SLAB;
    *parts = each > 0 ? (all + each - 1) / each : 1;
    return each;
}

size_t fedtrain_gpu_product_work_bytes(fedtrain_gpu_window window, size_t max_batch) {
    size_t most = 0;
    for (uint32_t batch = 1; batch <= max_batch; batch++) {
        fedtrain_gpu_window s = window;
        s.batch = batch;
        uint32_t parts;
        part_size(&s, &parts);
        const size_t bytes = (size_t)parts * weights(&s) * sizeof(float);
        most = bytes > most ? bytes : most;
    }
    return most;
}

fed_status fedtrain_gpu_product_forward(const fedtrain_gpu_op *op, const fedtrain_gpu_product *p) {
    const fedtrain_gpu_window s = p->window;
    const uint32_t by_product = s.oh * s.ow == 1;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(p->weight), FED_GPU_AT(p->bias),
                                FED_GPU_AT(p->x), FED_GPU_AT(p->y),      FED_GPU_VALUE(by_product)};
    const uint32_t groups = s.groups * tiles(s.o / s.groups, s.batch * s.oh * s.ow);
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_forward", groups, args);
}

static fed_status weight_backward(const fedtrain_gpu_op *op, const fedtrain_gpu_product *p) {
    const fedtrain_gpu_window s = p->window;
    uint32_t parts;
    const uint32_t each = part_size(&s, &parts), n = weights(&s), adds = p->adds_weight;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s), FED_GPU_AT(p->x), FED_GPU_AT(p->dy),
                                FED_GPU_AT(op->work), FED_GPU_VALUE(each)};
    const fed_gpu_arg sum[] = {FED_GPU_AT(op->work), FED_GPU_AT(p->dweight), FED_GPU_VALUE(n),
                               FED_GPU_VALUE(parts), FED_GPU_VALUE(adds)};
    const uint32_t made = s.groups * tiles(s.o / s.groups, s.c / s.groups * s.kh * s.kw) * parts;
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "matrix_weight", made, args));
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_parts", fedtrain_gpu_groups(n, 1), sum);
}

static fed_status input_backward(const fedtrain_gpu_op *op, const fedtrain_gpu_product *p) {
    const fedtrain_gpu_window s = p->window;
    const uint32_t adds = p->adds, by_product = s.oh * s.ow == 1;
    const fed_gpu_arg args[] = {FED_GPU_VALUE(s),    FED_GPU_AT(p->weight),
                                FED_GPU_AT(p->dy),   FED_GPU_AT(p->dx),
                                FED_GPU_VALUE(adds), FED_GPU_VALUE(by_product)};
    const uint32_t groups = s.groups * tiles(s.c / s.groups, s.batch * s.h * s.w);
    return FEDTRAIN_GPU_LAUNCH(op, "matrix_input", groups, args);
}

fed_status fedtrain_gpu_product_backward(const fedtrain_gpu_op *op, const fedtrain_gpu_product *p) {
    const fed_gpu_arg bias[] = {FED_GPU_VALUE(p->window), FED_GPU_AT(p->dy), FED_GPU_AT(p->dbias)};
    FED_TRY(weight_backward(op, p));
    if (p->dbias != NULL) {
        FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "matrix_bias", p->window.o, bias));
    }
    return p->dx != NULL ? input_backward(op, p) : FED_OK;
}

static size_t matrix_work_bytes(const fed_layer *layer, size_t max_batch) {
    return fedtrain_gpu_product_work_bytes(window_of(layer, 1), max_batch);
}

static fed_status matrix_forward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const fedtrain_gpu_product p = {.window = window_of(l, op->batch),
                                    .weight = fedtrain_gpu_tensor(op, l->weight),
                                    .bias = l->has_bias ? fedtrain_gpu_tensor(op, l->bias) : NULL,
                                    .x = op->x[0],
                                    .y = op->y};
    return fedtrain_gpu_product_forward(op, &p);
}

static fed_status matrix_backward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const fedtrain_gpu_product p = {.window = window_of(l, op->batch),
                                    .weight = fedtrain_gpu_tensor(op, l->weight),
                                    .x = op->x[0],
                                    .dy = op->dy,
                                    .dweight = fedtrain_gpu_grad(op, l->weight),
                                    .adds_weight = op->adds_weight,
                                    .dbias = l->has_bias ? fedtrain_gpu_grad(op, l->bias) : NULL,
                                    .dx = op->dx[0],
                                    .adds = op->adds[0]};
    return fedtrain_gpu_product_backward(op, &p);
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
