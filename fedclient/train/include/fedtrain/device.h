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
 * fedtrain_net_begin and fedtrain_net_end. fedtrain_net_device_loss waits for a pass; the other
 * calls start work, and wait at most where a batch has another size than the last one:
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
 * Threads  one thread at a time may use a net
 * Errors   of all calls: FED_ESTATE the net is not on a device, or fedtrain_net_begin was not
 *          called; FED_ENOMEM, FED_EIO the device failed
 */
typedef struct fed_gpu fed_gpu; /* fed/gpu.h */
typedef struct fed_gpu_stream fed_gpu_stream;

/** The net's GPU, and the stream of its work; NULL if the net is on the processor. Both belong to
 * the net and are valid until fedtrain_net_free. */
fed_gpu *fedtrain_net_gpu(const fedtrain_net *net);
fed_gpu_stream *fedtrain_net_stream(const fedtrain_net *net);

/** Addresses on the device, the same until fedtrain_net_free; NULL if the net is on the processor.
 * params float32[layout.size]   gradient float32[trained], of the last pass */
float *fedtrain_net_device_params(const fedtrain_net *net);
float *fedtrain_net_device_gradient(const fedtrain_net *net);

/**
 * Start a pass of training: its loss and its gradient, which stays on the device. The batch is
 * copied, so its memory is the caller's again when this returns. Two passes may be open at most:
 * read the first one's loss before you start a third.
 *
 * sink    NULL, or `done` is called, before this returns, with the device address of each layer's
 *         gradient as soon as the layer's kernels are in the stream, the last layer first. A
 *         second stream that `done` orders behind the net's stream (fed_gpu_after) can encode this
 *         gradient while earlier layers are still computed. `need` must be NULL. The next pass
 *         overwrites the gradient: work of another stream that reads it must be ordered before
 *         that pass
 * Errors  FED_EINVAL, FED_ERANGE as fedtrain_net_gradient's; FED_ESTATE a third open pass
 */
fed_status fedtrain_net_device_start(fedtrain_net *net, const fedtrain_batch *batch,
                                     const fedtrain_sink *sink, fed_error *err) FED_CHECKED;

/** Wait for the oldest open pass, and read its loss. FED_ENONFINITE: the loss is not finite; *err
 * names the first tensor or layer that is not, if there is one. From that pass on, updates change
 * nothing on the device until the next fedtrain_net_begin. No pass is open then. */
fed_status fedtrain_net_device_loss(fedtrain_net *net, float *loss, fed_error *err) FED_CHECKED;

/**
 * Do what fedtrain_optimizer_step_part does, on the device, for parameters offset .. offset + n -
 * 1.
 *
 * step    of fedtrain_optimizer_begin_step with the params and state that the net began with; their
 *         values are stale, but the state counts the step
 * grad    on the device, float32[n], of these parameters. The device reads it when the stream gets
 *         to this call's work, which may be after the call returned
 */
fed_status fedtrain_net_device_part(fedtrain_net *net, const fedtrain_open_step *step,
                                    size_t offset, size_t n, const float *grad, float scale,
                                    fed_error *err) FED_CHECKED;

/** Do what fedtrain_optimizer_step does, on the device. The gradient is whole, so the optimizer may
 * clip by norm.
 * params, state  those that the net began with
 * scale          the gradient is multiplied by it first
 * grad           on the device, float32[trained]; NULL: the last pass's */
fed_status fedtrain_net_device_step(fedtrain_net *net, const fed_optimizer *optimizer,
                                    float *params, float *state, const float *grad, float scale,
                                    fed_error *err) FED_CHECKED;

FED_API_END

#endif
