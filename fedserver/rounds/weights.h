/* What each update of a round counts for: settled when the round commits, from all updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_WEIGHTS_H
#define FEDSERVER_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * An update claims a weight: its samples, times the weight of its age. Three rules change claims:
 *
 *   1. All claims of one device together are lowered to `most` of the round's weight.
 *   2. A device's reach is the sum of weight * counted norm of its updates. If it is above `most`
 *      of the round's reach, the values of its updates are added fewer times, which shortens them.
 *   3. All weights are multiplied by one power of two, so that the integer sum can't overflow.
 *
 * Rules 1 and 2 hold if `most` times the number of devices is above 1; with fewer devices one must
 * have more. All updates of a device are lowered by the same factor. The result is a function of
 * the set of claims, to the bit: it depends neither on their order nor on restarts.
 */

typedef struct fedserver_contribution {
    int64_t device;
    uint64_t weight; /* the claim: the update's samples, times the weight of its age */
    /* the norm of the update's trained values: as it came, and as it is counted (additions.def) */
    double norm, counted;
    uint32_t samples;
    uint32_t round; /* the version that the update was trained on */
    float loss;
    size_t bytes; /* size of the update's body */
    /* The fields from here on are set by fedserver_weights_settle. */
    uint32_t share; /* its weight; their sum is fedserver_weights.weight */
    uint32_t count; /* how often the update's values are added: share, or fewer */
} fedserver_contribution;

typedef struct fedserver_weights {
    bool as_claimed; /* share and count of each update equal its weight */
    uint64_t weight; /* under FEDCODEC_FOLD_WEIGHT */
    /* mean loss; of three losses or more, none counts as more than 100 times the median */
    double loss;
    /* the device with the largest claim, and the device with the largest reach */
    int64_t heaviest, furthest;
    double heaviest_share;                   /* heaviest's fraction of the claimed weight */
    double furthest_norm;                    /* norm of furthest's longest update */
    bool heaviest_lowered, furthest_lowered; /* lowered by rule 1, lowered by rule 2 */
} fedserver_weights;

/**
 * Settle contributions[count], count >= 1.
 * most: 1 or more for no limit.
 * FED_ENOMEM: nothing is settled.
 */
fed_status fedserver_weights_settle(fedserver_contribution *contributions, size_t count,
                                    double most, fedserver_weights *weights) FED_CHECKED;

#endif
