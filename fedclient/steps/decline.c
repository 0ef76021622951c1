/* Declining: tell the coordinator that this device can't serve a task, so that another one does. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/steps/steps.h"

#include <inttypes.h>
#include <stdio.h>

static fed_status post(fedclient *client, const fed_decline *decline, fedclient_answer *answer,
                       fed_error *err) {
    uint8_t message[sizeof *decline + 16];
    fed_writer w;
    fed_writer_fixed(&w, message, sizeof message);
    fed_decline_write(&w, decline);
    fedclient_span span = {.data = message, .left = w.len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {
        .base = client->devices, .kind = FED_REQUEST_DECLINE, .body = &body, .answer_limit = 4096};
    return fedclient_exchange(client, &call, answer, err);
}

/** Return how long to wait, in ms: the time left of the lease, or a minute for an evaluation, which
 * has no lease. */
static uint32_t rest_of_lease(const fedclient *client, const fed_assignment *assignment) {
    enum { EVALUATION_MS = 60000 };
    const fedclient_platform *platform = client->options.platform;
    if (assignment->action != FED_ACTION_TRAIN) {
        return EVALUATION_MS;
    }
    const int64_t left = client->watch.deadline_ms - platform->monotonic_ms(platform->user);
    return left > 0 ? (uint32_t)left : 0;
}

fed_status fedclient_decline(fedclient *client, const fedclient_job *job, const char *reason,
                             uint32_t *wait_ms, fed_error *err) {
    const fed_assignment *assignment = &job->assignment;
    if ((assignment->capabilities & FED_CAN_DECLINE) == 0) {
        *wait_ms = rest_of_lease(client, assignment);
        return FED_OK;
    }
    fed_decline decline = {
        .task = assignment->task.id, .round = assignment->round, .lease = assignment->lease};
    snprintf(decline.reason, sizeof decline.reason, "%s", reason);
    fedclient_answer answer = {0};
    fed_status status = post(client, &decline, &answer, err);
    if (status == FED_OK && answer.status != 200) {
        fed_logf(client->options.log, FED_LOG_DEBUG, "the coordinator answered a decline with: %s",
                 answer.message);
    }
    fedclient_answer_free(&answer);
    return status;
}
