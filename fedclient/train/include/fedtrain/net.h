/* A neural net that runs: gradients and scores for a fed_arch. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_NET_H
#define FEDTRAIN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"
#include "fed/optimizer_spec.h"
#include "fedtrain/sink.h"

FED_API_BEGIN

/**
 * The workspace of one net: activations and gradients for batches of up to max_batch samples. It
 * holds no weights: each call takes them, so one net serves many clients, one after the other. One
 * thread at a time may use a net.
 */
typedef struct fedtrain_net fedtrain_net;

/**
 * Make a net for batches of up to max_batch samples; arch must outlive it.
 *
 * backend  a name of fedtrain_backend_name, or a device's name; NULL: the first backend
 * Errors   FED_EINVAL max_batch 0, no such backend, or the backend does not run this model;
 *          FED_ENOMEM; other errors, such as FED_EIO, of a GPU
 * Owner    fedtrain_net_free
 */
fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, const char *backend,
                            fedtrain_net **net, fed_error *err) FED_CHECKED;

/** Safe on NULL. */
void fedtrain_net_free(fedtrain_net *net);

const char *fedtrain_net_backend(const fedtrain_net *net);

/** The memory of a net in bytes. On the processor fedtrain_net_new allocates all of it. */
typedef struct fedtrain_memory {
    size_t batch;       /* samples, labels and scores */
    size_t activations; /* the layers' outputs, kept for their gradients */
    size_t gradients;   /* gradients of the layers' outputs, in the backward pass */
    size_t parameters;  /* the parameters' gradient */
    size_t workspace;   /* packed weights, indices, and the rest */
    size_t total;
} fedtrain_memory;

fedtrain_memory fedtrain_net_memory(const fedtrain_net *net);

/** The name of the kernels that a backend uses on this machine. For fast, and for NULL, it is the
 * vector unit: "avx512", "avx2" or "baseline". For bfloat16 it is "bfloat16_avx512bf16", or
 * "bfloat16_" and the vector unit if the processor has no products of bfloat16. For another
 * backend it is that backend's name. */
const char *fedtrain_isa(const char *backend);

/** Samples, and their labels or targets. */
typedef struct fedtrain_batch {
    size_t size;           /* samples: 1 to max_batch */
    const float *x;        /* float32[size, c, h, w]; tokens: float32[size, T], whole numbers */
    const uint32_t *label; /* uint32[size, positions], each < classes; for cross-entropy */
    const float *target;   /* float32[size, positions, classes]; for the squared error */
    uint64_t seed;         /* seed of dropout: the same seed drops the same values */
} fedtrain_batch;

/**
 * Compute loss and gradient of a batch, as in training: dropout drops, batch normalization uses
 * the batch's own statistics. The loss is the mean of the softmax cross-entropy over samples and
 * positions, or of the squared error over all numbers.
 *
 * params  float32[layout.size]     grad  float32[trained], overwritten
 * Errors  FED_EINVAL a size of 0 or over max_batch, or no labels or targets; FED_ERANGE a label or
 *         token that the model does not have; FED_ENONFINITE the loss is not finite: *err names the
 *         first tensor or layer that is not, if there is one; FED_ENOMEM, FED_EIO the backend
 *         failed: *err says in which work
 */
fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params,
                                 const fedtrain_batch *batch, float *grad, float *loss,
                                 fed_error *err) FED_CHECKED;

/**
 * Do what fedtrain_net_gradient does, to the same bits, with a sink (fedtrain/sink.h). The sink is
 * asked for each layer's parameters before they are read, the first layer first. It gets each
 * layer's gradient as soon as it is summed, the last layer first. sink, not NULL, is copied.
 *
 * params  the pass only reads them, but `need` may write them through a pointer of its own until
 *         it returns, and the pass sees what it wrote. That does not work between
 *         fedtrain_net_begin and fedtrain_net_end on a GPU, whose memory holds a copy
 * Errors  those of fedtrain_net_gradient, and of sink's `need`
 */
fed_status fedtrain_net_gradient_to(fedtrain_net *net, const float *params,
                                    const fedtrain_batch *batch, const fedtrain_sink *sink,
                                    float *grad, float *loss, fed_error *err) FED_CHECKED;

/** Move batch normalization's running statistics, which lie behind the trained parameters, by a
 * tenth towards the statistics of the last gradient's batch. A program that trains with gradients
 * calls this after each. params float32[layout.size], in and out */
fed_status fedtrain_net_keep_statistics(fedtrain_net *net, float *params,
                                        fed_error *err) FED_CHECKED;

/**
 * One optimizer step: do what fedtrain_net_gradient, fedtrain_optimizer_see_loss,
 * fedtrain_optimizer_step and fedtrain_net_keep_statistics do, with the same resulting bits and
 * less memory traffic.
 *
 * params  float32[layout.size], in and out
 * state   float32[fedtrain_optimizer_state_size(optimizer, trained)], in and out
 * Errors  as fedtrain_net_gradient's; params and state are then untouched, unless the backend fails
 *         after the forward pass: then both are partly updated, and can't be used
 */
fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const fedtrain_batch *batch, float *loss,
                             fed_error *err) FED_CHECKED;

/** Compute the last layer's output, the scores before the softmax, as in use: nothing is dropped,
 * and batch normalization uses the running statistics. score float32[size, positions, classes];
 * label and target are not read. Errors as for fedtrain_net_gradient, except FED_ENONFINITE. */
fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const fedtrain_batch *batch,
                                float *score, fed_error *err) FED_CHECKED;

/**
 * Keep copies of params and state on a GPU from begin to end, so that they need not travel in each
 * call. The calls between take the same pointers. The values there are stale until end writes both
 * back, which it does even if a call has failed. To evaluate, give begin no state (NULL, 0), and
 * end NULLs. Without a begin, each call reads the params that it is given. With a backend on the
 * processor both calls do nothing.
 * params float32[layout.size]   state float32[states]   Errors FED_ENOMEM, FED_EIO
 */
fed_status fedtrain_net_begin(fedtrain_net *net, const float *params, const float *state,
                              size_t states, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_end(fedtrain_net *net, float *params, float *state,
                            fed_error *err) FED_CHECKED;

/** Let the next batch begin with an LSTM state of 0. Otherwise sample b of a batch goes on from the
 * state that sample b of the batch before ended with. Layers other than LSTMs have no such state.
 */
void fedtrain_net_forget(fedtrain_net *net);

FED_API_END

#endif
