/* The audit log: it records who did what and when, and requests of strangers can't fill it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed/file.h"
#include "fedserver/identity/passes.h"

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
    assert_string_equal(coordinator_audit(c, 0).events, "token_made enrolled renamed revoked ");
    const audit_lines since = coordinator_audit(c, c->now_ms);
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
    char id[FEDSERVER_PASS_ID], wanted[80];
    fedserver_pass_id(token, id);
    snprintf(wanted, sizeof wanted, "kind=bearer bearer=%s seconds=60", id);
    assert_string_equal(coordinator_audit(c, 0).detail, wanted);
    assert_fed_ok_err(fedserver_pass_revoke_all(c->server, c->now_ms, &err));
    assert_string_equal(coordinator_audit(c, 0).events, "pass_made pass_made passes_ended ");
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
    const audit_lines l = coordinator_audit(c, c->now_ms);
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
    assert_int_equal(coordinator_audit(c, 0).count, 1);
    c->now_ms += 10000;
    answer a = coordinator_ask(c, NULL, "POST", "/v1/enrol", "", "x", 1);
    answer_free(&a);
    assert_string_equal(coordinator_audit(c, 0).detail,
                        "reason=token_missing count=500 address=127.0.0.1");
}

static void the_same_refusal_over_and_over_does_not_fill_the_log(void **state) {
    coordinator *c = *state;
    enum { EVERY_MS = 15000, ASKED = 4 * 3600 * 1000 / EVERY_MS };
    c->from_elsewhere = true;
    c->bearer = "a pass that was ended";
    for (int k = 0; k < ASKED; k++) { /* a program, for four hours */
        assert_int_equal(coordinator_status(c, NULL, "GET", "/metrics", "", NULL, 0), 401);
        c->now_ms += EVERY_MS;
    }
    assert_in_range(coordinator_audit(c, 0).count, 5, 15);
    c->bearer = "another pass"; /* another visitor does not wait */
    c->now_ms += EVERY_MS;
    assert_int_equal(coordinator_status(c, NULL, "GET", "/metrics", "", NULL, 0), 401);
    assert_int_equal(
        strncmp(coordinator_audit(c, c->now_ms).detail, "reason=pass_unknown count=", 26), 0);
}

/* ---- who ---- */

#define BY_VISITOR " address=192.0.2.7"

typedef struct seen {
    char kinds[400];
} seen;

/* Each row ends with the user of a command, or with a visitor's address and what it showed. */
static fed_status check_row(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    static const char *const shown[] = {"token=", "session=", "bearer=", "certificate=", "device="};
    seen *s = user;
    char kind[40];
    const char *who = strstr(entry->detail, BY_VISITOR);
    bool names = strstr(entry->detail, " uid=1000") != NULL;
    (void)err;
    for (size_t k = 0; who != NULL && k < sizeof shown / sizeof shown[0]; k++) {
        names = names || strstr(entry->detail, shown[k]) != NULL;
    }
    names = names || (who != NULL && strcmp(entry->event, "refused") == 0);
    if (!names) {
        fail_msg("%s %s does not say who", entry->event, entry->detail);
    }
    snprintf(kind, sizeof kind, "%s ", entry->event);
    if (strstr(s->kinds, kind) == NULL) {
        strcat(s->kinds, kind);
    }
    return FED_OK;
}

static void ask_for(coordinator *c, const test_device *d, const char *path, int status) {
    c->now_ms += 11 * 1000; /* so that each refusal has a row */
    assert_int_equal(coordinator_status(c, d, "GET", path, "", NULL, 0), status);
}

static int post(coordinator *c, const char *path, const char *text) {
    c->now_ms += 11 * 1000;
    return coordinator_status(c, NULL, "POST", path, "", text, strlen(text));
}

static void operate(coordinator *c) {
    fed_error err = {0};
    char hex[FED_SHA256_HEX], token[FEDSERVER_TOKEN];
    fedserver_entry entry;
    fedserver_token_entry withdrawn;
    fedserver_act_for(c->server, "uid=1000");
    fed_hex(coordinator_enrol(c).fingerprint, FED_SHA256_SIZE, hex);
    coordinator_commit(c);
    fedserver_act_for(c->server, "uid=1000");
    assert_fed_ok_err(fedserver_device_rename(c->server, c->now_ms, hex, "pump", &entry, &err));
    assert_fed_ok_err(fedserver_device_revoke(c->server, c->now_ms, hex, &entry, &err));
    assert_fed_ok_err(fedserver_token_new(c->server, c->now_ms, 3600, token, &err));
    fedserver_pass_id(token, hex);
    assert_fed_ok_err(fedserver_token_withdraw(c->server, c->now_ms, hex, &withdrawn, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_PAUSE, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_RESUME, &err));
    assert_fed_ok_err(fedserver_task_move(c->server, c->now_ms, 2, 1, &err));
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_CANCEL, &err));
    assert_fed_ok_err(fedserver_pass_revoke_all(c->server, c->now_ms, &err));
    fedserver_act_for(c->server, "");
}

/* Enrol, renew, log in, download the model, and be refused in each way. */
static void visit(coordinator *c) {
    fed_error err = {0};
    fed_pem csr;
    char link[FEDSERVER_TOKEN], bearer[FEDSERVER_TOKEN], cookie[128];
    const fedserver_grant grant = {.ttl_s = 3600, .role = FEDSERVER_ROLE_OPERATOR};
    fedserver_act_for(c->server, "uid=1000");
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_LINK, 600, link, &err));
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_READER, 600, bearer, &err));
    const test_device person = coordinator_enrol_as(c, &grant);
    c->now_ms += INT64_C(300) * 24 * 3600 * 1000; /* later the link has expired */
    assert_fed_ok_err(fed_csr_new(&person.key, "test", &csr, &err));
    assert_int_equal(post(c, "/v1/renew", csr.text), 200);
    assert_int_equal(post(c, "/v1/renew", "no PEM"), 400);
    assert_int_equal(post(c, "/v1/enrol", csr.text), 401);
    assert_int_equal(post(c, "/v1/login", link), 401);
    ask_for(c, &person, "/model.safetensors", 200);
    c->bearer = bearer;
    ask_for(c, NULL, "/v1/status", 401);
    c->bearer = NULL;
    coordinator_commit(c);
    fedserver_act_for(c->server, "uid=1000");
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_LINK, 600, link, &err));
    answer a = coordinator_ask(c, NULL, "POST", "/v1/login", "", link, strlen(link));
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(a.set_cookie, ";"), a.set_cookie);
    answer_free(&a);
    c->cookie = cookie;
    ask_for(c, NULL, "/model.safetensors", 200);
    c->cookie = NULL;
}

static void assert_documented(const char *kinds) {
    enum { MOST = 1 << 20 };
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(FED_SOURCE_DIR "/docs/monitoring.md", MOST, &text, &len, &err));
    for (const char *at = kinds; *at != '\0'; at += strcspn(at, " ") + 1) {
        char word[40];
        snprintf(word, sizeof word, "`%.*s`", (int)strcspn(at, " "), at);
        assert_non_null(strstr((const char *)text, word));
    }
    free(text);
}

static void each_kind_of_row_says_who(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    seen s = {.kinds = ""};
    c->from_elsewhere = true;
    for (int k = 0; k < 2; k++) {
        fedserver_act_for(c->server, "uid=1000");
        coordinator_task(c, "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}");
        if (k == 0) {
            coordinator_one_at_a_time(c);
        }
    }
    coordinator_commit(c);
    visit(c);
    operate(c);
    assert_fed_ok_err(fedserver_audit_each(c->server, 0, check_row, &s, &err));
    assert_documented(s.kinds);
    assert_string_equal(s.kinds,
                        "task_queued pass_made token_made enrolled renewed refused "
                        "model_downloaded logged_in renamed revoked token_withdrawn task_paused "
                        "task_resumed task_moved task_cancelled passes_ended ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(what_operators_and_devices_do_is_there_after_a_crash),
        WITH_COORDINATOR(what_is_done_to_passes_is_written_down),
        WITH_COORDINATOR(what_is_done_to_tasks_is_written_down),
        WITH_COORDINATOR(a_token_that_is_withdrawn_enrols_nobody),
        WITH_COORDINATOR(refusals_are_one_line_in_ten_seconds_with_their_number),
        WITH_COORDINATOR(the_same_refusal_over_and_over_does_not_fill_the_log),
        WITH_COORDINATOR(each_kind_of_row_says_who),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
