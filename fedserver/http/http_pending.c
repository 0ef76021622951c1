/* Keeps the requests that the coordinator holds: by the times when they are due, and by keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_pending.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAP = 64 };

void http_pending_free(http_pending *pending) {
    free(pending->heap);
    free(pending->lists);
    *pending = (http_pending){.heap = NULL};
}

static http_held **list_of(const http_pending *pending, uint64_t key) {
    /* Fibonacci hashing, because keys may be consecutive numbers */
    const uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    return &pending->lists[(hash >> 32) & (pending->list_count - 1)];
}

/* Double the memory, and put each request into its list again. */
static fed_status grow(http_pending *pending) {
    const size_t cap = pending->cap == 0 ? FIRST_CAP : 2 * pending->cap;
    http_held **heap = realloc(pending->heap, cap * sizeof(http_held *));
    FED_REQUIRE(heap != NULL, FED_ENOMEM);
    pending->heap = heap;
    http_held **lists = calloc(cap, sizeof(http_held *));
    FED_REQUIRE(lists != NULL, FED_ENOMEM);
    free(pending->lists);
    pending->lists = lists;
    pending->list_count = pending->cap = cap;
    for (size_t k = 0; k < pending->count; k++) {
        http_held **list = list_of(pending, heap[k]->key);
        heap[k]->next = *list;
        *list = heap[k];
    }
    return FED_OK;
}

/* Put the request into the heap at `place`, from 1, or at a place on the way to the root. */
static void rise(http_pending *pending, http_held *held, size_t place) {
    for (; place > 1 && pending->heap[place / 2 - 1]->until_ms > held->until_ms; place /= 2) {
        pending->heap[place - 1] = pending->heap[place / 2 - 1];
        pending->heap[place - 1]->place = place;
    }
    pending->heap[place - 1] = held;
    held->place = place;
}

/* Put the request into the heap at `place`, or at a place below. */
static void sink(http_pending *pending, http_held *held, size_t place) {
    http_held **heap = pending->heap;
    for (size_t child = 2 * place; child <= pending->count; child = 2 * place) {
        if (child < pending->count && heap[child]->until_ms < heap[child - 1]->until_ms) {
            child++;
        }
        if (heap[child - 1]->until_ms >= held->until_ms) {
            break;
        }
        heap[place - 1] = heap[child - 1];
        heap[place - 1]->place = place;
        place = child;
    }
    heap[place - 1] = held;
    held->place = place;
}

fed_status http_pending_add(http_pending *pending, http_held *held) {
    assert(held->place == 0);
    if (pending->count == pending->cap) {
        FED_TRY(grow(pending));
    }
    http_held **list = list_of(pending, held->key);
    held->next = *list;
    *list = held;
    rise(pending, held, ++pending->count);
    return FED_OK;
}

void http_pending_remove(http_pending *pending, http_held *held) {
    const size_t place = held->place;
    assert(place > 0 && pending->heap[place - 1] == held);
    http_held *last = pending->heap[--pending->count];
    if (last != held) {
        rise(pending, last, place);
        sink(pending, last, last->place);
    }
    http_held **at = list_of(pending, held->key);
    while (*at != held) {
        at = &(*at)->next;
    }
    *at = held->next;
    held->next = NULL;
    held->place = 0;
}

http_held *http_pending_first(const http_pending *pending) {
    return pending->count > 0 ? pending->heap[0] : NULL;
}

http_held *http_pending_with(const http_pending *pending, uint64_t key) {
    http_held *held = pending->count > 0 ? *list_of(pending, key) : NULL;
    while (held != NULL && held->key != key) {
        held = held->next;
    }
    return held;
}
