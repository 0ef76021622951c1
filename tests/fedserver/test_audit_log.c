/* The audit log: it records who did what and when, and requests of strangers can't fill it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fedserver/identity/passes.h"

/* `events` has the event of each line, followed by a blank. `detail` is that of the last line. */
typedef struct lines {
    char events[400], detail[480];
    size_t count;
} lines;

static fed_status keep_line(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    lines *l = user;
    const size_t len = strlen(l->events);
    (void)err;
    snprintf(l->events + len, sizeof l->events - len, "%s ", entry->event);
    snprintf(l->detail, sizeof l->detail, "%s", entry->detail);
    l->count++;
    return FED_OK;
}

static lines read_since(const coordinator *c, int64_t since_ms) {
    fed_error err = {0};
    lines l = {0};
    assert_fed_ok_err(fedserver_audit_each(c->server, since_ms, keep_line, &l, &err));
    return l;
}

static void what_operators_and_devices_do_is_there_after_a_crash(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver_entry entry;
    char hex[FED_SHA256_HEX];
    const fedserver_grant grant = {.ttl_s = 60, .name = "pump \"3\"", .tag = "north"};
    char token[FEDSERVER_TOKEN];
    assert_fed_status(fedserver_token_grant(c->server, c->now_ms, &grant, token, &err), FED_EINVAL);
    const test_device d = coordinator_enrol(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    coordinator_commit(c);
    c->now_ms += 1000;
    const char *name = "pump 3";
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, name, &entry, &err));
    assert_fed_ok_err(fedserver_device_revoke(c->server, c->now_ms, hex, &entry, &err));
    assert_fed_ok_err(
        /* A device that is revoked already gives no further line. */
        fedserver_device_revoke(c->server, c->now_ms, hex, &entry, &err));
    coordinator_crash(c);
    assert_string_equal(read_since(c, 0).events, "token_made enrolled renamed revoked ");
    const lines since = read_since(c, c->now_ms);
    assert_string_equal(since.events, "renamed revoked ");
    hex[16] = '\0';
    assert_non_null(strstr(since.detail, hex));
    assert_non_null(strstr(since.detail, "name=\"pump 3\""));
}

static void what_is_done_to_passes_is_written_down(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_LINK, 600, token, &err));
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_READER, 60, token, &err));
    assert_string_equal(read_since(c, 0).detail, "kind=bearer seconds=60");
    assert_fed_ok_err(fedserver_pass_revoke_all(c->server, c->now_ms, &err));
    assert_string_equal(read_since(c, 0).events, "pass_made pass_made passes_ended ");
}

static void what_is_done_to_tasks_is_written_down(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    for (int k = 0; k < 2; k++) {
        coordinator_task(c,
                         "{\"name\": \"leaves\", \"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}");
        if (k == 0) {
            coordinator_one_at_a_time(c);
        }
    }
    coordinator_commit(c);
    c->now_ms += 1000;
    assert_fed_ok_err(fedserver_task_move(c->server, c->now_ms, 2, 1, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_PAUSE, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_RESUME, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_CANCEL, &err));
    assert_fed_status(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_CANCEL, &err),
                      FED_ESTATE);
    const lines l = read_since(c, c->now_ms);
    assert_string_equal(l.events, "task_moved task_paused task_resumed task_cancelled ");
    assert_string_equal(l.detail, "task=2 name=\"leaves\"");
}

static void a_token_that_is_withdrawn_enrols_nobody(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    char token[FEDSERVER_TOKEN], id[FED_SHA256_HEX];
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_token_entry entry;
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_token_new(c->server, c->now_ms, 3600, token, &err));
    fedserver_token_hash(token, hash);
    fed_hex(hash, FED_SHA256_SIZE, id);
    id[8] = '\0';
    assert_fed_ok_err(fedserver_token_withdraw(c->server, c->now_ms, id, &entry, &err));
    assert_fed_status(fedserver_token_withdraw(c->server, c->now_ms, id, &entry, &err),
                      FED_ENOTFOUND);
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = "/v1/enrol",
                                       .query = "",
                                       .bearer = token,
                                       .body = (const uint8_t *)"x",
                                       .body_len = 1};
    fedserver_response response;
    assert_fed_ok_err(fedserver_handle(c->server, &request, c->now_ms, &response, &err));
    size_t len;
    const char *text = (const char *)fedserver_blob_data(response.body, &len);
    assert_int_equal(response.status, 401);
    assert_int_equal(strncmp(text, "{\"error\":\"token_withdrawn\"", 26), 0);
    fedserver_blob_free(response.body);
}

static void refusals_are_one_line_in_ten_seconds_with_their_number(void **state) {
    coordinator *c = *state;
    for (int k = 0; k < 500; k++) {
        assert_int_equal(coordinator_status(c, NULL, "POST", "/v1/enrol", "", "x", 1), 401);
    }
    assert_int_equal(read_since(c, 0).count, 1);
    c->now_ms += 10000;
    answer a = coordinator_ask(c, NULL, "POST", "/v1/enrol", "", "x", 1);
    answer_free(&a);
    assert_string_equal(read_since(c, 0).detail, "reason=token_missing count=500");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(what_operators_and_devices_do_is_there_after_a_crash),
        WITH_COORDINATOR(what_is_done_to_passes_is_written_down),
        WITH_COORDINATOR(what_is_done_to_tasks_is_written_down),
        WITH_COORDINATOR(a_token_that_is_withdrawn_enrols_nobody),
        WITH_COORDINATOR(refusals_are_one_line_in_ten_seconds_with_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
