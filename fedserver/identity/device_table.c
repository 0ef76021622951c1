/* The enrolled devices in memory: a list, and a hash table over it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/identity/device_table.h"

#include <stdlib.h>
#include <string.h>

void fedserver_devices_free(fedserver_devices *devices) {
    free(devices->items);
    free(devices->slots);
    *devices = (fedserver_devices){0};
}

/* A fingerprint is a SHA-256 already: any bytes of it are a good hash. */
static size_t slot_of(const fedserver_devices *devices, const uint8_t *fingerprint) {
    uint64_t hash;
    memcpy(&hash, fingerprint, sizeof hash);
    size_t mask = devices->slot_count - 1;
    size_t slot = (size_t)hash & mask;
    while (devices->slots[slot] != 0 && memcmp(devices->items[devices->slots[slot] - 1].fingerprint,
                                               fingerprint, FED_SHA256_SIZE) != 0) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

fedserver_device *fedserver_devices_find(const fedserver_devices *devices,
                                         const uint8_t fingerprint[FED_SHA256_SIZE]) {
    if (devices->count == 0) {
        return NULL;
    }
    uint32_t index = devices->slots[slot_of(devices, fingerprint)];
    return index == 0 ? NULL : &devices->items[index - 1];
}

/* Double the arrays; the hash table stays at most half full. */
static fed_status devices_grow(fedserver_devices *devices) {
    size_t cap = devices->cap == 0 ? 64 : devices->cap * 2;
    fedserver_device *items = realloc(devices->items, cap * sizeof *items);
    FED_REQUIRE(items != NULL, FED_ENOMEM);
    devices->items = items;
    uint32_t *slots = calloc(cap * 2, sizeof *slots);
    FED_REQUIRE(slots != NULL, FED_ENOMEM);
    free(devices->slots);
    devices->slots = slots;
    devices->slot_count = cap * 2;
    devices->cap = cap;
    devices->stale = 0;
    for (size_t k = 0; k < devices->count; k++) {
        devices->slots[slot_of(devices, devices->items[k].fingerprint)] = (uint32_t)k + 1;
    }
    return FED_OK;
}

fed_status fedserver_devices_add(fedserver_devices *devices, const fedserver_device *device) {
    if (devices->count + devices->stale == devices->cap) {
        FED_TRY(devices_grow(devices));
    }
    devices->items[devices->count] = *device;
    devices->slots[slot_of(devices, device->fingerprint)] = (uint32_t)++devices->count;
    return FED_OK;
}

/* The old fingerprint's slot stays, so that searches go on after it; a search finds no device
 * there. */
fed_status fedserver_devices_name(fedserver_devices *devices, const fedserver_device *device,
                                  const uint8_t fingerprint[FED_SHA256_SIZE]) {
    size_t index = (size_t)(device - devices->items);
    if (devices->count + devices->stale == devices->cap) {
        FED_TRY(devices_grow(devices));
    }
    memcpy(devices->items[index].fingerprint, fingerprint, FED_SHA256_SIZE);
    devices->slots[slot_of(devices, fingerprint)] = (uint32_t)index + 1;
    devices->stale++;
    return FED_OK;
}
