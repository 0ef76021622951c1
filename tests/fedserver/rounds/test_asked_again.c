/* What ends a decline: the device's next start. Without one, the decline lasts a day. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"

#include "fedserver/rounds/asked_again.h"
#include "fedserver/rounds/leases.h"

static const fed_checkin asks = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP};
static const fed_checkin starts = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP | FED_STARTED};

static char said[2000]; /* the log's last warning */

static void hear(void *user, fed_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static int setup(void **state) {
    static const fed_log heard = {.write = hear, .level = FED_LOG_WARN};
    coordinator_begin(state);
    coordinator *c = *state;
    c->server->rounds.log = &heard;
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 2, \"cohort\": 2, \"goal\": 2, \"minimum\": 1}");
    return 0;
}

static void decline(coordinator *c, const test_device *d, const char *reason) {
    fed_error err = {0};
    assert_int_equal(device_say(c, d, &asks).action, FED_ACTION_TRAIN);
    assert_fed_ok_err(fedserver_leases_decline(&c->server->rounds, c->server->rounds.tasks[0],
                                               coordinator_device(c, d), reason, c->now_ms, &err));
}

static void assert_declined(coordinator *c, const test_device *d, bool declined) {
    const fed_assignment told = device_say(c, d, &asks);
    assert_int_equal(told.action == FED_ACTION_WAIT, declined);
    assert_int_equal(told.reason == FED_WAIT_DECLINED, declined);
}

static int64_t until(coordinator *c, const test_device *d) {
    return fedserver_declined_until(&c->server->rounds, coordinator_device(c, d), c->now_ms);
}

FED_TEST_WITH(a_start_of_the_device_ends_its_declines, coordinator *c) {
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    decline(c, &d, "no such data");
    decline(c, &other, "no such data");
    assert_declined(c, &d, true);
    const fed_assignment told = device_say(c, &d, &starts);
    assert_int_equal(told.action, FED_ACTION_TRAIN);
    /* With this bit, the device's log names its next start as a way to be asked again. */
    assert_true((told.capabilities & FED_STARTED) != 0);
    assert_declined(c, &other, true);
    coordinator_restart(c);
    assert_declined(c, &d, false);
    assert_declined(c, &other, true);
    decline(c, &d, "again");
    assert_declined(c, &d, true);
}

FED_TEST_WITH(it_ends_the_declines_that_the_coordinator_has_made, coordinator *c) {
    static const float large[6] = {0, 0, 0, 0, 0, 1e30f};
    const test_device d = coordinator_enrol(c);
    for (int k = 0; k < 3; k++) {
        const fed_assignment work = device_say(c, &d, &asks);
        assert_int_equal(device_upload(c, &d, &work, large, 10, NULL), 422);
    }
    assert_declined(c, &d, true);
    assert_int_equal(device_say(c, &d, &starts).action, FED_ACTION_TRAIN);
}

FED_TEST_WITH(log_and_list_of_devices_say_what_ends_it, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    assert_true(until(c, &d) == 0);
    decline(c, &d, "no such data");
    assert_non_null(strstr(said, "no such data; it is asked again after its next start, or after "
                                 "24 hours"));
    assert_true(until(c, &d) == c->now_ms + FEDSERVER_DECLINE_MS);
    json_t *page = coordinator_json(c, "/v1/devices", "");
    const json_t *one = json_array_get(json_object_get(page, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "state")), "declined");
    json_decref(page);
    assert_int_equal(device_say(c, &d, &starts).action, FED_ACTION_TRAIN);
    assert_true(until(c, &d) == 0);
}

FED_TEST_WITH(an_evaluators_start_ends_its_declines_too, coordinator *c) {
    const test_device d = coordinator_enrol_evaluator(c);
    fed_error err = {0};
    fed_checkin says = asks;
    says.role = FED_ROLE_EVALUATE;
    assert_int_equal(device_say(c, &d, &says).action, FED_ACTION_EVALUATE);
    assert_fed_ok_err(fedserver_leases_decline(&c->server->rounds, c->server->rounds.tasks[0],
                                               coordinator_device(c, &d), "no", c->now_ms, &err));
    assert_int_equal(device_say(c, &d, &says).reason, FED_WAIT_DECLINED);
    says.capabilities |= FED_STARTED;
    assert_int_equal(device_say(c, &d, &says).action, FED_ACTION_EVALUATE);
}

int main(void) {
    return fed_cases_run_each(setup, coordinator_end);
}
