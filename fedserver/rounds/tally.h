/* How many updates of a round each device has. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TALLY_H
#define FEDSERVER_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

typedef struct fedserver_tally_slot {
    int64_t device; /* the id of the device's row */
    uint32_t count; /* 0: the slot is free */
} fedserver_tally_slot;

/** A hash table that is half full at most. Zeros are an empty one. */
typedef struct fedserver_tally {
    fedserver_tally_slot *slots;
    size_t slot_count, used;
} fedserver_tally;

void fedserver_tally_free(fedserver_tally *tally);
/** Empty it, and keep its memory. */
void fedserver_tally_clear(fedserver_tally *tally);

/** Make room for one more device. FED_ENOMEM: nothing has changed. */
fed_status fedserver_tally_reserve(fedserver_tally *tally) FED_CHECKED;
/** The device has one more. There is room. */
void fedserver_tally_add(fedserver_tally *tally, int64_t device);
/** How many the device has. In constant time. */
uint32_t fedserver_tally_of(const fedserver_tally *tally, int64_t device);

#endif
