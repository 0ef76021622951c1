/* POST /v1/metric: takes an evaluating device's measurements of a version of the model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/own_table.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_metric(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    fedserver_device *device = call->device;
    fed_metric metric;
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    fed_own_metrics own;
    if (fed_metric_read(&r, &metric) != FED_OK || fed_own_metrics_read(&r, &own) != FED_OK ||
        fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(
            response, err, 400, "bad_metric",
            "the body is not a metric: samples above 0, correct of at "
            "most samples or none (4294967295), a finite loss or none (NaN); " FEDSERVER_OWN_RULE);
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, metric.task);
    if (t == NULL || metric.version > t->versions.version) {
        return fedserver_answer_error(response, err, 404, "version_unknown",
                                      "no task in memory has that version; check in again");
    }
    FED_TRY(server->store->metric_put(server->db, device->id, &metric, err));
    /* Custom metrics are stored for each device, and summed up when they are read. */
    fedserver_own_table table = {.count = 0};
    fedserver_own_count(&table, &own, metric.samples);
    FED_TRY(server->store->own_put(server->db, metric.task, metric.version, device->id, table.rows,
                                   table.count, err));
    if (metric.version >= fedserver_measured(t, device)) {
        FED_TRY(fedserver_marks_set(&t->measured, device->id, metric.version, err));
    }
    if (device->evaluated_task != metric.task || device->evaluated_version < metric.version) {
        device->evaluated_task = metric.task;
        device->evaluated_version = metric.version;
    }
    return fedserver_device_save(&server->rounds, device, err);
}
