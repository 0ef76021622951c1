/* Corrects the running statistics of late updates by the model's changes since the updates'
 * versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/drift.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/wire.h"
#include "fedcodec/envelope.h"

static size_t statistics(const fedserver_training *t) {
    return t->task.rules.staleness > 0 ? t->arch.layout.size - fed_arch_summed(&t->arch) : 0;
}

uint32_t fedserver_drift_reach(const fedserver_training *t) {
    const uint32_t version = t->versions.version, staleness = t->task.rules.staleness;
    if (statistics(t) == 0) {
        return version;
    }
    return version > staleness ? version - staleness : 0;
}

static void find_ages(const fedserver_training *t, fedserver_drift *drift) {
    for (uint32_t k = 0; k < t->sum.updates; k++) {
        const uint32_t age = t->round.number - t->sum.contributions[k].round;
        /* S4 in docs/durability.md: no update is older than the task allows. */
        assert(age <= t->task.rules.staleness);
        drift->weight[age] += t->sum.contributions[k].count;
        drift->oldest = age > drift->oldest ? age : drift->oldest;
    }
}

typedef struct walk {
    const fedserver_training *training;
    fedserver_drift *drift;
    float *delta;
} walk;

static fed_status note_delta(void *user, uint32_t version, const uint8_t *bytes, size_t len,
                             fed_error *err) {
    const walk *w = user;
    const fedserver_drift *drift = w->drift;
    const fedserver_training *t = w->training;
    assert(version <= t->versions.version && t->versions.version - version < drift->oldest);
    fed_reader reader;
    fed_part part;
    fed_reader_init(&reader, bytes, len);
    if (fed_part_read(&reader, &part) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "the stored delta to version %u is damaged" FEDSERVER_RESTORE, version);
    }
    FED_TRY(fedcodec_envelope_decode(part.envelope, (size_t)part.envelope_len, &t->arch.layout,
                                     w->delta, err));
    memcpy(drift->moved + (t->versions.version - version) * drift->count, w->delta + drift->first,
           drift->count * sizeof *w->delta);
    return FED_OK;
}

/* Set drift->moved from the stored deltas. A missing delta counts as no movement. */
static fed_status find_moved(fedserver_rounds *rounds, const fedserver_training *t,
                             fedserver_drift *drift, fed_error *err) {
    const uint32_t newest = t->versions.version;
    drift->moved = calloc((size_t)drift->oldest * drift->count, sizeof *drift->moved);
    walk w = {t, drift, malloc(t->arch.layout.size * sizeof *w.delta)};
    fed_status status =
        drift->moved == NULL || w.delta == NULL
            ? fed_fail(err, FED_ENOMEM, "out of memory for late updates' running statistics")
            : rounds->store->delta_each(rounds->db, t->task.wire.id, newest - drift->oldest, newest,
                                        note_delta, &w, err);
    free(w.delta);
    FED_TRY(status);
    for (size_t i = drift->count; i < drift->oldest * drift->count; i++) {
        drift->moved[i] += drift->moved[i - drift->count];
    }
    return FED_OK;
}

fed_status fedserver_drift_find(fedserver_rounds *rounds, const fedserver_training *t,
                                fedserver_drift *drift, fed_error *err) {
    *drift = (fedserver_drift){.first = fed_arch_summed(&t->arch), .count = statistics(t)};
    if (drift->count == 0) {
        return FED_OK;
    }
    drift->weight = calloc(t->task.rules.staleness + 1, sizeof *drift->weight);
    if (drift->weight == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for late updates' ages");
    }
    drift->all = t->sum.weight;
    find_ages(t, drift);
    return drift->oldest > 0 ? find_moved(rounds, t, drift, err) : FED_OK;
}

void fedserver_drift_free(fedserver_drift *drift) {
    free(drift->weight);
    free(drift->moved);
    *drift = (fedserver_drift){0};
}

static void take_off(const fedserver_drift *drift, uint32_t age, double share, float *values) {
    for (size_t i = 0; age > 0 && i < drift->count; i++) {
        const double moved = (double)drift->moved[(age - 1) * drift->count + i];
        values[drift->first + i] = (float)((double)values[drift->first + i] - share * moved);
    }
}

void fedserver_drift_off_update(const fedserver_drift *drift, uint32_t age, float *values) {
    take_off(drift, age, 1, values);
}

void fedserver_drift_off_mean(const fedserver_drift *drift, float *mean) {
    for (uint32_t age = 1; age <= drift->oldest; age++) {
        take_off(drift, age, (double)drift->weight[age] / (double)drift->all, mean);
    }
}
