/* Initial weights: the same bits for a seed on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/rng.h"

/* Tensor i has the random stream (i, this number). Rounds and devices use other streams. */
enum { STREAM_INITIAL_WEIGHTS = 0x696e6974 };

/* Draw a tensor's values. Every machine gets the same bits: 2u - 1 is exact, and IEEE 754 rounds
 * the product, as well as the division and square root of scale_of, in the same way everywhere. */
static void draw(const fed_layout *layout, size_t index, float scale, uint64_t seed,
                 float *values) {
    const fed_tensor *tensor = &layout->tensors[index];
    fed_rng rng;
    fed_rng_init(&rng, seed, (uint32_t)index, STREAM_INITIAL_WEIGHTS);
    for (size_t i = 0; i < tensor->size; i++) {
        values[tensor->offset + i] = (2.0f * fed_rng_float(&rng) - 1.0f) * scale;
    }
}

static void fill_ones(const fed_layout *layout, size_t index, float *values) {
    const fed_tensor *tensor = &layout->tensors[index];
    for (size_t i = 0; i < tensor->size; i++) {
        values[tensor->offset + i] = 1.0f;
    }
}

static float scale_of(const fed_arch *arch, const fed_tensor *weight) {
    size_t fan_in = weight->size / weight->dims[0];
    return (float)sqrt((arch->init == FED_INIT_HE ? 6.0 : 3.0) / (double)fan_in);
}

static void init_layer(const fed_arch *arch, const fed_layer *layer, uint64_t seed, float *values) {
    const fed_layout *layout = &arch->layout;
    switch (layer->kind) {
    case FED_LAYER_DENSE:
    case FED_LAYER_CONV:
        if (!layer->tied) {
            draw(layout, layer->weight, scale_of(arch, &layout->tensors[layer->weight]), seed,
                 values);
        }
        break;
    case FED_LAYER_EMBEDDING:
        draw(layout, layer->weight, 0.1f, seed, values);
        break;
    case FED_LAYER_LSTM:
        for (size_t i = 0; i < 4; i++) {
            draw(layout, layer->weight + i, (float)sqrt(1.0 / layer->out.c), seed, values);
        }
        break;
    case FED_LAYER_BATCHNORM:
        fill_ones(layout, layer->weight, values);
        fill_ones(layout, layer->state + 1, values);
        break;
    default:
        break;
    }
}

void fed_arch_init_values(const fed_arch *arch, uint64_t seed, float *values) {
    memset(values, 0, arch->layout.size * sizeof *values);
    for (size_t i = 0; i < arch->layer_count; i++) {
        init_layer(arch, &arch->layers[i], seed, values);
    }
}
