/* The device's own record of its participations in tasks that promise an epsilon. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fedclient/steps/steps.h"

/* Of more tasks than TASKS, the ones with the lowest numbers are forgotten. */
enum { TASKS = 64, ENTRY = 8 + 8 + 8 + 4 + 4 };

typedef struct entry {
    uint64_t task;
    uint64_t seq, lease;   /* of the training that the last participation is for */
    uint32_t taken, round; /* how many participations; the round of the last one */
} entry;

/* What the device's record says. `entries` has room for TASKS; free it. */
typedef struct account {
    entry *entries;
    size_t count;
} account;

static size_t read_entries(const fedclient_record *record, entry *entries) {
    size_t len = 0, count = 0;
    fed_reader r;
    const uint8_t *payload = fedclient_record_payload(record, &len);
    fed_reader_init(&r, payload, len);
    for (; count < TASKS && count < len / ENTRY; count++) {
        entries[count].task = fed_read_u64(&r);
        entries[count].seq = fed_read_u64(&r);
        entries[count].lease = fed_read_u64(&r);
        entries[count].taken = fed_read_u32(&r);
        entries[count].round = fed_read_u32(&r);
    }
    return count;
}

static fed_status load(const fedclient_platform *platform, account *a, fed_error *err) {
    fedclient_record record = {0};
    *a = (account){.entries = calloc(TASKS, sizeof *a->entries)};
    if (a->entries == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the record of participations");
    }
    const fed_status status = fedclient_record_load(platform, FEDCLIENT_SPENT, 0, &record, err);
    if (status == FED_OK) {
        a->count = read_entries(&record, a->entries);
        fedclient_record_free(&record);
    }
    return status == FED_ENOTFOUND ? FED_OK : status;
}

static fed_status store(const fedclient_platform *platform, const account *a, fed_error *err) {
    fedclient_record record = {0};
    size_t len = 0;
    if (fedclient_record_new(a->count * ENTRY, &record) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the record of participations");
    }
    fed_writer w;
    uint8_t *payload = fedclient_record_payload(&record, &len);
    fed_writer_fixed(&w, payload, len);
    for (size_t k = 0; k < a->count; k++) {
        fed_write_u64(&w, a->entries[k].task);
        fed_write_u64(&w, a->entries[k].seq);
        fed_write_u64(&w, a->entries[k].lease);
        fed_write_u32(&w, a->entries[k].taken);
        fed_write_u32(&w, a->entries[k].round);
    }
    const fed_status status = fedclient_record_store(platform, FEDCLIENT_SPENT, 0, &record, err);
    fedclient_record_free(&record);
    return status;
}

static entry *find(const account *a, uint64_t task) {
    for (size_t k = 0; k < a->count; k++) {
        if (a->entries[k].task == task) {
            return &a->entries[k];
        }
    }
    return NULL;
}

/* The entry of a new task, in place of the lowest number if there is no room. */
static entry *add(account *a, uint64_t task) {
    entry *place = &a->entries[0];
    for (size_t k = 0; k < a->count; k++) {
        place = a->entries[k].task < place->task ? &a->entries[k] : place;
    }
    place = a->count < TASKS ? &a->entries[a->count++] : place;
    *place = (entry){.task = task};
    return place;
}

/* Is the last participation for a training of which no message was made? Then the process died
 * between the two, and the message is still to come. The coordinator can't choose seq. */
static bool is_begun(const fedclient *client, const entry *e) {
    for (unsigned k = 0; k < client->options.slots; k++) {
        const fedclient_slot *slot = &client->slots[k];
        if (slot->residual.task == e->task && slot->residual.seq == e->seq &&
            slot->residual.lease == e->lease && slot->pending.seq < e->seq) {
            return true;
        }
    }
    return false;
}

/* The device rests between two of its rounds. That is no fault of the task, so it is not declined:
 * the step ends as one that the program does not want now. */
static fed_status rest(fedclient *client, const fed_assignment *told, uint32_t round,
                       fed_error *why) {
    fed_error *over = &client->watch.over;
    (void)fed_fail(over, FED_EBUSY,
                   "this device took part in round %" PRIu32 " of task %" PRIu64
                   ", and was promised to rest for %" PRIu32 " rounds",
                   round, told->task.id, told->privacy.apart - 1);
    return fed_fail(why, over->status, "%s", over->text);
}

static fed_status left(fedclient *client, const fed_assignment *told, const account *a,
                       fed_error *why) {
    const entry *e = find(a, told->task.id);
    if (e == NULL || e->taken == 0 || is_begun(client, e)) {
        return FED_OK;
    }
    if (told->privacy.apart > 1 && told->round < (uint64_t)e->round + told->privacy.apart) {
        return rest(client, told, e->round, why);
    }
    if (e->taken < told->privacy.participations) {
        return FED_OK;
    }
    return fed_fail(why, FED_EDECLINED,
                    "it took part %" PRIu32 " times, and was promised to take part %" PRIu32
                    " times at most",
                    e->taken, told->privacy.participations);
}

fed_status fedclient_participation_left(fedclient *client, const fed_assignment *told,
                                        fed_error *why) {
    account a;
    if (told->privacy.participations == 0) {
        return FED_OK;
    }
    fed_status status = load(client->options.platform, &a, why);
    if (status == FED_OK) {
        status = left(client, told, &a, why);
    }
    free(a.entries);
    return status;
}

static fed_status take(fedclient *client, const fed_assignment *told, account *a, fed_error *err) {
    FED_TRY(left(client, told, a, err));
    entry *e = find(a, told->task.id);
    e = e != NULL ? e : add(a, told->task.id);
    if (e->taken > 0 && is_begun(client, e)) {
        return FED_OK;
    }
    e->seq = client->slot->residual.seq;
    e->lease = client->slot->residual.lease;
    e->taken++;
    e->round = told->round;
    /* C12 in docs/durability.md: no message beyond what was promised. */
    assert(e->taken <= told->privacy.participations);
    return store(client->options.platform, a, err);
}

fed_status fedclient_participation_take(fedclient *client, const fed_assignment *told,
                                        fed_error *err) {
    account a;
    if (told->privacy.participations == 0) {
        return FED_OK;
    }
    fed_status status = load(client->options.platform, &a, err);
    if (status == FED_OK) {
        status = take(client, told, &a, err);
    }
    free(a.entries);
    return status;
}
