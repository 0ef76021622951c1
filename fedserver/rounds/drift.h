/* Corrects the running statistics of late updates by the model's changes since the updates'
 * versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DRIFT_H
#define FEDSERVER_DRIFT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/rounds/rounds.h"

/* A device measures the running statistics of batch normalization, and sends how they differ from
 * those of the version that it got. A change of parameters can be added to a newer version. A
 * change of statistics can not: two updates that both say "10 has become 3" would make -4. So the
 * movement of the statistics since that version is subtracted from a late update's change. The
 * difference is a change of the newest version. */
typedef struct fedserver_drift {
    size_t first, count; /* where the statistics lie in a model's values; count 0: none */
    uint32_t oldest;
    uint64_t *weight; /* [oldest + 1]: element k is the sum of the counts of updates of age k */
    uint64_t all;
    /* [oldest, count]: row k is the newest version's statistics minus those k + 1 versions ago */
    float *moved;
} fedserver_drift;

/** Find how far the statistics have moved. Call it after fedserver_sum_settle. drift->count is 0 if
 * the task is synchronous or its net has no running statistics. Call fedserver_drift_free
 * afterwards, also after a failure. */
fed_status fedserver_drift_find(fedserver_rounds *rounds, const fedserver_training *training,
                                fedserver_drift *drift, fed_error *err) FED_CHECKED;
void fedserver_drift_free(fedserver_drift *drift);

/** Turn the change of an update that is `age` versions old into a change of the newest version.
 * values: float32[layout->size] */
void fedserver_drift_off_update(const fedserver_drift *drift, uint32_t age, float *values);

/** Turn the round's weighted mean, float32[layout->size], into a change of the newest version. */
void fedserver_drift_off_mean(const fedserver_drift *drift, float *mean);

/** Deltas up to this version are no longer needed to correct late updates. */
uint32_t fedserver_drift_reach(const fedserver_training *training);

#endif
