/* Training whose parameters and gradients stay on a GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/device.h"

#include <string.h>

#include "fed/small.h"
#include "fedclient/train/net_impl.h"

static const fedtrain_device_vtable *device_of(const fedtrain_net *net) {
    return FED_SMALL ? NULL : net->backend->device;
}

static fed_status check_begun(const fedtrain_net *net, fed_error *err) {
    if (device_of(net) == NULL) {
        return fed_fail(err, FED_ESTATE,
                        "the net is on the processor: make it with a device's name, such as gpu");
    }
    return net->away ? FED_OK
                     : fed_fail(err, FED_ESTATE,
                                "the net has not taken the parameters: call fedtrain_net_begin");
}

fed_gpu *fedtrain_net_gpu(const fedtrain_net *net) {
    return device_of(net) != NULL ? device_of(net)->gpu(net->work) : NULL;
}

fed_gpu_stream *fedtrain_net_stream(const fedtrain_net *net) {
    return device_of(net) != NULL ? device_of(net)->stream(net->work) : NULL;
}

float *fedtrain_net_device_params(const fedtrain_net *net) {
    return device_of(net) != NULL ? device_of(net)->params(net->work) : NULL;
}

float *fedtrain_net_device_gradient(const fedtrain_net *net) {
    return device_of(net) != NULL ? device_of(net)->gradient(net->work) : NULL;
}

fed_status fedtrain_net_device_start(fedtrain_net *net, const fedtrain_batch *batch,
                                     const fedtrain_sink *sink, fed_error *err) {
    FED_TRY(check_begun(net, err));
    return fedtrain_net_start(net, batch, sink, err);
}

fed_status fedtrain_net_device_loss(fedtrain_net *net, float *loss, fed_error *err) {
    FED_TRY(check_begun(net, err));
    return fedtrain_net_wait(net, loss, err);
}

static fed_status update(fedtrain_net *net, fedtrain_updater *u, size_t offset, size_t n,
                         const float *grad, float scale, fed_error *err) {
    u->update.step.share = scale;
    return fedtrain_net_explain(net, device_of(net)->update(net->work, &u->update, offset, n, grad),
                                "a step", err);
}

fed_status fedtrain_net_device_part(fedtrain_net *net, const fedtrain_open_step *step,
                                    size_t offset, size_t n, const float *grad, float scale,
                                    fed_error *err) {
    fedtrain_updater u;
    memcpy(&u, step, sizeof u);
    FED_TRY(check_begun(net, err));
    return update(net, &u, offset, n, grad, scale, err);
}

fed_status fedtrain_net_device_step(fedtrain_net *net, const fed_optimizer *optimizer,
                                    float *params, float *state, const float *grad, float scale,
                                    fed_error *err) {
    const size_t n = net->arch->trained;
    FED_TRY(check_begun(net, err));
    fedtrain_updater u = fedtrain_update_begin(optimizer, state, params, n);
    return update(net, &u, 0, n, grad, scale, err);
}
