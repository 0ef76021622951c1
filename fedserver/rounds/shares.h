/* What each update of a round counts for: settled from all of them when the round commits. */
#ifndef FEDSERVER_SHARES_H
#define FEDSERVER_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/status.h"

/*
 * An update claims a weight, which is its samples. Three things keep claims from being taken as
 * they are:
 *
 *   1. A device's claims are lowered to `most` of the round's weight, those of all together.
 *   2. A device's reach is the sum of weight * norm of its updates. Values of one that reaches
 *      further than `most` of the round's reach are counted fewer times: they are shortened.
 *   3. All weights share one power of two, so that the integer sum can't overflow.
 *
 * 1 and 2 hold where `most` times the number of devices is above 1; with fewer devices somebody
 * must have more. A device's updates are lowered alike. All of it is a function of the set of
 * claims, to the bit: neither of their order nor of restarts.
 */

typedef struct fedserver_claim {
    int64_t device;
    uint64_t weight; /* what it claims: samples, times the weight of its age */
    double norm;     /* of its trained values */
    uint32_t samples;
    uint32_t round; /* whose model it was trained on */
    float loss;
    size_t bytes; /* of the update's body */
    /* settled: */
    uint32_t share; /* what it weighs; all together fedserver_shares.weight */
    uint32_t count; /* how often its values are added: share, or less */
} fedserver_claim;

typedef struct fedserver_shares {
    bool as_claimed; /* share and count of each are its weight */
    uint64_t weight; /* under FEDCODEC_FOLD_WEIGHT */
    double loss; /* mean; none counts for more than 100 times their median, where there are three */
    int64_t heaviest, furthest;              /* devices: who claims most, who reaches furthest; */
    double heaviest_share;                   /* of the weight that is claimed */
    double furthest_norm;                    /* of its longest update */
    bool heaviest_lowered, furthest_lowered; /* by rule 1, by rule 2 */
} fedserver_shares;

/**
 * Settle claims[count], count >= 1. most: 1 or more for no limit. clip_norm: a norm to which the
 * strategy shortens each update anyway; 0: none. Errors: FED_ENOMEM, nothing is settled.
 */
fed_status fedserver_shares_settle(fedserver_claim *claims, size_t count, double most,
                                   double clip_norm, fedserver_shares *shares) FED_CHECKED;

#endif
