/* The devices in memory: those that have come since the start, or have a lease that stands. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DEVICE_TABLE_H
#define FEDSERVER_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedserver/stores/store.h"

/** The hash table is many small ones, so that none takes long to grow. Unsaved devices stand in
 * lists by their ids: rows of neighbours lie in the same pages of a store. */
enum { FEDSERVER_DEVICES_PARTS = 256, FEDSERVER_DEVICES_LISTS = 1024 };

/** A device and its neighbours in the lists. */
typedef struct fedserver_device_entry fedserver_device_entry;

/** A hash table of index + 1; 0: empty. The first byte of a fingerprint chooses the part. */
typedef struct fedserver_devices_part {
    uint32_t *slots;
    uint32_t slot_count, used; /* used: old fingerprints too */
} fedserver_devices_part;

/** Devices, found by their fingerprints in constant time. A device never moves, and leaves only
 * with the whole table. Zeros are an empty table. */
typedef struct fedserver_devices {
    fedserver_device_entry **pages;
    size_t count, page_count;
    fedserver_devices_part parts[FEDSERVER_DEVICES_PARTS];
    fedserver_device_entry *oldest,
        *newest;     /* of those that checked in lately, by their last check-in */
    uint64_t lately; /* how many they are */
    fedserver_device_entry *unsaved[FEDSERVER_DEVICES_LISTS];
    int64_t change; /* the newest change of an identity that was looked at; 0: none */
} fedserver_devices;

void fedserver_devices_free(fedserver_devices *devices);

/** Take a device in. *added, which may be NULL: where it stays until fedserver_devices_free. */
fed_status fedserver_devices_add(fedserver_devices *devices, const fedserver_device *device,
                                 fedserver_device **added) FED_CHECKED;
/** NULL: the device is not in memory. */
fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]);
/** The k-th of `count` devices, in the order in which they were added. */
fedserver_device *fedserver_devices_at(const fedserver_devices *devices, size_t k);

/** Make a device of the table known by this fingerprint, and no longer by its old one. */
fed_status fedserver_devices_name(fedserver_devices *devices, fedserver_device *device,
                                  const uint8_t fingerprint[FED_SHA256_SIZE]) FED_CHECKED;

/* -- those that checked in lately -- */

/** The device checks in: it is the newest of the list from now on. Sets its checkin_ms. The list's
 * times never fall, also where now_ms does: later ones become now_ms. */
void fedserver_devices_checked_in(fedserver_devices *devices, fedserver_device *device,
                                  int64_t now_ms);
/** Take the device out of the list. Sets its checkin_ms to 0. */
void fedserver_devices_left(fedserver_devices *devices, fedserver_device *device);
/** The device whose last check-in is the longest ago; NULL: nobody is in the list. */
fedserver_device *fedserver_devices_oldest(const fedserver_devices *devices);
/** The next one after that device; NULL: it is the newest. */
fedserver_device *fedserver_devices_newer(const fedserver_device *device);

/* -- those whose rows are older than they are -- */

/** The device differs from its row. Sets `unsaved`. */
void fedserver_devices_differs(fedserver_devices *devices, fedserver_device *device);
/** Take a device out of a list, 0 to FEDSERVER_DEVICES_LISTS - 1. Its row may have been written
 * since: then `unsaved` is false. NULL: the list is empty. */
fedserver_device *fedserver_devices_next_unsaved(fedserver_devices *devices, size_t list);

#endif
