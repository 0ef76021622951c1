/* Reads the updates of an open round from the store. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/stored.h"

#include <assert.h>

typedef struct walk {
    const fedserver_training *training;
    fedserver_stored_visit visit;
    void *user;
} walk;

static fed_status open_stored(const fedserver_training *t, const fedserver_update_row *row,
                              const uint8_t *body, size_t len, fedserver_update *update,
                              fed_error *err) {
    fed_error why = {0};
    if (fedserver_intake_read(body, len, update, NULL) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored update of device %lld is damaged; restore the "
                        "database from a backup",
                        (long long)row->device);
    }
    if (update->head.round > row->round ||
        row->round - update->head.round > t->task.rules.staleness) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored update of device %lld was trained in round %u, and can't count "
                        "in the round that it is stored for; restore the database from a backup",
                        (long long)row->device, update->head.round);
    }
    const fed_status status = t->intake->open(&t->task, &t->arch.layout, update, &why);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "the stored update of device %lld: %s",
                                       (long long)row->device, why.text);
}

static fed_status visit_stored(void *user, const fedserver_update_row *row, const uint8_t *body,
                               size_t len, fed_error *err) {
    const walk *w = user;
    fedserver_update update;
    FED_TRY(open_stored(w->training, row, body, len, &update, err));
    /* S4 in docs/durability.md: the update is one of this task. */
    assert(row->task == w->training->task.wire.id);
    const fed_status status = w->visit(w->user, row, &update, err);
    w->training->intake->drop(&update);
    return status;
}

fed_status fedserver_stored_each(const fedserver_rounds *rounds, const fedserver_training *t,
                                 uint32_t round, fedserver_stored_visit visit, void *user,
                                 fed_error *err) {
    walk w = {.training = t, .visit = visit, .user = user};
    return rounds->store->update_each(rounds->db, t->task.wire.id, round, visit_stored, &w, err);
}

static fed_status count_stored(void *user, const fedserver_update_row *row,
                               const fedserver_update *update, fed_error *err) {
    return fedserver_intake_count(user, row->round, update, row->device, err);
}

fed_status fedserver_stored_load(const fedserver_rounds *rounds, fedserver_training *t,
                                 uint32_t round, fed_error *err) {
    assert(t->sum.updates == 0); /* D2 in docs/durability.md: each stored update counts once. */
    return fedserver_stored_each(rounds, t, round, count_stored, t, err);
}
