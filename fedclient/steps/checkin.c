/* Check-in: ask the coordinator for work, and check that this client can do it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "fed/small.h"
#include "fed/version.h"
#include "fedclient/steps/steps.h"

static uint32_t capabilities(const fedclient *client) {
    const uint32_t all = FED_CAN_PATCH | FED_CAN_DECLINE | FED_CAN_WORKER_GROUP | FED_CAN_NAMED |
                         FED_CAN_OWN_METRICS | FED_CAN_STAGES | FED_CAN_LONG | FED_CAN_EDEN |
                         FED_CAN_NO_LOSS | FED_CAN_NO_ACCURACY | FED_CAN_PRIVATE | FED_CAN_COUNT |
                         fed_task_capabilities() | (FED_SMALL ? 0 : FED_CAN_LAYOUT) |
                         (client->lists ? FED_CAN_TASKS : 0) | (client->heard ? 0 : FED_STARTED);
    const uint32_t none =
        (client->options.downloads != NULL ? 0 : FED_CAN_URL) |
        (FED_SMALL ? FED_CAN_PERSONAL | FED_CAN_PRIVATE_LAYERS | FED_CAN_VARIATES : 0);
    return all & ~none;
}

static fed_status ask(fedclient *client, fedclient_answer *answer, fed_error *err) {
    fed_checkin checkin = {.protocol = client->protocol,
                           .role = client->options.role,
                           .hold_ms = fedclient_addresses_hold(client),
                           .capabilities = capabilities(client),
                           .samples = client->slot->residual.samples,
                           .slots = (uint8_t)client->options.slots};
    fedclient_slots_list(client, checkin.held);
    uint8_t message[128];
    fed_writer w;
    fed_writer_fixed(&w, message, sizeof message);
    fed_checkin_write(&w, &checkin);
    fedclient_span span = {.data = message, .left = w.len};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {.base = client->devices,
                                 .kind = FED_REQUEST_CHECKIN,
                                 .body = &body,
                                 .answer_limit = FED_ASSIGNMENT_MOST,
                                 .hold_ms = checkin.hold_ms,
                                 .introduces = true};
    const fed_status status = fedclient_exchange(client, &call, answer, err);
    /* A newer coordinator may send a task that is too long for this client. The next task may be
     * shorter. */
    client->heals = client->heals || status == FED_ERANGE;
    FED_TRY(status);
    if (answer->status != 200) {
        bool version = strcmp(answer->error, "protocol_version") == 0;
        return fed_fail(err, version ? FED_EVERSION : FED_EFORMAT,
                        "the coordinator refused the check-in: %s (%s)", answer->message,
                        answer->error);
    }
    return FED_OK;
}

/** The coordinator has refused the check-in, perhaps because it is older than this device. Leave
 * out what an older coordinator can't read: the newest version of the protocol, or the list of
 * tasks. True: something was left out, for this and all later check-ins. */
static bool ask_for_less(fedclient *client, const fedclient_answer *answer) {
    if (strcmp(answer->error, "protocol_version") == 0 && client->protocol > FED_PROTOCOL_OLDEST) {
        client->protocol--;
        return true;
    }
    if (client->lists) { /* an older coordinator refuses the list, with 400 or 413 */
        client->lists = false;
        fed_logf(client->options.log, FED_LOG_WARN,
                 "the coordinator is too old for --slots: this device stays with one task until "
                 "that ends; update the coordinator to this device's release");
        return true;
    }
    return false;
}

static fed_status ask_any(fedclient *client, fedclient_answer *answer, fed_error *err) {
    fed_status status = ask(client, answer, err);
    while ((answer->status == 400 || answer->status == 413) && ask_for_less(client, answer)) {
        *err = (fed_error){0};
        fedclient_answer_free(answer);
        status = ask(client, answer, err);
    }
    return status;
}

fed_status fedclient_fits(const fedclient *client, uint64_t values, uint64_t more, fed_error *err) {
    enum { MODELS = 3 }; /* the most at the same time (docs/client-memory.md) */
    const uint64_t most = client->options.most_memory_bytes;
    const uint64_t needed = values * sizeof(float) * MODELS + more;
    return most == 0 || needed <= most
               ? FED_OK
               : fed_fail(err, FED_ERANGE,
                          "its model of %" PRIu64
                          " values takes %.1f MB of memory, and this device gives a task %.1f MB",
                          values, 1e-6 * (double)needed, 1e-6 * (double)most);
}

static fed_status fit(fedclient *client, fedclient_job *job, const fedclient_layout *layout,
                      fed_error *err) {
    const fed_assignment *assignment = &job->assignment;
    fed_error why = {0};
    fed_status status = fedclient_layout_parse(job, layout, &job->arch, &why);
    if (status == FED_OK) {
        status = fedclient_own_fits(client, job, &why);
    }
    if (status == FED_OK) {
        status =
            fedclient_fits(client, job->arch.layout.size, job->split.own * sizeof(float), &why);
    }
    if (status == FED_OK) {
        status = fed_cache_url_check(assignment->task.downloads, &why);
    }
    if (status == FED_OK && assignment->action == FED_ACTION_TRAIN) {
        status = fedcodec_parse_pair(assignment->task.codec_up, assignment->task.codec_variates,
                                     job->codec, &why);
        status = status == FED_OK ? fedclient_private_fits(client, job, &why) : status;
        status = status == FED_OK ? fedclient_participation_left(client, assignment, &why) : status;
    }
    return status == FED_OK ? FED_OK
                            : fed_fail(err, FED_EDECLINED, "this device can't serve the task: %s",
                                       why.text[0] != '\0' ? why.text : fed_status_text(status));
}

/** Make the model of the assignment's task, and use the task's slot. */
static fed_status take_task(fedclient *client, fedclient_job *job, fed_error *err) {
    fedclient_layout layout;
    fed_status status = fedclient_layout_find(client, job, &layout, err);
    if (status == FED_OK) {
        status = fit(client, job, &layout, err);
    }
    if (status == FED_OK) {
        fedclient_slot_take(client, &job->assignment);
        status =
            fedclient_layout_keep(client, job, &layout, err); /* may store the record "layout" */
    }
    fedclient_record_free(&layout.record);
    return status;
}

static fed_status understand(const fedclient *client, fedclient_job *job,
                             const fedclient_answer *answer, fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, answer->body.data, answer->body.len);
    fed_status status = fed_assignment_read(&r, client->protocol, &job->assignment);
    if (status == FED_OK) {
        status = fed_reader_end(&r);
    }
    if (status != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "the answer to the check-in can't be read: the "
                        "coordinator may be of another release");
    }
    return FED_OK;
}

fed_status fedclient_checkin(fedclient *client, fedclient_job *job, fed_error *err) {
    /* docs/durability.md, C2: a message whose fate is unknown is sent again before a check-in. */
    assert(fedclient_slots_sending(client) == NULL);
    fedclient_answer answer = {0};
    fed_status status = ask_any(client, &answer, err);
    if (status == FED_OK) {
        status = understand(client, job, &answer, err);
    }
    fedclient_answer_free(&answer);
    FED_TRY(status);
    client->restart_helps =
        client->heard ? client->restart_helps : (job->assignment.capabilities & FED_STARTED) != 0;
    client->heard = true;
    client->renew_asked = (job->assignment.capabilities & FED_RENEW) != 0;
    job->event->reason = job->assignment.reason;
    job->event->wait_ms = job->assignment.retry_ms;
    client->told_ms = job->assignment.retry_ms;
    job->event->round = job->assignment.round;
    job->event->version = job->assignment.version;
    if (job->assignment.action == FED_ACTION_WAIT) {
        return FED_OK;
    }
    job->event->task = job->assignment.task.id;
    fedclient_watch_start(client, &job->assignment);
    FED_TRY(take_task(client, job, err));
    return job->assignment.action == FED_ACTION_DONE ? FED_OK
                                                     : fedclient_watch_program(client, err);
}
