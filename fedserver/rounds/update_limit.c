/* Computes the largest update over all tasks that were ever started. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/update_limit.h"

#include <stdlib.h>

#include "fedserver/rounds/intake.h"
#include "fedserver/stores/task_model.h"

typedef struct started {
    uint64_t *ids;
    size_t count;
} started;

static fed_status note_started(void *user, const fedserver_task_entry *entry, fed_error *err) {
    started *s = user;
    if (entry->started_ms == 0) {
        return FED_OK;
    }
    uint64_t *ids = realloc(s->ids, (s->count + 1) * sizeof *ids);
    if (ids == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the list of tasks");
    }
    s->ids = ids;
    s->ids[s->count++] = entry->id;
    return FED_OK;
}

/* Raise the limit to the task's largest update. A task that this release can't read is skipped. */
static fed_status widen(fedserver_rounds *rounds, uint64_t id, fed_error *err) {
    fedserver_task task;
    fed_arch arch;
    uint64_t most = 0;
    const fed_status found =
        rounds->store->task_find(rounds->db, FEDSERVER_PICK_ID, id, &task, err);
    if (found == FED_EFORMAT || found == FED_EVERSION) {
        return FED_OK;
    }
    FED_TRY(found);
    fed_error why = {0};
    const fed_status read = fedserver_task_model(rounds->store, rounds->db, &task, &arch, &why);
    if (read != FED_OK) {
        return read == FED_EFORMAT ? FED_OK : fed_fail(err, read, "%s", why.text);
    }
    fed_status status = fedserver_intake_most_bytes(&task, &arch.layout, &most, err);
    fed_arch_free(&arch);
    rounds->update_limit = most > rounds->update_limit ? most : rounds->update_limit;
    return status;
}

fed_status fedserver_update_limit_load(fedserver_rounds *rounds, fed_error *err) {
    started all = {.ids = NULL};
    fed_status status = rounds->store->task_each(rounds->db, 0, note_started, &all, err);
    for (size_t k = 0; k < all.count && status == FED_OK; k++) {
        status = widen(rounds, all.ids[k], err);
    }
    free(all.ids);
    return status;
}
