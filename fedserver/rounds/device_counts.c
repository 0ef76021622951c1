/* Counts the updates of each device in a hash table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/device_counts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fedserver_device_counts_free(fedserver_device_counts *counts) {
    free(counts->slots);
    *counts = (fedserver_device_counts){0};
}

void fedserver_device_counts_clear(fedserver_device_counts *counts) {
    if (counts->used > 0) {
        memset(counts->slots, 0, counts->slot_count * sizeof *counts->slots);
        counts->used = 0;
    }
}

/* Find the device's slot, or the free slot for it. slot_count is a power of two. */
static fedserver_device_counts_slot *find(const fedserver_device_counts *counts, int64_t device) {
    const size_t mask = counts->slot_count - 1;
    /* D6 in docs/durability.md: a free slot ends the search. */
    assert(counts->used < counts->slot_count);
    size_t k = (size_t)((uint64_t)device * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    while (counts->slots[k].count != 0 && counts->slots[k].device != device) {
        k = (k + 1) & mask;
    }
    return &counts->slots[k];
}

fed_status fedserver_device_counts_reserve(fedserver_device_counts *counts) {
    enum { FIRST = 32 };
    if (2 * (counts->used + 1) <= counts->slot_count) {
        return FED_OK;
    }
    fedserver_device_counts next = {.slot_count =
                                        counts->slot_count == 0 ? FIRST : 2 * counts->slot_count,
                                    .used = counts->used};
    next.slots = calloc(next.slot_count, sizeof *next.slots);
    FED_REQUIRE(next.slots != NULL, FED_ENOMEM);
    for (size_t k = 0; k < counts->slot_count; k++) {
        if (counts->slots[k].count != 0) {
            *find(&next, counts->slots[k].device) = counts->slots[k];
        }
    }
    free(counts->slots);
    *counts = next;
    return FED_OK;
}

void fedserver_device_counts_add(fedserver_device_counts *counts, int64_t device) {
    assert(2 * (counts->used + 1) <= counts->slot_count);
    fedserver_device_counts_slot *slot = find(counts, device);
    counts->used += slot->count == 0;
    slot->device = device;
    slot->count++;
}

uint32_t fedserver_device_counts_of(const fedserver_device_counts *counts, int64_t device) {
    return counts->used > 0 ? find(counts, device)->count : 0;
}
