/* A task whose assignment is too long for devices of older releases, so only other devices train
 * it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "arch_case.h"
#include "coordinator_fixture.h"
#include "fed_cases.h"

#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/too_old.h"

static const fed_checkin of_0_1_0 = {.protocol = 1};
static const fed_checkin before = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP};
static const fed_checkin of_today = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP |
                                                     FED_CAN_STAGES | FED_CAN_LONG};
static const char too_long[] =
    "the software of this device reads 4,096 bytes of an assignment, and this task needs more: "
    "install the coordinator's release on the device and start it again";

static int setup(void **state) {
    char model[FED_ARCH_TEXT], json[FED_ARCH_TEXT + 200];
    coordinator_begin(state);
    arch_case_longest(model);
    snprintf(json, sizeof json,
             "{\"model\": \"%s\", \"codec_up\": \"float32\", \"rounds\": 2, \"cohort\": 2,"
             " \"goal\": 1, \"minimum\": 1}",
             model);
    coordinator_task(*state, json);
    return 0;
}

static int count(const coordinator *c) {
    return (int)c->server->rounds.counters.declines;
}

static void assert_declined(coordinator *c, const test_device *d) {
    const fed_assignment told = device_say(c, d, &before);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
}

FED_TEST_WITH(the_longest_task_goes_to_a_device_that_reads_it, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    assert_int_equal(device_say(c, &d, &of_today).action, FED_ACTION_TRAIN);
    assert_int_equal(count(c), 0);
}

FED_TEST_WITH(for_older_devices_it_is_declined_once_with_the_reason, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    assert_declined(c, &d);
    assert_declined(c, &d);
    assert_int_equal(count(c), 1);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 0);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *declined =
        json_object_get(json_array_get(json_object_get(status, "tasks"), 0), "declined");
    assert_int_equal(json_integer_value(json_object_get(declined, "count")), 1);
    const json_t *first = json_array_get(json_object_get(declined, "reasons"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "reason")), too_long);
    json_decref(status);
}

FED_TEST_WITH(a_start_with_the_same_software_is_no_other_decline, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    fed_checkin starts = before;
    starts.capabilities |= FED_STARTED;
    for (int k = 0; k < 3; k++) {
        assert_int_equal(device_say(c, &d, &starts).reason, FED_WAIT_DECLINED);
    }
    assert_int_equal(count(c), 1);
}

FED_TEST_WITH(a_device_of_the_first_release_waits, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    assert_int_equal(device_say(c, &d, &of_0_1_0).action, FED_ACTION_WAIT);
    assert_int_equal(count(c), 1);
}

/* A device of another release keeps its identity, so an update of its software must be enough. */
FED_TEST_WITH(with_newer_software_it_gets_the_task_at_once, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    assert_declined(c, &d);
    assert_int_equal(device_say(c, &d, &of_today).action, FED_ACTION_TRAIN);
}

FED_TEST_WITH(so_it_does_after_a_restart_of_the_coordinator, coordinator *c) {
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    assert_declined(c, &d);
    assert_declined(c, &other);
    coordinator_restart(c);
    assert_declined(c, &d);
    assert_int_equal(count(c), 0);
    assert_int_equal(device_say(c, &d, &of_today).action, FED_ACTION_TRAIN);
    coordinator_restart(c);
    assert_int_equal(device_say(c, &d, &of_today).action, FED_ACTION_TRAIN);
}

FED_TEST_WITH(a_decline_of_its_own_stays, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    const fed_assignment work = device_say(c, &d, &of_today);
    fedserver_training *t = c->server->rounds.tasks[0];
    fed_error err = {0};
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_fed_ok_err(fedserver_leases_decline(&c->server->rounds, t, coordinator_device(c, &d),
                                               "no such data", c->now_ms, &err));
    assert_int_equal(device_say(c, &d, &of_today).reason, FED_WAIT_DECLINED);
    assert_declined(c, &d);
    assert_int_equal(device_say(c, &d, &of_today).reason, FED_WAIT_DECLINED);
}

FED_TEST_WITH(an_older_evaluator_does_not_get_it_either, coordinator *c) {
    const test_device d = coordinator_enrol_evaluator(c);
    fed_checkin says = before;
    says.role = FED_ROLE_EVALUATE;
    assert_int_equal(device_say(c, &d, &says).reason, FED_WAIT_DECLINED);
    says.capabilities |= FED_CAN_LONG;
    assert_int_equal(device_say(c, &d, &says).action, FED_ACTION_EVALUATE);
}

FED_TEST_WITH(the_end_of_the_task_is_not_told_to_who_cannot_read_it, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    fed_checkin holds = of_today;
    for (uint32_t round = 1; round <= 2; round++) {
        const fed_assignment work = device_say(c, &d, &holds);
        float *x = calloc(c->server->rounds.tasks[0]->arch.layout.size, sizeof *x);
        assert_non_null(x);
        assert_int_equal(device_upload(c, &d, &work, x, 10, NULL), 200);
        free(x);
        holds.held[0] = (fed_held){work.task.id, work.version};
    }
    assert_int_equal(device_say(c, &d, &holds).action, FED_ACTION_DONE);
    holds.capabilities &= ~(uint32_t)FED_CAN_LONG;
    assert_int_equal(device_say(c, &d, &holds).action, FED_ACTION_WAIT);
}

int main(void) {
    return fed_cases_run_each(setup, coordinator_end);
}
