/* What a backend is: the layers of one net, run forward and backward over a batch. */
#ifndef FEDTRAIN_BACKEND_H
#define FEDTRAIN_BACKEND_H

#include <stddef.h>

#include "fed/arch.h"
#include "fedclient/train/update.h"

/**
 * net.c does what all backends share: arguments, the loss, denormals. A backend computes; none of
 * its calls but open allocates, prints or keeps a pointer that it was passed.
 */
typedef struct fedtrain_backend_vtable {
    const char *name;

    /** A workspace for batches of up to max_batch; arch outlives it. Only FED_ENOMEM. */
    fed_status (*open)(const fed_arch *arch, size_t max_batch, void **self) FED_CHECKED;
    void (*close)(void *self);
    size_t (*memory)(const void *self); /* bytes */

    /** x float32[batch, c, h, w]; score float32[batch, classes]. Remembers what backward needs. */
    void (*forward)(void *self, const float *params, const float *x, size_t batch, float *score);

    /**
     * The gradient for the batch of the last forward, with the same params.
     * score_grad float32[batch, classes] dloss/dscore; grad float32[layout.size], overwritten
     */
    void (*backward)(void *self, const float *params, const float *score_grad, size_t batch,
                     float *grad);

    /** The gradient put to use at once: each parameter is updated as soon as its gradient is known
     * and its value is no longer needed. NULL: backward and one update do. scratch
     * float32[layout.size] */
    void (*train)(void *self, float *params, const float *score_grad, size_t batch,
                  const fedtrain_update *update, float *scratch);
} fedtrain_backend_vtable;

extern const fedtrain_backend_vtable fedtrain_backend_reference;
extern const fedtrain_backend_vtable fedtrain_backend_fast;

/** Values in a shape. */
static inline size_t fedtrain_shape_size(fed_shape s) {
    return (size_t)s.c * s.h * s.w;
}

#endif
