/* POST /v1/decline: a device can't serve a task, and says why. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/utf8.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_decline(fedserver *server, const fedserver_call *call,
                                  fedserver_response *response, fed_error *err) {
    fed_decline decline;
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    if (fed_decline_read(&r, &decline) != FED_OK || fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the body is not a decline: a task, a round, a lease, and a "
                                      "reason of at most 255 bytes");
    }
    fed_utf8_clean(decline.reason);
    fedserver_training *t = fedserver_rounds_task(&server->rounds, decline.task);
    if (t == NULL) {
        return fedserver_answer_error(response, err, 409, "round_closed",
                                      "that task does not run any more; check in");
    }
    if (decline.lease != call->device->lease &&
        fedserver_lease_stands(t, call->device, call->now_ms)) {
        return fedserver_answer_error(response, err, 409, "lease_unknown",
                                      "this device holds another lease; check in");
    }
    return fedserver_leases_decline(&server->rounds, t, call->device, decline.reason, call->now_ms,
                                    err);
}
