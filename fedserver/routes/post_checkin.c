/* POST /v1/checkin: a device tells which tasks and versions it has, and gets an assignment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/classes.h"
#include "fedserver/rounds/device_marks.h"
#include "fedserver/rounds/lately.h"
#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/pace.h"
#include "fedserver/rounds/queue.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/too_old.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

/* The longest time to hold back an answer: NATs and proxies soon forget a silent connection. */
enum { HOLD_LIMIT_MS = 55000 };
/* The mean wait between check-ins while there are few devices. IDLE_MS: without a deadline. The
 * others: bounds of the wait while a deadline runs. */
enum { IDLE_MS = 5000, OPEN_MIN_MS = 500, OPEN_MAX_MS = 10000 };

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Answer that the device is to check in again later. The wait is longer if the round has much time
 * left, or if many devices check in. t NULL: there is no task to wait for. */
static void wait_for(fedserver *server, const fedserver_training *t, const fedserver_call *call,
                     fed_wait_reason reason, fed_assignment *answer) {
    int64_t least_ms = IDLE_MS;
    if (t != NULL && t->round.deadline_ms > call->now_ms) {
        least_ms = clamp((t->round.deadline_ms - call->now_ms) / 10, OPEN_MIN_MS, OPEN_MAX_MS);
    }
    fed_rng rng;
    fed_rng_init(&rng, (uint64_t)call->now_ms, (uint32_t)call->device->id, 0);
    uint32_t wait_ms = fedserver_pace_ms((uint32_t)least_ms,
                                         fedserver_devices_active(&server->rounds, call->now_ms),
                                         fed_rng_u32(&rng));
    answer->action = FED_ACTION_WAIT;
    answer->reason = reason;
    answer->retry_ms = (uint32_t)clamp(wait_ms - call->request->waited_ms, 0, UINT32_MAX);
}

static void assign(const fedserver_training *t, fed_action action, fed_assignment *answer) {
    answer->action = action;
    answer->version = t->versions.version;
    answer->digest = t->versions.digest;
    fedserver_told(t, answer);
}

static fed_status is_over(const fedserver *server, uint64_t task, bool *is, fed_error *err) {
    return fedserver_task_is(&server->rounds, task,
                             1U << FEDSERVER_TASK_FINISHED | 1U << FEDSERVER_TASK_CANCELLED, is,
                             err);
}

/* Set *all: are all tasks that the device holds over? False also if it holds none, or if the queue
 * has changed. */
static fed_status are_over(const fedserver *server, const fed_checkin *checkin, bool *all,
                           fed_error *err) {
    const unsigned count = fed_checkin_count(checkin);
    *all = !server->rounds.queue_changed && count > 0;
    for (unsigned k = 0; k < count && *all; k++) {
        FED_TRY(is_over(server, checkin->held[k].task, all, err));
    }
    return FED_OK;
}

static const fedserver_training *news_of_end(const fedserver *server, const fed_checkin *checkin) {
    for (unsigned k = 0; k < fed_checkin_count(checkin); k++) {
        const fed_held *held = &checkin->held[k];
        const fedserver_training *t = fedserver_rounds_task(&server->rounds, held->task);
        if (t != NULL && !fedserver_training_runs(t) && t->versions.version != held->version &&
            !fedserver_too_old(t, checkin, NULL)) {
            return t;
        }
    }
    return NULL;
}

/* Find the task that the device must drop for `task`. *replaced = 0: the device holds `task`
 * already, or has a free slot. A task that is over is dropped first, then one that the device need
 * not keep. */
static fed_status find_replaced(const fedserver *server, const fedserver_call *call,
                                const fed_checkin *checkin, uint64_t task, uint64_t *replaced,
                                fed_error *err) {
    const unsigned count = fed_checkin_count(checkin);
    bool found = fed_checkin_held(checkin, task) != NULL || count < checkin->slots;
    *replaced = 0;
    for (unsigned k = count; k-- > 0 && !found;) {
        *replaced = checkin->held[k].task;
        FED_TRY(is_over(server, *replaced, &found, err));
    }
    for (unsigned k = count; k-- > 0 && !found;) {
        *replaced = checkin->held[k].task;
        found = !fedserver_task_kept(&server->rounds, *replaced, call->device, call->now_ms);
    }
    if (!found) {
        /* the device needs all its tasks: drop the one that it trained longest ago */
        *replaced = checkin->held[count - 1].task;
    }
    return FED_OK;
}

/* Answer a device for which there is no task. If the device has declined all tasks, the answer says
 * so. A device that holds an older model of an ended task gets the last one. Otherwise the device
 * is told to wait, or that all tasks are over. */
static fed_status without_a_task(fedserver *server, const fedserver_call *call,
                                 const fed_checkin *checkin, fed_assignment *answer,
                                 fed_error *err) {
    const fedserver_rounds *rounds = &server->rounds;
    const fedserver_training *own = news_of_end(server, checkin);
    bool all_over = rounds->task_count > 0 && !fedserver_rounds_busy(rounds) && !rounds->paused;
    if (fedserver_declined_all(rounds, call->device, call->now_ms) &&
        (checkin->capabilities & FED_CAN_DECLINE) != 0) {
        wait_for(server, fedserver_rounds_front(rounds), call, FED_WAIT_DECLINED, answer);
    } else if (fedserver_spent_all(rounds, call->device, call->now_ms) &&
               (checkin->capabilities & FED_CAN_PRIVATE) != 0) {
        wait_for(server, fedserver_rounds_front(rounds), call, FED_WAIT_SPENT, answer);
    } else if (own != NULL) {
        assign(own, FED_ACTION_DONE, answer);
    } else {
        if (!all_over) {
            FED_TRY(are_over(server, checkin, &all_over, err));
        }
        wait_for(server, NULL, call, all_over ? FED_WAIT_FINISHED : FED_WAIT_NO_TASK, answer);
    }
    return FED_OK;
}

static fed_status train(fedserver *server, const fedserver_call *call, const fed_checkin *checkin,
                        fed_assignment *answer, int64_t *admit_ms, fed_error *err) {
    fedserver_device *device = call->device;
    fedserver_checkin told;
    device->samples = checkin->samples != 0 ? checkin->samples : device->samples;
    FED_TRY(fedserver_leases_checkin(&server->rounds, device, checkin, call->now_ms, &told, err));
    const fedserver_training *t = told.training;
    *admit_ms = told.admit_ms;
    switch (told.action) {
    case FEDSERVER_DO_LEASE:
    case FEDSERVER_DO_LEASE_AGAIN:
        assign(t, FED_ACTION_TRAIN, answer);
        answer->round = t->round.number;
        answer->lease = device->lease;
        answer->deadline_ms =
            (uint32_t)clamp(fedserver_lease_deadline(t, device) - call->now_ms, 0, UINT32_MAX);
        return find_replaced(server, call, checkin, t->task.wire.id, &answer->replaces, err);
    case FEDSERVER_DO_WAIT_FULL:
    case FEDSERVER_DO_WAIT_CLOSING:
    case FEDSERVER_DO_WAIT_ADMISSION:
        wait_for(server, t, call, FED_WAIT_FULL, answer);
        return FED_OK;
    case FEDSERVER_DO_WAIT_REPORTED:
        wait_for(server, t, call, FED_WAIT_REPORTED, answer);
        return FED_OK;
    default:
        return without_a_task(server, call, checkin, answer, err);
    }
}

/* Find a task whose newest version the device has not measured. Of several, take the one
 * with the next number after the task that the device measured last, so that each task has its
 * turn. NULL: there is none. *any: a task runs that the device can measure. */
static const fedserver_training *find_to_measure(const fedserver *server,
                                                 const fedserver_call *call,
                                                 const fed_checkin *checkin, bool *any) {
    const fedserver_rounds *rounds = &server->rounds;
    const uint64_t last = call->device->evaluated_task;
    const fedserver_training *found = NULL;
    *any = false;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        /* Private layers are on the devices that train, so nobody else can measure the model. */
        if (t->task.wire.private_layers[0] != '\0' ||
            fedserver_declined(t, call->device, call->now_ms) ||
            fedserver_too_old(t, checkin, NULL) || fedserver_classes_differ(t, call->device)) {
            continue;
        }
        *any = *any || fedserver_training_runs(t);
        /* the unsigned difference to `last` wraps around, and is largest for `last` itself */
        if (fedserver_measured(t, call->device) != t->versions.version &&
            (found == NULL || t->task.wire.id - last - 1 < found->task.wire.id - last - 1)) {
            found = t;
        }
    }
    return found;
}

/* Answer a device that evaluates. Each such device measures the newest versions itself, also the
 * last version of an ended task, because the devices' test data differ. */
static fed_status evaluate(fedserver *server, const fedserver_call *call,
                           const fed_checkin *checkin, fed_assignment *answer, fed_error *err) {
    bool any = false;
    const fedserver_training *t = find_to_measure(server, call, checkin, &any);
    if (t != NULL) {
        assign(t, FED_ACTION_EVALUATE, answer);
    } else if (any) {
        wait_for(server, fedserver_rounds_front(&server->rounds), call, FED_WAIT_NO_MODEL, answer);
    } else {
        return without_a_task(server, call, checkin, answer, err);
    }
    return FED_OK;
}

static fed_status find_work(fedserver *server, const fedserver_call *call,
                            const fed_checkin *checkin, fed_assignment *answer, int64_t *admit_ms,
                            fed_error *err) {
    if ((checkin->capabilities & FED_STARTED) != 0) {
        FED_TRY(fedserver_declines_end(&server->rounds, call->device, call->now_ms, err));
    }
    FED_TRY(fedserver_too_old_decline(&server->rounds, call->device, checkin, call->now_ms, err));
    FED_TRY(fedserver_classes_decline(&server->rounds, call->device, call->now_ms, err));
    return checkin->role == FED_ROLE_EVALUATE ? evaluate(server, call, checkin, answer, err)
                                              : train(server, call, checkin, answer, admit_ms, err);
}

fed_status fedserver_post_checkin(fedserver *server, const fedserver_call *call,
                                  fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    fed_checkin checkin;
    fed_reader r;
    fed_reader_init(&r, request->body, request->body_len);
    fed_status status = fed_checkin_read(&r, &checkin);
    if (status == FED_EVERSION) {
        return fedserver_answer_error(response, err, 400, "protocol_version",
                                      "this coordinator has another version of the protocol; "
                                      "bring device and coordinator to the same release");
    }
    if (status != FED_OK || fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the body is not a check-in as in docs/protocol.md");
    }
    fedserver_device_computes(call->device, request->computes_on);
    call->device->classes = request->classes;
    const bool evaluates = checkin.role == FED_ROLE_EVALUATE;
    if (evaluates != (call->device->role == FEDSERVER_ROLE_EVALUATOR)) {
        return fedserver_answer_error(response, err, 403, "role",
                                      evaluates
                                          ? "this device was not enrolled to evaluate; a token of "
                                            "`fedserver token --role evaluator` enrols one that is"
                                          : "this device was enrolled to evaluate, not to train; a "
                                            "token of `fedserver token` enrols one that trains");
    }
    fed_assignment answer = {0};
    int64_t admit_ms = 0;
    FED_TRY(find_work(server, call, &checkin, &answer, &admit_ms, err));
    int64_t until_admitted_ms = admit_ms - call->now_ms;
    int64_t hold_ms = clamp(checkin.hold_ms, 0, HOLD_LIMIT_MS) - request->waited_ms;
    /* Do not hold back the answer that tells an evaluator that the tasks are over. */
    bool news = checkin.role == FED_ROLE_EVALUATE && answer.reason == FED_WAIT_FINISHED;
    if (answer.action == FED_ACTION_WAIT && hold_ms > 0 && !news) {
        response->hold = true;
        response->hold_key = evaluates ? FEDSERVER_HOLD_VERSION : (uint64_t)call->device->id;
        response->hold_ms =
            (uint32_t)(until_admitted_ms > 0 ? clamp(until_admitted_ms, 0, hold_ms) : hold_ms);
        return FED_OK;
    }
    if (answer.action == FED_ACTION_WAIT && answer.retry_ms < until_admitted_ms) {
        answer.retry_ms = (uint32_t)until_admitted_ms;
    }
    const bool of_old_ca = request->authority != 0 && server->authority != 0 &&
                           request->authority != server->authority;
    answer.capabilities =
        FED_CAN_PIECES | FED_CAN_DECLINE |
        (checkin.capabilities &
         (FED_CAN_PATCH | FED_CAN_WORKER_GROUP | FED_CAN_NAMED | FED_CAN_OWN_METRICS |
          FED_CAN_TASKS | FED_CAN_STAGES | FED_STARTED | FED_CAN_NO_LOSS | FED_CAN_NO_ACCURACY |
          FED_CAN_PRIVATE | fed_task_capabilities())) |
        (of_old_ca ? FED_RENEW : 0);
    server->rounds.counters.assignments[answer.action]++;
    fed_writer body;
    fed_writer_growing(&body);
    fed_assignment_write(&body, checkin.protocol, &answer);
    return fedserver_answer(response, 200, "application/octet-stream", &body, err);
}
