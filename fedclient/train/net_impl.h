/* Inside a net: its backend's workspace, and the buffers of a training step. */
#ifndef FEDTRAIN_NET_IMPL_H
#define FEDTRAIN_NET_IMPL_H

#include "fedclient/train/backend.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"

struct fedtrain_net {
    const fed_arch *arch;
    const fedtrain_backend_vtable *backend;
    void *work; /* the backend's */
    size_t max_batch;
    float *score;      /* float32[max_batch, positions, classes] */
    float *score_grad; /* like score */

    /* What fedtrain_run and fedtrain_evaluate gather into, so that a step allocates nothing. */
    float *x;        /* float32[max_batch, c, h, w] */
    uint32_t *label; /* uint32[max_batch, positions] */
    float *target;   /* like score; NULL unless the loss is the squared error */
    uint32_t *index; /* uint32[max_batch] */
    float *grad;     /* float32[trained] */
};

/**
 * -log softmax(score)[label] of one position, as the net's backend computes it; and unless grad is
 * NULL, its gradient by the scores, times scale: scale * (softmax - one-hot).
 * score, grad float32[classes]
 */
double fedtrain_net_cross_entropy(const fedtrain_net *net, const float *score, size_t label,
                                  float scale, float *grad);

/** The same in double: the oracle, which is the reference backend's. */
double fedtrain_cross_entropy(const float *score, size_t classes, size_t label, float scale,
                              float *grad);

/**
 * One optimizer step: what fedtrain_net_gradient, fedtrain_optimizer_see_loss and
 * fedtrain_optimizer_step do, to the same bits, with less traffic; and running statistics follow.
 * params float32[layout.size]; state fedtrain_optimizer_state_size(optimizer, trained) floats.
 * Errors as the former; params and state are then untouched.
 */
fed_status fedtrain_net_step(fedtrain_net *net, const fed_optimizer *optimizer, float *params,
                             float *state, const fedtrain_batch *batch, float *loss,
                             fed_error *err) FED_CHECKED;

#endif
