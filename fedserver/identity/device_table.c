/* Keeps devices in memory: pages of devices, hash tables to find them, and two kinds of lists. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/identity/device_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 256, FIRST_SLOTS = 16, NEIGHBOURS = 1024 };

struct fedserver_device_entry {
    fedserver_device device; /* must be the first member: see entry_of */
    fedserver_device_entry *older, *newer;
    fedserver_device_entry *unsaved_next;
    bool checked_in;
    bool unsaved;
};

static fedserver_device_entry *entry_of(fedserver_device *device) {
    return (fedserver_device_entry *)(void *)device;
}

static fedserver_device *device_of(fedserver_device_entry *entry) {
    return entry != NULL ? &entry->device : NULL;
}

void fedserver_devices_free(fedserver_devices *devices) {
    for (size_t k = 0; k < devices->page_count; k++) {
        free(devices->pages[k]);
    }
    for (size_t k = 0; k < FEDSERVER_DEVICES_PARTS; k++) {
        free(devices->parts[k].slots);
    }
    free(devices->pages);
    *devices = (fedserver_devices){0};
}

fedserver_device *fedserver_devices_at(const fedserver_devices *devices, size_t k) {
    return &devices->pages[k / PAGE][k % PAGE].device;
}

static uint32_t *slot_of(const fedserver_devices *devices, const fedserver_devices_part *part,
                         const uint8_t *fingerprint) {
    const uint32_t mask = part->slot_count - 1;
    uint64_t hash; /* SHA-256 bytes need no further hashing */
    memcpy(&hash, fingerprint, sizeof hash);
    uint32_t slot = (uint32_t)(hash >> 8) & mask;
    while (part->slots[slot] != 0 &&
           memcmp(fedserver_devices_at(devices, part->slots[slot] - 1)->fingerprint, fingerprint,
                  FED_SHA256_SIZE) != 0) {
        slot = (slot + 1) & mask;
    }
    return &part->slots[slot];
}

fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]) {
    const fedserver_devices_part *part = &devices->parts[fingerprint[0]];
    const uint32_t index = part->used == 0 ? 0 : *slot_of(devices, part, fingerprint);
    return index == 0 ? NULL : fedserver_devices_at(devices, index - 1);
}

/* Make room for one more device, so that the table stays at most half full. A table that grows
 * drops the slots of old fingerprints. */
static fed_status part_grow(const fedserver_devices *devices, fedserver_devices_part *part) {
    if (2 * (part->used + 1) <= part->slot_count) {
        return FED_OK;
    }
    fedserver_devices_part next = {.slot_count =
                                       part->slot_count == 0 ? FIRST_SLOTS : 2 * part->slot_count};
    next.slots = calloc(next.slot_count, sizeof *next.slots);
    FED_REQUIRE(next.slots != NULL, FED_ENOMEM);
    for (uint32_t k = 0; k < part->slot_count; k++) {
        const uint32_t index = part->slots[k];
        const uint8_t *name =
            index != 0 ? fedserver_devices_at(devices, index - 1)->fingerprint : NULL;
        if (name != NULL && &devices->parts[name[0]] == part) {
            uint32_t *slot = slot_of(devices, &next, name);
            next.used += *slot == 0;
            *slot = index;
        }
    }
    free(part->slots);
    *part = next;
    return FED_OK;
}

static void put(fedserver_devices *devices, const uint8_t *fingerprint, uint32_t index) {
    fedserver_devices_part *part = &devices->parts[fingerprint[0]];
    uint32_t *slot = slot_of(devices, part, fingerprint);
    part->used += *slot == 0;
    *slot = index;
}

fed_status fedserver_devices_add(fedserver_devices *devices, const fedserver_device *device,
                                 fedserver_device **added) {
    FED_REQUIRE(devices->count < UINT32_MAX, FED_ENOMEM);
    if (devices->count == PAGE * devices->page_count) {
        fedserver_device_entry **pages =
            realloc(devices->pages, (devices->page_count + 1) * sizeof(fedserver_device_entry *));
        FED_REQUIRE(pages != NULL, FED_ENOMEM);
        devices->pages = pages;
        pages[devices->page_count] = malloc(PAGE * sizeof(fedserver_device_entry));
        FED_REQUIRE(pages[devices->page_count] != NULL, FED_ENOMEM);
        devices->page_count++;
    }
    FED_TRY(part_grow(devices, &devices->parts[device->fingerprint[0]]));
    fedserver_device_entry *entry = &devices->pages[devices->count / PAGE][devices->count % PAGE];
    *entry = (fedserver_device_entry){.device = *device};
    put(devices, device->fingerprint, (uint32_t)++devices->count);
    if (added != NULL) {
        *added = &entry->device;
    }
    return FED_OK;
}

/* The old fingerprint's slot stays, because searches for other devices must go on after it. */
fed_status fedserver_devices_name(fedserver_devices *devices, fedserver_device *device,
                                  const uint8_t fingerprint[FED_SHA256_SIZE]) {
    const fedserver_devices_part *old = &devices->parts[device->fingerprint[0]];
    const uint32_t index = *slot_of(devices, old, device->fingerprint);
    FED_TRY(part_grow(devices, &devices->parts[fingerprint[0]]));
    memcpy(device->fingerprint, fingerprint, FED_SHA256_SIZE);
    put(devices, fingerprint, index);
    return FED_OK;
}

static void unlink_entry(fedserver_devices *devices, fedserver_device_entry *entry) {
    if (!entry->checked_in) {
        return;
    }
    *(entry->older != NULL ? &entry->older->newer : &devices->oldest) = entry->newer;
    *(entry->newer != NULL ? &entry->newer->older : &devices->newest) = entry->older;
    entry->checked_in = false;
    devices->lately--;
}

void fedserver_devices_checked_in(fedserver_devices *devices, fedserver_device *device,
                                  int64_t now_ms) {
    fedserver_device_entry *entry = entry_of(device);
    unlink_entry(devices, entry);
    /* If the wall clock was set back, some check-ins have times in the future: set them to now, so
     * that the list stays in the order of its times. */
    for (fedserver_device_entry *later = devices->newest;
         later != NULL && later->device.checkin_ms > now_ms; later = later->older) {
        later->device.checkin_ms = now_ms;
    }
    entry->older = devices->newest;
    entry->newer = NULL;
    *(entry->older != NULL ? &entry->older->newer : &devices->oldest) = entry;
    devices->newest = entry;
    entry->checked_in = true;
    devices->lately++;
    device->checkin_ms = now_ms;
}

void fedserver_devices_left(fedserver_devices *devices, fedserver_device *device) {
    unlink_entry(devices, entry_of(device));
    device->checkin_ms = 0;
}

fedserver_device *fedserver_devices_oldest(const fedserver_devices *devices) {
    return device_of(devices->oldest);
}

fedserver_device *fedserver_devices_newer(const fedserver_device *device) {
    return device_of(((const fedserver_device_entry *)(const void *)device)->newer);
}

void fedserver_devices_differs(fedserver_devices *devices, fedserver_device *device) {
    fedserver_device_entry *entry = entry_of(device);
    device->unsaved = true;
    if (entry->unsaved) {
        return;
    }
    fedserver_device_entry **list =
        &devices->unsaved[(uint64_t)device->id / NEIGHBOURS % FEDSERVER_DEVICES_LISTS];
    entry->unsaved_next = *list;
    entry->unsaved = true;
    *list = entry;
}

fedserver_device *fedserver_devices_next_unsaved(fedserver_devices *devices, size_t list) {
    assert(list < FEDSERVER_DEVICES_LISTS);
    fedserver_device_entry *entry = devices->unsaved[list];
    if (entry != NULL) {
        devices->unsaved[list] = entry->unsaved_next;
        entry->unsaved = false;
    }
    return device_of(entry);
}
