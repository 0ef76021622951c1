/* POST /v1/update: checks a device's update completely, then counts it once and durably. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/classes.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/training.h"
#include "fedserver/rounds/unfit.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

static fed_status refuse_unfit(fedserver *server, const fedserver_call *call, fed_status status,
                               const fed_error *why, fedserver_response *response, fed_error *err) {
    const bool range = status == FED_ERANGE;
    fedserver_counters *counters = &server->rounds.counters;
    *(range ? &counters->updates_out_of_range : &counters->updates_bad) += 1;
    call->device->refused++;
    return fedserver_answer_error(response, err, range ? 422 : 400,
                                  range ? "out_of_range" : "bad_update", "%s", why->text);
}

/* Answer a repeated update. An older release may have counted it without storing its digest: then
 * store the digest now. */
static fed_status say_yes_again(fedserver *server, fedserver_device *device, uint64_t digest,
                                fed_error *err) {
    server->rounds.counters.updates_repeated++;
    if (device->counted_digest != 0) {
        return FED_OK;
    }
    device->counted_digest = digest;
    return fedserver_device_save(&server->rounds, device, err);
}

static fed_status answer(fedserver *server, const fedserver_call *call,
                         fedserver_round_action action, fedserver_response *response,
                         fed_error *err) {
    const bool late = action != FEDSERVER_DO_REFUSE_CLONED && action != FEDSERVER_DO_REFUSE_UNKNOWN;
    *(late ? &call->device->late : &call->device->refused) += 1;
    switch (action) {
    case FEDSERVER_DO_REFUSE_CLONED:
        server->rounds.counters.updates_cloned++;
        FED_TRY(fedserver_device_cloned(&server->rounds, call->device, call->now_ms, err));
        return fedserver_answer_error(response, err, 409, "cloned",
                                      "another copy of this device's state has reported with this "
                                      "lease; keep the update in the residual, stop one of the "
                                      "copies and enrol it with a token of its own");
    case FEDSERVER_DO_REFUSE_EXPIRED:
        server->rounds.counters.updates_expired++;
        return fedserver_answer_error(response, err, 409, "lease_expired",
                                      "this lease ended at its deadline; keep the update "
                                      "in the residual and check in");
    case FEDSERVER_DO_REFUSE_STALE:
        server->rounds.counters.updates_stale++;
        return fedserver_answer_error(response, err, 409, "too_stale",
                                      "the model has moved on too far since this update's version; "
                                      "keep the update in the residual and check in");
    case FEDSERVER_DO_REFUSE_UNKNOWN:
        server->rounds.counters.updates_unknown++;
        return fedserver_answer_error(response, err, 409, "lease_unknown",
                                      "this device does not hold that lease; keep the update in "
                                      "the residual and check in");
    default:
        server->rounds.counters.updates_closed++;
        return fedserver_answer_error(response, err, 409, "round_closed",
                                      "that round is over; keep the update in the residual and "
                                      "check in");
    }
}

fed_status fedserver_update_take(fedserver *server, const fedserver_call *call, const uint8_t *body,
                                 size_t len, uint64_t digest, fedserver_response *response,
                                 fed_error *err) {
    fedserver_update update;
    fed_error unread = {0};
    if (fedserver_intake_read(body, len, &update, &unread) != FED_OK) {
        return refuse_unfit(server, call, FED_EFORMAT, &unread, response, err);
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, update.head.task);
    fedserver_round_event event =
        fedserver_leases_update_event(t, call->device, &update.head, digest, call->now_ms);
    if (event == FEDSERVER_ON_UPDATE_LEASED) {
        fed_error why = {0};
        fed_status fit = t->intake->open(&t->task, &t->arch.layout, &update, &why);
        if (fit == FED_OK) {
            fit = fedserver_openings_check(t, call->device->fingerprint, &update, &why);
        }
        if (fit != FED_OK) {
            FED_TRY(fit == FED_ERANGE ? fedserver_unfit_add(&server->rounds, t, call->device, &why,
                                                            call->now_ms, err)
                                      : FED_OK);
            return refuse_unfit(server, call, fit, &why, response, err);
        }
    }
    const fedserver_round_rules no_rules = {0};
    fedserver_round no_round = {.phase = FEDSERVER_ROUND_NONE};
    const fedserver_round_action action =
        fedserver_round_step(t != NULL ? &t->task.rules : &no_rules,
                             t != NULL ? &t->round : &no_round, event, call->now_ms);
    fed_status counted = FED_OK;
    if (action == FEDSERVER_DO_COUNT) {
        counted = fedserver_training_count(&server->rounds, t, call->device, &update, digest,
                                           call->now_ms, err);
        counted = counted == FED_OK ? fedserver_unfit_clear(t, call->device, err) : counted;
        counted = counted == FED_OK
                      ? fedserver_classes_count(&server->rounds, t, call->device, call->now_ms, err)
                      : counted;
    }
    if (event == FEDSERVER_ON_UPDATE_LEASED) {
        t->intake->drop(&update);
    }
    if (action == FEDSERVER_DO_COUNT) {
        return counted;
    }
    if (action == FEDSERVER_DO_COUNTED_BEFORE) {
        return say_yes_again(server, call->device, digest, err);
    }
    bool cancelled = false;
    if (action == FEDSERVER_DO_REFUSE_CLOSED && t == NULL) {
        FED_TRY(fedserver_task_is(&server->rounds, update.head.task, 1U << FEDSERVER_TASK_CANCELLED,
                                  &cancelled, err));
    }
    if (cancelled) {
        server->rounds.counters.updates_closed++;
        return fedserver_answer_error(response, err, 409, "task_cancelled",
                                      "that task was cancelled; keep the update in the residual "
                                      "and check in");
    }
    return answer(server, call, action, response, err);
}

fed_status fedserver_post_update(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    return fedserver_update_take(server, call, request->body, request->body_len,
                                 fed_digest_bytes(request->body, request->body_len), response, err);
}
