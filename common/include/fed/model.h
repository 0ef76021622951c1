/* A model: named tensors laid out one after the other in a flat float32 buffer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MODEL_H
#define FED_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/status.h"

FED_API_BEGIN

enum { FED_TENSOR_NAME = 64, FED_TENSOR_RANK = 8 };

/** One named tensor of a layout, row-major: the last dimension varies fastest. */
typedef struct fed_tensor {
    char name[FED_TENSOR_NAME]; /* as in PyTorch: "conv1.weight" */
    uint32_t rank;
    uint32_t dims[FED_TENSOR_RANK];
    size_t offset; /* of its first value in the flat buffer, in values */
    size_t size;   /* product of dims, in values */
} fed_tensor;

/** The position of each tensor of a model. Several buffers (weights, residual, gradient) share one
 * layout. */
typedef struct fed_layout {
    fed_tensor *tensors;
    size_t count;
    size_t size;       /* number of values: the sum of the tensors' sizes */
    size_t statistics; /* this many tensors at the end are running statistics, which are not trained
                          and sent as float32. 0 in a new layout */
} fed_layout;

void fed_layout_init(fed_layout *layout);
void fed_layout_free(fed_layout *layout);

/**
 * Append a tensor after the last one. Errors: FED_EINVAL an empty, long or repeated name, or a rank
 * over 8; FED_ERANGE a dimension of 0 or a size above 2^40 values; FED_ENOMEM.
 */
fed_status fed_layout_add(fed_layout *layout, const char *name, uint32_t rank,
                          const uint32_t *dims) FED_CHECKED;

/** The same for a name that the caller knows to be new. Takes no longer with thousands of
 * tensors. */
fed_status fed_layout_append(fed_layout *layout, const char *name, uint32_t rank,
                             const uint32_t *dims) FED_CHECKED;

/** The tensor of that name, or NULL. */
const fed_tensor *fed_layout_find(const fed_layout *layout, const char *name);

/** FED_OK: both layouts have the same names and shapes in the same order. Else *err names the first
 * difference. */
fed_status fed_layout_match(const fed_layout *a, const fed_layout *b, fed_error *err) FED_CHECKED;

/** A layout and its values. */
typedef struct fed_model {
    fed_layout layout;
    float *values; /* float32[layout.size] */
} fed_model;

void fed_model_free(fed_model *model);

/** Index of the first NaN or infinity in x[n]; n if all values are finite. */
size_t fed_first_nonfinite(const float *x, size_t n);

FED_API_END

#endif
