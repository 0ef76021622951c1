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

    /* Between fedtrain_net_begin and _end, with a backend whose parameters live elsewhere. */
    bool away;
    size_t open; /* passes that were started, and whose loss nobody has read */
    size_t open_size[FEDTRAIN_NET_OPEN]; /* their samples, the oldest first */
    fedtrain_counters before;            /* what the last update found in the state */
};

/** Does a step of this net need no wait: it is on a device, and no rule asks for its loss first? */
bool fedtrain_net_runs_ahead(const struct fedtrain_net *net, const fed_optimizer *optimizer);

/**
 * For a net that runs ahead: start a pass that leaves its gradient on the device; start the step
 * with that gradient; wait for the loss of the oldest pass. At most FEDTRAIN_NET_OPEN passes may be
 * open. If a loss is not finite, the device has not taken that pass's step; undo what it counted.
 */
fed_status fedtrain_net_start(struct fedtrain_net *net, const struct fedtrain_batch *batch,
                              const fedtrain_sink *sink, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_update(struct fedtrain_net *net, const fed_optimizer *optimizer,
                               float *params, float *state, fed_error *err) FED_CHECKED;
fed_status fedtrain_net_wait(struct fedtrain_net *net, float *loss, fed_error *err) FED_CHECKED;
void fedtrain_net_undo(const struct fedtrain_net *net, const fed_optimizer *optimizer,
                       float *state);

/** A failure of the backend in words, such as "computing the loss"; FED_OK stays what it is. */
fed_status fedtrain_net_explain(const struct fedtrain_net *net, fed_status status, const char *what,
                                fed_error *err) FED_CHECKED;

#endif
