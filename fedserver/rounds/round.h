/* A round's state machine: pure, so that every case can be tested without a database or a clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUND_H
#define FEDSERVER_ROUND_H

#include <stdint.h>

#include "fedserver/task/task.h"

/*
 * One machine for two kinds of tasks.
 *
 * Synchronous (staleness 0): a round leases each slot once, and waits for `goal` updates or for the
 * deadline. An attempt that misses the minimum is abandoned, and its leases end.
 *
 * Asynchronous (FedBuff): a slot is free again once its device has reported, or once its lease has
 * ended at a time of its own. Leases stand from round to round. No attempt is abandoned.
 */

typedef enum fedserver_round_phase {
    FEDSERVER_ROUND_NONE = 0, /* no task runs */
    FEDSERVER_ROUND_OPEN = 1, /* slots are free */
    FEDSERVER_ROUND_FULL = 2  /* every slot is taken */
} fedserver_round_phase;

typedef struct fedserver_round {
    fedserver_round_phase phase;
    uint32_t number, attempt; /* both count from 1 */
    uint32_t leased;          /* slots taken: the leases of this attempt, and all that have
                                 reported; asynchronous: the leases that stand */
    uint32_t received;        /* updates counted, of every attempt */
    int64_t opened_ms;
    int64_t deadline_ms; /* 0: the deadline does not run yet */
} fedserver_round;

/** What happened. The caller has looked up the lease of the device. A lease stands as long as an
 * update with it would count. */
typedef enum fedserver_round_event {
    FEDSERVER_ON_START = 0,        /* a task starts with round 1 */
    FEDSERVER_ON_RESUMED,          /* a task that was set aside goes on with its open round */
    FEDSERVER_ON_TICK,             /* time has passed, or an update was counted */
    FEDSERVER_ON_COMMITTED,        /* the caller has done what COMMIT asked for */
    FEDSERVER_ON_LEASE_ENDED,      /* a slot's device was revoked; asynchronous: or was late */
    FEDSERVER_ON_CHECKIN_NEW,      /* a device without a lease that stands */
    FEDSERVER_ON_CHECKIN_EARLY,    /* the same, before the cohort admits the device */
    FEDSERVER_ON_CHECKIN_OTHER,    /* a device that the task does not want */
    FEDSERVER_ON_CHECKIN_LEASED,   /* a device whose lease stands */
    FEDSERVER_ON_CHECKIN_REPORTED, /* synchronous: its update is counted in this round */
    FEDSERVER_ON_UPDATE_LEASED,    /* an update with the lease that stands */
    FEDSERVER_ON_UPDATE_EXPIRED,   /* an update with a lease that no longer stands */
    FEDSERVER_ON_UPDATE_STALE,     /* asynchronous: trained on too old a version */
    FEDSERVER_ON_UPDATE_UNKNOWN,   /* an update with a lease that the device does not have */
    FEDSERVER_ON_UPDATE_CLOSED,    /* an update of another task; synchronous: or round */
    FEDSERVER_ON_UPDATE_COUNTED,   /* the update that was counted last, again */
    FEDSERVER_ON_UPDATE_CLONED,    /* another update with the lease that was counted last */
    FEDSERVER_ROUND_EVENTS
} fedserver_round_event;

/** What the caller must do. */
typedef enum fedserver_round_action {
    FEDSERVER_DO_NOTHING = 0,
    FEDSERVER_DO_OPEN,           /* a round has opened: store it, and move the epoch */
    FEDSERVER_DO_REOPEN,         /* an attempt has opened: the same; earlier leases have ended */
    FEDSERVER_DO_FREE,           /* a slot is free again */
    FEDSERVER_DO_COMMIT,         /* aggregate, then come back with COMMITTED */
    FEDSERVER_DO_FINISH,         /* that was the last round */
    FEDSERVER_DO_LEASE,          /* give a new lease; deadline_ms may run from now */
    FEDSERVER_DO_LEASE_AGAIN,    /* give the lease that the device has */
    FEDSERVER_DO_WAIT_NO_TASK,   /* answer WAIT */
    FEDSERVER_DO_WAIT_FULL,      /* ... */
    FEDSERVER_DO_WAIT_ADMISSION, /* ... */
    FEDSERVER_DO_WAIT_REPORTED,  /* ... */
    FEDSERVER_DO_COUNT, /* store and fold the update, then TICK; deadline_ms may run from now */
    FEDSERVER_DO_COUNTED_BEFORE, /* answer as the first time */
    FEDSERVER_DO_REFUSE_CLOSED,  /* the update is not counted, and never will be */
    FEDSERVER_DO_REFUSE_EXPIRED, /* ... */
    FEDSERVER_DO_REFUSE_STALE,   /* ... */
    FEDSERVER_DO_REFUSE_UNKNOWN, /* ... */
    FEDSERVER_DO_REFUSE_CLONED   /* ..., and the device is marked */
} fedserver_round_action;

/**
 * (state, event, now) -> state and action. Where time has passed, step with TICK first: the other
 * events assume that the deadline is not over.
 */
fedserver_round_action fedserver_round_step(const fedserver_round_rules *rules,
                                            fedserver_round *round, fedserver_round_event event,
                                            int64_t now_ms);

/**
 * How much an update of round `trained` counts in the open round, beside its samples: synchronous,
 * 1; asynchronous, 64 / sqrt(1 + s) rounded to an integer, where s = round->number - trained, at
 * most rules->staleness, is how many versions the model has moved on since. Integers keep the sum
 * exact, whatever the order (D3): the mean is sum(weight * samples * update) / sum(weight *
 * samples).
 * Paper  Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022,
 *        section 5; departs: its sum is over K equal updates and divided by K
 */
uint32_t fedserver_round_weight(const fedserver_round_rules *rules, const fedserver_round *round,
                                uint32_t trained);

#endif
