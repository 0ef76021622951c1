/* The form `masked` of updates: fields of a private task, of which only the sum is read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/masked.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/own_metrics.h"
#include "fed/private_terms.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/rounds/ledger.h"
#include "fedserver/task/private_task.h"

extern const fedserver_intake fedserver_intake_masked;

fedcodec_ring fedserver_masked_ring(const fedserver_task *task, const fed_layout *layout,
                                    uint32_t round) {
    fedcodec_ring ring = {.shape = fedserver_private_fields(task, layout)};
    const fed_privacy told = fedserver_privacy_of(task, layout);
    fed_privacy_draw(task->wire.id, fed_privacy_drawn(&told, round), ring.draw);
    return ring;
}

/* What stands before the fields: FED_OWN_ENVELOPE, and what the device says to its helpers. */
static size_t head_bytes(const fedserver_task *task) {
    const unsigned helpers = fedserver_task_has_helper(task);
    return helpers > 0 ? 1 + fed_private_bytes(helpers) : FED_PRIVATE_HEAD;
}

fed_status fedserver_masked_most_bytes(const fedserver_task *task, const fed_layout *layout,
                                       const fedserver_phase *phase, uint64_t *most,
                                       fed_error *err) {
    (void)phase; /* no phase of a private task changes the codec */
    (void)err;
    const fed_privacy_fields shape = fedserver_private_fields(task, layout);
    /* The steps of another clip are rounded otherwise, and w may be one bit more. */
    *most = head_bytes(task) + shape.bytes + (fedserver_task_adapts(task) ? shape.all / 8 + 1 : 0);
    return FED_OK;
}

/* An update says nothing of the device's data beside its fields. */
static fed_status check_head(const fedserver_update *update, fed_error *why) {
    if (update->head.samples != 1 || update->head.loss != 0 || update->own.count > 0) {
        return fed_fail(why, FED_EFORMAT,
                        "an update of a private task has 1 sample, loss 0 and no custom metrics; "
                        "this device's software says more");
    }
    return FED_OK;
}

/* The fields are the last bytes of the update. Before them stands how they are masked. */
const uint8_t *fedserver_masked_fields(const fedserver_update *update, size_t bytes) {
    return update->envelope + (update->envelope_len - bytes);
}

fed_status fedserver_masked_check(const fedserver_task *task, const fed_layout *layout,
                                  fedserver_update *update, fed_error *why) {
    const fedcodec_ring ring = fedserver_masked_ring(task, layout, update->head.round);
    const size_t bytes = ring.shape.bytes;
    const unsigned helpers = fedserver_task_has_helper(task);
    FED_TRY(check_head(update, why));
    if (update->envelope_len != head_bytes(task) + bytes) {
        return fed_fail(why, FED_EFORMAT, "this task's updates have %zu bytes of fields, not %zu",
                        bytes, update->envelope_len);
    }
    if (update->envelope[0] != FED_OWN_ENVELOPE || update->envelope[1] != helpers) {
        return fed_fail(why, FED_EFORMAT, "the update is for %u helpers; this task has %u",
                        (unsigned)update->envelope[1], helpers);
    }
    /* Masked fields are any bits: what a device hides there, rounds/openings.h can't see either. */
    return helpers > 0
               ? FED_OK
               : fedcodec_ring_check(&ring, fedserver_masked_fields(update, bytes), bytes, why);
}

void fedserver_masked_drop(fedserver_update *update) {
    (void)update; /* it owns nothing */
}

fed_status fedserver_masked_add(fedserver_sum *sum, const fedserver_update *update,
                                const fedserver_contribution *contribution, fed_error *err) {
    fedserver_contribution noted = *contribution;
    /* D3 in docs/durability.md: each device counts once, so the sum can't wrap around. */
    assert(noted.weight == 1);
    FED_TRY(fedserver_sum_reserve(sum, err));
    fedcodec_ring_add(&(fedcodec_ring){.shape = sum->shape},
                      fedserver_masked_fields(update, sum->shape.bytes), sum->fields);
    noted.loss = NAN;
    fedserver_sum_note(sum, &noted);
    return FED_OK;
}

double fedserver_masked_longest(const fedcodec_ring *ring, uint32_t updates, double sigma2) {
    const double rounding = 1e-9, tail = 8;
    return (1 + rounding) * ((double)updates * ring->shape.reach +
                             sqrt(sigma2) * (sqrt((double)ring->shape.fields) + tail));
}

double fedserver_masked_noise(const fed_privacy *told) {
    const double parties = told->helpers > 0 ? 2 : 1, correlated = told->apart > 1 ? 1.35 : 1;
    return parties * correlated * told->sigma2;
}

fed_status fedserver_masked_open(fedserver_rounds *rounds, const fedserver_training *t,
                                 const fedcodec_ring *ring, uint32_t *sums, fed_error *err) {
    if (rounds->opening != NULL) {
        FED_TRY(rounds->opening(rounds, t, ring, sums, err));
    }
    return fedserver_ledger_open(rounds, t, ring, sums, err);
}

/* A count is the sum of 1 for each short update, -1 for each other, and noise. */
static double share_of(const fedcodec_ring *ring, const uint32_t *sums, uint32_t updates) {
    if (ring->shape.all == ring->shape.fields) {
        return (double)NAN;
    }
    const double count = (double)(int32_t)sums[ring->shape.fields];
    return fmin(fmax((count + updates) / (2.0 * updates), 0), 1);
}

/* Open a copy of the sum, and make it the change. */
static fed_status open_sum(fedserver_rounds *rounds, const fedserver_training *t,
                           const fedcodec_ring *ring, uint32_t *sums, fedserver_weights *weights,
                           float *change, fed_error *err) {
    FED_TRY(fedserver_masked_open(rounds, t, ring, sums, err));
    const fed_privacy told = fedserver_privacy_of(&t->task, &t->arch.layout);
    const double sigma2 = fedserver_masked_noise(&told);
    const double length = fedcodec_ring_sums(ring, sums);
    const double longest = fedserver_masked_longest(ring, t->sum.updates, sigma2);
    weights->share = (double)NAN;
    if (length > longest) {
        weights->length = length;
        weights->longest = longest;
        weights->lost = t->sum.updates;
        memset(change, 0, t->arch.layout.size * sizeof *change);
        return FED_OK;
    }
    /* A divisor that follows from the data would say something of it. */
    weights->share = share_of(ring, sums, t->sum.updates);
    const uint32_t divisor =
        fedserver_task_promises(&t->task) ? t->task.rules.goal : t->sum.updates;
    fedcodec_ring_change(ring, sums, (double)divisor, change);
    return FED_OK;
}

static fed_status combine(fedserver_rounds *rounds, fedserver_training *t,
                          fedserver_weights *weights, float *change, fed_error *err) {
    bool refold = false;
    const double no_limit = 1;
    FED_TRY(fedserver_sum_settle(&t->sum, no_limit, weights, &refold, err));
    /* D3 in docs/durability.md: each update counts once, whatever its device claims. */
    assert(!refold && weights->weight == t->sum.updates && t->sum.fields != NULL);
    const fedcodec_ring ring = fedserver_masked_ring(&t->task, &t->arch.layout, t->round.number);
    uint32_t *sums = malloc(ring.shape.all * sizeof *sums);
    if (sums == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the sum of a private round");
    }
    memcpy(sums, t->sum.fields, ring.shape.all * sizeof *sums);
    const fed_status status = open_sum(rounds, t, &ring, sums, weights, change, err);
    free(sums);
    return status;
}

const fedserver_intake fedserver_intake_masked = {
    .name = "masked",
    .takes = fedserver_task_is_private,
    .most_bytes = fedserver_masked_most_bytes,
    .open = fedserver_masked_check,
    .drop = fedserver_masked_drop,
    .add = fedserver_masked_add,
    .combine = combine,
};
