/* Adds updates to the exact sum, and computes the mean of the sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/aggregate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

fed_status fedserver_sum_init(fedserver_sum *sum, const fed_layout *layout,
                              const fedserver_strategy *strategy) {
    bool all = fedserver_strategy_needs_all(strategy);
    bool changes = fedserver_strategy_changes(strategy);
    fedserver_sum made = {.size = layout->size,
                          .trained = fedserver_trained(layout),
                          .strategy = *strategy,
                          .acc = all ? NULL : calloc(layout->size, sizeof *made.acc),
                          .decoded =
                              all || changes ? malloc(layout->size * sizeof *made.decoded) : NULL};
    if ((made.acc == NULL && !all) || (made.decoded == NULL && (all || changes))) {
        fedserver_sum_free(&made);
        return FED_ENOMEM;
    }
    *sum = made;
    return FED_OK;
}

void fedserver_sum_free(fedserver_sum *sum) {
    free(sum->acc);
    free(sum->decoded);
    free(sum->claims);
    fedserver_tally_free(&sum->tally);
    *sum = (fedserver_sum){0};
}

void fedserver_sum_clear(fedserver_sum *sum) {
    if (sum->acc != NULL) {
        memset(sum->acc, 0, sum->size * sizeof *sum->acc);
    }
    fedserver_tally_clear(&sum->tally);
    sum->updates = 0;
    sum->samples = sum->weight = sum->bytes = 0;
}

fed_status fedserver_sum_decode(const fedserver_sum *sum, const fedcodec_message *values,
                                fed_error *err) {
    assert(sum->decoded != NULL && values->layout->size == sum->size); /* D3 */
    FED_TRY(fedcodec_message_decode(values, sum->decoded, err));
    fedserver_strategy_update(&sum->strategy, sum->decoded, sum->trained);
    return FED_OK;
}

/* As fedcodec_message_fold, but changes the values before it adds them. */
static fed_status fold_changed(fedserver_sum *sum, const fedcodec_message *values, int64_t weight,
                               fed_error *err) {
    FED_TRY(fedserver_sum_decode(sum, values, err));
    for (size_t i = 0; i < sum->size; i++) {
        if (!(fabsf(sum->decoded[i]) <= FEDCODEC_FOLD_LIMIT)) {
            return fed_fail(err, FED_ERANGE, "a value of magnitude %g; the sum takes up to %g",
                            (double)fabsf(sum->decoded[i]), (double)FEDCODEC_FOLD_LIMIT);
        }
    }
    const double scale = (double)(INT64_C(1) << FEDCODEC_FOLD_BITS);
    for (size_t i = 0; i < sum->size; i++) {
        sum->acc[i] += weight * (int64_t)rint((double)sum->decoded[i] * scale);
    }
    return FED_OK;
}

static fed_status fold(fedserver_sum *sum, const fedcodec_message *values, int64_t weight,
                       fed_error *err) {
    assert(weight > 0 && weight < FEDCODEC_FOLD_WEIGHT); /* D3: the sum can't overflow */
    if (sum->acc == NULL) {
        return FED_OK;
    }
    return sum->decoded != NULL ? fold_changed(sum, values, weight, err)
                                : fedcodec_message_fold(values, weight, sum->acc, err);
}

fed_status fedserver_sum_reserve(fedserver_sum *sum, fed_error *err) {
    enum { FIRST = 16 };
    if (fedserver_tally_reserve(&sum->tally) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices of a round");
    }
    if (sum->updates < sum->cap) {
        return FED_OK;
    }
    const uint32_t cap = sum->cap > 0 ? 2 * sum->cap : FIRST;
    fedserver_claim *grown = realloc(sum->claims, cap * sizeof *grown);
    if (grown == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %u updates of a round", cap);
    }
    sum->claims = grown;
    sum->cap = cap;
    return FED_OK;
}

void fedserver_sum_note(fedserver_sum *sum, const fedserver_claim *claim) {
    assert(sum->updates < sum->cap);
    sum->claims[sum->updates++] = *claim;
    fedserver_tally_add(&sum->tally, claim->device);
    assert(sum->tally.used <= sum->updates); /* S3: who is in the tally has an update */
    sum->samples += claim->samples;
    sum->weight += claim->weight;
    sum->bytes += claim->bytes;
}

fed_status fedserver_sum_add(fedserver_sum *sum, const fedcodec_message *values,
                             fedserver_claim claim, fed_error *err) {
    assert(values->layout->size == sum->size); /* D4: no value is left out */
    FED_TRY(fedserver_sum_reserve(sum, err));
    FED_TRY(fedcodec_message_norm(values, &claim.norm, err));
    claim.counted = fedserver_strategy_norm(&sum->strategy, claim.norm);
    if (sum->weight + claim.weight < (uint64_t)FEDCODEC_FOLD_WEIGHT) {
        FED_TRY(fold(sum, values, (int64_t)claim.weight, err));
    }
    fedserver_sum_note(sum, &claim);
    return FED_OK;
}

fed_status fedserver_sum_settle(fedserver_sum *sum, double most, fedserver_shares *shares,
                                bool *refold, fed_error *err) {
    fed_status status = fedserver_shares_settle(sum->claims, sum->updates, most, shares);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for the %u updates of a round", sum->updates);
    }
    assert(!shares->as_claimed || shares->weight == sum->weight); /* D3: it divides this sum */
    *refold = !shares->as_claimed && sum->acc != NULL;
    assert(shares->weight < (uint64_t)FEDCODEC_FOLD_WEIGHT); /* D3: the sum can't overflow */
    sum->weight = shares->weight;
    if (*refold) {
        memset(sum->acc, 0, sum->size * sizeof *sum->acc);
    }
    return FED_OK;
}

fed_status fedserver_sum_refold(fedserver_sum *sum, uint32_t number, const fedcodec_message *values,
                                fed_error *err) {
    /* D2: each stored update counts once, and no other update counts */
    assert(number < sum->updates);
    const uint32_t count = sum->claims[number].count;
    assert(count <= sum->claims[number].share); /* D3: the divisor bounds what is added */
    return count > 0 ? fold(sum, values, count, err) : FED_OK;
}

void fedserver_sum_mean(const fedserver_sum *sum, float *mean) {
    assert(sum->weight > 0 && sum->acc != NULL); /* D3: it is settled */
    double scale = (double)sum->weight * (double)(INT64_C(1) << FEDCODEC_FOLD_BITS);
    for (size_t i = 0; i < sum->size; i++) {
        mean[i] = (float)((double)sum->acc[i] / scale);
    }
}
