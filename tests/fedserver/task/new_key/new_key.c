/* Tests two keys that new_key.py has added to a copy of the tree: `patience`, which devices are
 * told and phases may change, and `mercy`, which only the coordinator uses. Only lines in the
 * tables define them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "deploy/sim/scenario/task_file.h"
#include "fed_cases.h"
#include "fedserver/task/config.h"
#include "fedserver/task/phases.h"

#define TASK "\"model\": \"input 2 | dense 2\", \"rounds\": 9, \"cohort\": 1"

static fed_status parse(const char *text, fedserver_config *config, fed_error *err) {
    return fedserver_config_parse("t.json", text, strlen(text), config, err);
}

FED_TEST(the_keys_are_parsed_and_bounded) {
    static fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(parse("{" TASK "}", &config, &err));
    assert_int_equal(config.task.wire.patience, 5);
    assert_true(config.task.mercy == 0.25);
    assert_fed_ok_err(parse("{" TASK ", \"patience\": 50, \"mercy\": 1}", &config, &err));
    assert_int_equal(config.task.wire.patience, 50);
    assert_true(config.task.mercy == 1.0);
    assert_fed_status(parse("{" TASK ",\n\"patience\": 51}", &config, &err), FED_EINVAL);
    assert_fed_says(err, "t.json:2: key \"patience\" is 51; it must be an integer from 1 to 50");
    assert_fed_status(parse("{" TASK ", \"mercy\": \"x\"}", &config, &err), FED_EINVAL);
    assert_fed_says(err, "a number from 0 to 1");
}

FED_TEST(a_phase_changes_the_one_that_it_may) {
    static fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(parse("{" TASK
                            ", \"phases\": [{\"round\": 3, \"patience\": 7}, {\"round\": 4}]}",
                            &config, &err));
    assert_int_equal(fedserver_phase_of(&config.task, 2).patience, 5);
    assert_int_equal(fedserver_phase_of(&config.task, 3).patience, 7);
    assert_int_equal(fedserver_phase_of(&config.task, 4).patience, 7);
    assert_fed_status(
        parse("{" TASK ", \"phases\": [{\"round\": 3, \"mercy\": 1}]}", &config, &err), FED_EINVAL);
    assert_fed_says(err, "\"phases[0].mercy\" is unknown");
}

static void assert_status_has(coordinator *c, const char *words) {
    answer a = coordinator_ask(c, NULL, "GET", "/v1/status", NULL, NULL, 0);
    assert_int_equal(a.status, 200);
    if (strstr((char *)a.body, words) == NULL) {
        fail_msg("\"%s\" is not in %s", words, (char *)a.body);
    }
    answer_free(&a);
}

static fed_assignment check_in(coordinator *c, const test_device *d, uint32_t capabilities) {
    const fed_checkin m = {.role = FED_ROLE_TRAIN, .capabilities = capabilities};
    fed_assignment work = {.action = FED_ACTION_WAIT};
    fed_writer w;
    fed_reader r;
    fed_writer_growing(&w);
    fed_checkin_write(&w, &m);
    answer a = coordinator_ask(c, d, "POST", "/v1/checkin", NULL, w.data, w.len);
    assert_int_equal(a.status, 200);
    fed_reader_init(&r, a.body, a.len);
    assert_fed_ok(fed_assignment_read(&r, 2, &work));
    assert_fed_ok(fed_reader_end(&r));
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    answer_free(&a);
    fed_writer_free(&w);
    return work;
}

FED_TEST(the_keys_are_kept_shown_and_sent) {
    coordinator c;
    coordinator_setup(&c);
    coordinator_task(&c, "{" TASK ", \"patience\": 7, \"mercy\": 0.1}");
    test_device d = coordinator_enrol(&c);
    coordinator_restart(&c);
    coordinator_wait(&c, 1);
    assert_status_has(&c, "\"patience\":7");
    assert_status_has(&c, "\"mercy\":0.1");
    assert_int_equal(check_in(&c, &d, FED_CAN_BE_PATIENT).task.patience, 7);
    /* This device is of an older release. */
    assert_int_equal(check_in(&c, &d, FED_CAN_PATCH).task.patience, 0);
    coordinator_teardown(&c);
}

FED_TEST(a_scenario_knows_the_keys) {
    static const char text[] =
        "data = d\nmodel = lr\nrounds = 9\npatience = 7\nphases = 3: patience=9\n";
    sim_scenario s = {0};
    fed_error err = {0};
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(sim_scenario_parse("s", text, &s, &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_fed_ok_err(sim_task_write(&s, &w, &err));
    assert_non_null(strstr((char *)w.data, "\"patience\": 7"));
    assert_non_null(strstr((char *)w.data, "\"mercy\": 0.25"));
    assert_non_null(strstr((char *)w.data, "{\"round\": 3, \"patience\": 9}"));
    fed_writer_free(&w);
    sim_scenario_free(&s);
}
