/* The enrolled devices in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_TABLE_H
#define FEDSERVER_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** Every enrolled device, found by its fingerprint in constant time. */
typedef struct fedserver_devices {
    fedserver_device *items;
    size_t count, cap;
    size_t stale;    /* slots of old fingerprints */
    uint32_t *slots; /* hash table of index + 1; 0: empty */
    size_t slot_count;
    int64_t change; /* the newest change of a device that was read from the store; 0: none */
} fedserver_devices;

void fedserver_devices_free(fedserver_devices *devices);

/** Pointers into the list are valid until the next add. */
fed_status fedserver_devices_add(fedserver_devices *devices,
                                 const fedserver_device *device) FED_CHECKED;
fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]);

/** Make a device of the list known by this fingerprint, and no longer by its old one. */
fed_status fedserver_devices_name(fedserver_devices *devices, const fedserver_device *device,
                                  const uint8_t fingerprint[FED_SHA256_SIZE]) FED_CHECKED;

#endif
