/* What comes next in virtual time: a heap with a place for each client. */
#ifndef FEDSIM_HEAP_H
#define FEDSIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/** When. Times that are equal are told apart by how many steps a client has made since its own
 * clock moved: what many do at the same time goes side by side, step by step. Then chance decides,
 * so that the same ones do not come too late every time. */
typedef struct sim_key {
    int64_t us; /* since the start */
    uint32_t step, chance;
} sim_key;

typedef struct sim_heap {
    uint32_t room, count;
    sim_key *key;
    uint32_t *order; /* the heap: clients, the first one on top */
    uint32_t *place; /* in it, of each client; UINT32_MAX: it is not in */
} sim_heap;

/** For clients 0 to room - 1. */
fed_status sim_heap_open(sim_heap *heap, uint32_t room) FED_CHECKED;
void sim_heap_close(sim_heap *heap);
/** Put client k in, or move it. */
void sim_heap_set(sim_heap *heap, uint32_t k, sim_key key);
void sim_heap_remove(sim_heap *heap, uint32_t k);
/** The client whose key is the least; the heap is not empty. */
uint32_t sim_heap_top(const sim_heap *heap);

#endif
