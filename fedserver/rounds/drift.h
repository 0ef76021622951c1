/* How far running statistics have moved since the versions that late updates were trained on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DRIFT_H
#define FEDSERVER_DRIFT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/rounds/rounds.h"

/*
 * A device measures batch normalization's statistics, and sends their change against the version
 * that it was trained on. A change of parameters can be added to a newer version. A change of
 * statistics can not: two updates that both say "10 has become 3" would make -4. So the movement of
 * the statistics since that version is subtracted from a late update's change, which then is a
 * change of the newest version. A round's result then lies between the newest version's statistics
 * and the measured ones, however late the updates are.
 */
typedef struct fedserver_drift {
    size_t first, count; /* the statistics in a model's values; count 0: nothing to do */
    uint32_t oldest;     /* age in versions of the oldest update */
    uint64_t *weight;    /* [oldest + 1]: how often updates of age k count */
    uint64_t all;        /* the divisor of the round's sum */
    float *moved;        /* (oldest, count): newest version minus the one k + 1 versions older */
} fedserver_drift;

/** Of the open round's updates, once their shares are settled. No count: the task is synchronous,
 * or its net has no such statistics. End with fedserver_drift_free, after a failure too. */
fed_status fedserver_drift_find(fedserver_rounds *rounds, fedserver_drift *drift,
                                fed_error *err) FED_CHECKED;
void fedserver_drift_free(fedserver_drift *drift);

/** Turn the change in an update of that age, in versions, into a change of the newest version.
 *    values  float32[layout->size] */
void fedserver_drift_off_update(const fedserver_drift *drift, uint32_t age, float *values);

/** The same for the round's weighted mean.   mean  float32[layout->size] */
void fedserver_drift_off_mean(const fedserver_drift *drift, float *mean);

/** Deltas up to this version are not needed any more to correct late updates. */
uint32_t fedserver_drift_reach(const fedserver_rounds *rounds);

#endif
