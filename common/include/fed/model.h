/* A model: named tensors, one after the other in a flat float32 array. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MODEL_H
#define FED_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/status.h"

FED_API_BEGIN

enum { FED_TENSOR_NAME = 128, FED_TENSOR_RANK = 8 };

/** One named tensor of a layout, row-major: the last dimension varies fastest. */
typedef struct fed_tensor {
    char name[FED_TENSOR_NAME]; /* as in PyTorch: "conv1.weight" */
    uint32_t rank;
    uint32_t dims[FED_TENSOR_RANK];
    size_t offset; /* index of the tensor's first value in the flat array */
    size_t size;   /* number of values: the product of dims */
} fed_tensor;

/** The position of each tensor of a model. Several arrays (weights, residual, gradient) share one
 * layout. */
typedef struct fed_layout {
    fed_tensor *tensors;
    size_t count;
    size_t size;       /* number of values: the sum of the tensors' sizes */
    size_t statistics; /* how many tensors at the end are running statistics; at first 0 */
    /* How many tensors before those are control variates that have a codec of their own. At first
     * 0; else there are as many other tensors before them, of the same sizes. */
    size_t controls;
} fed_layout;

void fed_layout_init(fed_layout *layout);
void fed_layout_free(fed_layout *layout);

/**
 * Append a tensor after the last one. Errors: FED_EINVAL an empty, long or repeated name, or a rank
 * over 8; FED_ERANGE a dimension of 0, or more than 2^40 values in the whole layout (2^28 on a
 * 32-bit machine); FED_ENOMEM.
 */
fed_status fed_layout_add(fed_layout *layout, const char *name, uint32_t rank,
                          const uint32_t *dims) FED_CHECKED;

/** Append a tensor as fed_layout_add does, with a name that the caller knows to be new. The call
 * does not search the layout for the name, so a layout of any length takes the same time a
 * tensor. */
fed_status fed_layout_append(fed_layout *layout, const char *name, uint32_t rank,
                             const uint32_t *dims) FED_CHECKED;

/** Return the tensor of this name, or NULL. */
const fed_tensor *fed_layout_find(const fed_layout *layout, const char *name);

/** Compare two layouts. FED_OK: they have the same names and shapes in the same order. Otherwise
 * *err names the first difference. */
fed_status fed_layout_match(const fed_layout *a, const fed_layout *b, fed_error *err) FED_CHECKED;

/** A layout and its values. */
typedef struct fed_model {
    fed_layout layout;
    float *values; /* float32[layout.size] */
} fed_model;

void fed_model_free(fed_model *model);

/** Return the index of the first NaN or infinity in x[n], or n if all values are finite. */
size_t fed_first_nonfinite(const float *x, size_t n);

FED_API_END

#endif
