/* What a model is: a chain of layers, written as a line of text, from which its tensors follow. */
#ifndef FED_ARCH_H
#define FED_ARCH_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"

/*
 * The text travels in the task, so a device can train a model that it has never heard of. It names
 * the shape of one sample, then the layers in order, separated by '|':
 *
 *     input 1x28x28 | conv 20 5x5 | maxpool 2 | conv 50 5x5 | maxpool 2 | dense 10
 *
 *   input CxHxW    the shape of a sample; or "input N", a flat vector
 *   conv OUT KHxKW stride 1, no padding
 *   maxpool K      window and stride K; an odd last row or column is dropped
 *   relu
 *   dense OUT      flattens what comes in, reading it (c, h, w)
 *
 * The last layer must be dense: its outputs are the classes' scores, trained with softmax
 * cross-entropy. At most 64 layers, 511 characters, 2^28 values a sample in each layer and 2^31
 * parameters.
 *
 * Tensors: "<kind><k>.weight" and "<kind><k>.bias", k counting from 1 within its kind, in PyTorch's
 * layouts: conv weight (out, in, kh, kw), dense weight (out, in), bias (out).
 */

typedef enum fed_layer_kind {
    FED_LAYER_DENSE = 1,
    FED_LAYER_CONV = 2,
    FED_LAYER_MAXPOOL = 3,
    FED_LAYER_RELU = 4
} fed_layer_kind;

typedef struct fed_shape {
    uint32_t c, h, w; /* a flat vector of n values is {n, 1, 1} */
} fed_shape;

typedef struct fed_layer {
    fed_layer_kind kind;
    fed_shape in, out;
    uint32_t kh, kw; /* conv: kernel; maxpool: kh = kw = window and stride; else 0 */
    size_t weight;   /* index of the weight in the layout, dense and conv only; the bias is the next
                        one */
} fed_layer;

enum { FED_ARCH_LAYERS = 64, FED_ARCH_TEXT = 512 };

typedef struct fed_arch {
    char text[FED_ARCH_TEXT]; /* canonical: one blank between words, " | " between layers */
    fed_shape input;
    uint32_t classes;
    size_t layer_count;
    fed_layer layers[FED_ARCH_LAYERS];
    fed_layout layout;
} fed_arch;

/**
 * Parse a name of models.def ("lr", "lenet5-caffe") or a line of text as above.
 * Errors: FED_EFORMAT with the word that is wrong and its column, or the names that exist. Owner:
 * fed_arch_free.
 */
fed_status fed_arch_parse(const char *name_or_text, fed_arch *arch, fed_error *err) FED_CHECKED;
void fed_arch_free(fed_arch *arch);

/** The k-th name of models.def and its text; NULL past the last. */
const char *fed_arch_name(size_t k);
const char *fed_arch_text(size_t k);

/**
 * Initial weights: each weight uniform in +-sqrt(3 / fan_in) (Caffe's "xavier"), each bias 0. The
 * same seed gives the same bits on every machine, and each tensor's do not depend on the others'.
 * values: float32[arch->layout.size]
 */
void fed_arch_init_values(const fed_arch *arch, uint64_t seed, float *values);

#endif
