/* The ledger of a task that promises an epsilon, and the noise of its rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/ledger.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/crypto.h"
#include "fedserver/privacy/correlated.h"
#include "fedserver/privacy/grouping.h"
#include "fedserver/privacy/promised_noise.h"
#include "fedserver/task/private_task.h"

static fed_status note_row(void *user, const fedserver_ledger_row *row, fed_error *err) {
    fedserver_training *t = user;
    if (row->device == FEDSERVER_LEDGER_COPIED) {
        return fed_fail(err, FED_EFORMAT,
                        "its ledger is that of a backup, and does not know which devices took part "
                        "since; say with `fedserver ledger %llu --lost N` how many rounds may have "
                        "been lost",
                        (unsigned long long)t->task.wire.id);
    }
    FED_TRY(fedserver_marks_set(&t->ledger.last, row->device, row->last_round, err));
    return fedserver_marks_set(&t->ledger.taken, row->device, row->taken, err);
}

/* From now on the round has this clip. The sum's shape follows from it. */
static void set_clip(fedserver_training *t, double clip) {
    t->task.round_clip = (float)clip;
    if (t->sum.fields != NULL) {
        t->sum.shape = fedserver_private_fields(&t->task, &t->arch.layout);
    }
}

/* 0: it is the first round's, or the row is of no such task. */
static void take_clip(fedserver_training *t, const fedserver_round_row *row) {
    if (fedserver_task_adapts(&t->task) && row->clip > 0) {
        set_clip(t, row->clip);
    }
}

static fed_status note_clip(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    take_clip(user, row);
    return FED_OK;
}

fed_status fedserver_ledger_load(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    fedserver_marks_free(&t->ledger.taken);
    fedserver_marks_free(&t->ledger.last);
    if (fedserver_task_adapts(&t->task) && t->task.state != FEDSERVER_TASK_RUNNING) {
        /* the last round's; that of a running task comes with its open round */
        FED_TRY(rounds->store->round_each(rounds->db, t->task.wire.id, 1, note_clip, t, err));
    }
    return fedserver_task_promises(&t->task)
               ? rounds->store->ledger_each(rounds->db, t->task.wire.id, note_row, t, err)
               : FED_OK;
}

void fedserver_ledger_resume(fedserver_training *t, const fedserver_round_row *row) {
    t->settled = (fedserver_settled_set){.clip = row->clip, .sigma2 = row->sigma2, .rho = row->rho};
    take_clip(t, row);
    memcpy(t->settled.set_digest, row->set_digest, sizeof row->set_digest);
    memcpy(t->settled.noise_key, row->noise_key, sizeof row->noise_key);
}

/* Was the device charged for this round, when the set of an earlier attempt was settled? */
static bool is_charged(const fedserver_training *t, int64_t device, uint32_t round) {
    return round > 0 && fedserver_marks_get(&t->ledger.last, device, 0) == (int64_t)round;
}

/* May the device take part in this round? */
static bool is_free(const fedserver_training *t, int64_t device, uint32_t round) {
    const int64_t last = fedserver_marks_get(&t->ledger.last, device, 0);
    const int64_t apart = fedserver_task_apart(&t->task);
    return is_charged(t, device, round) ||
           (fedserver_marks_get(&t->ledger.taken, device, 0) < (int64_t)t->task.participations &&
            (apart == 1 || last == 0 || (int64_t)round >= last + apart));
}

bool fedserver_ledger_allows(const fedserver_training *t, int64_t device) {
    return !fedserver_task_promises(&t->task) ||
           is_free(t, device, fedserver_round_counting(&t->round));
}

static int by_device(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The digest of the set: SHA-256 of task, round and, in their order, the ids of its devices. Each
 * has one update in a round, and the key is the round's, so this names the updates. */
static fed_status name_set(fedserver_training *t, fed_error *err) {
    int64_t *devices = malloc(t->sum.updates * sizeof *devices);
    fed_writer w;
    fed_writer_growing(&w);
    if (devices == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices of a round");
    }
    for (uint32_t k = 0; k < t->sum.updates; k++) {
        devices[k] = t->sum.contributions[k].device;
    }
    qsort(devices, t->sum.updates, sizeof *devices, by_device);
    fed_write_u64(&w, t->task.wire.id);
    fed_write_u32(&w, t->round.number);
    for (uint32_t k = 0; k < t->sum.updates; k++) {
        fed_write_u64(&w, (uint64_t)devices[k]);
    }
    const fed_status status = w.status;
    if (status == FED_OK) {
        fed_sha256(w.data, w.len, t->settled.set_digest);
    }
    fed_writer_free(&w);
    free(devices);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "out of memory for the devices of a round");
}

static fed_status charge_devices(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    FED_TRY(rounds->store->ledger_charge(rounds->db, t->task.wire.id, t->round.number, err));
    for (uint32_t k = 0; k < t->sum.updates; k++) {
        const int64_t device = t->sum.contributions[k].device;
        if (is_charged(t, device, t->round.number)) {
            continue;
        }
        if (!is_free(t, device, t->round.number)) {
            return fed_fail(err, FED_ESTATE,
                            "task %llu: device %lld has no participation now, and an update in "
                            "round %u; nothing of the round is released",
                            (unsigned long long)t->task.wire.id, (long long)device,
                            t->round.number);
        }
        FED_TRY(fedserver_marks_set(&t->ledger.taken, device,
                                    fedserver_marks_get(&t->ledger.taken, device, 0) + 1, err));
        FED_TRY(fedserver_marks_set(&t->ledger.last, device, t->round.number, err));
    }
    return FED_OK;
}

fed_status fedserver_ledger_charge(fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    if (!fedserver_task_promises(&t->task)) {
        return FED_OK;
    }
    /* S19 in docs/durability.md: a round is charged once, before its noise has a key. */
    assert(t->round.phase == FEDSERVER_ROUND_CLOSING && t->settled.sigma2 == 0);
    assert(t->sum.updates == t->round.received);
    FED_TRY(charge_devices(rounds, t, err));
    FED_TRY(name_set(t, err));
    const fed_privacy told = fedserver_privacy_of(&t->task, &t->arch.layout);
    t->settled.clip = told.clip;
    t->settled.sigma2 = told.sigma2;
    t->settled.rho = fedserver_promise_of(&t->task, &t->arch.layout).cost;
    if (!fedserver_task_adds_noise(&t->task)) {
        return FED_OK; /* the helper has a key of its own */
    }
    const fed_status status = fed_random(t->settled.noise_key, sizeof t->settled.noise_key);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "the system gives no random bytes for a round's noise");
}

fed_status fedserver_ledger_left_out(fedserver_training *t, fed_error *err) {
    if (!fedserver_task_promises(&t->task)) {
        return FED_OK;
    }
    if (t->round.phase == FEDSERVER_ROUND_CLOSING) {
        return name_set(t, err);
    }
    t->settled = (fedserver_settled_set){0};
    return FED_OK;
}

/* Where the noise of earlier rounds lies. */
typedef struct earlier_rounds {
    fedserver_rounds *rounds;
    const fedserver_training *t;
} earlier_rounds;

static fed_status read_earlier(void *user, uint32_t back, uint8_t *bytes, size_t len, bool *found,
                               fed_error *err) {
    const earlier_rounds *e = user;
    *found = false;
    return e->t->round.number <= back
               ? FED_OK
               : e->rounds->store->opening_find(e->rounds->db, e->t->task.wire.id,
                                                e->t->round.number - back, bytes, len, found, err);
}

/* Draw correlated noise, and store it for the rounds to come. Made again after a death, it is the
 * same: the noise of earlier rounds is still there. */
static fed_status draw_correlated(fedserver_rounds *rounds, const fedserver_training *t,
                                  int64_t *noise, size_t fields, fed_error *err) {
    const size_t len = fields * FEDSERVER_CORRELATED;
    earlier_rounds user = {rounds, t};
    fedserver_correlated which = {.key = t->settled.noise_key,
                                  .set = t->settled.set_digest,
                                  .apart = fedserver_task_apart(&t->task),
                                  .count = fields};
    /* A stored task was checked, so its noise is not too loud. */
    FED_TRY(fedserver_correlated_variance(t->settled.sigma2, &which.variance));
    uint8_t *bytes = malloc(len);
    if (bytes == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a round's noise");
    }
    fed_status status = fedserver_correlated_draw(&which, read_earlier, &user, bytes, err);
    if (status == FED_OK) {
        status = rounds->store->opening_put(rounds->db, t->task.wire.id, t->round.number, bytes,
                                            len, err);
    }
    if (status == FED_OK && rounds->stop != NULL) { /* a thread keeps no transaction open */
        status = rounds->store->commit(rounds->db, err);
    }
    if (status == FED_OK) {
        fedserver_correlated_levels(bytes, noise, fields);
    }
    fed_wipe(bytes, len);
    free(bytes);
    return status;
}

/* Draw the noise of one group; of the whole set, where the task has no groups. */
static fed_status draw_noise(fedserver_rounds *rounds, const fedserver_training *t, uint32_t group,
                             int64_t *noise, size_t fields, fed_error *err) {
    fedserver_variance variance;
    uint8_t set[FED_SHA256_SIZE];
    fedserver_grouping_set(t->settled.set_digest, fedserver_task_groups(&t->task), group, set);
    if (fedserver_task_apart(&t->task) > 1) {
        return draw_correlated(rounds, t, noise, fields, err);
    }
    const fed_privacy told = fedserver_privacy_of(&t->task, &t->arch.layout);
    fed_status status = fedserver_variance_of(t->settled.sigma2, &variance);
    if (status == FED_OK) {
        status = fedserver_noise_draw(t->settled.noise_key, set, variance, noise, fields);
    }
    if (status == FED_OK) {
        status = fedserver_count_noise(&told, t->settled.noise_key, set, noise + fields);
    }
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "the noise of round %u can't be drawn: %s",
                                       t->round.number, fed_status_text(status));
}

fed_status fedserver_ledger_open(fedserver_rounds *rounds, const fedserver_training *t,
                                 const fedcodec_ring *ring, uint32_t *sums, fed_error *err) {
    const size_t fields = ring->shape.fields, all = ring->shape.all;
    if (!fedserver_task_adds_noise(&t->task)) {
        return FED_OK;
    }
    /* S19 in docs/durability.md: the round is charged. */
    assert(t->settled.sigma2 > 0);
    int64_t *noise = malloc(all * sizeof *noise);
    if (noise == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the noise of a round");
    }
    fed_status status = FED_OK;
    for (uint32_t g = 0; g < fedserver_task_groups(&t->task) && status == FED_OK; g++) {
        status = draw_noise(rounds, t, g, noise, fields, err);
        for (size_t i = 0; i < all && status == FED_OK; i++) {
            sums[g * all + i] += (uint32_t)noise[i];
        }
    }
    fed_wipe(noise, all * sizeof *noise);
    free(noise);
    return status;
}

void fedserver_ledger_adapt(fedserver_training *t, double share) {
    const double rate = 0.2, least = 1e-6, most = 1e6;
    if (fedserver_task_adapts(&t->task) && !isnan(share)) {
        const double clip = (double)fedserver_task_clip(&t->task) *
                            exp(-rate * (share - (double)t->task.clip_quantile));
        set_clip(t, fmin(fmax(clip, least), most));
    }
}

fed_status fedserver_ledger_forget(fedserver_rounds *rounds, const fedserver_training *t,
                                   fed_error *err) {
    const uint32_t number = t->round.number, kept = fedserver_task_apart(&t->task) - 1;
    const bool ends = number >= t->task.rules.rounds;
    if (fedserver_task_apart(&t->task) == 1 || !fedserver_task_adds_noise(&t->task) ||
        (!ends && number <= kept)) {
        return FED_OK;
    }
    return rounds->store->opening_clear(rounds->db, t->task.wire.id, ends ? number : number - kept,
                                        err);
}

fed_status fedserver_ledger_next(fedserver_rounds *rounds, fedserver_training *t, fed_error *err) {
    uint64_t left = 1;
    t->settled = (fedserver_settled_set){0};
    if (fedserver_task_promises(&t->task)) {
        FED_TRY(rounds->store->ledger_left(rounds->db, t->task.wire.id, t->task.tag,
                                           t->task.participations, 0, 0, &left, err));
    }
    if (left == 0 && t->round.number < t->task.rules.rounds) {
        const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
        fed_logf_about(rounds->log, FED_LOG_WARN, &about,
                       "task %llu (%s): round %u is the last one for its budget: every device has "
                       "taken part %u times",
                       (unsigned long long)t->task.wire.id, t->task.name, t->round.number,
                       t->task.participations);
        t->task.rules.rounds = t->round.number;
    }
    return FED_OK;
}
