/* Computes what each update of a round counts for, from all updates, when the round commits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_WEIGHTS_H
#define FEDSERVER_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * An update claims a weight: its samples, times the factor of its age. Three rules change claims:
 * 1. If the claims of one device together are above `most` of the round's weight, they are
 *    lowered to it.
 * 2. A device's reach is the sum of weight * counted norm of its updates. If it is above `most` of
 *    the round's reach, the values of the device's updates are added fewer times, as if the
 *    updates were shorter.
 * 3. If rule 1 or 2 lowers anything, or the integer sum could overflow, all weights are multiplied
 *    by one power of two with which the sum can't overflow.
 *
 * Rules 1 and 2 apply if `most` times the number of devices is above 1. With fewer devices, one of
 * them must have more than `most`. All updates of a device are lowered by the same factor. The
 * result depends on the set of claims only, not on their order.
 */

typedef struct fedserver_contribution {
    int64_t device;
    uint64_t weight; /* the claim: the update's samples, times the factor of its age (round.h) */
    /* norm of the update's trained values: as received, and as the strategy changes them */
    double norm, counted;
    uint32_t samples;
    uint32_t round;
    float loss; /* NaN: none */
    size_t bytes;
    /* The fields from here on are set by fedserver_weights_settle. */
    uint32_t share; /* the update's final weight; all shares add up to fedserver_weights.weight */
    uint32_t count; /* how many times the update's values are added: share, or fewer */
} fedserver_contribution;

typedef struct fedserver_weights {
    bool as_claimed; /* share and count of each update equal its weight */
    uint64_t weight; /* sum of all shares, below FEDCODEC_FOLD_WEIGHT */
    /* Weighted mean of the updates that have a loss; NaN: none has. Three or more losses are cut to
     * 100 times their median size. */
    double loss;
    int64_t heaviest, furthest; /* the devices with the largest claim and the largest reach */
    double heaviest_share;
    double furthest_norm;                    /* the largest norm of the furthest device's updates */
    bool heaviest_lowered, furthest_lowered; /* heaviest: by rule 1; furthest: by rule 2 */
    /* Of a private task: a sum of updates is longer than it can be, so none of it counts. Both are
     * in levels, of the last such sum; 0: no sum is too long. */
    double length, longest;
    uint32_t lost; /* updates that do not count for that */
    /* With groups (rounds/grouped.h): the devices of the worst group. NULL: there is none. */
    int64_t *worst; /* [worst_count] */
    uint32_t worst_count;
    /* Of a private task with a count (fed/privacy.h): of the updates, how many were at most clip
     * long, from 0 to 1, as the noisy count says. NaN: unknown. */
    double share;
} fedserver_weights;

/** Settle contributions[count], count >= 1. most: the largest share of one device; no limit if
 * it is at most 0 or at least 1. FED_ENOMEM: nothing is settled. */
fed_status fedserver_weights_settle(fedserver_contribution *contributions, size_t count,
                                    double most, fedserver_weights *weights) FED_CHECKED;

#endif
