/* Counting updates by device, compared with a simple array. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/rng.h"
#include "fedserver/rounds/device_counts.h"

enum { DEVICES = 3000, UPDATES = 6000 };

/* Make IDs of three kinds: consecutive, different only in high bits, or scattered. */
static int64_t id_of(size_t k) {
    return k % 3 == 0   ? (int64_t)k
           : k % 3 == 1 ? (int64_t)k << 40
                        : (int64_t)((uint64_t)k * UINT64_C(0xbf58476d1ce4e5b9) >> 1);
}

static void count_some(fedserver_device_counts *counts, uint32_t seed, uint32_t expected[DEVICES]) {
    fed_rng rng;
    fed_rng_init(&rng, seed, 0, 0);
    for (size_t k = 0; k < UPDATES; k++) {
        const size_t device = fed_rng_below(&rng, DEVICES);
        assert_fed_ok(fedserver_device_counts_reserve(counts));
        fedserver_device_counts_add(counts, id_of(device));
        expected[device]++;
    }
}

FED_TEST(each_device_has_its_number) {
    fedserver_device_counts counts = {0};
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t expected[DEVICES] = {0};
        size_t used = 0;
        for (size_t k = 0; k < DEVICES; k++) {
            assert_int_equal(fedserver_device_counts_of(&counts, id_of(k)), 0);
        }
        count_some(&counts, round, expected);
        for (size_t k = 0; k < DEVICES; k++) {
            assert_int_equal(fedserver_device_counts_of(&counts, id_of(k)), expected[k]);
            used += expected[k] > 0;
        }
        assert_int_equal(counts.used, used);
        assert_true(2 * used <= counts.slot_count);
        fedserver_device_counts_clear(&counts);
    }
    fedserver_device_counts_free(&counts);
}
