/* Callbacks of a running pass: when parameters are needed, and when a gradient is ready. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_SINK_H
#define FEDTRAIN_SINK_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * A sink is told of each layer's gradient as soon as it is summed, so that a gradient can be sent,
 * or used, while the layers before are still computed. A sink is also asked for each layer's
 * parameters before the forward pass reads them. So the first layers can be computed while the
 * parameters of later layers are still being received. Either member may be NULL.
 *
 * Order    `need`: the first layer first. `done`: the last layer first. Each of the two names
 *          every trained parameter once, in the same ranges. There is one call a layer, whose
 *          weight and bias lie side by side. Offsets rise from one `need` to the next, and fall
 *          from one `done` to the next.
 * Shared   A weight that several layers share is named once, with the first layer that has it:
 *          `need` before the first one reads it, `done` when all of them have added to its
 *          gradient. The bias of a layer with a shared weight is named with that layer.
 * Merged   A layer without parameters is never named, even if the backend computes it together
 *          with another layer.
 * Others   Running statistics of batch normalization and SCAFFOLD's c are not trained: the sink
 *          never sees them. fedtrain_net_keep_statistics updates running statistics.
 * Threads  Calls come from the thread that runs the pass, in which denormals count as 0. The pass
 *          waits for `need` and `done` to return: hand long work to another thread. Neither may
 *          use the net.
 * Memory   Parameters: the pass reads none of a range before `need` for that range has returned.
 *          Until then they may hold anything, and the sink or another thread may write them
 *          through a pointer of its own. After that they must not change until the pass ends.
 *          Gradient: it lies at grad + offset in the array that the caller gave to the pass. After
 *          `done` the pass neither reads nor writes it: another thread may read and change it
 *          until the caller starts a pass with the same array. With two arrays, a program can send
 *          one while a pass fills the other.
 * Failure  If `need` fails, the pass ends with its status and error text, grad is untouched, and
 *          no more ranges are named. The net can be used again; if it has LSTMs, call
 *          fedtrain_net_forget first. If the pass itself fails, the gradients that `done` got are
 *          right.
 */
typedef struct fedtrain_sink {
    /* The gradient of parameters offset .. offset + n - 1 is summed.   grad float32[n] */
    void (*done)(void *user, size_t offset, const float *grad, size_t n);
    /* The forward pass reads parameters offset .. offset + n - 1 as soon as `need` returns. */
    fed_status (*need)(void *user, size_t offset, size_t n, fed_error *err);
    void *user;
} fedtrain_sink;

FED_API_END

#endif
