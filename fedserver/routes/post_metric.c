/* POST /v1/metric: an evaluating device says how good a version of the model is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_metric(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const fedserver_training *t = &server->rounds.training;
    fed_metric metric;
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    if (fed_metric_read(&r, &metric) != FED_OK || fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(response, err, 400, "bad_metric",
                                      "the body is not a metric: samples above 0, correct of at "
                                      "most samples, a finite loss");
    }
    if (!t->loaded || metric.task != t->task.wire.id || metric.version > t->versions.version) {
        return fedserver_answer_error(response, err, 404, "version_unknown",
                                      "the newest task has no such version");
    }
    FED_TRY(server->store->metric_put(server->db, call->device->id, &metric, err));
    fedserver_device measured = *call->device;
    if (measured.evaluated_task != metric.task || measured.evaluated_version < metric.version) {
        measured.evaluated_task = metric.task;
        measured.evaluated_version = metric.version;
    }
    *call->device = measured;
    return fedserver_device_save(&server->rounds, call->device, err);
}
