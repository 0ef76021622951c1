/* The exact integer sum of a round's updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_AGGREGATE_H
#define FEDSERVER_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fed/privacy.h"
#include "fedcodec/envelope.h"
#include "fedserver/rounds/device_counts.h"
#include "fedserver/rounds/weights.h"
#include "fedserver/strategies/strategy.h"

typedef struct fedserver_sum {
    /* [size]: sum of weight * rint(value * 2^30). NULL: the strategy needs all updates at once */
    int64_t *acc;
    /* Of a private task instead of acc, [shape.all]: the sum of all fields modulo 2^32. */
    uint32_t *fields;
    fed_privacy_fields shape;
    /* [size]: an update's decoded values; NULL: they are added straight from the message */
    float *decoded;
    size_t size, trained;
    fedserver_strategy strategy;
    fedserver_contribution *contributions; /* [updates], in the order of arrival */
    uint32_t updates, cap;
    fedserver_device_counts counts;
    uint64_t samples;
    /* The sum of the claimed weights; after fedserver_sum_settle, the divisor of acc. If the claims
     * reach FEDCODEC_FOLD_WEIGHT, acc is incomplete until fedserver_sum_refold. */
    uint64_t weight;
    uint64_t bytes;
} fedserver_sum;

/** Make an empty sum. shape: of a private task's fields (rounds/masked.h); NULL: the task is not
 * private. Owner: fedserver_sum_free. */
fed_status fedserver_sum_init(fedserver_sum *sum, const fed_layout *layout,
                              const fedserver_strategy *strategy,
                              const fed_privacy_fields *shape) FED_CHECKED;
void fedserver_sum_free(fedserver_sum *sum);
void fedserver_sum_clear(fedserver_sum *sum);

/** Add an update's values, and record its contribution with the values' norms. After an error the
 * sum is unchanged. FED_ERANGE: a value is too large for the sum. FED_ENOMEM: out of memory. */
fed_status fedserver_sum_add(fedserver_sum *sum, const fedcodec_message *values,
                             fedserver_contribution contribution, fed_error *err) FED_CHECKED;

/** Record a contribution without its values: make room for it, then record it. The caller has set
 * the norms. */
fed_status fedserver_sum_reserve(fedserver_sum *sum, fed_error *err) FED_CHECKED;
void fedserver_sum_note(fedserver_sum *sum, const fedserver_contribution *contribution);

/** Compute each update's final weight (rounds/weights.h). The sum must have an update. most: the
 * largest share of one device. If *refold is true, acc was cleared: call fedserver_sum_refold with
 * each update's values, in the order of arrival. */
fed_status fedserver_sum_settle(fedserver_sum *sum, double most, fedserver_weights *weights,
                                bool *refold, fed_error *err) FED_CHECKED;
fed_status fedserver_sum_refold(fedserver_sum *sum, uint32_t number, const fedcodec_message *values,
                                fed_error *err) FED_CHECKED;

/** mean[i] = acc[i] / (2^30 * weight), rounded once to float32. Only after fedserver_sum_settle,
 * for a sum with `acc`. */
void fedserver_sum_mean(const fedserver_sum *sum, float *mean);

/** Decode an update's values into sum->decoded, and let the strategy change them. Only for a sum
 * with `decoded`. */
fed_status fedserver_sum_decode(const fedserver_sum *sum, const fedcodec_message *values,
                                fed_error *err) FED_CHECKED;

#endif
