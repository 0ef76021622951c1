/* What a backend is: the layers of one net, run forward and backward over a batch. */
#ifndef FEDTRAIN_BACKEND_H
#define FEDTRAIN_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/arch.h"
#include "fedclient/train/update.h"
#include "fedtrain/net.h"

/** One way through the net. Backward gets the same as the forward before it. */
typedef struct fedtrain_pass {
    const float *params; /* float32[layout.size] */
    const float *x;      /* float32[batch, c, h, w] */
    size_t batch;
    bool training;
    uint64_t seed; /* of dropout */
} fedtrain_pass;

/**
 * net.c does what all backends share: arguments, the loss, denormals. A backend computes; none of
 * its calls but open allocates, prints or keeps a pointer that it was passed.
 */
typedef struct fedtrain_backend_vtable {
    const char *name;

    /** A workspace for batches of up to max_batch; arch outlives it. Only FED_ENOMEM. */
    fed_status (*open)(const fed_arch *arch, size_t max_batch, void **self) FED_CHECKED;
    void (*close)(void *self);

    /** Fills in activations, gradients and workspace. */
    void (*memory)(const void *self, fedtrain_memory *memory);

    /** score float32[batch, positions, classes]. Remembers what backward needs; output may give a
     * part of score until the next call. */
    void (*forward)(void *self, const fedtrain_pass *pass, float *score);

    /** fedtrain_net_cross_entropy. */
    double (*cross_entropy)(const void *self, const float *score, size_t label, float scale,
                            float *grad);

    /** The gradient for the last forward pass, which was one of training.
     * score_grad like score: dloss / dscore; grad float32[trained], overwritten */
    void (*backward)(void *self, const fedtrain_pass *pass, const float *score_grad, float *grad);

    /** The gradient put to use at once: each parameter is updated as soon as its gradient is known
     * and its value is no longer needed. params are the pass's; scratch float32[trained]. NULL:
     * backward and one update do. */
    void (*train)(void *self, const fedtrain_pass *pass, float *params, const float *score_grad,
                  const fedtrain_update *update, float *scratch);

    /** Batch normalization's running statistics in params follow those of the last forward pass of
     * training, by a tenth. */
    void (*keep_statistics)(const void *self, float *params);

    /** LSTMs begin anew. */
    void (*forget)(void *self);

    /** What layer l gave in the last forward pass, *n values in any order; for an error message
     * only, so a layer that shares another's memory may give what that one made of it. */
    const float *(*output)(const void *self, size_t l, size_t *n);
} fedtrain_backend_vtable;

extern const fedtrain_backend_vtable fedtrain_backend_reference;
extern const fedtrain_backend_vtable fedtrain_backend_fast;

/** Values in a shape. */
static inline size_t fedtrain_shape_size(fed_shape s) {
    return (size_t)s.c * s.h * s.w;
}

#endif
