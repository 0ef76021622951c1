/* The command ledger, the promise in the status, and the ledger of a restored coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <unistd.h>

#include "coordinator_fixture.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fedserver/server.h"

enum { VALUES = 202, MOST = 8192 };

static const char task[] =
    "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\", \"clip\": 1, \"cohort\": 2,"
    " \"rounds\": 9, \"epsilon\": 8, \"delta\": 1e-5, \"participations\": 3}";
static const float zeros[VALUES];
/* a seal key: the point that generates P-256 */
#define HELPER                                                                                     \
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"                           \
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"

static void play(coordinator *c, const test_device d[2]) {
    fed_assignment work[2];
    for (size_t k = 0; k < 2; k++) {
        work[k] = device_ask_work(c, &d[k]);
        assert_int_equal(work[k].action, FED_ACTION_TRAIN);
    }
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(device_upload(c, &d[k], &work[k], zeros, 1, NULL), 200);
    }
}

/* Run `fedserver WORDS` in the coordinator's directory. */
static int run(const coordinator *c, const char *words, const char *says) {
    static char out[MOST];
    const int status = fed_test_run(c->directory, "fedserver", words, out, sizeof out);
    if (strstr(out, says) == NULL) {
        fail_msg("fedserver %s must say \"%s\", but says: %s", words, says, out);
    }
    return status;
}

FED_TEST_WITH(the_command_lists_devices_with_what_they_have_spent, coordinator *c) {
    coordinator_only_on_sqlite();
    coordinator_task(c, task);
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    assert_int_equal(run(c, "ledger --dir . 1", "no device took part"), 0);
    play(c, d);
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"cohort\": 1, \"rounds\": 1}");
    coordinator_commit(c);
    assert_int_equal(run(c, "ledger --dir . 1", "took part 1 times, the last in round 1"), 0);
    assert_int_equal(run(c, "ledger --dir . --json 1", "\"taken\":1,\"last_round\":1"), 0);
    assert_int_equal(run(c, "ledger --dir . 2", "promises no epsilon"), 1);
    assert_int_equal(run(c, "ledger --dir . 3", "there is no task 3"), 1);
    assert_int_equal(run(c, "ledger --dir . x", "is not a task's number"), 1);
    assert_int_equal(run(c, "ledger --dir . --lost 1 1", "call `fedserver pause 1` first"), 1);
    assert_int_equal(run(c, "pause --dir . 1", "is paused"), 0);
    assert_int_equal(run(c, "ledger --dir . --lost 1 1", "charged for 1 more rounds"), 0);
    assert_int_equal(run(c, "ledger --dir . 1", "took part 2 times, the last in round 1"), 0);
}

FED_TEST_WITH(the_status_says_what_is_promised_and_spent, coordinator *c) {
    coordinator_task(c, task);
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    play(c, d);
    json_t *status = coordinator_json(c, "/v1/status", NULL);
    const json_t *said = json_object_get(json_object_get(status, "task"), "privacy");
    fedserver_account a;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_account_find(c->server, 1, &a, &err));
    assert_true(json_number_value(json_object_get(said, "epsilon")) == 8);
    assert_true(json_real_value(json_object_get(said, "z")) == a.z);
    assert_true(json_real_value(json_object_get(said, "clip")) == 1);
    assert_int_equal(json_integer_value(json_object_get(said, "participations")), 3);
    assert_int_equal(json_integer_value(json_object_get(said, "left")), 2);
    assert_true(json_is_true(json_object_get(said, "complete")));
    const double spent = json_real_value(json_object_get(said, "spent"));
    assert_true(spent == fedserver_account_spent(&a, 1) && spent > 0 && spent < 8);
    json_decref(status);
}

/* What /v1/rounds says of a task, which may be over. */
static const json_t *privacy_of_past(coordinator *c, const char *query, json_t **history) {
    *history = coordinator_json(c, "/v1/rounds", query);
    return json_object_get(json_object_get(*history, "task"), "privacy");
}

FED_TEST_WITH(the_history_of_a_task_that_is_over_says_what_it_promised_and_spent, coordinator *c) {
    coordinator_task(c, task);
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    play(c, d);
    coordinator_commit(c);
    fed_error err = {0};
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_CANCEL, &err));
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"cohort\": 1, \"rounds\": 1}");
    json_t *history, *plain;
    const json_t *said = privacy_of_past(c, "task=1", &history);
    assert_true(json_number_value(json_object_get(said, "epsilon")) == 8);
    assert_true(json_real_value(json_object_get(said, "clip")) == 1);
    const double spent = json_real_value(json_object_get(said, "spent"));
    assert_true(spent > 0 && spent < 8);
    assert_true(json_is_null(json_object_get(said, "since_ms")));
    said = privacy_of_past(c, "task=2", &plain); /* json_is_null would ask twice */
    assert_true(json_is_null(said));
    json_decref(history);
    json_decref(plain);
}

static json_t *privacy(coordinator *c, json_t **status) {
    *status = coordinator_json(c, "/v1/status", NULL);
    return json_object_get(json_object_get(*status, "task"), "privacy");
}

FED_TEST_WITH(the_status_says_who_runs_the_helper, coordinator *c) {
    json_t *status;
    coordinator_task(c, "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\","
                        " \"clip\": 1, \"cohort\": 2, \"rounds\": 9, \"helper\": \"" HELPER "\","
                        " \"helper_is\": \"the works council\"}");
    coordinator_task(c, "{\"model\": \"input 100 | dense 2\", \"cohort\": 2, \"rounds\": 1}");
    const json_t *said = privacy(c, &status);
    assert_string_equal(json_string_value(json_object_get(said, "helper")), "046b17d1f2e12c42");
    assert_string_equal(json_string_value(json_object_get(said, "helper_is")), "the works council");
    assert_true(json_real_value(json_object_get(said, "clip")) == 1);
    assert_true(json_is_null(json_object_get(said, "epsilon")));
    assert_true(json_is_null(json_object_get(said, "left")));
    assert_true(json_is_null(json_object_get(said, "since_ms")));
    const json_t *plain = json_array_get(json_object_get(status, "running"), 1);
    assert_true(json_is_null(json_object_get(json_object_get(plain, "task"), "privacy")));
    json_decref(status);
}

FED_TEST_WITH(who_queues_a_task_is_told_what_a_helper_protects_from, coordinator *c) {
    static const struct {
        const char *keys, *says;
    } cases[] = {
        {"\"helper\": \"" HELPER "\", \"helper_is\": \"ours\"", "not against you"},
        {"\"helper\": \"" HELPER "\", \"helper_is\": \"council\"",
         "046b17d1f2e12c42..., run by council"},
        {"\"helper\": \"" HELPER "\"", "does not say who runs its helper"},
        {"\"helper_is\": \"ours\"", "this task has none"},
    };
    coordinator_only_on_sqlite();
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char path[300], text[800];
        snprintf(path, sizeof path, "%s/helped.json", c->directory);
        const int len = snprintf(text, sizeof text,
                                 "{\"model\": \"input 100 | dense 2\", \"codec_up\": \"ring:b=6\","
                                 " \"clip\": 1, \"cohort\": 2, \"rounds\": 9, %s}",
                                 cases[k].keys);
        fed_error err = {0};
        assert_fed_ok_err(fed_file_replace(path, text, (size_t)len, 0600, &err));
        (void)run(c, "task --dir . helped.json", cases[k].says);
    }
}

FED_TEST_WITH(a_restored_coordinator_opens_no_round_before_its_ledger_is_mended, coordinator *c) {
    coordinator_only_on_sqlite();
    coordinator_task(c, task);
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    play(c, d);
    fed_assignment work = device_ask_work(c, &d[0]);
    assert_int_equal(device_upload(c, &d[0], &work, zeros, 1, NULL), 200);
    coordinator_commit(c);
    assert_int_equal(run(c, "backup --dir . copy", ""), 0);
    /* the copy is as a coordinator that came back after a loss: it knows nothing of later rounds */
    fedserver *copy = NULL;
    fed_error err = {0};
    char directory[300];
    uint64_t lost = 99;
    int64_t next_ms;
    fedserver_account a;
    snprintf(directory, sizeof directory, "%s/copy", c->directory);
    assert_fed_ok_err(fedserver_open(directory, NULL, &copy, &err));
    assert_fed_ok_err(fedserver_account_find(copy, 1, &a, &err));
    assert_false(a.complete);
    assert_fed_ok_err(fedserver_begin(copy, &err));
    assert_int_equal(copy->rounds.task_count, 0); /* set aside: no round is open */
    assert_fed_ok_err(fedserver_commit(copy, &err));
    /* 2 lost rounds: a device with an update in the open round has no participation for it */
    assert_fed_ok_err(fedserver_ledger_lost(copy, c->now_ms, 1, 2, &lost, &err));
    assert_int_equal(lost, 1);
    assert_fed_ok_err(fedserver_account_find(copy, 1, &a, &err));
    assert_true(a.complete && a.left == 0);
    assert_fed_ok_err(fedserver_task_change(copy, c->now_ms, 1, FEDSERVER_RESUME, &err));
    assert_fed_ok_err(fedserver_begin(copy, &err));
    assert_fed_ok_err(fedserver_tick(copy, c->now_ms, &next_ms, &err));
    assert_int_equal(copy->rounds.task_count, 1);
    assert_int_equal(copy->rounds.tasks[0]->round.received, 0);
    fedserver_close(copy);
}

FED_TEST_WITH(the_command_task_says_what_noise_costs, coordinator *c) {
    coordinator_only_on_sqlite();
    fed_test_put(c->directory, "t.json", task, sizeof task - 1);
    coordinator_commit(c);
    assert_int_equal(run(c, "task --dir . t.json", "noise: z = "), 0);
    assert_int_equal(run(c, "task --dir . t.json", "8 (K = 3) at delta 1e-05"), 0);
    assert_int_equal(run(c, "task --dir . t.json", "of the clip is much noise"), 0);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
