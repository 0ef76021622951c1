/* The device's own record of its participations in tasks that promise an epsilon. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "fedclient/steps/steps.h"

/* Of more tasks than TASKS, the ones with the lowest numbers are forgotten. */
enum { TASKS = 64, ENTRY = 8 + 8 + 8 + 4 };

typedef struct entry {
    uint64_t task;
    uint64_t seq, lease; /* of the training that the last participation is for */
    uint32_t taken;
} entry;

static size_t read_entries(const fedclient_record *record, entry entries[TASKS]) {
    size_t len = 0, count = 0;
    fed_reader r;
    const uint8_t *payload = fedclient_record_payload(record, &len);
    fed_reader_init(&r, payload, len);
    for (; count < TASKS && count < len / ENTRY; count++) {
        entries[count].task = fed_read_u64(&r);
        entries[count].seq = fed_read_u64(&r);
        entries[count].lease = fed_read_u64(&r);
        entries[count].taken = fed_read_u32(&r);
    }
    return count;
}

static fed_status load(const fedclient_platform *platform, entry entries[TASKS], size_t *count,
                       fed_error *err) {
    fedclient_record record = {0};
    *count = 0;
    const fed_status status = fedclient_record_load(platform, FEDCLIENT_SPENT, 0, &record, err);
    if (status == FED_OK) {
        *count = read_entries(&record, entries);
        fedclient_record_free(&record);
    }
    return status == FED_ENOTFOUND ? FED_OK : status;
}

static fed_status store(const fedclient_platform *platform, const entry *entries, size_t count,
                        fed_error *err) {
    fedclient_record record = {0};
    size_t len = 0;
    if (fedclient_record_new(count * ENTRY, &record) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the record of participations");
    }
    fed_writer w;
    uint8_t *payload = fedclient_record_payload(&record, &len);
    fed_writer_fixed(&w, payload, len);
    for (size_t k = 0; k < count; k++) {
        fed_write_u64(&w, entries[k].task);
        fed_write_u64(&w, entries[k].seq);
        fed_write_u64(&w, entries[k].lease);
        fed_write_u32(&w, entries[k].taken);
    }
    const fed_status status = fedclient_record_store(platform, FEDCLIENT_SPENT, 0, &record, err);
    fedclient_record_free(&record);
    return status;
}

static entry *find(entry *entries, size_t count, uint64_t task) {
    for (size_t k = 0; k < count; k++) {
        if (entries[k].task == task) {
            return &entries[k];
        }
    }
    return NULL;
}

/* The entry of a new task, in place of the lowest number if there is no room. */
static entry *add(entry entries[TASKS], size_t *count, uint64_t task) {
    entry *place = &entries[0];
    for (size_t k = 0; k < *count; k++) {
        place = entries[k].task < place->task ? &entries[k] : place;
    }
    place = *count < TASKS ? &entries[(*count)++] : place;
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

fed_status fedclient_participation_left(const fedclient *client, const fed_assignment *told,
                                        fed_error *why) {
    entry entries[TASKS];
    size_t count = 0;
    if (told->privacy.participations == 0) {
        return FED_OK;
    }
    FED_TRY(load(client->options.platform, entries, &count, why));
    const entry *e = find(entries, count, told->task.id);
    if (e == NULL || e->taken < told->privacy.participations || is_begun(client, e)) {
        return FED_OK;
    }
    return fed_fail(why, FED_EDECLINED,
                    "it took part %" PRIu32 " times, and was promised to take part %" PRIu32
                    " times at most",
                    e->taken, told->privacy.participations);
}

fed_status fedclient_participation_take(const fedclient *client, const fed_assignment *told,
                                        fed_error *err) {
    const fedclient_platform *platform = client->options.platform;
    entry entries[TASKS];
    size_t count = 0;
    if (told->privacy.participations == 0) {
        return FED_OK;
    }
    FED_TRY(fedclient_participation_left(client, told, err));
    FED_TRY(load(platform, entries, &count, err));
    entry *e = find(entries, count, told->task.id);
    e = e != NULL ? e : add(entries, &count, told->task.id);
    if (e->taken > 0 && is_begun(client, e)) {
        return FED_OK;
    }
    e->seq = client->slot->residual.seq;
    e->lease = client->slot->residual.lease;
    e->taken++;
    /* C12 in docs/durability.md: no message beyond what was promised. */
    assert(e->taken <= told->privacy.participations);
    return store(platform, entries, count, err);
}
