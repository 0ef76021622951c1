/* POST /v1/metric: an evaluating device says how good a version of the model is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/own_table.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

/* Each device's own metrics are a list of their own: they are summed up when somebody asks. */
static fed_status put_own(fedserver *server, const fedserver_call *call, const fed_metric *metric,
                          const fed_own_metrics *own, fed_error *err) {
    fedserver_own_table table = {.count = 0};
    fedserver_own_count(&table, own, metric->samples);
    return server->store->own_put(server->db, metric->task, metric->version, call->device->id,
                                  table.rows, table.count, err);
}

fed_status fedserver_post_metric(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    fed_metric metric;
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    fed_own_metrics own;
    if (fed_metric_read(&r, &metric) != FED_OK || fed_own_metrics_read(&r, &own) != FED_OK ||
        fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(response, err, 400, "bad_metric",
                                      "the body is not a metric: samples above 0, correct of at "
                                      "most samples, a finite loss; " FEDSERVER_OWN_RULE);
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, metric.task);
    if (t == NULL || metric.version > t->versions.version) {
        return fedserver_answer_error(response, err, 404, "version_unknown",
                                      "no task in memory has such a version");
    }
    FED_TRY(server->store->metric_put(server->db, call->device->id, &metric, err));
    FED_TRY(put_own(server, call, &metric, &own, err));
    if (metric.version >= fedserver_measured(t, call->device) &&
        fedserver_marks_set(&t->measured, call->device->id, metric.version) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices that evaluate");
    }
    fedserver_device measured = *call->device;
    if (measured.evaluated_task != metric.task || measured.evaluated_version < metric.version) {
        measured.evaluated_task = metric.task;
        measured.evaluated_version = metric.version;
    }
    *call->device = measured;
    return fedserver_device_save(&server->rounds, call->device, err);
}
