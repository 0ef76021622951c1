/* Where a net's gradient goes, layer by layer, while the backward pass still runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_SINK_H
#define FEDTRAIN_SINK_H

#include <stddef.h>

#include "fed/api.h"

FED_API_BEGIN

/**
 * A sink is told of each layer's gradient as soon as it is summed, so that it can be sent, or put
 * to use, while the layers before are still at work.
 *
 * Order    The last layer first. Each trained parameter is named once, so offsets fall from call to
 *          call, and the ranges cover all of float32[trained]. One call a layer: its weight and its
 *          bias lie side by side.
 * Shared   A weight that several layers share is named once, with the first layer that has it: then
 *          all of them have added to it. A bias of its own is named with its layer.
 * Merged   A layer without parameters is never named, be it merged into another one or not.
 * Others   Running statistics of batch normalization, and SCAFFOLD's c, are no gradients: the sink
 *          never sees them. fedtrain_net_keep_statistics is for the former.
 * Threads  Calls come from the thread that runs the pass, in which denormals count as 0. The pass
 *          waits for `done`: hand long work to another thread. `done` must not use the net.
 * Memory   grad lies where the caller of the pass wanted the gradient, at grad + offset. From this
 *          call on the pass neither reads nor writes it: another thread may read it, and change it,
 *          until the caller starts a pass with the same memory. With two such buffers, one can
 *          still be sent while the next one is filled.
 * Failure  If the pass fails, the layers named so far had their gradient, and no more are named.
 */
typedef struct fedtrain_sink {
    /* The gradient of parameters offset .. offset + n - 1 is summed.   grad float32[n] */
    void (*done)(void *user, size_t offset, const float *grad, size_t n);
    void *user;
} fedtrain_sink;

FED_API_END

#endif
