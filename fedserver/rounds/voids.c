/* Voids the open round of a private task whose stored updates no helper can open any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/voids.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/task/private_task.h"

typedef struct sifting {
    fedserver_rounds *rounds;
    uint8_t terms[FED_SHA256_SIZE];
    uint32_t other; /* updates under other terms */
    bool forget;    /* take the updates out of their devices' rows */
} sifting;

/* The coordinator forgets that the update counted: sent again, it is refused. */
static fed_status forget(fedserver_rounds *rounds, const fedserver_update_row *row,
                         const fed_private *sealed, fed_error *err) {
    uint8_t fingerprint[FED_SHA256_SIZE];
    fedserver_device *device;
    fed_point_fingerprint(sealed->point, fingerprint);
    FED_TRY(fedserver_device_fetch(rounds, fingerprint, &device, err));
    if (device == NULL || device->counted_lease != row->lease) {
        return FED_OK;
    }
    if (device->lease == row->lease) {
        device->lease_task = 0;
        device->lease_deadline_ms = 0;
    }
    device->counted_lease = device->counted_digest = 0;
    return fedserver_device_save(rounds, device, err);
}

static fed_status sift(void *user, const fedserver_update_row *row, const uint8_t *body, size_t len,
                       fed_error *err) {
    sifting *s = user;
    fedserver_update update;
    fed_private sealed;
    if (fedserver_intake_read(body, len, &update, err) != FED_OK ||
        fedserver_openings_read(&update, &sealed) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "a stored update of task %llu is damaged",
                        (unsigned long long)row->task);
    }
    s->other += memcmp(sealed.terms, s->terms, sizeof s->terms) != 0;
    return s->forget ? forget(s->rounds, row, &sealed, err) : FED_OK;
}

static fed_status note(fedserver_rounds *rounds, const fedserver_training *t, uint32_t updates,
                       int64_t now_ms, fed_error *err) {
    fedserver_audit_entry entry = {.at_ms = now_ms, .event = "round_voided"};
    snprintf(entry.detail, sizeof entry.detail, "task=%llu round=%u updates=%u",
             (unsigned long long)t->task.wire.id, t->round.number, updates);
    const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
    fed_logf_about(rounds->log, FED_LOG_WARN, &about,
                   "task %llu (%s): round %u is void, and %u updates are lost: they were sealed "
                   "under terms that have changed since, so no helper opens them; its devices "
                   "train anew",
                   (unsigned long long)t->task.wire.id, t->task.name, t->round.number, updates);
    return rounds->store->audit_add(rounds->db, &entry, err);
}

static fed_status void_round(fedserver_rounds *rounds, fedserver_training *t, sifting *s,
                             int64_t now_ms, fed_error *err) {
    const uint64_t id = t->task.wire.id;
    /* S5 in docs/durability.md: no version is being made of this round. */
    assert(t->closing == NULL && t->task.rules.staleness == 0);
    s->forget = true;
    FED_TRY(rounds->store->update_each(rounds->db, id, t->round.number, sift, s, err));
    FED_TRY(note(rounds, t, t->round.received, now_ms, err));
    FED_TRY(rounds->store->update_clear(rounds->db, id, t->round.number, err));
    t->round = (fedserver_round){.phase = FEDSERVER_ROUND_OPEN,
                                 .number = t->round.number,
                                 .attempt = t->round.attempt + 1,
                                 .opened_ms = t->round.opened_ms};
    t->settled = (fedserver_settled_set){0};
    t->asking = (fedserver_asking){0};
    FED_TRY(rounds->store->opening_refuse(rounds->db, id, t->round.number, "", err));
    t->own = (fedserver_own_table){.count = 0};
    fedserver_sum_free(&t->sum);
    if (fedserver_intake_sum(t) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the sum of a round");
    }
    FED_TRY(fedserver_leases_load(rounds, t, err));
    /* S10 in docs/durability.md: no lease of an earlier attempt stands. */
    assert(fedserver_leases_count(t) == 0);
    return fedserver_round_save(rounds, t, err);
}

fed_status fedserver_round_refresh(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms,
                                   fed_error *err) {
    fed_private_terms terms;
    sifting s = {.rounds = rounds};
    bool opened = false;
    if (!fedserver_task_has_helper(&t->task) || t->round.phase == FEDSERVER_ROUND_NONE ||
        t->round.received == 0) {
        return FED_OK;
    }
    FED_TRY(rounds->store->opening_find(rounds->db, t->task.wire.id, t->round.number, NULL, 0,
                                        &opened, err));
    if (opened) {
        return FED_OK;
    }
    fedserver_openings_terms(t, &terms);
    fed_private_terms_digest(&terms, s.terms);
    FED_TRY(
        rounds->store->update_each(rounds->db, t->task.wire.id, t->round.number, sift, &s, err));
    return s.other > 0 ? void_round(rounds, t, &s, now_ms, err) : FED_OK;
}
