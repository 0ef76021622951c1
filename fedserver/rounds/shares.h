/* What each update of a round counts for: settled from all of them when the round commits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SHARES_H
#define FEDSERVER_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * An update claims a weight: its samples, times the weight of its age. Three rules change claims:
 *
 *   1. All claims of one device together are lowered to `most` of the round's weight.
 *   2. A device's reach is the sum of weight * norm of its updates. If it is above `most` of the
 *      round's reach, the values of its updates are added fewer times, which shortens them.
 *   3. All weights are multiplied by one power of two, so that the integer sum can't overflow.
 *
 * Rules 1 and 2 hold if `most` times the number of devices is above 1; with fewer devices one must
 * have more. All updates of a device are lowered by the same factor. The result is a function of
 * the set of claims, to the bit: it depends neither on their order nor on restarts.
 */

typedef struct fedserver_claim {
    int64_t device;
    uint64_t weight; /* its claim: samples, times the weight of its age */
    double norm;     /* of its trained values */
    uint32_t samples;
    uint32_t round; /* of the version that it was trained on */
    float loss;
    size_t bytes; /* of the update's body */
    /* settled: */
    uint32_t share; /* its weight; their sum is fedserver_shares.weight */
    uint32_t count; /* how often its values are added: share, or fewer */
} fedserver_claim;

typedef struct fedserver_shares {
    bool as_claimed; /* share and count of each are its weight */
    uint64_t weight; /* under FEDCODEC_FOLD_WEIGHT */
    double loss;     /* mean; with three losses or more none counts as over 100 times the median */
    int64_t heaviest, furthest; /* the devices with the largest claim, and the largest reach */
    double heaviest_share;      /* fraction of the claimed weight */
    double furthest_norm;       /* of its longest update */
    bool heaviest_lowered, furthest_lowered; /* by rule 1, by rule 2 */
} fedserver_shares;

/**
 * Settle claims[count], count >= 1. most: 1 or more for no limit. clip_norm: the norm to which the
 * strategy clips each update; 0: none. FED_ENOMEM: nothing is settled.
 */
fed_status fedserver_shares_settle(fedserver_claim *claims, size_t count, double most,
                                   double clip_norm, fedserver_shares *shares) FED_CHECKED;

#endif
