/* Training whose parameters and gradients stay on a GPU, where a program exchanges them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DEVICE_H
#define FEDTRAIN_DEVICE_H

#include "fed/api.h"
#include "fedtrain/net.h"
#include "fedtrain/optimizer.h"

FED_API_BEGIN

/*
 * For a net that was made with a device's name ("opencl:0", "cuda", "gpu"), between
 * fedtrain_net_begin and fedtrain_net_end. Nothing here waits but fedtrain_net_device_loss:
 *
 *     FED_TRY(fedtrain_net_begin(net, params, state, states, &err));
 *     for (...) {
 *         FED_TRY(fedtrain_net_device_start(net, &batch, &sink, &err));
 *         FED_TRY(fedtrain_optimizer_begin_step(&optimizer, state, params, n, &step, &err));
 *         ... for each bucket, once its sum is on the device:
 *             FED_TRY(fedtrain_net_device_part(net, &step, offset, n, sum, 1.0F / ranks, &err));
 *         FED_TRY(fedtrain_net_keep_statistics(net, params, &err));
 *         FED_TRY(fedtrain_net_device_loss(net, &loss, &err));
 *     }
 *     FED_TRY(fedtrain_net_end(net, params, state, &err));
 *
 * All work is in the net's stream, in the order of the calls. Work of another stream is ordered
 * with it by fed_gpu_after.
 *
 * Threads  as fedtrain_net's: one at a time
 * Errors   of all calls: FED_ESTATE the net is not on a device, or has not begun; FED_ENOMEM,
 *          FED_EIO the device failed
 */
typedef struct fed_gpu fed_gpu; /* fed/gpu.h */
typedef struct fed_gpu_stream fed_gpu_stream;

/** The net's GPU, and the stream of its work; NULL: the net is on the processor. They are the net's
 * until fedtrain_net_free. */
fed_gpu *fedtrain_net_gpu(const fedtrain_net *net);
fed_gpu_stream *fedtrain_net_stream(const fedtrain_net *net);

/** Device addresses, which stay the same while the net lives; NULL: it is on the processor.
 * params float32[layout.size]   gradient float32[trained], of the last pass */
float *fedtrain_net_device_params(const fedtrain_net *net);
float *fedtrain_net_device_gradient(const fedtrain_net *net);

/**
 * Start a pass of training: its loss and its gradient, which stays on the device. The batch is
 * copied, so its memory is the caller's again when this returns. Two passes may be open at most:
 * read the first one's loss before the third.
 *
 * sink    NULL, or `done` is called, before this returns, with the device address of each layer's
 *         gradient as soon as the layer's kernels are in the stream, the last layer first. A second
 *         stream that waits for the net's then (fed_gpu_after) can encode it while earlier layers
 *         are still at work. `need` must be NULL. The next pass overwrites the gradient: what reads
 *         it in another stream must be ordered before that
 * Errors  FED_EINVAL, FED_ERANGE as fedtrain_net_gradient's; FED_ESTATE a third open pass
 */
fed_status fedtrain_net_device_start(fedtrain_net *net, const fedtrain_batch *batch,
                                     const fedtrain_sink *sink, fed_error *err) FED_CHECKED;

/** Wait for the oldest open pass, and read its loss. FED_ENONFINITE: it is not finite; the sentence
 * names the first tensor or layer that isn't. From that pass on no update has changed anything on
 * the device, and none will until fedtrain_net_begin; no pass is open. */
fed_status fedtrain_net_device_loss(fedtrain_net *net, float *loss, fed_error *err) FED_CHECKED;

/**
 * fedtrain_optimizer_step_part on the device, of parameters offset .. offset + n - 1.
 *
 * step    of fedtrain_optimizer_begin_step with the params and state that the net began with; their
 *         values are stale, but the state counts the step
 * grad    on the device, float32[n]: of these parameters. It is read when the stream comes to it
 */
fed_status fedtrain_net_device_part(fedtrain_net *net, const fedtrain_open_step *step,
                                    size_t offset, size_t n, const float *grad, float scale,
                                    fed_error *err) FED_CHECKED;

/** fedtrain_optimizer_step on the device, with the whole gradient, so that it may clip by norm.
 * params, state  those that the net began with      scale  a factor of the gradient, as above
 * grad           on the device, float32[trained]; NULL: the last pass's */
fed_status fedtrain_net_device_step(fedtrain_net *net, const fed_optimizer *optimizer,
                                    float *params, float *state, const float *grad, float scale,
                                    fed_error *err) FED_CHECKED;

FED_API_END

#endif
