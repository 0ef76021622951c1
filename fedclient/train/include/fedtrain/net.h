/* A neural net that runs: gradients and scores for a fed_arch, without allocation in a step. */
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
 * thread at a time.
 */
typedef struct fedtrain_net fedtrain_net;

/**
 * A net for batches of up to max_batch samples; arch must outlive it.
 *
 * backend  a name of fedtrain_backend_name; NULL: the first
 * Errors   FED_EINVAL max_batch 0, no such backend, or one that does not run this model;
 *          FED_ENOMEM; FED_EIO and others of the backend's device
 * Owner    fedtrain_net_free
 */
fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, const char *backend,
                            fedtrain_net **net, fed_error *err) FED_CHECKED;

/** Safe on NULL. */
void fedtrain_net_free(fedtrain_net *net);

/** The name of its backend. */
const char *fedtrain_net_backend(const fedtrain_net *net);

/** The memory of a net in bytes; it has all of it from the start. */
typedef struct fedtrain_memory {
    size_t batch;       /* samples, labels and scores */
    size_t activations; /* the layers' outputs, kept for their gradients */
    size_t gradients;   /* of these outputs, in the backward pass */
    size_t parameters;  /* the parameters' gradient */
    size_t workspace;   /* packed weights, indices, and the rest */
    size_t total;
} fedtrain_memory;

fedtrain_memory fedtrain_net_memory(const fedtrain_net *net);

/** The kernels that a backend uses on this machine. Of fast, and of NULL: the vector unit,
 * "avx512", "avx2" or "baseline". Of bfloat16: "bfloat16_avx512bf16"; where the processor has no
 * products of bfloat16, "bfloat16_" and the vector unit. Of another backend: its name. */
const char *fedtrain_isa(const char *backend);

/** Samples, and their labels or targets. */
typedef struct fedtrain_batch {
    size_t size;           /* samples: 1 to max_batch */
    const float *x;        /* float32[size, c, h, w]; tokens: float32[size, T], whole numbers */
    const uint32_t *label; /* uint32[size, positions], each < classes; for cross-entropy */
    const float *target;   /* float32[size, positions, classes]; for the squared error */
    uint64_t seed;         /* of dropout: the same seed drops the same values */
} fedtrain_batch;

/**
 * Loss and gradient of a batch, as in training: dropout drops, batch normalization uses the batch's
 * own statistics. The loss is the mean of the softmax cross-entropy over samples and positions, or
 * of the squared error over all numbers.
 *
 * params  float32[layout.size]     grad  float32[trained], overwritten
 * Errors  FED_EINVAL a size of 0 or over max_batch; FED_ERANGE a label, or a token; FED_ENONFINITE
 *         the loss is not finite: the sentence names the first tensor or layer that isn't;
 *         FED_ENOMEM, FED_EIO the backend failed: the sentence says in what
 */
fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params,
                                 const fedtrain_batch *batch, float *grad, float *loss,
                                 fed_error *err) FED_CHECKED;

/**
 * The same, and sink is asked for each layer's parameters before they are read, the first layer
 * first, and told of each layer's gradient as soon as it is summed, the last layer first
 * (fedtrain/sink.h): grad has the same bits. sink, not NULL, is copied.
 *
 * params  const for the pass; but `need` may write them until it returns, through a pointer of its
 *         own, and the pass sees what it wrote. Not between fedtrain_net_begin and _end: a backend
 *         with memory elsewhere would not see it
 * Errors  as above, and those of sink's `need`
 */
fed_status fedtrain_net_gradient_to(fedtrain_net *net, const float *params,
                                    const fedtrain_batch *batch, const fedtrain_sink *sink,
                                    float *grad, float *loss, fed_error *err) FED_CHECKED;

/** Move batch normalization's running statistics, which follow the parameters, a tenth towards
 * those of the last gradient's batch. A program that trains with gradients calls this after each.
 * params float32[layout.size], in and out */
fed_status fedtrain_net_keep_statistics(fedtrain_net *net, float *params,
                                        fed_error *err) FED_CHECKED;

/**
 * One optimizer step: what fedtrain_net_gradient, fedtrain_optimizer_see_loss,
 * fedtrain_optimizer_step and fedtrain_net_keep_statistics do, to the same bits, with less traffic.
 *
 * params  float32[layout.size], in and out
 * state   float32[fedtrain_optimizer_state_size(optimizer, trained)], in and out
 * Errors  as fedtrain_net_gradient's; params and state are then untouched, unless the backend fails
 *         after the forward pass: then both are partly updated, and can't be used
 */
fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const fedtrain_batch *batch, float *loss,
                             fed_error *err) FED_CHECKED;

/** The last layer's output, scores before the softmax, as in use: nothing is dropped, batch
 * normalization uses the running statistics. score float32[size, positions, classes]; label and
 * target are not read. Errors as above, except FED_ENONFINITE. */
fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const fedtrain_batch *batch,
                                float *score, fed_error *err) FED_CHECKED;

/**
 * For a backend whose memory is elsewhere, as on a GPU: from begin to end it works on copies of
 * params and state, so that they need not travel in each call. The calls between take the same
 * pointers; what is there is stale until end writes both back, also after a call that failed. To
 * evaluate, give begin no state (NULL, 0), and end NULLs. Without a begin, each call reads the
 * params that it is given. The backends of this library keep nothing elsewhere: for them both calls
 * do nothing.
 * params float32[layout.size]   state float32[states]   Errors FED_ENOMEM, FED_EIO
 */
fed_status fedtrain_net_begin(fedtrain_net *net, const float *params, const float *state,
                              size_t states, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_end(fedtrain_net *net, float *params, float *state,
                            fed_error *err) FED_CHECKED;

/** The next batch begins with an LSTM state of 0. Otherwise sample b of a batch goes on from the
 * state that sample b of the batch before ended with. Other layers remember nothing. */
void fedtrain_net_forget(fedtrain_net *net);

FED_API_END

#endif
