/* A binary heap that keeps the place of each client's entry, so that the entry can be moved. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/heap.h"

#include <stdlib.h>

fed_status sim_heap_open(sim_heap *heap, uint32_t room) {
    *heap = (sim_heap){.room = room,
                       .due = calloc(room, sizeof *heap->due),
                       .order = calloc(room, sizeof *heap->order),
                       .at = malloc(room * sizeof *heap->at)};
    FED_REQUIRE(heap->due != NULL && heap->order != NULL && heap->at != NULL, FED_ENOMEM);
    for (uint32_t k = 0; k < room; k++) {
        heap->at[k] = UINT32_MAX;
    }
    return FED_OK;
}

void sim_heap_close(sim_heap *heap) {
    free(heap->due);
    free(heap->order);
    free(heap->at);
    *heap = (sim_heap){0};
}

static bool before(const sim_heap *heap, uint32_t j, uint32_t k) {
    const sim_due *a = &heap->due[j], *b = &heap->due[k];
    if (a->us != b->us) {
        return a->us < b->us;
    }
    if (a->nth != b->nth) {
        return a->nth < b->nth;
    }
    return a->chance != b->chance ? a->chance < b->chance : j < k;
}

static void put(sim_heap *heap, uint32_t at, uint32_t k) {
    heap->order[at] = k;
    heap->at[k] = at;
}

static void rise(sim_heap *heap, uint32_t at) {
    const uint32_t k = heap->order[at];
    while (at > 0 && before(heap, k, heap->order[(at - 1) / 2])) {
        put(heap, at, heap->order[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(heap, at, k);
}

static void sink(sim_heap *heap, uint32_t at) {
    const uint32_t k = heap->order[at];
    for (uint32_t child = 2 * at + 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && before(heap, heap->order[child + 1], heap->order[child])) {
            child++;
        }
        if (!before(heap, heap->order[child], k)) {
            break;
        }
        put(heap, at, heap->order[child]);
        at = child;
    }
    put(heap, at, k);
}

void sim_heap_set(sim_heap *heap, uint32_t k, sim_due due) {
    heap->due[k] = due;
    if (heap->at[k] == UINT32_MAX) {
        put(heap, heap->count++, k);
    }
    rise(heap, heap->at[k]);
    sink(heap, heap->at[k]);
}

void sim_heap_remove(sim_heap *heap, uint32_t k) {
    const uint32_t at = heap->at[k];
    if (at == UINT32_MAX) {
        return;
    }
    const uint32_t last = heap->order[--heap->count];
    heap->at[k] = UINT32_MAX;
    if (last != k) {
        put(heap, at, last);
        rise(heap, at);
        sink(heap, heap->at[last]);
    }
}

uint32_t sim_heap_top(const sim_heap *heap) {
    return heap->order[0];
}
