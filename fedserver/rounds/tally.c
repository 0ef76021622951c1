/* Counts the updates of each device in a hash table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fedserver_tally_free(fedserver_tally *tally) {
    free(tally->slots);
    *tally = (fedserver_tally){0};
}

void fedserver_tally_clear(fedserver_tally *tally) {
    if (tally->used > 0) {
        memset(tally->slots, 0, tally->slot_count * sizeof *tally->slots);
        tally->used = 0;
    }
}

/* The device's slot, or the free one where it belongs. slot_count is a power of two. */
static fedserver_tally_slot *find(const fedserver_tally *tally, int64_t device) {
    const size_t mask = tally->slot_count - 1;
    assert(tally->used < tally->slot_count); /* D6: a free slot ends the search */
    size_t k = (size_t)((uint64_t)device * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    while (tally->slots[k].count != 0 && tally->slots[k].device != device) {
        k = (k + 1) & mask;
    }
    return &tally->slots[k];
}

fed_status fedserver_tally_reserve(fedserver_tally *tally) {
    enum { FIRST = 32 };
    if (2 * (tally->used + 1) <= tally->slot_count) {
        return FED_OK;
    }
    fedserver_tally next = {.slot_count = tally->slot_count == 0 ? FIRST : 2 * tally->slot_count,
                            .used = tally->used};
    next.slots = calloc(next.slot_count, sizeof *next.slots);
    FED_REQUIRE(next.slots != NULL, FED_ENOMEM);
    for (size_t k = 0; k < tally->slot_count; k++) {
        if (tally->slots[k].count != 0) {
            *find(&next, tally->slots[k].device) = tally->slots[k];
        }
    }
    free(tally->slots);
    *tally = next;
    return FED_OK;
}

void fedserver_tally_add(fedserver_tally *tally, int64_t device) {
    assert(2 * (tally->used + 1) <= tally->slot_count);
    fedserver_tally_slot *slot = find(tally, device);
    tally->used += slot->count == 0;
    slot->device = device;
    slot->count++;
}

uint32_t fedserver_tally_of(const fedserver_tally *tally, int64_t device) {
    return tally->used > 0 ? find(tally, device)->count : 0;
}
