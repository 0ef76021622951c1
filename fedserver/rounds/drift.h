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
 * the statistics since that version is subtracted from a late update's change. The difference is a
 * change of the newest version. So a round's result lies between the newest version's statistics
 * and the measured ones, however late the updates are.
 */
typedef struct fedserver_drift {
    /* the range of the statistics in a model's values; count 0: there is nothing to do */
    size_t first, count;
    uint32_t oldest;  /* age of the oldest update, in versions */
    uint64_t *weight; /* [oldest + 1]: the sum of the counts of updates of age k */
    uint64_t all;     /* the divisor of the round's sum */
    /* (oldest, count): the newest version minus the version that is k + 1 versions older */
    float *moved;
} fedserver_drift;

/** Find the drift of the open round's updates, after their shares are settled. drift->count is 0
 * if the task is synchronous or its net has no running statistics. End with fedserver_drift_free,
 * also after a failure. */
fed_status fedserver_drift_find(fedserver_rounds *rounds, const fedserver_training *training,
                                fedserver_drift *drift, fed_error *err) FED_CHECKED;
void fedserver_drift_free(fedserver_drift *drift);

/**
 * Turn the change in an update of that age, in versions, into a change of the newest version.
 * values  float32[layout->size]
 */
void fedserver_drift_off_update(const fedserver_drift *drift, uint32_t age, float *values);

/**
 * Turn the round's weighted mean into a change of the newest version.
 * mean  float32[layout->size]
 */
void fedserver_drift_off_mean(const fedserver_drift *drift, float *mean);

/** Late updates no longer need the deltas up to this version. */
uint32_t fedserver_drift_reach(const fedserver_training *training);

#endif
