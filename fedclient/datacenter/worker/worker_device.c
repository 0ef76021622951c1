/* A worker whose net is on a GPU: parameters, gradients and sums stay on the GPU during a run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/datacenter/worker/worker_impl.h"
#include "fedtrain/device.h"

fed_status feddc_worker_find_device(feddc_worker *w, fed_error *err) {
    fed_gpu *gpu = fedtrain_net_gpu(w->o.job.net);
    fed_gpu_stream *stream = gpu != NULL ? fedtrain_net_stream(w->o.job.net) : NULL;
    return feddc_values_open(gpu, stream, 0, &w->values, err);
}

fed_status feddc_worker_up(const feddc_worker *w, float *there, const float *here, size_t n,
                           fed_error *err) {
    const uint8_t *bytes = (const uint8_t *)here;
    FED_TRY(feddc_values_explain(&w->values,
                                 feddc_values_use_bytes(&w->values, true, there, bytes, n), err));
    return feddc_values_explain(&w->values, feddc_values_wait(&w->values), err);
}

fed_status feddc_worker_down(const feddc_worker *w, float *here, const float *there, size_t n,
                             fed_error *err) {
    uint8_t *bytes = (uint8_t *)here;
    FED_TRY(feddc_values_explain(&w->values, feddc_values_bytes(&w->values, there, n, bytes), err));
    return feddc_values_explain(&w->values, feddc_values_wait(&w->values), err);
}

void feddc_worker_note(feddc_worker *w, fed_status status) {
    if (status != FED_OK && w->failure.status == FED_OK) {
        w->failure.status = feddc_values_explain(&w->values, status, &w->failure);
    }
}

fed_status feddc_worker_failure(feddc_worker *w, fed_error *err) {
    const fed_error failure = w->failure;
    w->failure = (fed_error){.status = FED_OK};
    return failure.status == FED_OK ? FED_OK : fed_fail(err, failure.status, "%s", failure.text);
}

fed_status feddc_worker_begin(feddc_worker *w, fed_error *err) {
    const size_t size = w->o.arch->layout.size;
    if (!feddc_worker_on_gpu(w)) {
        return FED_OK;
    }
    if (w->spare != NULL) { /* a copy to go back to if the run fails */
        memcpy(w->spare, w->params, size * sizeof *w->spare);
        memcpy(w->spare + size, w->state, w->states * sizeof *w->spare);
    }
    w->run_step = w->step;
    return fedtrain_net_begin(w->o.job.net, w->params, w->state, w->states, err);
}

fed_status feddc_worker_end(feddc_worker *w, fed_status status, fed_error *err) {
    const size_t size = w->o.arch->layout.size;
    if (!feddc_worker_on_gpu(w)) {
        return status;
    }
    if (status == FED_OK) {
        status = fedtrain_net_end(w->o.job.net, w->params, w->state, err);
        if (status == FED_OK) {
            return FED_OK;
        }
    } else {
        fed_error ignored = {0};
        (void)!fedtrain_net_end(w->o.job.net, NULL, NULL, &ignored);
    }
    w->completed = w->run_step;
    if (w->spare != NULL) {
        memcpy(w->params, w->spare, size * sizeof *w->spare);
        memcpy(w->state, w->spare + size, w->states * sizeof *w->spare);
    }
    return status;
}

void feddc_worker_step_part(feddc_worker *w, size_t offset, size_t n, const float *sum,
                            float share) {
    if (!feddc_worker_on_gpu(w)) {
        fedtrain_optimizer_step_part(&w->open, offset, n, sum, share);
        return;
    }
    fed_error err = {.status = FED_OK};
    const fed_status status =
        fedtrain_net_device_part(w->o.job.net, &w->open, offset, n, sum, share, &err);
    if (status != FED_OK && w->failure.status == FED_OK) {
        w->failure = err;
        w->failure.status = status;
    }
}

fed_status feddc_worker_descend(feddc_worker *w, fed_error *err) {
    const feddc_values *v = &w->values;
    const float rate = (float)w->local_rule.learning_rate;
    fed_status status =
        feddc_values_use(v, true, w->local, fedtrain_net_device_params(w->o.job.net), w->n);
    if (status == FED_OK && w->own != NULL) {
        status = feddc_values_descend(v, w->local, w->own, rate, w->n);
    }
    return feddc_values_explain(v, status, err);
}

/* A pass reads the net's own parameters, so swap them with the local weights. */
static fed_status swap_local(const feddc_worker *w, fed_error *err) {
    if (!w->act.local) {
        return FED_OK;
    }
    return feddc_values_explain(
        &w->values,
        feddc_values_swap(&w->values, fedtrain_net_device_params(w->o.job.net), w->local, w->n),
        err);
}

fed_status feddc_worker_pass(feddc_worker *w, const fedtrain_batch *batch,
                             const fedtrain_sink *sink, float *loss, fed_error *err) {
    fedtrain_net *net = w->o.job.net;
    const fedtrain_sink after = {.done = sink->done, .user = sink->user};
    /* take all sums that are due first: a pass on a GPU calls no `need` */
    FED_TRY(sink->need(sink->user, 0, w->n, err));
    FED_TRY(swap_local(w, err));
    FED_TRY(fedtrain_net_device_start(net, batch, &after, err));
    FED_TRY(swap_local(w, err));
    FED_TRY(fedtrain_net_device_loss(net, loss, err));
    return feddc_worker_failure(w, err);
}
