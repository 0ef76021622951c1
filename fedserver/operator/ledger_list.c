/* The operator's functions about the ledgers of private tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/privacy/accountant.h"
#include "fedserver/server.h"
#include "fedserver/stores/task_model.h"
#include "fedserver/task/private_task.h"

static fed_status find_task(const fedserver *server, uint64_t id, fedserver_task *task,
                            fed_error *err) {
    fed_error absent = {0};
    const fed_status status =
        server->store->task_find(server->db, FEDSERVER_PICK_ID, id, task, &absent);
    return status == FED_ENOTFOUND
               ? fed_fail(err, status, "there is no task %llu; `fedserver tasks` lists them",
                          (unsigned long long)id)
           : status != FED_OK ? fed_fail(err, status, "%s", absent.text)
                              : FED_OK;
}

static fed_status find_promise(const fedserver *server, uint64_t id, fedserver_task *task,
                               fed_error *err) {
    FED_TRY(find_task(server, id, task, err));
    return fedserver_task_promises(task)
               ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "task %llu promises no epsilon, so it has no ledger "
                          "(docs/protocol.md#private-tasks)",
                          (unsigned long long)id);
}

typedef struct tally {
    uint32_t most;
    bool copied;
} tally;

static fed_status tally_row(void *user, const fedserver_ledger_row *row, fed_error *err) {
    tally *sum = user;
    (void)err;
    sum->most = row->taken > sum->most ? row->taken : sum->most;
    sum->copied |= row->device == FEDSERVER_LEDGER_COPIED;
    return FED_OK;
}

static fed_status use_of(const fedserver *server, const fedserver_task *task,
                         fedserver_account *account, fed_error *err) {
    const uint64_t id = task->wire.id;
    tally sum = {0};
    FED_TRY(server->store->ledger_each(server->db, id, tally_row, &sum, err));
    FED_TRY(server->store->ledger_left(server->db, id, task->tag, task->participations, 0, 0,
                                       &account->left, err));
    account->complete = !sum.copied;
    account->spent = fedserver_promise_spent(task, sum.most);
    return FED_OK;
}

static void name_helper(const fedserver_task *task, fedserver_account *account) {
    _Static_assert(sizeof account->helper_is == sizeof task->helper_is, "names fit");
    snprintf(account->helper, sizeof account->helper, "%.16s", task->helper);
    memcpy(account->helper_is, task->helper_is, sizeof account->helper_is);
}

fed_status fedserver_account_find(fedserver *server, uint64_t id, fedserver_account *account,
                                  fed_error *err) {
    fedserver_task task;
    fed_arch arch;
    *account = (fedserver_account){.promises = false};
    FED_TRY(find_task(server, id, &task, err));
    if (!fedserver_task_promises(&task)) {
        name_helper(&task, account);
        return FED_OK;
    }
    FED_TRY(fedserver_task_model(server->store, server->db, &task, &arch, err));
    const fedserver_promise promise = fedserver_promise_of(&task, &arch.layout);
    fed_arch_free(&arch);
    *account = (fedserver_account){.promises = true,
                                   .epsilon = (double)task.epsilon,
                                   .delta = (double)task.delta,
                                   .z = promise.z,
                                   .clip = (double)task.clip,
                                   .participations = task.participations,
                                   .apart = fedserver_task_apart(&task),
                                   .ratio = promise.ratio,
                                   .goal = promise.goal};
    name_helper(&task, account);
    return use_of(server, &task, account, err);
}

double fedserver_account_spent(const fedserver_account *account, uint32_t taken) {
    return account->promises
               ? fedserver_privacy_epsilon(
                     taken * fedserver_privacy_cost(account->z, account->apart), account->delta)
               : 0;
}

typedef struct listing {
    const fedserver_task *task;
    fedserver_participant_visit visit;
    void *user;
} listing;

static fed_status list_row(void *user, const fedserver_ledger_row *row, fed_error *err) {
    const listing *l = user;
    if (row->device == FEDSERVER_LEDGER_COPIED) {
        return FED_OK;
    }
    fedserver_participant participant = {.taken = row->taken,
                                         .last_round = row->last_round,
                                         .spent = fedserver_promise_spent(l->task, row->taken)};
    memcpy(participant.fingerprint, row->fingerprint, sizeof participant.fingerprint);
    _Static_assert(sizeof participant.name == sizeof row->name, "names fit");
    memcpy(participant.name, row->name, sizeof participant.name);
    return l->visit(l->user, &participant, err);
}

fed_status fedserver_participant_each(fedserver *server, uint64_t id,
                                      fedserver_participant_visit visit, void *user,
                                      fed_error *err) {
    fedserver_task task;
    FED_TRY(find_promise(server, id, &task, err));
    listing l = {.task = &task, .visit = visit, .user = user};
    return server->store->ledger_each(server->db, id, list_row, &l, err);
}

static fed_status write_loss(fedserver *server, int64_t now_ms, const fedserver_task *task,
                             uint32_t rounds, uint64_t *updates, fed_error *err) {
    FED_TRY(server->store->ledger_lose(server->db, task->wire.id, rounds, task->participations,
                                       updates, err));
    return fedserver_audit(server, FED_LOG_WARN, now_ms, "task_ledger_lost", err,
                           "task=%llu name=\"%s\" rounds=%u updates=%llu",
                           (unsigned long long)task->wire.id, task->name, rounds,
                           (unsigned long long)*updates);
}

fed_status fedserver_ledger_lost(fedserver *server, int64_t now_ms, uint64_t id, uint32_t rounds,
                                 uint64_t *updates, fed_error *err) {
    fedserver_task task;
    FED_TRY(find_promise(server, id, &task, err));
    /* S14 in docs/durability.md: what a process has in memory of a running task is its own. */
    if (task.state == FEDSERVER_TASK_RUNNING && server->store->holder(server->db) != 0) {
        return fed_fail(err, FED_ESTATE,
                        "task %llu runs; call `fedserver pause %llu` first, and `fedserver resume "
                        "%llu` afterwards",
                        (unsigned long long)id, (unsigned long long)id, (unsigned long long)id);
    }
    return fedserver_finish(server, write_loss(server, now_ms, &task, rounds, updates, err), err);
}
