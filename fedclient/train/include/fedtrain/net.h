/* A neural net that runs: gradients and scores for a fed_arch, without allocation in a step. */
#ifndef FEDTRAIN_NET_H
#define FEDTRAIN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * The workspace of one net: activations and gradients for batches of up to max_batch samples.
 * Weights are not in it: each call takes them, so one net serves many clients in turn. One thread
 * at a time.
 */
typedef struct fedtrain_net fedtrain_net;

/** Which implementation of the layers runs. The reference is plain loops, slow, and the oracle of
 * the tests. */
typedef enum fedtrain_backend { FEDTRAIN_FAST = 0, FEDTRAIN_REFERENCE = 1 } fedtrain_backend;

/** arch must outlive the net. FED_EINVAL max_batch 0; FED_ENOMEM. Owner: fedtrain_net_free. */
fed_status fedtrain_net_new(const fed_arch *arch, size_t max_batch, fedtrain_backend backend,
                            fedtrain_net **net) FED_CHECKED;
void fedtrain_net_free(fedtrain_net *net);

/** What a net holds, in bytes; all of it from the start. */
typedef struct fedtrain_memory {
    size_t batch;       /* samples, labels and scores */
    size_t activations; /* what the layers give, kept for their gradients */
    size_t gradients;   /* of these values, on the way back */
    size_t parameters;  /* the parameters' gradient */
    size_t workspace;   /* weights in another order, indices, and all else */
    size_t total;
} fedtrain_memory;

fedtrain_memory fedtrain_net_memory(const fedtrain_net *net);

/** The vector instructions the fast backend picked on this machine: "avx512", "avx2", "baseline".
 */
const char *fedtrain_isa(void);

/** Samples and what a net should say of them. */
typedef struct fedtrain_batch {
    size_t size;           /* samples: 1 to max_batch */
    const float *x;        /* float32[size, c, h, w]; tokens: float32[size, T], whole numbers */
    const uint32_t *label; /* uint32[size, positions], each < classes; for cross-entropy */
    const float *target;   /* float32[size, positions, classes]; for the squared error */
    uint64_t seed;         /* what dropout drops: the same seed, the same values */
} fedtrain_batch;

/**
 * Loss and gradient of a batch, as in training: dropout drops, batch normalization goes by the
 * batch's own statistics. The loss is the mean of the softmax cross-entropy over samples and
 * positions, or of the squared error over all numbers.
 *
 * params  float32[layout.size]     grad  float32[trained], overwritten
 * Errors  FED_EINVAL a size of 0 or over max_batch; FED_ERANGE a label, or a token; FED_ENONFINITE
 * the loss is not finite: the sentence names the first tensor or layer that isn't
 */
fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params,
                                 const fedtrain_batch *batch, float *grad, float *loss,
                                 fed_error *err) FED_CHECKED;

/** What the last layer gives, scores before the softmax, as in use: nothing is dropped, batch
 * normalization goes by the running statistics. score float32[size, positions, classes]; label and
 * target are not read. Errors as above, but none of what isn't finite. */
fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const fedtrain_batch *batch,
                                float *score, fed_error *err) FED_CHECKED;

/** LSTMs go on, sample by sample, from where the batch before ended, be it in training or not; from
 * here on they begin anew. Other nets remember nothing. */
void fedtrain_net_forget(fedtrain_net *net);

FED_API_END

#endif
