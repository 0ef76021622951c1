/* Check-ins at coordinators of other releases. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_device.h"
#include "fed_test.h"

#include "fed/version.h"

static void a_coordinator_of_the_protocol_before_gets_the_whole_task_done(void **state) {
    (void)state;
    fed_device device;
    fed_device_open(&device, "sbc:p=0.1", 5);
    device.fake.protocol = FED_PROTOCOL - 1;
    fed_device_finish(&device, 20);
    assert_int_equal(device.fake.updates, 5);
    assert_int_equal(device.fake.checkins, 6); /* five rounds and the end: refusals aside */
    assert_int_equal(device.fake.refused, 1);  /* it was told once, and remembered */
    fed_device_check(&device, 1e-6f);
    fed_device_close(&device);
}

static void a_coordinator_too_old_is_named(void **state) {
    (void)state;
    fed_device device;
    fedclient_event event;
    fed_device_open(&device, "sbc:p=0.1", 5);
    device.fake.protocol = FED_PROTOCOL_OLDEST - 1;
    assert_fed_status(fed_device_step(&device, &event), FED_EVERSION);
    assert_fed_says(device.err, "protocol_version");
    fed_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_of_the_protocol_before_gets_the_whole_task_done),
        cmocka_unit_test(a_coordinator_too_old_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
