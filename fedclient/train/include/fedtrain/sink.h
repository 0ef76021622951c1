/* What a pass tells, layer by layer, while it still runs: parameters it needs, gradients it has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_SINK_H
#define FEDTRAIN_SINK_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * A sink is told of each layer's gradient as soon as it is summed, so that it can be sent, or put
 * to use, while the layers before are still at work. And it is asked for each layer's parameters
 * before the forward pass reads them, so that the first layers can be at work while parameters of
 * later layers are still on their way. Either member may be NULL.
 *
 * Order    `need`: the first layer first. `done`: the last layer first. Either names each trained
 *          parameter once, so offsets rise, and fall, from call to call, and the ranges cover all
 *          of float32[trained]. One call a layer: its weight and its bias lie side by side. Both
 *          name the same ranges.
 * Shared   A weight that several layers share is named once, with the first layer that has it:
 *          before the first one reads it, and when all of them have added to its gradient. A bias
 *          of its own is named with its layer.
 * Merged   A layer without parameters is never named, be it merged into another one or not.
 * Others   Running statistics of batch normalization, and SCAFFOLD's c, are not trained: the sink
 *          never sees them. fedtrain_net_keep_statistics is for the former.
 * Threads  Calls come from the thread that runs the pass, in which denormals count as 0. The pass
 *          waits for both: hand long work of `done` to another thread. Neither may use the net.
 * Memory   Parameters: the pass reads none of a range, and nothing made of them, before `need` for
 *          it has returned. Until then they may hold anything, and the sink, or another thread,
 *          may write them through a pointer of its own. From then on they stay as they are to the
 *          end of the pass.
 *          Gradient: it lies where the caller of the pass wanted it, at grad + offset. From `done`
 *          on the pass neither reads nor writes it: another thread may read it, and change it,
 *          until the caller starts a pass with the same memory. With two such buffers, one can
 *          still be sent while the next one is filled.
 * Failure  If `need` fails, the pass ends with its status and its sentence, grad is untouched, and
 *          no more is named. The net can be used again; LSTMs must forget first
 *          (fedtrain_net_forget). If the pass fails, the layers named so far had their gradient.
 */
typedef struct fedtrain_sink {
    /* The gradient of parameters offset .. offset + n - 1 is summed.   grad float32[n] */
    void (*done)(void *user, size_t offset, const float *grad, size_t n);
    /* The forward pass reads parameters offset .. offset + n - 1 as soon as this returns. */
    fed_status (*need)(void *user, size_t offset, size_t n, fed_error *err);
    void *user;
} fedtrain_sink;

FED_API_END

#endif
