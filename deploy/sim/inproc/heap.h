/* Which client's event comes next in virtual time: a heap of at most one entry for each client. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HEAP_H
#define FEDSIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/** When a client's next event is due. At equal times the lower `nth` comes first, so that clients
 * take turns. `chance` decides between equal `nth`, so that no client is always last. */
typedef struct sim_due {
    int64_t us;   /* virtual time since the start */
    uint32_t nth; /* events of this client at this time so far */
    uint32_t chance;
} sim_due;

typedef struct sim_heap {
    uint32_t room, count;
    sim_due *due;    /* [room], when each client in the heap is due */
    uint32_t *order; /* [count], the heap: clients, the first one on top */
    uint32_t *at;    /* [room], each client's place in `order`; UINT32_MAX: none */
} sim_heap;

/** Make an empty heap for clients 0 to room - 1. sim_heap_close frees it, even after an error. */
fed_status sim_heap_open(sim_heap *heap, uint32_t room) FED_CHECKED;
void sim_heap_close(sim_heap *heap);
void sim_heap_set(sim_heap *heap, uint32_t k, sim_due due);
/** Take client k out, if it is there. */
void sim_heap_remove(sim_heap *heap, uint32_t k);
/** The client that is due first; the heap is not empty. */
uint32_t sim_heap_top(const sim_heap *heap);

#endif
