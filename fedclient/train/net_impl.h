/* Inside a net: its backend's workspace, and the buffers of a training step. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_NET_IMPL_H
#define FEDTRAIN_NET_IMPL_H

#include "fedclient/train/backend_vtable.h"
#include "fedclient/train/update.h"

struct fedtrain_batch;

enum { FEDTRAIN_NET_OPEN = 2 };

struct fedtrain_net {
    const fed_arch *arch;
    const fedtrain_backend_vtable *backend;
    void *work; /* the backend's workspace */
    size_t max_batch;
    float *score; /* float32[max_batch, positions, classes] */
    float *score_grad;

    /* Buffers of training and evaluation. */
    float *x;        /* float32[max_batch, c, h, w] */
    uint32_t *label; /* uint32[max_batch, positions] */
    float *target;   /* like score; NULL unless the loss is the squared error */
    uint32_t *index; /* uint32[max_batch] */
    float *grad;     /* float32[trained] */

    bool away;
    size_t open; /* passes that were started, and whose loss was not read yet */
    size_t open_size[FEDTRAIN_NET_OPEN]; /* samples of each open pass, the oldest first */
    fedtrain_counters before;            /* the state's counters before the last update */
};

/** Return whether steps can be started before the last loss is read. They can on a GPU between
 * begin and end, unless the schedule is "stall". */
bool fedtrain_net_runs_ahead(const struct fedtrain_net *net, const fed_optimizer *optimizer);

/** For a net that runs ahead. fedtrain_net_start starts a pass that leaves its gradient on the
 * device, fedtrain_net_update the step with that gradient. fedtrain_net_wait waits for the oldest
 * pass's loss; at most FEDTRAIN_NET_OPEN passes may be open. After a loss that is not finite, the
 * device does not take that pass's step, and fedtrain_net_undo must take back what
 * fedtrain_net_update counted in the state. */
fed_status fedtrain_net_start(struct fedtrain_net *net, const struct fedtrain_batch *batch,
                              const fedtrain_sink *sink, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_update(struct fedtrain_net *net, const fed_optimizer *optimizer,
                               float *params, float *state, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_wait(struct fedtrain_net *net, float *loss, fed_error *err) FED_CHECKED;
void fedtrain_net_undo(const struct fedtrain_net *net, const fed_optimizer *optimizer,
                       float *state);

/** Put a failure of the backend into words in *err. what: its work, such as "computing the loss".
 * FED_OK is returned as it is. */
fed_status fedtrain_net_explain(const struct fedtrain_net *net, fed_status status, const char *what,
                                fed_error *err) FED_CHECKED;

#endif
