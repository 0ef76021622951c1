/* The interface of a backend: it runs the layers of one net forward and backward over a batch. */
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

/* A new backend is a folder backends/NAME/ that defines `fedtrain_backend_NAME`, and a line of
 * backends.def. tests/support/net_case.c then runs the tests' nets on it, and test_backends.c
 * compares it with the reference. */

/** A sink with a `need`, for parameters that arrive layer by layer, and the status of its last
 * call. */
typedef struct fedtrain_arrivals {
    const fedtrain_sink *sink;
    fed_error *err;
    fed_status status;
} fedtrain_arrivals;

/** One pass through the net: forward, and with the same struct the loss and the backward pass. */
typedef struct fedtrain_pass {
    const float *params; /* float32[layout.size] */
    const float *x;      /* float32[batch, c, h, w] */
    size_t batch;
    bool training;
    uint64_t seed; /* seed of dropout */

    /* NULL: all parameters are there. Otherwise a forward pass calls fedtrain_pass_need before it
     * reads a layer's parameters. If fedtrain_pass_need fails, the pass ends with its status. */
    fedtrain_arrivals *arrivals;
} fedtrain_pass;

/** The expected result at n positions: labels for cross-entropy, targets for the squared error. */
typedef struct fedtrain_labels {
    const uint32_t *label; /* uint32[n], each < classes */
    const float *target;   /* float32[n, classes] */
} fedtrain_labels;

/** The place where a backward pass writes the gradient, and the sink that takes it. */
typedef struct fedtrain_gradient {
    float *at;          /* float32[trained], overwritten */
    fedtrain_sink sink; /* done is called as fedtrain/sink.h says; done may be NULL */

    /* NULL, or the optimizer step that the sink takes. With a step, `done` may be called for parts
     * of a layer, each parameter at most once, when the pass no longer needs it. `at` may then
     * hold the gradient of the last part only. The backend may also take the step itself for some
     * or all parameters, with the same resulting bits, without calling `done` for them. */
    const fedtrain_update *update;
} fedtrain_gradient;

struct fedtrain_memory; /* see fedtrain/net.h */
struct fed_gpu;         /* see fed/gpu.h */
struct fed_gpu_stream;

/** The functions that a GPU's backend adds: passes and steps that the caller starts and does not
 * wait for. Only explain, gpu, stream, params and gradient may be called outside begin and end. */
typedef struct fedtrain_device_vtable {
    fed_status (*explain)(void *self, fed_status status, fed_error *err) FED_CHECKED;

    struct fed_gpu *(*gpu)(void *self);
    struct fed_gpu_stream *(*stream)(void *self);

    /** Addresses on the device: float32[layout.size], float32[trained]. */
    float *(*params)(void *self);
    float *(*gradient)(void *self);

    /** Start a pass of training: scores, loss, gradient. The function copies the arrays of the pass
     * and of the labels. Two passes may be open at most. sink may be NULL; otherwise its `done`
     * gets each layer's gradient, by its device address, as soon as the layer's kernels are in the
     * stream. */
    fed_status (*start)(void *self, const fedtrain_pass *pass, const fedtrain_labels *labels,
                        const fedtrain_sink *sink) FED_CHECKED;

    /** Wait for the oldest open pass, and set *sum to the sum of its losses. If the sum is not
     * finite, updates and keep_statistics from that pass on change nothing until the next
     * begin. */
    fed_status (*wait)(void *self, double *sum) FED_CHECKED;

    /** After a loss that is not finite: run that pass forward once more, so that `output` gives the
     * values of its layers. Passes that are still open are dropped.
     * params  on the host, float32[layout.size]: is set to the parameters that the pass used */
    fed_status (*again)(void *self, float *params) FED_CHECKED;

    /** Start the optimizer step of parameters offset to offset + n - 1. With clip_norm these must
     * be all parameters.
     * grad  on the device, the gradient of these parameters; NULL: the last pass's gradient */
    fed_status (*update)(void *self, const fedtrain_update *update, size_t offset, size_t n,
                         const float *grad) FED_CHECKED;
} fedtrain_device_vtable;

/**
 * net.c does what all backends share: it checks arguments, words errors, and flushes denormals. A
 * backend only computes. None of its calls prints. A backend on the processor allocates in open
 * only. open keeps the pointer arch, and begin keeps params and state until end.
 *
 * Calls that can fail return a status, such as FED_ENOMEM, or FED_EIO of a device. A backend on the
 * processor fails only in open, and in a forward pass whose fedtrain_pass_need fails.
 */
typedef struct fedtrain_backend_vtable {
    const char *name; /* the name of its folder */

    /** May be NULL: the backend runs all models. FED_EINVAL: this model needs something that the
     * backend lacks, which *err names. */
    fed_status (*supports)(const fed_arch *arch, fed_error *err) FED_CHECKED;

    /** Make a workspace for batches of up to max_batch samples of a model that the backend
     * supports. arch must outlive the workspace. device: the name by which the caller chose the
     * backend, such as "opencl:0"; only a GPU's backend uses the name. FED_ENOMEM; or another
     * status with a text in *err, such as for a missing device. */
    fed_status (*open)(const fed_arch *arch, size_t max_batch, const char *device, void **self,
                       fed_error *err) FED_CHECKED;
    void (*close)(void *self);

    /** Fill in the members activations, gradients and workspace of *memory. */
    void (*memory)(const void *self, struct fedtrain_memory *memory);

    /** begin and end are NULL unless the backend keeps parameters in a GPU's memory. From begin to
     * end the backend works on copies of params, float32[layout.size], and of an optimizer's state,
     * float32[states]. Passes in between get the same params pointer, whose values are stale. end
     * writes back params, and the parts of state that updates named as moments, even if a pass has
     * failed. Counters in state are not written back: the caller counts in its own array. end gets
     * NULLs where nothing was to change, as after an evaluation. Without a begin, each pass reads
     * the params that it is given. */
    fed_status (*begin)(void *self, const float *params, const float *state,
                        size_t states) FED_CHECKED;
    fed_status (*end)(void *self, float *params, float *state) FED_CHECKED;

    /** score float32[batch, positions, classes]. Keep what backward needs. `output` may point into
     * score until the next call. In training only `loss` reads score, so a GPU's backend may leave
     * the array as it is. */
    fed_status (*forward)(void *self, const fedtrain_pass *pass, float *score) FED_CHECKED;

    /** Compute the loss of n positions: cross-entropy, or squared error. The loss of each position
     * (squared error: of each number) is added to *sum, in order. score_grad float32[n, classes]:
     * the gradient of the mean of these losses; NULL: not wanted. In training n is all positions of
     * the last forward pass, and the caller passes score_grad to backward without reading it. */
    fed_status (*loss)(void *self, const float *score, const fedtrain_labels *labels, size_t n,
                       float *score_grad, double *sum) FED_CHECKED;

    /** Compute the gradient for the last forward pass, which had pass->training set.
     * score_grad like score: dloss / dscore */
    fed_status (*backward)(void *self, const fedtrain_pass *pass, const float *score_grad,
                           const fedtrain_gradient *to) FED_CHECKED;

    /** Move batch normalization's running statistics in params by a tenth towards the statistics of
     * the last forward pass of training. */
    fed_status (*keep_statistics)(void *self, float *params) FED_CHECKED;

    /** Let LSTMs begin the next batch with a state of 0. */
    void (*forget)(void *self);

    /** The output of layer l in the last forward pass, *n values in any order. It is for error
     * messages only. If a later layer overwrote the memory, these are the later layer's values. */
    const float *(*output)(const void *self, size_t l, size_t *n);

    const fedtrain_device_vtable *device; /* NULL: the backend runs on the processor */
} fedtrain_backend_vtable;

/** The k-th backend of backends.def; NULL past the last. */
const fedtrain_backend_vtable *fedtrain_backend_get(size_t k);

/** Find a backend by name. NULL is the first backend; a device's name, such as "opencl:0", is the
 * backend "gpu". FED_EINVAL: no backend has this name; *err lists the names. */
fed_status fedtrain_backend_find(const char *name, const fedtrain_backend_vtable **backend,
                                 fed_error *err) FED_CHECKED;

static inline size_t fedtrain_shape_size(fed_shape s) {
    return (size_t)s.c * s.h * s.w;
}

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

/** Has the layer parameters of its own? A tied layer uses its embedding's weight, so only its bias
 * is its own. */
static inline bool fedtrain_has_own_parameters(const fed_layer *l) {
    return fedtrain_has_parameters(l) && (!l->tied || l->has_bias);
}

/** Return the number of the layer's own parameters, and set *offset to the first. If there are
 * none, *offset stays as it is. The layer's own parameters lie side by side. */
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
