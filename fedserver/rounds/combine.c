/* Combines a round's updates into one change of the model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/combine.h"

#include <assert.h>

#include "fedserver/rounds/drift.h"
#include "fedserver/rounds/stored.h"

typedef struct refolding {
    fedserver_sum *sum;
    uint32_t number;
} refolding;

static fed_status refold_stored(void *user, const fedserver_update_row *row,
                                const fedserver_update *update, fed_error *err) {
    refolding *r = user;
    const uint32_t number = r->number++;
    (void)row;
    /* S4 in docs/durability.md: the store returns updates in the order of the contributions. */
    assert(number < r->sum->updates && r->sum->contributions[number].device == row->device);
    return fedserver_sum_refold(r->sum, number, &update->values, err);
}

static fed_status settle(fedserver_rounds *rounds, fedserver_training *t,
                         fedserver_weights *weights, fed_error *err) {
    refolding r = {.sum = &t->sum};
    bool refold = false;
    FED_TRY(fedserver_sum_settle(&t->sum, t->task.device_share, weights, &refold, err));
    if (refold) {
        FED_TRY(fedserver_stored_each(rounds, t, t->round.number, refold_stored, &r, err));
        /* D1 in docs/durability.md: no counted update is missing. */
        assert(r.number == t->sum.updates);
    }
    return FED_OK;
}

typedef struct gathering {
    const fedserver_training *training;
    const fedserver_drift *drift;
    fedserver_rows rows;
} gathering;

static fed_status gather_stored(void *user, const fedserver_update_row *row,
                                const fedserver_update *update, fed_error *err) {
    gathering *g = user;
    const fedserver_training *t = g->training;
    FED_TRY(fedserver_sum_decode(&t->sum, &update->values, err));
    fedserver_drift_off_update(g->drift, t->round.number - update->head.round, t->sum.decoded);
    return fedserver_rows_add(&g->rows, row->device, update->head.lease, t->sum.decoded, err);
}

static fed_status combine_all(fedserver_rounds *rounds, const fedserver_training *t,
                              const fedserver_drift *drift, float *change, fed_error *err) {
    gathering g = {.training = t, .drift = drift};
    FED_TRY(fedserver_rows_open(&g.rows, rounds->directory, t->sum.size, err));
    g.rows.stop = rounds->stop;
    g.rows.task = t->task.wire.id;
    g.rows.round = t->round.number;
    fed_status status = fedserver_stored_each(rounds, t, t->round.number, gather_stored, &g, err);
    if (status == FED_OK) {
        /* D1 in docs/durability.md: no counted update is missing. */
        assert(g.rows.count == t->sum.updates);
        fedserver_rows_sort(&g.rows);
        const fedserver_strategy_half *half = &t->strategy.combine;
        status = half->vtable->combine(half->param, &g.rows, change, err);
    }
    fedserver_rows_close(&g.rows);
    return status;
}

fed_status fedserver_combine(fedserver_rounds *rounds, fedserver_training *t,
                             fedserver_weights *weights, float *change, fed_error *err) {
    fedserver_drift drift;
    FED_TRY(settle(rounds, t, weights, err));
    fed_status status = fedserver_drift_find(rounds, t, &drift, err);
    if (status == FED_OK && fedserver_strategy_needs_all(&t->strategy)) {
        status = combine_all(rounds, t, &drift, change, err);
    } else if (status == FED_OK) {
        fedserver_sum_mean(&t->sum, change);
        fedserver_drift_off_mean(&drift, change);
    }
    fedserver_drift_free(&drift);
    return status;
}
