/* The sum of a round's updates: exact integers, so that no order and no restart changes a bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_AGGREGATE_H
#define FEDSERVER_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fed/model.h"
#include "fedcodec/envelope.h"
#include "fedserver/rounds/device_counts.h"
#include "fedserver/rounds/weights.h"
#include "fedserver/strategies/strategy.h"

typedef struct fedserver_sum {
    /* [size]: sum of count * rint(value * 2^30). NULL: the strategy needs all updates at once,
     * and the sum only counts them */
    int64_t *acc;
    float *decoded; /* [size]: one update's values. NULL: the sum takes them from the message */
    size_t size, trained;
    fedserver_strategy strategy;
    fedserver_contribution *contributions; /* [updates], in the order of arrival */
    uint32_t updates, cap;
    fedserver_device_counts counts; /* how many of the claims are each device's */
    uint64_t samples;
    /* sum of the claims' weights. From FEDCODEC_FOLD_WEIGHT on, acc is no longer the sum, and the
     * commit folds all updates again. After fedserver_sum_settle: the divisor of acc */
    uint64_t weight;
    uint64_t bytes; /* bytes of all updates' bodies */
} fedserver_sum;

/** Make an empty sum. Owner: fedserver_sum_free. */
fed_status fedserver_sum_init(fedserver_sum *sum, const fed_layout *layout,
                              const fedserver_strategy *strategy) FED_CHECKED;
void fedserver_sum_free(fedserver_sum *sum);
void fedserver_sum_clear(fedserver_sum *sum);

/** Add an update's values and its claim, and set the norms in the claim. An error leaves the sum
 * as it was. FED_ERANGE: a value is too large for the sum. FED_ENOMEM. */
fed_status fedserver_sum_add(fedserver_sum *sum, const fedcodec_message *values,
                             fedserver_contribution contribution, fed_error *err) FED_CHECKED;

/** The two halves of fedserver_sum_add, for updates whose values the sum does not add: make room
 * for another claim; then note the claim, whose norms are set. */
fed_status fedserver_sum_reserve(fedserver_sum *sum, fed_error *err) FED_CHECKED;
void fedserver_sum_note(fedserver_sum *sum, const fedserver_contribution *contribution);

/** Settle what each update counts for, after all updates of the round have arrived (at least
 * one). If the counts differ from the claims and the strategy works from a sum, *refold is set and
 * the sum is 0. Then call fedserver_sum_refold with each update's values, in the order of arrival.
 */
fed_status fedserver_sum_settle(fedserver_sum *sum, double most, fedserver_weights *weights,
                                bool *refold, fed_error *err) FED_CHECKED;
fed_status fedserver_sum_refold(fedserver_sum *sum, uint32_t number, const fedcodec_message *values,
                                fed_error *err) FED_CHECKED;

/** mean[i] = acc[i] / (2^30 * weight), rounded once to float32. Only for a settled sum that has
 * `acc`. */
void fedserver_sum_mean(const fedserver_sum *sum, float *mean);

/** sum->decoded = an update's values, changed as the strategy's additions say. The same message
 * gives the same bits. Only for a sum that has `decoded`. */
fed_status fedserver_sum_decode(const fedserver_sum *sum, const fedcodec_message *values,
                                fed_error *err) FED_CHECKED;

#endif
