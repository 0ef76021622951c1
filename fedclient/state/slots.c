/* Slots: a model, a residual and a pending update for each task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>

#include "fed/small.h"
#include "fedclient/state/client_state.h"

/** The slot's task; 0: the slot is free. A slot may have a residual without a model, if the model
 * was damaged and must be downloaded again. */
static uint64_t task_of(const fedclient_slot *slot) {
    return slot->model.task != 0 ? slot->model.task : slot->residual.task;
}

/** Return the number of the last training of the slot's task. 0: nothing was trained, so nothing is
 * lost if another task takes the slot. */
static uint64_t trained_last(const fedclient_slot *slot) {
    return slot->residual.task == task_of(slot) ? slot->residual.seq : 0;
}

static uint64_t last_number(const fedclient_slot *slot) {
    return slot->pending.seq > slot->residual.seq ? slot->pending.seq : slot->residual.seq;
}

uint64_t fedclient_slots_last(const fedclient *client) {
    uint64_t last = client->last_beyond;
    for (unsigned k = 0; k < client->options.slots; k++) {
        const uint64_t number = last_number(&client->slots[k]);
        last = number > last ? number : last;
    }
    return last;
}

uint64_t fedclient_slots_first(const fedclient *client) {
    return last_number(&client->slots[0]);
}

static bool is_sending(const fedclient_slot *slot) {
    return slot->pending.seq != 0 && slot->pending.fate == FEDCLIENT_FATE_UNKNOWN;
}

fedclient_slot *fedclient_slots_sending(fedclient *client) {
    fedclient_slot *sending = NULL;
    for (unsigned k = 0; k < client->options.slots; k++) {
        if (is_sending(&client->slots[k])) {
            /* C2 in docs/durability.md: only one message's fate is unknown, as the device then does
             * nothing else. */
            assert(sending == NULL);
            sending = &client->slots[k];
        }
    }
    return sending;
}

/** Read the head of a slot's layout. A damaged layout is dropped: it can be fetched again. */
static fed_status load_layout(const fedclient *client, fedclient_slot *slot, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    char key[FEDCLIENT_KEY];
    fedclient_record record = {0};
    fed_status status = fedclient_layout_load(platform, slot->number, &slot->layout, &record, err);
    fedclient_record_free(&record);
    if (status == FED_EFORMAT) {
        fed_logf(client->options.log, FED_LOG_WARN, "%s; it will be fetched again", err->text);
        slot->layout = (fedclient_layout_head){0};
        status = platform->drop(platform->user,
                                fedclient_record_key(FEDCLIENT_LAYOUT, slot->number, key), err);
    }
    return status;
}

/** Read the head of a slot's personal model. A damaged one is dropped: the next round makes
 * another. */
static fed_status load_personal(const fedclient *client, fedclient_slot *slot, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    char key[FEDCLIENT_KEY];
    fedclient_record record = {0};
    fed_status status =
        fedclient_personal_load(platform, slot->number, &slot->personal, &record, err);
    fedclient_record_free(&record);
    if (status == FED_EFORMAT) {
        fed_logf(client->options.log, FED_LOG_WARN, "%s; it will be trained again", err->text);
        slot->personal = (fedclient_personal_head){0};
        status = platform->drop(platform->user,
                                fedclient_record_key(FEDCLIENT_PERSONAL, slot->number, key), err);
    }
    return status;
}

/** Read the head of a slot's private layers. Damaged ones are dropped: they begin anew. */
static fed_status load_own(const fedclient *client, fedclient_slot *slot, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    char key[FEDCLIENT_KEY];
    fedclient_record record = {0};
    fed_status status = fedclient_own_load(platform, slot->number, &slot->own, &record, err);
    fedclient_record_free(&record);
    if (status == FED_EFORMAT) {
        fed_logf(client->options.log, FED_LOG_WARN,
                 "%s; this device's private layers begin anew, from the task's initial values",
                 err->text);
        slot->own = (fedclient_own_head){0};
        status = platform->drop(platform->user,
                                fedclient_record_key(FEDCLIENT_OWN, slot->number, key), err);
    }
    return status;
}

/** Read the heads of a slot's records. The payloads are freed, as they are large. */
static fed_status load(const fedclient *client, fedclient_slot *slot, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    const unsigned number = slot->number;
    char key[FEDCLIENT_KEY];
    fedclient_record record = {0};
    fed_status status = fedclient_model_load(platform, number, &slot->model, &record, err);
    fedclient_record_free(&record);
    if (status == FED_EFORMAT) {
        fed_logf(client->options.log, FED_LOG_WARN, "%s; it will be downloaded again", err->text);
        slot->model = (fedclient_model_head){0};
        status =
            platform->drop(platform->user, fedclient_record_key(FEDCLIENT_MODEL, number, key), err);
    }
    FED_TRY(status);
    status = fedclient_residual_load(platform, number, &slot->residual, &record, err);
    fedclient_record_free(&record);
    FED_TRY(status);
    status = fedclient_pending_load(platform, number, &slot->pending, &record, err);
    fedclient_record_free(&record);
    FED_TRY(status);
    if (FED_SMALL) {
        return FED_OK;
    }
    FED_TRY(load_layout(client, slot, err));
    FED_TRY(load_own(client, slot, err));
    return load_personal(client, slot, err);
}

/** The largest training number in stored slots beyond options.slots, from a time when the program
 * had more slots. New trainings need larger numbers (D4 in docs/durability.md). Damaged records are
 * ignored. */
static uint64_t number_beyond(const fedclient *client) {
    uint64_t last = 0;
    for (unsigned k = client->options.slots; k < FED_SLOTS; k++) {
        const fedclient_platform *platform = client->options.platform;
        fedclient_slot slot = {.number = k};
        fedclient_record record = {0};
        fed_error unused = {0};
        if (fedclient_residual_load(platform, k, &slot.residual, &record, &unused) == FED_OK) {
            fedclient_record_free(&record);
        }
        if (fedclient_pending_load(platform, k, &slot.pending, &record, &unused) == FED_OK) {
            fedclient_record_free(&record);
        }
        last = last_number(&slot) > last ? last_number(&slot) : last;
    }
    return last;
}

/** Has another slot trained since the slot's message was made? The answer is always no for the
 * first slot, which every release uses. A release without slots trains only in the first slot, so a
 * change of that slot's last number also means yes. */
static bool is_overtaken(const fedclient *client, const fedclient_slot *slot) {
    if (slot->number == 0) {
        return false;
    }
    bool overtaken = client->last_beyond > slot->pending.seq ||
                     fedclient_slots_first(client) != slot->pending.first;
    for (unsigned k = 0; k < client->options.slots; k++) {
        const bool other = k != slot->number;
        overtaken |= other && last_number(&client->slots[k]) >= slot->pending.seq;
    }
    return overtaken;
}

/** Empty a slot with a message whose fate is unknown, if this device has trained since. Normally it
 * trains nothing before the fate is known (C2). But a program with fewer slots, or an older
 * release, did not see this slot. The coordinator may have counted the message and forgotten its
 * lease. So the fate stays unknown, and nothing may be sent twice (D2). The residual is removed
 * first: if power fails then, the function runs again. */
static fed_status empty_if_stale(const fedclient *client, fedclient_slot *slot, fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    char key[FEDCLIENT_KEY];
    if (!is_sending(slot) || !is_overtaken(client, slot)) {
        return FED_OK;
    }
    const fed_log_about about = {.task = task_of(slot)};
    fed_logf_about(
        client->options.log, FED_LOG_WARN, &about,
        "slot %u was out of use, in a program with fewer slots, while an update of task %" PRIu64
        " was on its way: what was left to send to that task is dropped",
        slot->number, task_of(slot));
    FED_TRY(platform->drop(platform->user,
                           fedclient_record_key(FEDCLIENT_RESIDUAL, slot->number, key), err));
    slot->residual = (fedclient_residual_head){0};
    FED_TRY(platform->drop(platform->user,
                           fedclient_record_key(FEDCLIENT_PENDING, slot->number, key), err));
    slot->pending = (fedclient_pending_head){0};
    return FED_OK;
}

fed_status fedclient_slots_load(fedclient *client, fed_error *err) {
    client->slot = client->slots;
    client->last_beyond = number_beyond(client);
    for (unsigned k = 0; k < client->options.slots; k++) {
        client->slots[k] = (fedclient_slot){.number = k};
        FED_TRY(load(client, &client->slots[k], err));
    }
    for (unsigned k = 0; k < client->options.slots; k++) {
        FED_TRY(empty_if_stale(client, &client->slots[k], err));
        if (trained_last(&client->slots[k]) > trained_last(client->slot)) {
            client->slot = &client->slots[k];
        }
    }
    /* C1 in docs/durability.md: the number after fedclient_slots_last is larger than this slot's
     * number. */
    assert(trained_last(client->slot) <= fedclient_slots_last(client));
    client->known = true;
    return FED_OK;
}

fed_status fedclient_slot_reload(fedclient *client, fed_error *err) {
    FED_TRY(load(client, client->slot, err));
    client->known = true;
    return FED_OK;
}

/** The place of slot k's task in a check-in's list: tasks that were trained later come first. */
static unsigned place_of(const fedclient *client, unsigned k) {
    unsigned place = 0;
    for (unsigned other = 0; other < client->options.slots; other++) {
        const uint64_t mine = trained_last(&client->slots[k]);
        const uint64_t its = trained_last(&client->slots[other]);
        place += task_of(&client->slots[other]) != 0 && (its > mine || (its == mine && other < k));
    }
    assert(place < client->options.slots);
    return place;
}

/** The version to name in a check-in. After a death between the last model and its personal copy it
 * is the copy's, so that the coordinator announces the end again (C11 in docs/durability.md). */
static uint32_t version_of(const fedclient *client, const fedclient_slot *slot) {
    const fedclient_personal_head *copy = &slot->personal;
    const bool old = copy->task == slot->model.task && copy->version < slot->model.version;
    return !FED_SMALL && client->asks_end && old ? copy->version : slot->model.version;
}

void fedclient_slots_list(const fedclient *client, fed_held held[FED_SLOTS]) {
    for (unsigned k = 0; k < client->options.slots; k++) {
        const fedclient_slot *slot = &client->slots[k];
        if (task_of(slot) != 0) {
            held[place_of(client, k)] = (fed_held){task_of(slot), version_of(client, slot)};
        }
    }
}

/** Find the slot of a task, or with task 0 a free slot. NULL: there is none. */
static fedclient_slot *find(fedclient *client, uint64_t task) {
    for (unsigned k = 0; k < client->options.slots; k++) {
        if (task_of(&client->slots[k]) == task) {
            return &client->slots[k];
        }
    }
    return NULL;
}

/** The slot of the task trained last: the only one that a check-in without a task list names. */
static fedclient_slot *named(fedclient *client) {
    unsigned k = 0;
    while (place_of(client, k) != 0) {
        k++;
        /* D6 in docs/durability.md: the loop ends, because one slot has the first place in the
         * list. */
        assert(k < client->options.slots);
    }
    return &client->slots[k];
}

static fedclient_slot *longest_ago(fedclient *client) {
    fedclient_slot *oldest = client->slots;
    for (unsigned k = 1; k < client->options.slots; k++) {
        if (trained_last(&client->slots[k]) < trained_last(oldest)) {
            oldest = &client->slots[k];
        }
    }
    return oldest;
}

void fedclient_slot_take(fedclient *client, const fed_assignment *assignment) {
    /* C2 in docs/durability.md: the slot of a message whose fate is unknown can't be given to
     * another task. */
    assert(fedclient_slots_sending(client) == NULL);
    fedclient_slot *slot = find(client, assignment->task.id);
    slot = slot != NULL ? slot : find(client, 0);
    if (slot == NULL && assignment->replaces != 0) {
        slot = find(client, assignment->replaces);
    }
    if (slot == NULL && !client->lists) {
        /* An older coordinator knows only the task that the check-in named. */
        slot = named(client);
    }
    client->slot = slot != NULL ? slot : longest_ago(client);
}
