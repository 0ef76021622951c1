/* For a device that is a cluster: sends what its workers do now, for the coordinator's page. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/steps/steps.h"

#include <stdlib.h>

static fed_status message_of(const fed_worker_group *group, fed_writer *w, fed_error *err) {
    static const char wrong[] =
        "the worker group has a value that fed/worker_group.h does not allow";
    fed_reader r;
    if (group->count > FED_WORKER_GROUP_WORKERS) {
        return fed_fail(err, FED_EINVAL, "%s: its number of workers", wrong);
    }
    fed_worker_group_write(w, group);
    FED_REQUIRE(w->status == FED_OK, FED_ENOMEM);
    fed_worker_group *back = calloc(1, sizeof *back);
    FED_REQUIRE(back != NULL, FED_ENOMEM);
    fed_reader_init(&r, w->data, w->len);
    const fed_status status = fed_worker_group_read(&r, back);
    free(back);
    return status == FED_EFORMAT ? fed_fail(err, FED_EINVAL, "%s", wrong) : status;
}

static fed_status post(fedclient *client, const fed_writer *message, fedclient_answer *answer,
                       fed_error *err) {
    fedclient_span span = {.data = message->data, .left = message->len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {.base = client->devices,
                                 .kind = FED_REQUEST_WORKER_GROUP,
                                 .body = &body,
                                 .answer_limit = 4096};
    return fedclient_exchange(client, &call, answer, err);
}

fed_status fedclient_round_worker_group(const fedclient_round *round, fed_worker_group *group,
                                        fed_error *err) {
    const fed_assignment *assignment = &round->job->assignment;
    fedclient *client = round->job->client;
    if ((assignment->capabilities & FED_CAN_WORKER_GROUP) == 0) {
        return FED_OK;
    }
    /* An older coordinator can't read computes_on. */
    for (uint32_t k = 0; k < FED_WORKER_GROUP_WORKERS; k++) {
        const bool read = (assignment->capabilities & FED_CAN_NAMED) != 0;
        group->worker[k].computes_on[0] = read ? group->worker[k].computes_on[0] : '\0';
    }
    group->task = assignment->task.id;
    group->round = assignment->round;
    const bool heals = client->heals;
    fedclient_answer answer = {0};
    fed_writer message;
    fed_writer_growing(&message);
    fed_status status = message_of(group, &message, err);
    if (status == FED_OK) {
        status = post(client, &message, &answer, err);
        client->heals = heals; /* a failure of this request does not end the step */
    }
    if (status == FED_OK && answer.status != 200) {
        status =
            fed_fail(err, FED_EFORMAT, "the coordinator refused the worker group's state: %s (%s)",
                     answer.message, answer.error);
    }
    fedclient_answer_free(&answer);
    fed_writer_free(&message);
    return status;
}
