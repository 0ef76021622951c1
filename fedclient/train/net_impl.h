/* Inside a net: its backend's workspace, and the buffers of a training step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_NET_IMPL_H
#define FEDTRAIN_NET_IMPL_H

#include "fedclient/train/backend_vtable.h"

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

/** A failure of the backend in words, such as "computing the loss"; FED_OK stays what it is. */
fed_status fedtrain_net_explain(const struct fedtrain_net *net, fed_status status, const char *what,
                                fed_error *err) FED_CHECKED;

#endif
