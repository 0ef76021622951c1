/* A round's state machine, which needs neither a store nor a clock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUND_H
#define FEDSERVER_ROUND_H

#include <stdint.h>

#include "fedserver/task/task.h"

/*
 * One state machine serves two kinds of tasks.
 *
 * Synchronous (staleness 0): a device that has reported keeps its slot. A round waits for `goal`
 * updates or for the deadline. An attempt that misses the minimum is abandoned, and its leases end.
 * So is an attempt that closes, if its helper can't open so many seals that the rest is too few.
 *
 * Asynchronous (FedBuff): a slot is free again once its device has reported or its lease has ended.
 * Each lease has its own deadline, and may outlast the round. No attempt is abandoned.
 *
 * A round with enough updates closes: the new version is made from these updates, which may take a
 * while. Meanwhile no new lease is given. Synchronous: all leases have ended, and updates are
 * refused. Asynchronous: leases go on, and updates count in the next round.
 */

typedef enum fedserver_round_phase {
    FEDSERVER_ROUND_NONE = 0,
    FEDSERVER_ROUND_OPEN = 1,
    FEDSERVER_ROUND_FULL = 2,
    FEDSERVER_ROUND_CLOSING = 3
} fedserver_round_phase;

typedef struct fedserver_round {
    fedserver_round_phase phase;
    uint32_t number, attempt;
    /* taken slots: leases that still hold; synchronous: also devices that have reported */
    uint32_t leased;
    uint32_t received;
    uint32_t ahead; /* asynchronous, while closing: updates counted for the next round */
    int64_t opened_ms;
    int64_t deadline_ms; /* 0: not set yet */
    int64_t closing_ms;  /* when the round began to close; 0: it does not close */
} fedserver_round;

/** An event of a round. The caller has looked up the device's lease. */
typedef enum fedserver_round_event {
    FEDSERVER_ON_START = 0,
    FEDSERVER_ON_RESUMED, /* a task that was paused continues with its open round */
    FEDSERVER_ON_TICK,    /* time has passed, or an update was counted */
    FEDSERVER_ON_GIVEN,   /* another coordinator has made this round's version */
    FEDSERVER_ON_COMMITTED,
    /* a device with a slot was revoked or gave it back, or its asynchronous lease ended */
    FEDSERVER_ON_LEASE_ENDED,
    /* Of a round that closes: an update was deleted, whose seal its helper can't open. Once for
     * each such update, of a synchronous task. */
    FEDSERVER_ON_LEFT_OUT,
    FEDSERVER_ON_CHECKIN_NEW,
    FEDSERVER_ON_CHECKIN_EARLY, /* check-in without a lease, before the cohort admits the device */
    FEDSERVER_ON_CHECKIN_OTHER, /* check-in of a device that the task does not want */
    FEDSERVER_ON_CHECKIN_LEASED,
    /* check-in of a device that has reported its part of the round */
    FEDSERVER_ON_CHECKIN_REPORTED,
    FEDSERVER_ON_UPDATE_LEASED,
    FEDSERVER_ON_UPDATE_EXPIRED,
    FEDSERVER_ON_UPDATE_STALE, /* asynchronous: an update trained on too old a version */
    FEDSERVER_ON_UPDATE_UNKNOWN,
    /* an update of a task that is not in memory; synchronous: or of another round */
    FEDSERVER_ON_UPDATE_CLOSED,
    FEDSERVER_ON_UPDATE_COUNTED, /* the device's update that was counted last, sent again */
    FEDSERVER_ON_UPDATE_CLONED,  /* another update with the lease of the update counted last */
    FEDSERVER_ROUND_EVENTS
} fedserver_round_event;

typedef enum fedserver_round_action {
    FEDSERVER_DO_NOTHING = 0,
    FEDSERVER_DO_OPEN,   /* a round has opened: store it, and wake waiting devices */
    FEDSERVER_DO_REOPEN, /* the next attempt has opened: store it, and wake waiting devices */
    FEDSERVER_DO_FREE,
    /* the update counts no more. If too few are left, the round no longer closes: then the next
     * attempt has opened, as with REOPEN */
    FEDSERVER_DO_LEAVE_OUT,
    FEDSERVER_DO_CLOSE, /* store the round, make the version, then step with COMMITTED */
    FEDSERVER_DO_FINISH,
    FEDSERVER_DO_LEASE, /* give a new lease; the step may have set deadline_ms */
    FEDSERVER_DO_LEASE_AGAIN,
    FEDSERVER_DO_WAIT_NO_TASK,
    FEDSERVER_DO_WAIT_FULL,
    FEDSERVER_DO_WAIT_CLOSING,   /* answer WAIT: the next round opens soon */
    FEDSERVER_DO_WAIT_ADMISSION, /* answer WAIT: the cohort does not admit the device yet */
    FEDSERVER_DO_WAIT_REPORTED,
    /* store the update and add it to the sum, then step with TICK; the step may have set
     * deadline_ms */
    FEDSERVER_DO_COUNT,
    FEDSERVER_DO_COUNTED_BEFORE, /* give the same answer as the first time */
    FEDSERVER_DO_REFUSE_CLOSED,
    FEDSERVER_DO_REFUSE_EXPIRED,
    FEDSERVER_DO_REFUSE_STALE,
    FEDSERVER_DO_REFUSE_UNKNOWN,
    FEDSERVER_DO_REFUSE_CLONED /* the update never counts, and the device is marked as cloned */
} fedserver_round_action;

/** Change the round's state for an event, and return what the caller must do. If time has passed,
 * step with TICK first: the other events assume that the deadline has not passed. */
fedserver_round_action fedserver_round_step(const fedserver_round_rules *rules,
                                            fedserver_round *round, fedserver_round_event event,
                                            int64_t now_ms);

/** The round in which an update counts now: the open round, or the one after a closing round. */
uint32_t fedserver_round_counting(const fedserver_round *round);

/**
 * The factor of an update that was trained in round `trained` and counts in round `counting`. An
 * update's weight is this factor times its samples.
 *
 * Synchronous: 1. Asynchronous: 64 / sqrt(1 + s), rounded to an integer, with s = counting -
 * trained, which is at most rules->staleness. Integers keep the sum exact in any order (D3 in
 * docs/durability.md). The mean is sum(weight * update) / sum(weight).
 *
 * Paper: Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022,
 * section 5. Departs: the paper divides the sum of K updates by K.
 */
uint32_t fedserver_round_weight(const fedserver_round_rules *rules, uint32_t counting,
                                uint32_t trained);

#endif
