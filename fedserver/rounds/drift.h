/* How far running statistics have moved since the models that a round's late updates are of. */
#ifndef FEDSERVER_DRIFT_H
#define FEDSERVER_DRIFT_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/rounds/rounds.h"

/*
 * A device measures batch normalization's statistics anew and sends their change against the model
 * that it was given. Of parameters, an older model's change is one to add; of statistics it is not:
 * several that all say "10 has become 3" would make -4. So a late update's change is made one of
 * the newest model first: what the statistics have moved by since is taken off. Then a round's
 * result lies between what the newest model has and what the devices measured, however late they
 * are.
 */
typedef struct fedserver_drift {
    size_t first, count; /* the statistics, in a model's values; no count: there is nothing to do */
    uint32_t oldest;     /* so many versions behind the newest is the oldest update's model */
    uint64_t *weight;    /* [oldest + 1]: how often those whose model is k versions behind count */
    uint64_t all;        /* what the round's sum is divided by */
    float *moved;        /* (oldest, count): the newest version less the one k + 1 behind it */
} fedserver_drift;

/** Of the open round's updates, once their shares are settled. No count: the task is synchronous,
 * or its net has no such statistics. End with fedserver_drift_free, after a failure too. */
fed_status fedserver_drift_find(fedserver_rounds *rounds, fedserver_drift *drift,
                                fed_error *err) FED_CHECKED;
void fedserver_drift_free(fedserver_drift *drift);

/** values, the change in an update whose model is `age` versions behind, become one of the newest.
 *    values  float32[layout->size] */
void fedserver_drift_off_update(const fedserver_drift *drift, uint32_t age, float *values);

/** The same of the round's weighted mean.   mean  float32[layout->size] */
void fedserver_drift_off_mean(const fedserver_drift *drift, float *mean);

/** Deltas that lead to versions up to this one are not needed for it any more. */
uint32_t fedserver_drift_reach(const fedserver_rounds *rounds);

#endif
