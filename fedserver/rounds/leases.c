/* Leases: which device holds a slot of the open round, which device gets a slot, and when a slot
 * becomes free. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/leases.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"
#include "fedserver/rounds/choice.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/rounds/shortage.h"
#include "fedserver/rounds/turns.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t fedserver_lease_deadline(const fedserver_training *t, const fedserver_device *device) {
    return fedserver_asynchronous(t) ? device->lease_deadline_ms : t->round.deadline_ms;
}

/* Remove ended leases from the list, and set when to look again. Returns how many remain. */
static uint32_t sift_leases(fedserver_training *t, int64_t now_ms) {
    fedserver_lease_list *list = &t->leases;
    const int64_t most_ms = now_ms + t->task.rules.deadline_ms;
    size_t kept = 0;
    t->lease_ends_ms = INT64_MAX;
    for (size_t k = 0; k < list->count; k++) {
        fedserver_device *device = list->items[k].device;
        if (device->lease_task != t->task.wire.id || device->lease != list->items[k].lease) {
            continue;
        }
        if (!fedserver_lease_stands(t, device, now_ms)) {
            /* The lease stays ended even if the wall clock is set back. */
            device->lease_deadline_ms = 0;
            continue;
        }
        list->items[kept++] = list->items[k];
        if (fedserver_asynchronous(t)) {
            /* If the wall clock was set back, the lease still ends within the deadline. */
            device->lease_deadline_ms = least(device->lease_deadline_ms, most_ms);
            t->lease_ends_ms = least(t->lease_ends_ms, device->lease_deadline_ms);
        }
    }
    list->count = kept;
    return (uint32_t)kept;
}

static fed_status make_room(fedserver_training *t, int64_t now_ms, fed_error *err) {
    /* fedserver_leases_advance must still see that leases have ended */
    const int64_t look_ms = t->lease_ends_ms;
    if (t->leases.count == t->leases.cap) {
        (void)sift_leases(t, now_ms);
        t->lease_ends_ms = look_ms;
    }
    return fedserver_lease_list_reserve(&t->leases) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for the leases of a task");
}

typedef struct leases_reading {
    fedserver_rounds *rounds;
    fedserver_training *training;
} leases_reading;

/* Take a device's lease from its row into the list. If the device is in memory, the memory is
 * newer than the row. Time is ignored here, so an asynchronous lease may have ended already. */
static fed_status read_lease(void *user, const fedserver_device *row, fed_error *err) {
    const leases_reading *reading = user;
    fedserver_training *t = reading->training;
    fedserver_device *device;
    FED_TRY(fedserver_device_keep(reading->rounds, row, &device, err));
    if (!fedserver_lease_stands(t, device, INT64_MIN)) {
        return FED_OK;
    }
    if (fedserver_lease_list_reserve(&t->leases) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the leases of a task");
    }
    fedserver_lease_list_add(&t->leases, device);
    return FED_OK;
}

fed_status fedserver_leases_load(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    leases_reading reading = {rounds, t};
    const uint32_t number = t->round.number, stale = t->task.rules.staleness;
    fedserver_lease_list_free(&t->leases);
    return rounds->store->device_leased(rounds->db, t->task.wire.id,
                                        number > stale ? number - stale : 0, read_lease, &reading,
                                        err);
}

/* The time is not known here. So an asynchronous lease that has ended may be counted until the next
 * fedserver_leases_advance; the result is at most the cohort. In a synchronous round all leases are
 * counted: an edge aggregator may have had another cohort when they were given. */
uint32_t fedserver_leases_count(const fedserver_training *t) {
    const uint32_t standing = (uint32_t)t->leases.count;
    if (!fedserver_asynchronous(t)) {
        return t->round.received + standing;
    }
    return standing > t->task.rules.cohort ? t->task.rules.cohort : standing;
}

void fedserver_leases_advance(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms) {
    bool set_back = fedserver_asynchronous(t) && t->lease_ends_ms != INT64_MAX &&
                    t->lease_ends_ms > now_ms + t->task.rules.deadline_ms;
    if (t->round.phase == FEDSERVER_ROUND_NONE || (now_ms < t->lease_ends_ms && !set_back)) {
        return;
    }
    const uint32_t standing = sift_leases(t, now_ms);
    const uint32_t taken = fedserver_asynchronous(t) ? standing : t->round.received + standing;
    const bool full = t->round.phase == FEDSERVER_ROUND_FULL;
    const bool freed = t->round.leased > taken;
    /* S10 in docs/durability.md: each lease that holds has a slot. */
    assert(fedserver_asynchronous(t) || t->round.leased >= taken);
    while (t->round.leased > taken) {
        fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_LEASE_ENDED, now_ms);
    }
    if (freed && t->round.phase == FEDSERVER_ROUND_OPEN) {
        fedserver_slots_freed(rounds, t, full, now_ms);
    }
}

bool fedserver_declined_all(const fedserver_rounds *rounds, const fedserver_device *device,
                            int64_t now_ms) {
    size_t declined = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        if (fedserver_training_runs(t) && fedserver_has_its_tag(t, device)) {
            if (!fedserver_declined(t, device, now_ms)) {
                return false;
            }
            declined++;
        }
    }
    return declined > 0;
}

bool fedserver_spent_all(const fedserver_rounds *rounds, const fedserver_device *device,
                         int64_t now_ms) {
    size_t spent = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        const fedserver_training *t = rounds->tasks[k];
        if (fedserver_training_runs(t) && fedserver_has_its_tag(t, device) &&
            !fedserver_declined(t, device, now_ms)) {
            if (fedserver_ledger_allows(t, device->id)) {
                return false;
            }
            spent++;
        }
    }
    return spent > 0;
}

/* A lease's number is random, so that a coordinator restored from a backup repeats none. */
static fed_status lease_name(uint64_t *lease) {
    uint64_t name = 0;
    while (name == 0) {
        FED_TRY(fed_random(&name, sizeof name));
    }
    *lease = name;
    return FED_OK;
}

static fed_status lease_store(fedserver_rounds *rounds, fedserver_device *device,
                              const fedserver_device *leased, fed_error *err) {
    /* S3 in docs/durability.md: a counted lease is over, and a new lease has a new number. */
    assert(leased->lease != 0 && leased->lease != leased->counted_lease);
    *device = *leased;
    device->unsaved = false;
    device->away = true;
    return rounds->store->device_lease(rounds->db, device, err);
}

static fed_status give_lease(fedserver_rounds *rounds, fedserver_training *t,
                             fedserver_device *device, int64_t now_ms, fed_error *err) {
    fedserver_device leased = *device;
    /* S3 in docs/durability.md: a device has one lease. */
    assert(!fedserver_lease_stands(t, device, now_ms));
    /* S5 in docs/durability.md: a round that closes gives no lease. */
    assert(t->round.closing_ms == 0);
    fed_status status = lease_name(&leased.lease);
    if (status != FED_OK) {
        return fed_fail(err, status, "the system gives no random bytes for a lease's number");
    }
    leased.lease_task = t->task.wire.id;
    leased.lease_round = t->round.number;
    leased.lease_attempt = t->round.attempt;
    leased.lease_deadline_ms =
        fedserver_asynchronous(t) ? now_ms + t->task.rules.deadline_ms : t->round.deadline_ms;
    assert(leased.lease_deadline_ms != 0); /* S10 in docs/durability.md: every lease ends. */
    if (fedserver_asynchronous(t)) {
        t->lease_ends_ms = least(t->lease_ends_ms, leased.lease_deadline_ms);
    }
    t->served = ++rounds->served;
    FED_TRY(fedserver_may_rest(t, device, err));
    FED_TRY(make_room(t, now_ms, err));
    FED_TRY(rounds->store->piece_clear(rounds->db, device->id, err));
    FED_TRY(lease_store(rounds, device, &leased, err));
    fedserver_lease_list_add(&t->leases, device);
    return FED_OK;
}

/* Give the device its lease again. In an asynchronous task there may be a newer model since. The
 * lease then gets the present round, since the device trains the newest model. */
static fed_status give_again(fedserver_rounds *rounds, const fedserver_training *t,
                             fedserver_device *device, fed_error *err) {
    fedserver_device leased = *device;
    if (leased.lease_round == t->round.number) {
        return FED_OK;
    }
    /* S3, D5 in docs/durability.md: a lease never gets an earlier round. */
    assert(fedserver_asynchronous(t) && leased.lease_round < t->round.number);
    leased.lease_round = t->round.number;
    return lease_store(rounds, device, &leased, err);
}

/* The event of a check-in. roams: the device has several slots, so between its reports it may
 * serve other tasks. */
static fedserver_round_event checkin_event(fedserver_training *t, const fedserver_device *device,
                                           bool roams, int64_t now_ms, int64_t *admit_ms) {
    if (fedserver_lease_stands(t, device, now_ms)) {
        return FEDSERVER_ON_CHECKIN_LEASED;
    }
    if (fedserver_reported(t, device) || fedserver_had_its_part(t, device) ||
        (roams && fedserver_reported_before(t, device))) {
        return FEDSERVER_ON_CHECKIN_REPORTED;
    }
    if (!fedserver_wanted(t, device, now_ms) || fedserver_gave_back(t, device) ||
        fedserver_is_short(t)) {
        return FEDSERVER_ON_CHECKIN_OTHER;
    }
    if (t->cohort.opened_ms > now_ms) { /* the wall clock was set back */
        t->cohort.opened_ms = now_ms;
    }
    if (fedserver_has_its_turn(t, device)) {
        return FEDSERVER_ON_CHECKIN_NEW;
    }
    const fedserver_candidate candidate = fedserver_candidate_of(t, device);
    *admit_ms = fedserver_cohort_admits_ms(&t->cohort, &candidate);
    return now_ms < *admit_ms ? FEDSERVER_ON_CHECKIN_EARLY : FEDSERVER_ON_CHECKIN_NEW;
}

static fedserver_round_event look_at(fedserver_training *t, const fedserver_device *device,
                                     bool roams, int64_t now_ms, fedserver_offer *offer) {
    static const fedserver_place places[FEDSERVER_ROUND_EVENTS] = {
        [FEDSERVER_ON_CHECKIN_LEASED] = FEDSERVER_PLACE_LEASED,
        [FEDSERVER_ON_CHECKIN_NEW] = FEDSERVER_PLACE_FREE,
        [FEDSERVER_ON_CHECKIN_EARLY] = FEDSERVER_PLACE_EARLY,
        [FEDSERVER_ON_CHECKIN_REPORTED] = FEDSERVER_PLACE_REPORTED,
    };
    *offer = (fedserver_offer){
        .task = t->task.wire.id, .priority = t->task.priority, .served = t->served};
    const fedserver_round_event event = checkin_event(t, device, roams, now_ms, &offer->admits_ms);
    /* no new lease is given while a round closes */
    const bool full =
        t->round.phase == FEDSERVER_ROUND_FULL || t->round.phase == FEDSERVER_ROUND_CLOSING;
    offer->place = places[event];
    if (full && (event == FEDSERVER_ON_CHECKIN_NEW || event == FEDSERVER_ON_CHECKIN_EARLY)) {
        offer->place = FEDSERVER_PLACE_FULL;
    }
    return event;
}

static bool has_room(const fedserver_rounds *rounds, const fed_checkin *holds,
                     const fedserver_device *device, int64_t now_ms) {
    unsigned kept = 0;
    for (unsigned k = 0; k < fed_checkin_count(holds); k++) {
        kept += fedserver_task_kept(rounds, holds->held[k].task, device, now_ms);
    }
    return kept < holds->slots;
}

/* The tasks that a device holds. A device with a single slot that has reported in a round holds
 * that round's task until the round is over, whatever its check-in lists. Else it could serve
 * another task, come back and report twice. */
static fed_checkin holdings_of(const fedserver_rounds *rounds, const fedserver_device *device,
                               const fed_checkin *said) {
    const fedserver_training *last = fedserver_rounds_task(rounds, device->lease_task);
    fed_checkin holds = *said;
    if (holds.slots == 1 && last != NULL && fedserver_reported(last, device)) {
        holds.held[0].task = device->lease_task;
    }
    return holds;
}

/* Choose the task with the best offer. NULL: no task wants the device. */
static fedserver_training *choose(const fedserver_rounds *rounds, fedserver_device *device,
                                  const fed_checkin *said, int64_t now_ms,
                                  fedserver_round_event *event, int64_t *admit_ms) {
    fedserver_training *chosen = NULL;
    fedserver_offer best = {.place = FEDSERVER_PLACE_UNWANTED};
    const fed_checkin holds = holdings_of(rounds, device, said);
    const bool room = has_room(rounds, &holds, device, now_ms);
    device->kept_task = !room && fed_checkin_count(&holds) == 1 ? holds.held[0].task : 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        fedserver_offer offer;
        const bool may_have = room || fed_checkin_held(&holds, t->task.wire.id) != NULL ||
                              fedserver_lease_stands(t, device, now_ms);
        if (!fedserver_training_runs(t) || !may_have) {
            continue;
        }
        const fedserver_round_event its_event = look_at(t, device, holds.slots > 1, now_ms, &offer);
        if (offer.place != FEDSERVER_PLACE_UNWANTED &&
            (chosen == NULL || fedserver_offer_before(&offer, &best, device->id))) {
            chosen = t;
            best = offer;
            *event = its_event;
            *admit_ms = offer.place == FEDSERVER_PLACE_EARLY ? offer.admits_ms : 0;
        }
    }
    return chosen;
}

fed_status fedserver_leases_checkin(fedserver_rounds *rounds, fedserver_device *device,
                                    const fed_checkin *holds, int64_t now_ms,
                                    fedserver_checkin *checkin, fed_error *err) {
    fedserver_round_event event = FEDSERVER_ON_CHECKIN_OTHER;
    *checkin = (fedserver_checkin){.action = FEDSERVER_DO_WAIT_NO_TASK};
    fedserver_devices_checked_in(&rounds->devices, device, now_ms);
    device->away = false;
    fedserver_training *t = choose(rounds, device, holds, now_ms, &event, &checkin->admit_ms);
    if (t == NULL) {
        return FED_OK;
    }
    const bool runs = t->round.deadline_ms != 0;
    checkin->training = t;
    checkin->action = fedserver_round_step(&t->task.rules, &t->round, event, now_ms);
    if (checkin->action == FEDSERVER_DO_LEASE_AGAIN) {
        device->away = true;
        return give_again(rounds, t, device, err);
    }
    if (checkin->action != FEDSERVER_DO_LEASE) {
        return FED_OK;
    }
    FED_TRY(give_lease(rounds, t, device, now_ms, err));
    return !runs && t->round.deadline_ms != 0 ? fedserver_round_save(rounds, t, err) : FED_OK;
}

static fed_status end_lease(fedserver_rounds *rounds, fedserver_training *t,
                            fedserver_device *device, int64_t now_ms, fed_error *err) {
    /* S10 in docs/durability.md: the lease holds a slot. */
    assert(fedserver_lease_stands(t, device, now_ms));
    fedserver_device without = *device;
    without.lease_task = 0;
    without.lease_deadline_ms = 0;
    FED_TRY(rounds->store->piece_clear(rounds->db, device->id, err));
    *device = without;
    FED_TRY(fedserver_device_save(rounds, device, err));
    const bool full = t->round.phase == FEDSERVER_ROUND_FULL;
    fedserver_round_step(&t->task.rules, &t->round, FEDSERVER_ON_LEASE_ENDED, now_ms);
    if (t->round.phase == FEDSERVER_ROUND_OPEN) {
        fedserver_slots_freed(rounds, t, full, now_ms);
    }
    return FED_OK;
}

static fed_status note_decline(fedserver_rounds *rounds, fedserver_training *t,
                               const fedserver_device *device, const char *reason, int64_t now_ms,
                               fed_error *err) {
    enum { DIGITS = 8 };
    char name[DIGITS + 1];
    FED_TRY(
        rounds->store->decline_put(rounds->db, t->task.wire.id, device->id, reason, now_ms, err));
    fedserver_classes_lose(&t->classes, device->id, false);
    /* a decline that the device repeats is not logged again */
    if (!fedserver_declined(t, device, now_ms)) {
        fed_hex(device->fingerprint, DIGITS / 2, name);
        const fed_log_about about = fedserver_task_about(&t->task, 0);
        fed_logf_about(
            rounds->log, FED_LOG_WARN, &about,
            "device %s declines task %llu (%s): %s; it is asked again after its next start, or "
            "after 24 hours",
            name, (unsigned long long)t->task.wire.id, t->task.name, reason);
        rounds->counters.declines++;
    }
    return fedserver_marks_set(&t->declined, device->id, now_ms, err);
}

fed_status fedserver_leases_decline(fedserver_rounds *rounds, fedserver_training *t,
                                    fedserver_device *device, const char *reason, int64_t now_ms,
                                    fed_error *err) {
    FED_TRY(reason[0] != '\0' ? note_decline(rounds, t, device, reason, now_ms, err)
                              : fedserver_gives_back(t, device, err));
    return fedserver_lease_stands(t, device, now_ms) ? end_lease(rounds, t, device, now_ms, err)
                                                     : FED_OK;
}

fedserver_round_event fedserver_leases_update_event(const fedserver_training *t,
                                                    const fedserver_device *device,
                                                    const fed_update *head, uint64_t digest,
                                                    int64_t now_ms) {
    if (head->lease != 0 && head->lease == device->counted_lease) {
        bool other = device->counted_digest != 0 && device->counted_digest != digest;
        return other ? FEDSERVER_ON_UPDATE_CLONED : FEDSERVER_ON_UPDATE_COUNTED;
    }
    if (t == NULL) {
        return FEDSERVER_ON_UPDATE_CLOSED;
    }
    /* While a round closes, updates count in the next round. A synchronous task has not given any
     * lease for that round yet. */
    const uint32_t counting = fedserver_round_counting(&t->round);
    if (!fedserver_asynchronous(t) && head->round != counting) {
        return FEDSERVER_ON_UPDATE_CLOSED;
    }
    if (!fedserver_leased_for(t, device) || head->lease != device->lease || head->round == 0 ||
        head->round > device->lease_round) {
        return FEDSERVER_ON_UPDATE_UNKNOWN;
    }
    /* D3 in docs/durability.md: the update was trained in this round or an earlier one. */
    assert(head->round <= counting);
    if (counting - head->round > t->task.rules.staleness) {
        return FEDSERVER_ON_UPDATE_STALE;
    }
    return fedserver_lease_stands(t, device, now_ms) ? FEDSERVER_ON_UPDATE_LEASED
                                                     : FEDSERVER_ON_UPDATE_EXPIRED;
}
