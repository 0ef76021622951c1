/* A neural net that runs: gradients and scores for a fed_arch, without allocation in a step. */
#ifndef FEDTRAIN_NET_H
#define FEDTRAIN_NET_H

#include <stddef.h>
#include <stdint.h>

#include "fed/arch.h"
#include "fed/error.h"

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

/** Bytes of memory that the net holds. */
size_t fedtrain_net_memory(const fedtrain_net *net);

/** The vector instructions the fast backend picked on this machine: "avx512", "avx2", "baseline".
 */
const char *fedtrain_isa(void);

/**
 * Loss and gradient of the mean softmax cross-entropy over a batch.
 *
 * params  float32[layout.size]                  x       float32[batch, c, h, w]
 * label   uint8[batch], each < classes          grad    float32[layout.size], overwritten
 * loss    the mean over the batch               Errors  FED_EINVAL batch 0 or over max_batch;
 * FED_ERANGE a label; FED_ENONFINITE the loss is not finite
 */
fed_status fedtrain_net_gradient(fedtrain_net *net, const float *params, const float *x,
                                 const uint8_t *label, size_t batch, float *grad,
                                 float *loss) FED_CHECKED;

/** Class scores before the softmax.   score  float32[batch, classes] */
fed_status fedtrain_net_forward(fedtrain_net *net, const float *params, const float *x,
                                size_t batch, float *score) FED_CHECKED;

#endif
