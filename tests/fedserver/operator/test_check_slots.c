/* `fedserver check` with devices that take part in several tasks at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

static const float ones[6] = {1, 1, 1, 1, 1, 1};

static void expect_sound(coordinator *c) {
    coordinator_commit(c);
    fedserver_close(c->server);
    coordinator_check(c->directory);
    coordinator_open(c);
}

static void report(coordinator *c, const test_device *d, uint64_t task, uint64_t held) {
    const fed_assignment work = device_say(
        c, d, &(fed_checkin){.capabilities = FED_CAN_TASKS, .slots = 2, .held = {{held, 0}}});
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(work.task.id, task);
    assert_int_equal(device_upload(c, d, &work, ones, 1, NULL), 200);
}

#define TASK(keys)                                                                                 \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"deadline_s\": 100, " keys "}"

/* The device's row names its lease of the task that is over. The other task's round is still
 * open. */
static void a_device_may_report_last_to_a_task_that_is_over(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TASK("\"rounds\": 1, \"cohort\": 1"));
    const test_device d = coordinator_enrol(c);
    coordinator_wait(c, 10);
    coordinator_task(c, TASK("\"rounds\": 9, \"cohort\": 2, \"minimum\": 2, \"priority\": 9"));
    report(c, &d, 2, 0);
    expect_sound(c);
    coordinator_wait(c, 10);
    report(c, &d, 1, 2);
    const fedserver_training *over = fedserver_rounds_task(&c->server->rounds, 1);
    assert_true(over == NULL || !fedserver_training_runs(over));
    expect_sound(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_device_may_report_last_to_a_task_that_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
