/* Checks updates as they come, adds them to the round's sum, and makes one change of all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/intake.h"

#include <assert.h>
#include <math.h>

#include "fedserver/rounds/drift.h"
#include "fedserver/task/phases.h"

/* -- Read and check -- */

size_t fedserver_intake_head_bytes(void) {
    uint8_t bytes[64];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_update_write(&w, &(fed_update){.samples = 1});
    assert(w.status == FED_OK);
    return w.len;
}

fed_status fedserver_intake_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       uint64_t *most, fed_error *err) {
    *most = 0;
    for (uint32_t k = 0; k <= task->phase_count; k++) {
        const fedserver_phase phase = fedserver_phase_at(task, k);
        fedcodec codec;
        FED_TRY(fedcodec_parse(phase.codec_down, &codec, err));
        FED_TRY(fedcodec_parse(phase.codec_up, &codec, err));
        const uint64_t bytes = fedserver_intake_head_bytes() + FED_OWN_BYTES +
                               fedcodec_envelope_bound(&codec, layout, task->wire.small_tensor);
        *most = bytes > *most ? bytes : *most;
    }
    return FED_OK;
}

fed_status fedserver_intake_read(const uint8_t *body, size_t len, fedserver_update *update,
                                 fed_error *why) {
    fed_reader r;
    fed_reader_init(&r, body, len);
    fedserver_update read = {.body = body, .body_len = len};
    if (fed_update_read(&r, &read.head) != FED_OK) {
        return fed_fail(why, FED_EFORMAT, "the body does not start with an update's head");
    }
    if (fed_own_metrics_read(&r, &read.own) != FED_OK) {
        return fed_fail(why, FED_EFORMAT,
                        "neither own metrics nor an envelope follow the head: " FEDSERVER_OWN_RULE);
    }
    read.envelope_len = fed_reader_left(&r);
    read.envelope = fed_read_bytes(&r, read.envelope_len);
    *update = read;
    return FED_OK;
}

static fed_status check_loss(const fed_update *head, fed_error *err) {
    if (!(fabsf(head->loss) <= FEDSERVER_LOSS_LIMIT)) {
        return fed_fail(err, FED_ERANGE,
                        "a loss of %g; up to %g is plausible. Has the training diverged?",
                        (double)head->loss, (double)FEDSERVER_LOSS_LIMIT);
    }
    return FED_OK;
}

static fed_status check_range(const fedserver_update *update, fed_error *why) {
    if (update->values.max_abs > FEDCODEC_FOLD_LIMIT) {
        return fed_fail(why, FED_ERANGE,
                        "the update holds a value of magnitude %g; the sum can hold %g",
                        (double)update->values.max_abs, (double)FEDCODEC_FOLD_LIMIT);
    }
    return check_loss(&update->head, why);
}

fed_status fedserver_intake_open(const fedserver_task *task, const fed_layout *layout,
                                 fedserver_update *update, fed_error *why) {
    const fedserver_phase phase = fedserver_phase_of(task, update->head.round);
    fedcodec codec;
    FED_TRY(fedcodec_parse(phase.codec_up, &codec, why));
    FED_TRY(fedcodec_message_open(update->envelope, update->envelope_len, layout, &codec,
                                  task->wire.small_tensor, &update->values, why));
    fed_status status = check_range(update, why);
    if (status != FED_OK) {
        fedserver_intake_drop(update);
    }
    return status;
}

void fedserver_intake_drop(fedserver_update *update) {
    fedcodec_message_close(&update->values);
}

/* -- Count -- */

/* round: the one in which the update counts */
static fed_status count_in(fedserver_training *t, uint32_t round, const fedserver_update *update,
                           int64_t device, fed_error *err) {
    const fed_update *head = &update->head;
    const uint32_t weight = fedserver_round_weight(&t->task.rules, round, head->round);
    const fedserver_claim claim = {.device = device,
                                   .weight = (uint64_t)weight * head->samples,
                                   .samples = head->samples,
                                   .round = head->round,
                                   .loss = head->loss,
                                   .bytes = update->body_len};
    if (t->sum.size == 0 && fedserver_sum_init(&t->sum, &t->arch.layout, &t->strategy) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the sum of a round");
    }
    FED_TRY(fedserver_sum_add(&t->sum, &update->values, claim, err));
    fedserver_own_count(&t->own, &update->own, head->samples);
    return FED_OK;
}

fed_status fedserver_intake_count(fedserver_training *t, const fedserver_update *update,
                                  int64_t device, fed_error *err) {
    return count_in(t, fedserver_round_counting(&t->round), update, device, err);
}

/* -- Read the stored updates again -- */

/* Called for each stored update, after the update was opened. */
typedef fed_status (*stored_visit)(void *user, const fedserver_update_row *row,
                                   const fedserver_update *update, fed_error *err);

typedef struct stored_walk {
    const fedserver_training *training;
    stored_visit visit;
    void *user;
} stored_walk;

/* The codec needs no check: the coordinator checked the codec when the update arrived. */
static fed_status open_stored(const fedserver_training *t, const fedserver_update_row *row,
                              const uint8_t *body, size_t len, fedserver_update *update,
                              fed_error *err) {
    if (fedserver_intake_read(body, len, update, NULL) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the stored update of device %lld is damaged",
                        (long long)row->device);
    }
    if (update->head.round > row->round ||
        row->round - update->head.round > t->task.rules.staleness) {
        return fed_fail(err, FED_EFORMAT, "the stored update of device %lld is of round %u",
                        (long long)row->device, update->head.round);
    }
    return fedcodec_message_open(update->envelope, update->envelope_len, &t->arch.layout, NULL, 0,
                                 &update->values, err);
}

static fed_status visit_stored(void *user, const fedserver_update_row *row, const uint8_t *body,
                               size_t len, fed_error *err) {
    const stored_walk *walk = user;
    fedserver_update update;
    FED_TRY(open_stored(walk->training, row, body, len, &update, err));
    fed_status status = walk->visit(walk->user, row, &update, err);
    fedserver_intake_drop(&update);
    return status;
}

/* Visit the stored updates that count in that round, in the order of arrival. */
static fed_status each_stored(const fedserver_rounds *rounds, const fedserver_training *t,
                              uint32_t round, stored_visit visit, void *user, fed_error *err) {
    stored_walk walk = {.training = t, .visit = visit, .user = user};
    return rounds->store->update_each(rounds->db, t->task.wire.id, round, visit_stored, &walk, err);
}

static fed_status count_stored(void *user, const fedserver_update_row *row,
                               const fedserver_update *update, fed_error *err) {
    FED_TRY(check_loss(&update->head, err));
    return count_in(user, row->round, update, row->device, err);
}

fed_status fedserver_intake_load(fedserver_rounds *rounds, fedserver_training *t, uint32_t round,
                                 fed_error *err) {
    assert(t->sum.updates == 0); /* D2: each stored update counts once */
    return each_stored(rounds, t, round, count_stored, t, err);
}

/* -- Close -- */

typedef struct refolding {
    fedserver_sum *sum;
    uint32_t number; /* number of the next update */
} refolding;

static fed_status refold_stored(void *user, const fedserver_update_row *row,
                                const fedserver_update *update, fed_error *err) {
    refolding *r = user;
    const uint32_t number = r->number++;
    (void)row; /* only the assertion uses row */
    assert(number < r->sum->updates && r->sum->claims[number].device == row->device);
    return fedserver_sum_refold(r->sum, number, &update->values, err);
}

static fed_status settle(fedserver_rounds *rounds, fedserver_training *t, fedserver_shares *shares,
                         fed_error *err) {
    refolding r = {.sum = &t->sum};
    bool refold = false;
    FED_TRY(fedserver_sum_settle(&t->sum, t->task.device_share, shares, &refold, err));
    return refold ? each_stored(rounds, t, t->round.number, refold_stored, &r, err) : FED_OK;
}

/* Collects the rows of a strategy that needs all updates at once. */
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

/* change = what the strategy makes of all updates of the round. */
static fed_status combine_all(fedserver_rounds *rounds, const fedserver_training *t,
                              const fedserver_drift *drift, float *change, fed_error *err) {
    gathering g = {.training = t, .drift = drift};
    FED_TRY(fedserver_rows_open(&g.rows, rounds->directory, t->sum.size, err));
    fed_status status = each_stored(rounds, t, t->round.number, gather_stored, &g, err);
    if (status == FED_OK) {
        fedserver_rows_sort(&g.rows);
        const fedserver_strategy_half *half = &t->strategy.combine;
        status = half->vtable->combine(half->param, &g.rows, change, err);
    }
    fedserver_rows_close(&g.rows);
    return status;
}

fed_status fedserver_intake_close(fedserver_rounds *rounds, fedserver_training *t,
                                  fedserver_shares *shares, float *change, fed_error *err) {
    fedserver_drift drift;
    FED_TRY(settle(rounds, t, shares, err));
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
