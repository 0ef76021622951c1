/* A model's architecture: layers, written as a short text. The text determines the model's
 * tensors. A text may also list only tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_ARCH_H
#define FED_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/model.h"

FED_API_BEGIN

/*
 * The text travels in the task, so a device can train a model that its program does not know. The
 * text names the shape of one sample, then the layers in order, separated by '|':
 *
 *     input 1x28x28 | conv 20 5x5 | maxpool 2 | conv 50 5x5 | maxpool 2 | dense 10
 *
 * The input:
 *   input CxHxW            pictures; "input N": N features, a table's row
 *   input tokens T of N    T numbers of words, each below N; N is 2^24 at most
 *   init he                after the shape: weights in +-sqrt(6 / fan_in) instead of
 *                          +-sqrt(3 / fan_in), for deep nets of ReLUs
 *
 * The layers; each reads the value before it. K is a window's size, "3" or "3x3". P is at most half
 * of K. Words in brackets may be left out:
 *   conv OUT K [stride S] [pad P] [groups G] [nobias]
 *   dense OUT [nobias]     flattens its input, in the order (c, h, w)
 *   dense OUT each [tied EMBEDDING] [nobias]    at each position separately; tied: with the weights
 *                          of an embedding, which must have OUT words
 *   maxpool K [stride S] [pad P]     S defaults to K; padding never is the maximum
 *   avgpool [K [stride S] [pad P]]   without a window: over all positions. Padding counts as 0
 *   relu, tanh, sigmoid
 *   dropout P              in training sets a fraction P to 0 and scales up the rest
 *   bn                     batch normalization, epsilon 1e-5; each batch moves the running
 *                          statistics by a tenth
 *   lrn K [alpha A] [beta B] [k B]    across K channels; the defaults are 1e-4, 0.75 and 1
 *   embedding SIZE         of tokens
 *   lstm SIZE [layers L] [dropout P]  dropout is between its layers
 *   widen OUT              adds channels of zeros, half of them in front
 *   add NAME               the sum with another value of the same shape
 *   concat NAME ...        the channels of 1 to 3 others, then those of the value before
 *   from NAME              the next layer reads this value instead: a branch
 *
 * "NAME: layer" names a layer, its tensors and its output. A name is letters, digits, '_' and
 * single dots. A block of layers that repeats is written once and has up to 8 parameters, which are
 * numbers:
 *
 *     let basic(c,s) = conv1: conv c 3 stride s pad 1 nobias | bn1: bn | relu | conv2: conv c 3
 *         pad 1 nobias | bn2: bn | add in | relu;
 *     input 3x32x32 | conv1: conv 16 3 pad 1 nobias | bn1: bn | relu | layer1: 3 basic(16,1) | ...
 *
 * Names inside a block are local to it, and "in" is the block's input (outside: the sample).
 *
 *     layer1: 3 basic(16,1)       layer1.0, layer1.1 and layer1.2
 *     layer1: 1..2 basic(16,1)    layer1.1 and layer1.2
 *     layer1: basic(16,1)         layer1
 *
 * Their tensors are called layer1.0.conv1.weight and so on; "layer1" is the output of the last. A
 * block must be defined before it is used. Blanks, line ends and text from '#' to the end of a line
 * separate words.
 *
 * Each layer but the last must be read by a later one. The last value has the shape
 * {classes, 1, 1}, or is a sequence of these, {classes, T, 1}. It is scores, trained with softmax
 * cross-entropy; with "| mse" at the end it is numbers, trained with the mean squared error.
 *
 * "| scaffold" at the end, before mse, adds as many running statistics as there are parameters: the
 * control variate c of an optimizer "+scaffold" (fed/optimizer_spec.h), 0 at first. They are called
 * like the parameters, with "scaffold." in front, and lie directly after them.
 *
 * A model without layers ("opaque") is for a device with a trainer of its own. Its text has the
 * tensors alone, in their order, each a name and a shape of up to 8 dimensions. A name is letters,
 * digits, '_', '-' and '.', at most 127. Running statistics come last:
 *
 *     tensors conv1.weight 20x1x5x5 | conv1.bias 20 | statistics bn1.running_mean 20
 *     vector 61706           one tensor, "values", of shape 61706
 *
 * Limits: 1,024 layers, 32 blocks, 65,536 tensors, 12,582,911 characters without comments, 2^28
 * values a sample in each layer, 2^31 parameters. A task holds a text of up to 4,095 characters
 * itself. A longer one is an object of its own, which the task names (fed/layout_reference.h).
 *
 * Tensors are named and laid out as in PyTorch:
 *
 *     conv        weight (out, in / groups, kh, kw), bias
 *     dense       weight (out, in), bias
 *     embedding   weight (words, size)
 *     bn          weight, bias, running_mean, running_var (channels)
 *     lstm        weight_ih_l0 (4 size, in), weight_hh_l0 (4 size, size), bias_ih_l0, bias_hh_l0,
 *                 gates in the order i, f, g, o; the second layer's end in _l1
 *
 * A layer without a name is called by its kind and its number among those of its kind, in the same
 * block, from 1: conv1, dense2, bn1. Running statistics lie after all parameters.
 */

typedef enum fed_layer_kind {
    FED_LAYER_DENSE = 1,
    FED_LAYER_CONV,
    FED_LAYER_MAXPOOL,
    FED_LAYER_AVGPOOL,
    FED_LAYER_RELU,
    FED_LAYER_TANH,
    FED_LAYER_SIGMOID,
    FED_LAYER_DROPOUT,
    FED_LAYER_BATCHNORM,
    FED_LAYER_LRN,
    FED_LAYER_EMBEDDING,
    FED_LAYER_LSTM,
    FED_LAYER_WIDEN,
    FED_LAYER_ADD,
    FED_LAYER_CONCAT
} fed_layer_kind;

typedef struct fed_shape {
    uint32_t c, h, w; /* a flat vector of n values is {n, 1, 1}; a sequence {size, T, 1} */
} fed_shape;

enum {
    FED_ARCH_LAYERS = 1024,
    FED_ARCH_TENSORS = 65536,
    FED_ARCH_TEXT = 4096, /* bytes of a description that a task holds itself, with its NUL */
    /* bytes of any description without comments, with its NUL: enough for FED_ARCH_TENSORS
     * (fed/layout_reference.h) */
    FED_ARCH_LONG = 12 << 20,
    FED_LAYER_INPUTS = 4
};

/** Value 0 is the sample; value l + 1 is the output of layer l. */
typedef struct fed_layer {
    fed_layer_kind kind;
    uint32_t inputs;                  /* number of inputs: 1; add: 2; concat: 2 to 4 */
    uint32_t input[FED_LAYER_INPUTS]; /* values; concat: in the order of their channels */
    fed_shape in, out;                /* in: the shape of input[0] */

    uint32_t kh, kw, stride, pad; /* window of conv, maxpool, avgpool; else 0. 2 pad <= k */
    uint32_t groups;              /* conv */
    bool each;                    /* dense: applied at each position separately */
    bool has_bias;                /* conv, dense, bn */
    uint32_t span;                /* lrn: number of channels, with the current one in the middle */
    float p;                      /* dropout: the fraction set to 0 */
    float alpha, beta, k;         /* lrn: x / (k + alpha / span * sum of squares)^beta */

    size_t weight; /* index of the layer's first tensor, or a tied embedding's; others follow */
    size_t bias;   /* index of the bias, if has_bias */
    size_t state;  /* bn: index of running_mean; running_var is the next */
    bool tied;
} fed_layer;

typedef enum fed_loss { FED_LOSS_CROSS_ENTROPY = 0, FED_LOSS_SQUARED } fed_loss;
typedef enum fed_init { FED_INIT_XAVIER = 0, FED_INIT_HE } fed_init;

typedef struct fed_arch {
    char *text; /* without comments, and with single blanks */
    fed_shape input;
    uint32_t words;              /* the input's tokens are below `words`; 0: no tokens are input */
    uint32_t classes, positions; /* shape of the output: classes scores at each position */
    fed_loss loss;
    bool scaffold; /* SCAFFOLD's c is the values from index `trained` to 2 * trained - 1 */
    fed_init init;
    size_t layer_count; /* 0: the model is opaque, and there is no input and no output */
    fed_layer *layers;
    fed_layout layout;
    size_t trained; /* number of values that are parameters; the others are running statistics */
} fed_arch;

/**
 * Parse a name of models.def ("lr", "lenet5-caffe") or a text as above. Free with fed_arch_free.
 * Errors: FED_EFORMAT, with the wrong word, its line and column, or the names that exist;
 * FED_ENOMEM.
 */
fed_status fed_arch_parse(const char *name_or_text, fed_arch *arch, fed_error *err) FED_CHECKED;

/**
 * Parse as fed_arch_parse does; "@FILE" reads the text from a file. For the command line and for
 * tasks. Errors: as fed_arch_parse, with the file's name in front; as fed_file_read_text.
 */
fed_status fed_arch_load(const char *model, fed_arch *arch, fed_error *err) FED_CHECKED;

/** Free a model's memory. A fed_arch of zeros is allowed. */
void fed_arch_free(fed_arch *arch);

/** Does the model have no layers? Then the library knows only its tensors. */
static inline bool fed_arch_is_opaque(const fed_arch *arch) {
    return arch->layer_count == 0;
}

/** Call this before training or running the layers. FED_EINVAL: the model is opaque, and *err says
 * so. */
fed_status fed_arch_require_layers(const fed_arch *arch, fed_error *err) FED_CHECKED;

/** Return the number of values whose changes are summed up in a round: the parameters, then
 * SCAFFOLD's c. After them lie bn's running statistics, which each training measures anew
 * (docs/decisions/0010-running-statistics.md). */
static inline size_t fed_arch_summed(const fed_arch *arch) {
    return arch->trained * (arch->scaffold ? 2 : 1);
}

/** Let SCAFFOLD's c have a codec of its own: the layout's last statistics, but for those of bn,
 * become control variates (fed/model.h). A model without c stays as it is. Call it once. */
void fed_arch_code_variates(fed_arch *arch);

/** Return the k-th name of models.def, and its text; NULL after the last. */
const char *fed_arch_name(size_t k);
const char *fed_arch_text(size_t k);

/** Return the word of a kind, such as "conv". */
const char *fed_layer_word(fed_layer_kind kind);

/** Write a layer's name, with which its tensors' names begin ("layer1.0.conv1"). A layer without
 * tensors is called by its kind and position, as in "relu, layer 3". */
void fed_arch_layer_name(const fed_arch *arch, size_t layer, char *name, size_t cap);

/**
 * Set the initial values. Weights are uniform in +-sqrt(3 / fan_in) (Caffe's "xavier"; see "init
 * he"), an embedding's in +-0.1, all of an lstm's in +-1 / sqrt(size). Biases are 0; bn's weights
 * and variances are 1, its means 0. All values of an opaque model are 0. The same seed gives the
 * same bits on every machine.
 * values: float32[arch->layout.size]
 */
void fed_arch_init_values(const fed_arch *arch, uint64_t seed, float *values);

FED_API_END

#endif
