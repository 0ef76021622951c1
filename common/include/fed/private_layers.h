/* The layers of a model that stay on a device, and the tensors that are left to travel. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PRIVATE_LAYERS_H
#define FED_PRIVATE_LAYERS_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"
#include "fed/model.h"

FED_API_BEGIN

/*
 * A task's `private_layers` is a list with commas:
 *
 *   head     the last layer that has parameters
 *   bn       all layers with running statistics
 *   4, 4-6   layers by their numbers, from 1: those with tensors, in the order of the model
 *
 * A layer is all tensors whose names are the same up to the last dot: "conv1.weight" and
 * "conv1.bias". So a model without layers (fed/arch.h) has them, too. A layer's running statistics
 * go with it.
 */

typedef struct fed_private_layers {
    fed_layout shared; /* the tensors that travel, in the model's order */
    size_t trained;    /* number of values of `shared` that are parameters */
    size_t own;        /* number of values that stay on the device */
    uint8_t *stays;    /* uint8[layout.count of the whole model]: 1: the tensor stays */
} fed_private_layers;

/**
 * Divide a model's tensors into those that travel and those that stay on the device. Free with
 * fed_private_layers_free. Errors: FED_EINVAL the list can't be read, names a layer that the model
 * does not have, or leaves nothing to travel; or the model has SCAFFOLD's control variates. *err
 * says which. FED_ENOMEM.
 */
fed_status fed_private_layers_split(const fed_arch *arch, const char *layers,
                                    fed_private_layers *split, fed_error *err) FED_CHECKED;

/** Safe on zeros. */
void fed_private_layers_free(fed_private_layers *split);

/** Copy a whole model's values into those that travel and those that stay.
 * all: float32[whole->size]; shared: float32[split->shared.size]; own: float32[split->own]. shared
 * or own may be NULL. `shared` may be `all`. */
void fed_private_layers_take(const fed_private_layers *split, const fed_layout *whole,
                             const float *all, float *shared, float *own);

/** The reverse of fed_private_layers_take. A NULL leaves its values in `all` as they are. */
void fed_private_layers_join(const fed_private_layers *split, const fed_layout *whole,
                             const float *shared, const float *own, float *all);

/** Make *arch the model as a coordinator knows it: without layers, and with the shared tensors
 * alone. "": *arch stays as it is. Errors: those of fed_private_layers_split; *arch is then as it
 * was. */
fed_status fed_arch_share(fed_arch *arch, const char *layers, fed_error *err) FED_CHECKED;

FED_API_END

#endif
