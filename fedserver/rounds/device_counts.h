/* Counts each device's updates in a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_COUNTS_H
#define FEDSERVER_DEVICE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

typedef struct fedserver_device_counts_slot {
    int64_t device;
    uint32_t count;
} fedserver_device_counts_slot;

/** A hash table that is at most half full. A table of zeros is empty. */
typedef struct fedserver_device_counts {
    fedserver_device_counts_slot *slots;
    size_t slot_count, used;
} fedserver_device_counts;

void fedserver_device_counts_free(fedserver_device_counts *counts);
/** Remove all devices, and keep the memory. */
void fedserver_device_counts_clear(fedserver_device_counts *counts);

/** Make room for one more device. FED_ENOMEM: nothing has changed. */
fed_status fedserver_device_counts_reserve(fedserver_device_counts *counts) FED_CHECKED;
/** Add one update of the device. Call fedserver_device_counts_reserve first. */
void fedserver_device_counts_add(fedserver_device_counts *counts, int64_t device);
/** The number of the device's updates. */
uint32_t fedserver_device_counts_of(const fedserver_device_counts *counts, int64_t device);

#endif
