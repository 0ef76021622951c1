/* The devices that are in memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_TABLE_H
#define FEDSERVER_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** Devices are found by many small hash tables, so that no table takes long to grow. Unsaved
 * devices are in lists by their ids, because a store keeps neighbouring ids close together. */
enum { FEDSERVER_DEVICES_PARTS = 256, FEDSERVER_DEVICES_LISTS = 1024 };

typedef struct fedserver_device_entry fedserver_device_entry;

/** A hash table of fingerprints with the same first byte. A slot is a device's index + 1, or 0. */
typedef struct fedserver_devices_part {
    uint32_t *slots;
    uint32_t slot_count, used; /* used: slots that are not empty, also of old fingerprints */
} fedserver_devices_part;

/** Devices, found by their fingerprints in constant time. A device never moves, and is freed only
 * with the whole table. An empty table is all zeros. */
typedef struct fedserver_devices {
    fedserver_device_entry **pages;
    size_t count, page_count;
    fedserver_devices_part parts[FEDSERVER_DEVICES_PARTS];
    fedserver_device_entry *oldest, *newest; /* ends of the list of devices by last check-in */
    uint64_t lately;                         /* number of devices from `oldest` to `newest` */
    fedserver_device_entry *unsaved[FEDSERVER_DEVICES_LISTS];
    int64_t change; /* number of the newest change taken over from the store; 0: none */
} fedserver_devices;

void fedserver_devices_free(fedserver_devices *devices);

/** Add a copy of a device. *added: the copy, valid until fedserver_devices_free. `added` may be
 * NULL. */
fed_status fedserver_devices_add(fedserver_devices *devices, const fedserver_device *device,
                                 fedserver_device **added) FED_CHECKED;
/** Find a device; NULL: it is not in memory. */
fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]);
/** The k-th of `count` devices, in the order in which they were added. */
fedserver_device *fedserver_devices_at(const fedserver_devices *devices, size_t k);

/** Give a device of the table another fingerprint. The table no longer finds the device by its old
 * fingerprint. */
fed_status fedserver_devices_name(fedserver_devices *devices, fedserver_device *device,
                                  const uint8_t fingerprint[FED_SHA256_SIZE]) FED_CHECKED;

/* -- the list of devices that checked in lately -- */

/** Put the device at the end of the list, as the newest, and set its checkin_ms. If the clock was
 * set back, later times in the list become now_ms, so that the list stays in order. */
void fedserver_devices_checked_in(fedserver_devices *devices, fedserver_device *device,
                                  int64_t now_ms);
/** Take the device out of the list, and set its checkin_ms to 0. */
void fedserver_devices_left(fedserver_devices *devices, fedserver_device *device);
/** The device whose last check-in is the longest ago; NULL: the list is empty. */
fedserver_device *fedserver_devices_oldest(const fedserver_devices *devices);
/** The next newer device of the list; NULL: that device is the newest. */
fedserver_device *fedserver_devices_newer(const fedserver_device *device);

/* -- lists of devices that differ from their records in the store -- */

/** Note that the device differs from its record in the store. */
void fedserver_devices_differs(fedserver_devices *devices, fedserver_device *device);
/** Take a device out of a list of unsaved devices, 0 to FEDSERVER_DEVICES_LISTS - 1. If the device
 * was saved since, its `unsaved` is false. NULL: the list is empty. */
fedserver_device *fedserver_devices_next_unsaved(fedserver_devices *devices, size_t list);

#endif
