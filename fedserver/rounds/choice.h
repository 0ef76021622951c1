/* Decides which of several tasks gets a device that checks in. No side effects. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CHOICE_H
#define FEDSERVER_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/** What a task can offer to a device that checks in. A larger number is the better offer. */
typedef enum fedserver_place {
    FEDSERVER_PLACE_UNWANTED = 0,
    FEDSERVER_PLACE_REPORTED = 1,
    FEDSERVER_PLACE_FULL = 2,  /* every slot is taken, or the round closes */
    FEDSERVER_PLACE_EARLY = 3, /* a slot is free, and the cohort admits the device later */
    FEDSERVER_PLACE_FREE = 4,
    FEDSERVER_PLACE_LEASED = 5
} fedserver_place;

typedef struct fedserver_offer {
    fedserver_place place;
    uint64_t task;
    uint32_t priority;
    uint64_t served;   /* number of the task's last lease, counted over all tasks; 0: none yet */
    int64_t admits_ms; /* for PLACE_EARLY: when the cohort admits the device, in Unix ms */
} fedserver_offer;

/**
 * Is offer `a` to be preferred to `b`? The better place comes first. Of two EARLY offers the one
 * that admits the device earlier comes first. Then the larger priority decides, then the task that
 * was served least recently. If all of these are equal, a hash of task and device decides, so
 * equal tasks share new devices evenly.
 */
bool fedserver_offer_before(const fedserver_offer *a, const fedserver_offer *b, int64_t device);

#endif
