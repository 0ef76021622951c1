/* A device whose updates are refused: the log says so, and the third refusal in a row ends its work
 * on the task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"

#include "fedserver/rounds/unfit.h"

enum { PARAMETERS = 6 };

static const fed_checkin asks = {.capabilities = FED_CAN_DECLINE | FED_CAN_APP};
static const float good[PARAMETERS] = {1, 1, 1, 1, 1, 1};
static const float large[PARAMETERS] = {0, 0, 0, 0, 0, 1e30f}; /* more than a sum can hold */

static char said[2000];
static unsigned lines;

static void hear(void *user, fed_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", line);
    lines++;
}

static int setup(void **state) {
    static const fed_log heard = {.write = hear, .level = FED_LOG_WARN};
    coordinator_begin(state);
    coordinator *c = *state;
    c->server->rounds.log = &heard;
    lines = 0;
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 2, \"cohort\": 2, \"goal\": 2, \"minimum\": 1}");
    return 0;
}

static void refuse(coordinator *c, const test_device *d) {
    const fed_assignment work = device_say(c, d, &asks);
    char word[32];
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(device_upload(c, d, &work, large, 10, word), 422);
    assert_string_equal(word, "out_of_range");
}

FED_TEST_WITH(the_log_says_it_once_and_the_third_refusal_is_a_decline, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    char name[9];
    fed_hex(d.fingerprint, 4, name);
    refuse(c, &d);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, name));
    assert_non_null(strstr(said, "its update of task 1 ("));
    refuse(c, &d);
    assert_int_equal(lines, 1);
    refuse(c, &d);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(said, "its updates are refused: "));
    const fed_assignment told = device_say(c, &d, &asks);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.leased, 0);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *declined =
        json_object_get(json_array_get(json_object_get(status, "tasks"), 0), "declined");
    const json_t *first = json_array_get(json_object_get(declined, "reasons"), 0);
    assert_non_null(
        strstr(json_string_value(json_object_get(first, "reason")), "its updates are refused"));
    json_decref(status);
}

FED_TEST_WITH(an_update_that_counts_ends_the_row, coordinator *c) {
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    for (int k = 1; k < FEDSERVER_UNFIT_MOST; k++) {
        refuse(c, &d);
    }
    fed_assignment work = device_say(c, &d, &asks);
    assert_int_equal(device_upload(c, &d, &work, good, 10, NULL), 200);
    work = device_say(c, &other, &asks);
    assert_int_equal(device_upload(c, &other, &work, good, 10, NULL), 200);
    for (int k = 1; k < FEDSERVER_UNFIT_MOST; k++) {
        refuse(c, &d);
    }
    assert_int_equal(device_say(c, &d, &asks).action, FED_ACTION_TRAIN);
    assert_int_equal(lines, 2);
}

int main(void) {
    return fed_cases_run_each(setup, coordinator_end);
}
