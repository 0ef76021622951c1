/* Embeddings on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/backends/gpu/gpu_op.h"

/* The number of words in a batch. */
static uint32_t words_of(const fedtrain_gpu_op *op) {
    return fedtrain_gpu_values(op, op->layer->in);
}

/* Two numbers for each place: the next place with the same word, and whether this place is the
 * word's first. */
static size_t embedding_work_bytes(const fed_layer *layer, size_t max_batch) {
    return 2 * max_batch * fedtrain_shape_size(layer->in) * sizeof(uint32_t);
}

static fed_status embedding_forward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const uint32_t steps = (uint32_t)fedtrain_shape_size(l->in), size = l->out.c;
    const uint32_t n = fedtrain_gpu_values(op, l->out);
    const fed_gpu_arg args[] = {
        FED_GPU_AT(op->x[0]), FED_GPU_AT(fedtrain_gpu_tensor(op, l->weight)),
        FED_GPU_AT(op->y),    FED_GPU_VALUE(size),
        FED_GPU_VALUE(steps), FED_GPU_VALUE(n)};
    return FEDTRAIN_GPU_LAUNCH(op, "embedding_forward", fedtrain_gpu_groups(n, 1), args);
}

static fed_status embedding_backward(const fedtrain_gpu_op *op) {
    const fed_layer *l = op->layer;
    const uint32_t steps = (uint32_t)fedtrain_shape_size(l->in), size = l->out.c;
    const uint32_t n = words_of(op);
    uint32_t *next = op->work, *first = next + n;
    float *dweight = fedtrain_gpu_grad(op, l->weight);
    const fed_gpu_arg chain[] = {FED_GPU_AT(op->x[0]), FED_GPU_VALUE(n), FED_GPU_AT(next),
                                 FED_GPU_AT(first)};
    const fed_gpu_arg args[] = {FED_GPU_AT(op->x[0]), FED_GPU_AT(next),    FED_GPU_AT(first),
                                FED_GPU_AT(op->dy),   FED_GPU_AT(dweight), FED_GPU_VALUE(size),
                                FED_GPU_VALUE(steps), FED_GPU_VALUE(n)};
    if (!op->adds_weight) {
        FED_TRY(
            fed_gpu_fill(op->stream, dweight, 0, (size_t)op->arch->words * size * sizeof *dweight));
    }
    FED_TRY(FEDTRAIN_GPU_LAUNCH(op, "embedding_chain", fedtrain_gpu_groups(n, 1), chain));
    return FEDTRAIN_GPU_LAUNCH(op, "embedding_backward", n, args);
}

extern const fedtrain_gpu_kind fedtrain_gpu_embedding;

const fedtrain_gpu_kind fedtrain_gpu_embedding = {
    .text = fedtrain_gpu_embedding_text,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .work_bytes = embedding_work_bytes,
};
