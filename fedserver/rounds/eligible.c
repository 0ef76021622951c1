/* Tells which devices may have a slot of a task's open round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/eligible.h"

#include <math.h>
#include <string.h>

#include "fedserver/rounds/lately.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/rounds/shortage.h"
#include "fedserver/rounds/shut_out.h"
#include "fedserver/task/private_task.h"

bool fedserver_leased_for(const fedserver_training *t, const fedserver_device *device) {
    return t->round.phase != FEDSERVER_ROUND_NONE && device->lease != 0 &&
           device->lease_task == t->task.wire.id;
}

bool fedserver_lease_stands(const fedserver_training *t, const fedserver_device *device,
                            int64_t now_ms) {
    if (!fedserver_leased_for(t, device) || device->lease == device->counted_lease ||
        device->revoked_ms != 0) {
        return false;
    }
    if (fedserver_asynchronous(t)) {
        return now_ms < device->lease_deadline_ms &&
               fedserver_round_counting(&t->round) - device->lease_round <= t->task.rules.staleness;
    }
    return t->round.phase != FEDSERVER_ROUND_CLOSING && device->lease_round == t->round.number &&
           device->lease_attempt == t->round.attempt;
}

bool fedserver_declined(const fedserver_training *t, const fedserver_device *device,
                        int64_t now_ms) {
    const int64_t declined_ms = fedserver_marks_get(&t->declined, device->id, INT64_MIN);
    return declined_ms != INT64_MIN && now_ms - declined_ms < FEDSERVER_DECLINE_MS;
}

bool fedserver_has_its_tag(const fedserver_training *t, const fedserver_device *device) {
    return t->task.tag[0] == '\0' || strcmp(t->task.tag, device->tag) == 0;
}

bool fedserver_wanted(const fedserver_training *t, const fedserver_device *device, int64_t now_ms) {
    return fedserver_has_its_tag(t, device) && !fedserver_declined(t, device, now_ms) &&
           !fedserver_shut_out(t, device->id) && fedserver_ledger_allows(t, device->id);
}

bool fedserver_task_kept(const fedserver_rounds *rounds, uint64_t task,
                         const fedserver_device *device, int64_t now_ms) {
    const fedserver_training *t = fedserver_rounds_task(rounds, task);
    return t != NULL && fedserver_training_runs(t) && fedserver_wanted(t, device, now_ms);
}

bool fedserver_reported(const fedserver_training *t, const fedserver_device *device) {
    return !fedserver_asynchronous(t) && fedserver_leased_for(t, device) &&
           device->lease_round == t->round.number && device->counted_lease == device->lease;
}

static uint32_t updates_of(const fedserver_training *t, const fedserver_device *device) {
    return fedserver_device_counts_of(&t->sum.counts, device->id);
}

bool fedserver_reported_before(const fedserver_training *t, const fedserver_device *device) {
    return !fedserver_asynchronous(t) && !fedserver_leased_for(t, device) &&
           updates_of(t, device) > 0;
}

/* Names the open round's attempt. Never 0. */
static int64_t attempt_of(const fedserver_training *t) {
    return (int64_t)t->round.number << 32 | t->round.attempt;
}

bool fedserver_gave_back(const fedserver_training *t, const fedserver_device *device) {
    return fedserver_marks_get(&t->rests, device->id, 0) == attempt_of(t);
}

/* The mark of a device that may rest is negative, until it gives its slot back. */
fed_status fedserver_may_rest(fedserver_training *t, const fedserver_device *device,
                              fed_error *err) {
    const uint64_t apart = fedserver_task_apart(&t->task), number = t->round.number;
    const bool before = device->lease_round < number || device->lease_attempt < t->round.attempt;
    return apart > 1 && device->lease_task == t->task.wire.id && before &&
                   device->lease_round + apart > number
               ? fedserver_marks_set(&t->rests, device->id, -attempt_of(t), err)
               : FED_OK;
}

fed_status fedserver_gives_back(fedserver_training *t, const fedserver_device *device,
                                fed_error *err) {
    return fedserver_marks_get(&t->rests, device->id, 0) == -attempt_of(t)
               ? fedserver_marks_set(&t->rests, device->id, attempt_of(t), err)
               : FED_OK;
}

/* The portion is device_share of the goal, but at least two updates, since a small round may have
 * no other device. */
bool fedserver_had_its_part(const fedserver_training *t, const fedserver_device *device) {
    const double part = fmax(2, floor(t->task.device_share * (double)t->task.rules.goal));
    return fedserver_asynchronous(t) && t->round.leased > 0 &&
           (double)updates_of(t, device) >= part;
}

/* Must the device keep the model of another task, for which it has its only slot? */
static bool is_taken(const fedserver_rounds *rounds, const fedserver_training *t,
                     const fedserver_device *device, int64_t now_ms) {
    return device->kept_task != 0 && device->kept_task != t->task.wire.id &&
           fedserver_task_kept(rounds, device->kept_task, device, now_ms);
}

bool fedserver_can_take(const fedserver_rounds *rounds, const fedserver_training *t,
                        const fedserver_device *device, int64_t now_ms) {
    return !device->away && !fedserver_is_short(t) && fedserver_seen_lately(device, now_ms) &&
           fedserver_wanted(t, device, now_ms) && !fedserver_reported(t, device) &&
           !fedserver_reported_before(t, device) && !fedserver_had_its_part(t, device) &&
           !fedserver_gave_back(t, device) && !fedserver_lease_stands(t, device, now_ms) &&
           !is_taken(rounds, t, device, now_ms);
}

fedserver_candidate fedserver_candidate_of(const fedserver_training *t,
                                           const fedserver_device *device) {
    return (fedserver_candidate){
        .device = device->id,
        .samples = device->samples,
        .last_round = device->lease_task == t->task.wire.id ? device->lease_round : 0};
}
