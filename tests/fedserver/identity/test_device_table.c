/* The table of devices in memory: finding one by fingerprint, and the lists of devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/hash.h"
#include "fed/rng.h"
#include "fedserver/identity/device_table.h"

enum { DEVICES = 300, STEPS = 3000 };

static fedserver_device numbered(int64_t id) {
    fedserver_device one = {.id = id};
    fed_sha256(&id, sizeof id, one.fingerprint);
    return one;
}

static void fill(fedserver_devices *devices, fedserver_device *at[DEVICES]) {
    for (int64_t id = 0; id < DEVICES; id++) {
        const fedserver_device one = numbered(id);
        assert_fed_ok(fedserver_devices_add(devices, &one, &at[id]));
    }
}

FED_TEST(many_devices_are_found_and_no_other) {
    fedserver_devices devices = {0};
    fedserver_device one = {0};
    for (int64_t id = 0; id < 5000; id++) {
        one.id = id;
        fed_sha256(&id, sizeof id, one.fingerprint);
        assert_fed_ok(fedserver_devices_add(&devices, &one, NULL));
    }
    for (int64_t id = 0; id < 10000; id++) {
        uint8_t fingerprint[FED_SHA256_SIZE];
        fed_sha256(&id, sizeof id, fingerprint);
        const fedserver_device *found = fedserver_devices_find(&devices, fingerprint);
        assert_true((found != NULL) == (id < 5000));
        assert_true(found == NULL || found->id == id);
    }
    for (int64_t id = 0; id < 5000; id++) { /* only the new fingerprints are found */
        uint8_t was[FED_SHA256_SIZE], is[FED_SHA256_SIZE];
        fed_sha256(&id, sizeof id, was);
        fed_sha256(was, sizeof was, is);
        assert_fed_ok(fedserver_devices_name(&devices, fedserver_devices_find(&devices, was), is));
        assert_null(fedserver_devices_find(&devices, was));
        assert_int_equal(fedserver_devices_find(&devices, is)->id, id);
    }
    fedserver_devices_free(&devices);
}

FED_TEST(a_device_stays_where_it_is) {
    fedserver_devices devices = {0};
    fedserver_device *at[DEVICES];
    fill(&devices, at);
    for (int64_t id = 0; id < DEVICES; id++) {
        assert_ptr_equal(fedserver_devices_at(&devices, (size_t)id), at[id]);
        assert_ptr_equal(fedserver_devices_find(&devices, numbered(id).fingerprint), at[id]);
        assert_int_equal(at[id]->id, id);
    }
    fedserver_devices_free(&devices);
}

FED_TEST(who_checked_in_stands_in_the_order_of_the_last_check_ins) {
    fedserver_devices devices = {0};
    fedserver_device *at[DEVICES];
    int64_t last[DEVICES] = {0};
    fed_rng rng;
    fill(&devices, at);
    fed_rng_init(&rng, 1, 0, 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        const uint32_t k = fed_rng_below(&rng, DEVICES);
        if (fed_rng_below(&rng, 3) > 0) {
            fedserver_devices_checked_in(&devices, at[k], step);
            last[k] = step;
        } else {
            fedserver_devices_left(&devices, at[k]);
            last[k] = 0;
        }
        uint64_t there = 0, listed = 0;
        for (size_t i = 0; i < DEVICES; i++) {
            there += last[i] != 0;
            assert_int_equal(at[i]->checkin_ms, last[i]);
        }
        int64_t before = 0;
        const fedserver_device *one = fedserver_devices_oldest(&devices);
        for (; one != NULL; one = fedserver_devices_newer(one)) {
            assert_true(one->checkin_ms > before);
            before = one->checkin_ms;
            listed++;
        }
        assert_int_equal(listed, there);
        assert_int_equal(devices.lately, there);
    }
    fedserver_devices_free(&devices);
}

/* A device that checked in while the clock was wrong does not block the devices behind it in the
 * list. */
FED_TEST(a_clock_that_is_set_back_leaves_the_list_in_order) {
    fedserver_devices devices = {0};
    fedserver_device *at[DEVICES];
    fill(&devices, at);
    fedserver_devices_checked_in(&devices, at[0], 100);
    fedserver_devices_checked_in(&devices, at[1], 100000);
    fedserver_devices_checked_in(&devices, at[2], 100001);
    fedserver_devices_checked_in(&devices, at[3], 200);
    assert_int_equal(at[0]->checkin_ms, 100);
    assert_int_equal(at[1]->checkin_ms, 200);
    assert_int_equal(at[2]->checkin_ms, 200);
    assert_int_equal(devices.lately, 4);
    assert_ptr_equal(fedserver_devices_oldest(&devices), at[0]);
    assert_ptr_equal(fedserver_devices_newer(at[2]), at[3]);
    fedserver_devices_free(&devices);
}

FED_TEST(who_differs_from_its_row_is_in_one_list_once) {
    fedserver_devices devices = {0};
    fedserver_device *at[DEVICES];
    unsigned found[DEVICES] = {0};
    fill(&devices, at);
    for (size_t k = 0; k < DEVICES; k += 3) {
        at[k]->id *= 1000;
        fedserver_devices_differs(&devices, at[k]);
        fedserver_devices_differs(&devices, at[k]);
        assert_true(at[k]->unsaved);
    }
    size_t lists = 0;
    for (size_t list = 0; list < FEDSERVER_DEVICES_LISTS; list++) {
        const fedserver_device *one = fedserver_devices_next_unsaved(&devices, list);
        lists += one != NULL;
        for (; one != NULL; one = fedserver_devices_next_unsaved(&devices, list)) {
            found[one->id / 1000]++;
        }
    }
    for (size_t k = 0; k < DEVICES; k++) {
        assert_int_equal(found[k], k % 3 == 0);
    }
    assert_true(lists > 50);
    fedserver_devices_differs(&devices, at[3]);
    assert_ptr_equal(fedserver_devices_next_unsaved(&devices, 3000 / 1024), at[3]);
    fedserver_devices_free(&devices);
}
