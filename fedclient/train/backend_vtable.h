/* What a backend is: the layers of one net, run forward and backward over a batch. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_BACKEND_VTABLE_H
#define FEDTRAIN_BACKEND_VTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fed/error.h"
#include "fedclient/train/optimizer_step.h"
#include "fedtrain/sink.h"

/*
 * A new backend is a folder backends/NAME/ that defines `fedtrain_backend_NAME`, and a line of
 * backends.def. tests/support/net_case.c then runs every net of the tests on it, and
 * test_backends.c compares it with the reference.
 */

/** Parameters that come layer by layer: a sink's `need`, and how its last call ended. */
typedef struct fedtrain_arrivals {
    const fedtrain_sink *sink; /* need is not NULL */
    fed_error *err;
    fed_status status;
} fedtrain_arrivals;

/** One pass through the net. The loss and the backward pass get the same as the forward pass before
 * them. */
typedef struct fedtrain_pass {
    const float *params; /* float32[layout.size] */
    const float *x;      /* float32[batch, c, h, w] */
    size_t batch;
    bool training;
    uint64_t seed; /* of dropout */

    /* NULL: all parameters are there. Else a forward pass calls fedtrain_pass_need before it reads
     * a layer's parameters, and ends with what that returns if it fails. */
    fedtrain_arrivals *arrivals;
} fedtrain_pass;

/** What the scores of n positions should have been: one of these, by the model's loss. */
typedef struct fedtrain_labels {
    const uint32_t *label; /* uint32[n], each < classes */
    const float *target;   /* float32[n, classes] */
} fedtrain_labels;

/** Where a backward pass writes the gradient, and the sink that takes it. */
typedef struct fedtrain_gradient {
    float *at;          /* float32[trained], overwritten */
    fedtrain_sink sink; /* done is called as fedtrain/sink.h says; NULL: nobody asks */

    /*
     * NULL, or the step that the sink takes: an optimizer's. Then a backend may give the sink a
     * layer in any parts, each parameter once, as soon as the pass needs the parameter no more;
     * `at` is only room for one part at a time. It may also take the step itself, for some
     * parameters or all, to the same bits as the sink, and not call the sink for them. A backend
     * with `begin` does so for all of them.
     */
    const fedtrain_update *update;
} fedtrain_gradient;

struct fedtrain_memory; /* fedtrain/net.h */
struct fed_gpu;         /* fed/gpu.h */
struct fed_gpu_stream;

/**
 * What a backend of a device adds: passes and steps that the caller only starts. All but explain,
 * gpu and stream are for the time from begin to end.
 */
typedef struct fedtrain_device_vtable {
    /** What the device said of its last failure. */
    fed_status (*explain)(void *self, fed_status status, fed_error *err) FED_CHECKED;

    struct fed_gpu *(*gpu)(void *self);
    struct fed_gpu_stream *(*stream)(void *self); /* of all its work */

    /** Device addresses.   float32[layout.size], float32[trained] */
    float *(*params)(void *self);
    float *(*gradient)(void *self);

    /** Start a pass of training: scores, loss, gradient. It copies what the pass and the labels
     * point to. Two passes may be open at most. sink, or NULL: done is called with the gradient's
     * device address, as soon as a layer's kernels are in the stream. */
    fed_status (*start)(void *self, const fedtrain_pass *pass, const fedtrain_labels *labels,
                        const fedtrain_sink *sink) FED_CHECKED;

    /** Wait for the oldest open pass: its loss, as `loss` sums it. If that is not finite, no update
     * from that pass on, and none until begin, changes anything; nor does keep_statistics. */
    fed_status (*wait)(void *self, double *sum) FED_CHECKED;

    /** After such a loss: run that pass forward once more, so that output shows its values. No pass
     * is open then.   params  of the host, float32[layout.size]: what the pass found */
    fed_status (*again)(void *self, float *params) FED_CHECKED;

    /** The step of parameters offset to offset + n - 1. With clip_norm it is of all of them.
     * grad  on the device, of these parameters; NULL: the last pass's */
    fed_status (*update)(void *self, const fedtrain_update *update, size_t offset, size_t n,
                         const float *grad) FED_CHECKED;
} fedtrain_device_vtable;

/**
 * net.c does what all backends share: arguments, sentences, denormals. A backend computes; none of
 * its calls but open and begin allocates, none prints, and none keeps a pointer that it was passed,
 * but from begin to end.
 *
 * What can fail returns a status: FED_ENOMEM, FED_EIO of a device. net.c makes a sentence of it. A
 * processor's own backend fails in open only.
 */
typedef struct fedtrain_backend_vtable {
    const char *name; /* its folder's */

    /** NULL: it runs all models. FED_EINVAL: it lacks something that this one needs; *err says what
     * in a sentence. */
    fed_status (*supports)(const fed_arch *arch, fed_error *err) FED_CHECKED;

    /** A workspace for batches of up to max_batch of a model that it supports; arch outlives it.
     * device: the name that found this backend, of which only a backend of devices makes use.
     * FED_ENOMEM; another status, as of a device that is not there, with a sentence. */
    fed_status (*open)(const fed_arch *arch, size_t max_batch, const char *device, void **self,
                       fed_error *err) FED_CHECKED;
    void (*close)(void *self);

    /** Fills in activations, gradients and workspace. */
    void (*memory)(const void *self, struct fedtrain_memory *memory);

    /**
     * For a backend whose parameters live elsewhere, as on a GPU; else both are NULL. From begin to
     * end it works on copies: of params float32[layout.size] and of state float32[states], an
     * optimizer's. The passes between name the same params, which are stale. The state's counters
     * stay the caller's, which goes on to count in them.
     * end writes back params, and of the state what updates named as moments, even if a pass has
     * failed. It gets NULLs where nothing was to change, as after an evaluation. Without a begin,
     * each pass reads its params.
     */
    fed_status (*begin)(void *self, const float *params, const float *state,
                        size_t states) FED_CHECKED;
    fed_status (*end)(void *self, float *params, float *state) FED_CHECKED;

    /** score float32[batch, positions, classes]. Remembers what backward needs; output may give a
     * part of score until the next call. In training only `loss` reads score: a backend with memory
     * elsewhere may leave it as it is. */
    fed_status (*forward)(void *self, const fedtrain_pass *pass, float *score) FED_CHECKED;

    /**
     * The loss of n positions with these scores: cross-entropy, or squared error. *sum grows by the
     * loss of each position (squared error: of each number), in their order.
     * score_grad float32[n, classes]: the gradient of their mean by the scores; NULL: not wanted.
     * In training all positions of the last forward pass are asked for, and score_grad goes to
     * backward unread.
     */
    fed_status (*loss)(void *self, const float *score, const fedtrain_labels *labels, size_t n,
                       float *score_grad, double *sum) FED_CHECKED;

    /** The gradient for the last forward pass, which was one of training.
     * score_grad like score: dloss / dscore */
    fed_status (*backward)(void *self, const fedtrain_pass *pass, const float *score_grad,
                           const fedtrain_gradient *to) FED_CHECKED;

    /** Batch normalization's running statistics in params follow those of the last forward pass of
     * training, by a tenth. */
    fed_status (*keep_statistics)(void *self, float *params) FED_CHECKED;

    /** LSTMs begin anew. */
    void (*forget)(void *self);

    /** What layer l gave in the last forward pass, *n values in any order; for an error message
     * only, so a layer that shares another's memory may give what that one made of it. */
    const float *(*output)(const void *self, size_t l, size_t *n);

    const fedtrain_device_vtable *device; /* NULL: it is no device's */
} fedtrain_backend_vtable;

/** The k-th backend of backends.def; NULL past the last. */
const fedtrain_backend_vtable *fedtrain_backend_get(size_t k);

/** The backend of this name, NULL being the first; a device's name, such as "opencl:0", is the
 * backend "gpu". FED_EINVAL: there is none; *err names those that there are. */
fed_status fedtrain_backend_find(const char *name, const fedtrain_backend_vtable **backend,
                                 fed_error *err) FED_CHECKED;

/** Values in a shape. */
static inline size_t fedtrain_shape_size(fed_shape s) {
    return (size_t)s.c * s.h * s.w;
}

/** Has a layer of this kind parameters? */
static inline bool fedtrain_has_parameters(const fed_layer *l) {
    switch (l->kind) {
    case FED_LAYER_DENSE:
    case FED_LAYER_CONV:
    case FED_LAYER_BATCHNORM:
    case FED_LAYER_EMBEDDING:
    case FED_LAYER_LSTM:
        return true;
    default:
        return false;
    }
}

/** A tied weight is its embedding's own. */
static inline bool fedtrain_has_own_parameters(const fed_layer *l) {
    return fedtrain_has_parameters(l) && (!l->tied || l->has_bias);
}

/** How many parameters are the layer's own, and the first one's offset, which stays as it is if
 * there are none. They end where the next layer's begin. */
static inline size_t fedtrain_own_parameters(const fed_arch *arch, size_t layer, size_t *offset) {
    const fed_tensor *tensors = arch->layout.tensors;
    const fed_layer *end = arch->layers + arch->layer_count, *l = &arch->layers[layer], *next = l;
    if (!fedtrain_has_own_parameters(l)) {
        return 0;
    }
    do {
        next++;
    } while (next < end && !fedtrain_has_own_parameters(next));
    *offset = tensors[l->tied ? l->bias : l->weight].offset;
    return (next < end ? tensors[next->tied ? next->bias : next->weight].offset : arch->trained) -
           *offset;
}

/** Waits until the layer's own parameters are there. */
static inline fed_status fedtrain_pass_need(const fedtrain_pass *pass, const fed_arch *arch,
                                            size_t layer) {
    fedtrain_arrivals *a = pass->arrivals;
    size_t offset = 0;
    const size_t n = !FED_SMALL && a != NULL ? fedtrain_own_parameters(arch, layer, &offset) : 0;
    if (n > 0) {
        a->status = a->sink->need(a->sink->user, offset, n, a->err);
        return a->status;
    }
    return FED_OK;
}

#endif
