/* The heap of clients' next events: the earliest one must be on top after any change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/heap.h"
#include "fed/rng.h"
#include "fed_cases.h"

enum { ROOM = 50, MOVES = 5000 };

static bool is_before(sim_due a, sim_due b) {
    if (a.us != b.us) {
        return a.us < b.us;
    }
    return a.nth != b.nth ? a.nth < b.nth : a.chance < b.chance;
}

FED_TEST(the_least_entry_is_on_top_after_every_move) {
    sim_heap heap;
    fed_rng rng;
    bool in[ROOM] = {false};
    uint32_t count = 0;
    fed_rng_init(&rng, 1, 0, 0);
    assert_fed_ok(sim_heap_open(&heap, ROOM));
    for (int i = 0; i < MOVES; i++) {
        uint32_t k = fed_rng_below(&rng, ROOM);
        if (fed_rng_below(&rng, 3) == 0) {
            sim_heap_remove(&heap, k);
            count -= in[k] ? 1U : 0U;
            in[k] = false;
        } else {
            const sim_due due = {.us = (int64_t)fed_rng_below(&rng, 4),
                                 .nth = fed_rng_below(&rng, 4),
                                 .chance = fed_rng_u32(&rng)};
            sim_heap_set(&heap, k, due);
            count += in[k] ? 0U : 1U;
            in[k] = true;
        }
        assert_int_equal(heap.count, count);
        for (k = 0; count > 0 && k < ROOM; k++) {
            assert_false(in[k] && is_before(heap.due[k], heap.due[sim_heap_top(&heap)]));
        }
    }
    sim_heap_close(&heap);
}

FED_TEST(equal_keys_come_in_the_clients_order) {
    sim_heap heap;
    assert_fed_ok(sim_heap_open(&heap, ROOM));
    for (uint32_t k = ROOM; k > 0; k--) {
        sim_heap_set(&heap, k - 1, (sim_due){.us = 7});
    }
    for (uint32_t k = 0; k < ROOM; k++) {
        assert_int_equal(sim_heap_top(&heap), k);
        sim_heap_remove(&heap, k);
    }
    sim_heap_close(&heap);
}
