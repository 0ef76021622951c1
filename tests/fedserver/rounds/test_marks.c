/* A map from device to number, with a value for some devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/rng.h"
#include "fedserver/rounds/marks.h"

FED_TEST(a_device_without_a_mark_has_none) {
    fedserver_marks marks = {0};
    assert_int_equal(fedserver_marks_get(&marks, 1, -7), -7);
    assert_fed_ok(fedserver_marks_set(&marks, 5, 50, NULL));
    assert_int_equal(fedserver_marks_get(&marks, 4, -7), -7);
    assert_int_equal(fedserver_marks_get(&marks, 5, -7), 50);
    assert_int_equal(fedserver_marks_get(&marks, 6, -7), -7);
    fedserver_marks_free(&marks);
    assert_int_equal(fedserver_marks_get(&marks, 5, -7), -7);
}

FED_TEST(each_device_keeps_its_newest_value) {
    enum { DEVICES = 200, STEPS = 2000 };
    int64_t plain[DEVICES] = {0};
    fedserver_marks marks = {0};
    fed_rng rng;
    fed_rng_init(&rng, 1, 0, 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        const uint32_t device = fed_rng_u32(&rng) % DEVICES;
        plain[device] = step;
        assert_fed_ok(fedserver_marks_set(&marks, device, step, NULL));
        for (int64_t k = 0; k < DEVICES; k++) {
            assert_int_equal(fedserver_marks_get(&marks, k, 0), plain[k]);
        }
    }
    for (size_t k = 1; k < marks.count; k++) {
        assert_true(marks.items[k - 1].device < marks.items[k].device);
    }
    fedserver_marks_free(&marks);
}
