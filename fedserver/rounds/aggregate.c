/* Adds updates to the exact sum, and computes the mean of the sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/aggregate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

fed_status fedserver_sum_init(fedserver_sum *sum, const fed_layout *layout,
                              const fedserver_strategy *strategy, const fed_privacy_fields *shape) {
    bool all = fedserver_strategy_needs_all(strategy);
    bool changes = fedserver_strategy_changes(strategy);
    fedserver_sum made = {
        .size = layout->size,
        .trained = fedserver_trained(layout),
        .strategy = *strategy,
        .acc = all || shape != NULL ? NULL : calloc(layout->size, sizeof *made.acc),
        .fields = shape != NULL ? calloc(shape->all, sizeof *made.fields) : NULL,
        .decoded = all || changes ? malloc(layout->size * sizeof *made.decoded) : NULL};
    if (shape != NULL) {
        made.shape = *shape;
    }
    const bool no_sum = shape != NULL ? made.fields == NULL : made.acc == NULL && !all;
    if (no_sum || (made.decoded == NULL && (all || changes))) {
        fedserver_sum_free(&made);
        return FED_ENOMEM;
    }
    *sum = made;
    return FED_OK;
}

void fedserver_sum_free(fedserver_sum *sum) {
    free(sum->acc);
    free(sum->fields);
    free(sum->decoded);
    free(sum->contributions);
    fedserver_device_counts_free(&sum->counts);
    *sum = (fedserver_sum){0};
}

void fedserver_sum_clear(fedserver_sum *sum) {
    if (sum->acc != NULL) {
        memset(sum->acc, 0, sum->size * sizeof *sum->acc);
    }
    if (sum->fields != NULL) {
        memset(sum->fields, 0, sum->shape.all * sizeof *sum->fields);
    }
    fedserver_device_counts_clear(&sum->counts);
    sum->updates = 0;
    sum->samples = sum->weight = sum->bytes = 0;
}

fed_status fedserver_sum_decode(const fedserver_sum *sum, const fedcodec_message *values,
                                fed_error *err) {
    /* D3 in docs/durability.md: the values have the model's shape. */
    assert(sum->decoded != NULL && values->layout->size == sum->size);
    double norm = 0;
    FED_TRY(fedcodec_message_decode(values, sum->decoded, err));
    FED_TRY(fedcodec_message_norm(values, &norm, err));
    fedserver_strategy_update(&sum->strategy, norm, sum->decoded, sum->trained);
    return FED_OK;
}

/* Let the strategy change the update's values, then add them to the sum. */
static fed_status fold_changed(fedserver_sum *sum, const fedcodec_message *values, int64_t weight,
                               fed_error *err) {
    FED_TRY(fedserver_sum_decode(sum, values, err));
    for (size_t i = 0; i < sum->size; i++) {
        if (!(fabsf(sum->decoded[i]) <= FEDCODEC_FOLD_LIMIT)) {
            return fed_fail(err, FED_ERANGE,
                            "the update has a value of magnitude %g; the sum takes up to %g",
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
    /* D3 in docs/durability.md: the integer sum can't overflow. */
    assert(weight > 0 && weight < FEDCODEC_FOLD_WEIGHT);
    if (sum->acc == NULL) {
        return FED_OK;
    }
    return sum->decoded != NULL ? fold_changed(sum, values, weight, err)
                                : fedcodec_message_fold(values, weight, sum->acc, err);
}

fed_status fedserver_sum_reserve(fedserver_sum *sum, fed_error *err) {
    enum { FIRST = 16 };
    if (fedserver_device_counts_reserve(&sum->counts) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the devices of a round");
    }
    if (sum->updates < sum->cap) {
        return FED_OK;
    }
    const uint32_t cap = sum->cap > 0 ? 2 * sum->cap : FIRST;
    fedserver_contribution *grown = realloc(sum->contributions, cap * sizeof *grown);
    if (grown == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %u updates of a round", cap);
    }
    sum->contributions = grown;
    sum->cap = cap;
    return FED_OK;
}

void fedserver_sum_note(fedserver_sum *sum, const fedserver_contribution *contribution) {
    assert(sum->updates < sum->cap);
    sum->contributions[sum->updates++] = *contribution;
    fedserver_device_counts_add(&sum->counts, contribution->device);
    /* S3 in docs/durability.md: each counted device has at least one update. */
    assert(sum->counts.used <= sum->updates);
    sum->samples += contribution->samples;
    sum->weight += contribution->weight;
    sum->bytes += contribution->bytes;
}

fed_status fedserver_sum_add(fedserver_sum *sum, const fedcodec_message *values,
                             fedserver_contribution contribution, fed_error *err) {
    /* D4 in docs/durability.md: every value of the update is added. */
    assert(values->layout->size == sum->size);
    FED_TRY(fedserver_sum_reserve(sum, err));
    FED_TRY(fedcodec_message_norm(values, &contribution.norm, err));
    contribution.counted = fedserver_strategy_norm(&sum->strategy, contribution.norm);
    if (sum->weight + contribution.weight < (uint64_t)FEDCODEC_FOLD_WEIGHT) {
        FED_TRY(fold(sum, values, (int64_t)contribution.weight, err));
    }
    fedserver_sum_note(sum, &contribution);
    return FED_OK;
}

fed_status fedserver_sum_settle(fedserver_sum *sum, double most, fedserver_weights *weights,
                                bool *refold, fed_error *err) {
    fed_status status = fedserver_weights_settle(sum->contributions, sum->updates, most, weights);
    if (status != FED_OK) {
        return fed_fail(err, status, "out of memory for the %u updates of a round", sum->updates);
    }
    /* D3 in docs/durability.md: the weight is the divisor of this sum. */
    assert(!weights->as_claimed || weights->weight == sum->weight);
    *refold = !weights->as_claimed && sum->acc != NULL;
    /* D3 in docs/durability.md: the integer sum can't overflow. */
    assert(weights->weight < (uint64_t)FEDCODEC_FOLD_WEIGHT);
    sum->weight = weights->weight;
    if (*refold) {
        memset(sum->acc, 0, sum->size * sizeof *sum->acc);
    }
    return FED_OK;
}

fed_status fedserver_sum_refold(fedserver_sum *sum, uint32_t number, const fedcodec_message *values,
                                fed_error *err) {
    /* D2 in docs/durability.md: only an update of this sum is added again. */
    assert(number < sum->updates);
    const uint32_t count = sum->contributions[number].count;
    /* D3 in docs/durability.md: no update counts for more than its share of the divisor. */
    assert(count <= sum->contributions[number].share);
    return count > 0 ? fold(sum, values, count, err) : FED_OK;
}

void fedserver_sum_mean(const fedserver_sum *sum, float *mean) {
    /* D3 in docs/durability.md: the divisor is not 0. */
    assert(sum->weight > 0 && sum->acc != NULL);
    double scale = (double)sum->weight * (double)(INT64_C(1) << FEDCODEC_FOLD_BITS);
    for (size_t i = 0; i < sum->size; i++) {
        mean[i] = (float)((double)sum->acc[i] / scale);
    }
}
