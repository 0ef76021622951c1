/* Acting through the page: what an operator does there, and who else may not do it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"
#include "fed_cases.h"
#include "fedserver/identity/passes.h"
#include "fedserver/rounds/running.h"
#include "fedserver/routes/acting.h"

static const char leaves[] =
    "{\"name\": \"leaves\", \"model\": \"lr\", \"rounds\": 3, \"cohort\": 1}";

/* Log in, and let the next requests be those of the page of that session. */
static void log_in(coordinator *c) {
    static char cookie[128], act[FED_SHA256_HEX];
    char link[FEDSERVER_TOKEN], token[FEDSERVER_TOKEN];
    fed_error err = {0};
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_LINK,
                                           FEDSERVER_LINK_S, link, &err));
    answer a = coordinator_ask(c, NULL, "POST", "/v1/login", "", link, strlen(link));
    assert_int_equal(a.status, 200);
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(a.set_cookie, ";"), a.set_cookie);
    snprintf(token, sizeof token, "%s", strchr(cookie, '=') + 1);
    answer_free(&a);
    fedserver_pass_act_token(token, act);
    c->cookie = cookie;
    c->act = act;
    c->host = "fed.example.org:8443";
    c->origin = "https://fed.example.org:8443";
    c->fetch_site = "same-origin";
}

static answer act(coordinator *c, const char *path, const char *body) {
    return coordinator_ask(c, NULL, "POST", path, "", body, strlen(body));
}

static void expect(coordinator *c, const char *path, const char *body, int status,
                   const char *word) {
    answer a = act(c, path, body);
    answer_expect(&a, status, word);
}

static fedserver_task task_of(const coordinator *c, uint64_t id) {
    fedserver_task task;
    fed_error err = {0};
    assert_fed_ok_err(
        c->server->store->task_find(c->server->db, FEDSERVER_PICK_ID, id, &task, &err));
    return task;
}

static void run_a_task(coordinator *c) {
    coordinator_task(c, leaves);
    coordinator_wait(c, 1000);
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
}

FED_TEST_WITH(an_operator_pauses_resumes_and_cancels_a_task, coordinator *c) {
    run_a_task(c);
    log_in(c);
    c->now_ms += 1000;
    const int64_t since_ms = c->now_ms;
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 200, "");
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_PAUSED);
    coordinator_commit(c);
    assert_null(fedserver_rounds_task(&c->server->rounds, 1));
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"resume\"}", 200, "");
    coordinator_wait(c, 1000);
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
    answer a = act(c, "/v1/task", "{\"task\": 1, \"do\": \"cancel\", \"name\": \"leaves\"}");
    assert_string_equal((char *)a.body,
                        "{\"task\":1,\"name\":\"leaves\",\"state\":\"cancelled\",\"priority\":5}");
    answer_free(&a);
    coordinator_commit(c);
    assert_null(fedserver_rounds_task(&c->server->rounds, 1));
    assert_string_equal(coordinator_audit(c, since_ms).events,
                        "task_paused task_resumed task_cancelled ");
}

FED_TEST_WITH(the_audit_log_says_whose_session_acted, coordinator *c) {
    char id[FEDSERVER_PASS_ID], wanted[120];
    run_a_task(c);
    log_in(c);
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 200, "");
    fedserver_pass_id(strchr(c->cookie, '=') + 1, id);
    snprintf(wanted, sizeof wanted, "task=1 name=\"leaves\" address=%s session=%s", "?", id);
    const audit_lines l = coordinator_audit(c, 0);
    assert_non_null(strstr(l.events, "task_paused "));
    assert_non_null(strstr(l.detail, strstr(wanted, "session=")));
    assert_non_null(strstr(l.detail, "task=1 name=\"leaves\" address="));
}

FED_TEST_WITH(a_larger_priority_holds_at_once_and_after_a_restart, coordinator *c) {
    run_a_task(c);
    log_in(c);
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"priority\", \"priority\": 9}", 200, "");
    coordinator_commit(c);
    assert_int_equal(fedserver_rounds_task(&c->server->rounds, 1)->task.priority, 9);
    coordinator_restart(c);
    assert_int_equal(task_of(c, 1).priority, 9);
    assert_non_null(strstr(coordinator_audit(c, 0).detail, "priority=9 was=5"));
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"priority\", \"priority\": 10}", 400, "value");
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"priority\"}", 400, "value");
    assert_int_equal(task_of(c, 1).priority, 9);
}

FED_TEST_WITH(a_cancel_needs_the_tasks_name, coordinator *c) {
    run_a_task(c);
    log_in(c);
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"cancel\"}", 409, "name");
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"cancel\", \"name\": \"leave\"}", 409, "name");
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
}

FED_TEST_WITH(what_was_done_already_changes_nothing, coordinator *c) {
    run_a_task(c);
    log_in(c);
    const int64_t since_ms = ++c->now_ms;
    for (int k = 0; k < 3; k++) {
        expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 200, "");
        expect(c, "/v1/task", "{\"task\": 1, \"do\": \"priority\", \"priority\": 7}", 200, "");
    }
    for (int k = 0; k < 3; k++) {
        expect(c, "/v1/task", "{\"task\": 1, \"do\": \"cancel\", \"name\": \"leaves\"}", 200, "");
    }
    assert_string_equal(coordinator_audit(c, since_ms).events,
                        "task_paused task_prioritized task_cancelled ");
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"resume\"}", 409, "state");
    expect(c, "/v1/task", "{\"task\": 9, \"do\": \"pause\"}", 404, "absent");
}

FED_TEST_WITH(a_token_of_the_page_enrols_one_device, coordinator *c) {
    char hash[FED_SHA256_HEX];
    uint8_t bytes[FED_SHA256_SIZE];
    log_in(c);
    answer a = act(c, "/v1/token",
                   "{\"role\": \"device\", \"name\": \"kiln\", \"tag\": \"north\", \"hours\": 2}");
    assert_int_equal(a.status, 200);
    json_t *made = json_loads((char *)a.body, 0, NULL);
    const char *token = json_string_value(json_object_get(made, "token"));
    assert_int_equal(strlen(token), FEDSERVER_TOKEN - 1);
    assert_int_equal(json_integer_value(json_object_get(made, "expires_ms")),
                     c->now_ms + 2 * 3600 * 1000);
    fedserver_token_hash(token, bytes);
    fed_hex(bytes, 6, hash);
    const audit_lines l = coordinator_audit(c, 0);
    assert_non_null(strstr(l.detail, hash));
    assert_non_null(strstr(l.detail, "role=device tag=\"north\" name=\"kiln\" address="));
    assert_null(strstr(l.detail, token));
    c->bearer = token;
    expect(c, "/v1/enrol", "x", 400, "bad_request");
    json_decref(made);
    answer_free(&a);
}

#define KEY "0123456789abcdef0123456789abcdef"

/* The token that an answer has, which the next call overwrites. */
static const char *token_asked(coordinator *c, const char *body, int64_t made_ms) {
    static char token[FEDSERVER_TOKEN];
    answer a = act(c, "/v1/token", body);
    assert_int_equal(a.status, 200);
    json_t *made = json_loads((char *)a.body, 0, NULL);
    snprintf(token, sizeof token, "%s", json_string_value(json_object_get(made, "token")));
    assert_int_equal(json_integer_value(json_object_get(made, "expires_ms")),
                     made_ms + 24 * 3600 * 1000);
    json_decref(made);
    answer_free(&a);
    return token;
}

FED_TEST_WITH(a_token_request_that_is_repeated_makes_no_second_token, coordinator *c) {
    static const char kiln[] = "{\"role\": \"device\", \"name\": \"kiln\", \"key\": \"" KEY "\"}";
    char first[FEDSERVER_TOKEN];
    fed_error err = {0};
    log_in(c);
    const int64_t made_ms = c->now_ms;
    snprintf(first, sizeof first, "%s", token_asked(c, kiln, made_ms));
    coordinator_restart(c); /* the answer was lost, and so is all that was in memory */
    c->now_ms += 60000;
    assert_string_equal(token_asked(c, kiln, made_ms), first);
    assert_string_equal(coordinator_audit(c, 0).events, "pass_made logged_in token_made ");
    expect(c, "/v1/token", "{\"role\": \"evaluator\", \"name\": \"kiln\", \"key\": \"" KEY "\"}",
           409, "state");
    expect(c, "/v1/token", "{\"role\": \"device\", \"name\": \"oven\", \"key\": \"" KEY "\"}", 409,
           "state");
    expect(c, "/v1/token",
           "{\"role\": \"device\", \"name\": \"kiln\", \"hours\": 2, \"key\": \"" KEY "\"}", 409,
           "state");
    uint8_t hash[FED_SHA256_SIZE];
    char id[FEDSERVER_PASS_ID];
    fedserver_token_hash(first, hash);
    fedserver_pass_id(first, id);
    fedserver_token_entry entry;
    assert_fed_ok_err(fedserver_token_withdraw(c->server, c->now_ms, id, &entry, &err));
    answer a = act(c, "/v1/token", kiln);
    assert_non_null(strstr((char *)a.body, "is withdrawn already: ask for another"));
    answer_expect(&a, 409, "state");
    log_in(c); /* another session's token with that key is another one */
    assert_string_not_equal(token_asked(c, kiln, c->now_ms), first);
    expect(c, "/v1/token", "{\"role\": \"device\", \"key\": \"0123456789abcdef\"}", 400, "format");
    expect(c, "/v1/token", "{\"role\": \"device\", \"key\": 7}", 400, "format");
}

FED_TEST_WITH(the_page_makes_no_tokens_for_operators_or_for_years, coordinator *c) {
    static const char *const wrong[] = {
        "{\"role\": \"operator\"}",
        "{}",
        "{\"role\": \"device\", \"hours\": 0}",
        "{\"role\": \"device\", \"hours\": 721}",
        "{\"role\": \"device\", \"hours\": \"24\"}",
        "{\"role\": \"device\", \"hours\": 1e300}",
    };
    log_in(c);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        expect(c, "/v1/token", wrong[k], 400, "format");
    }
    expect(c, "/v1/token", "{\"role\": \"device\", \"name\": \"two\\nlines\"}", 400, "value");
    assert_null(strstr(coordinator_audit(c, 0).events, "token_made"));
}

FED_TEST_WITH(a_revoked_devices_next_request_is_refused, coordinator *c) {
    const test_device d = coordinator_enrol(c), other = coordinator_enrol(c);
    char hex[FED_SHA256_HEX], body[120];
    run_a_task(c);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_TRAIN);
    log_in(c);
    fed_hex(d.fingerprint, FED_SHA256_SIZE, hex);
    snprintf(body, sizeof body, "{\"fingerprint\": \"%s\"}", hex);
    for (int k = 0; k < 2; k++) {
        expect(c, "/v1/revoke", body, 200, "");
    }
    answer a = coordinator_ask(c, &d, "POST", "/v1/checkin", "", "x", 1);
    answer_expect(&a, 403, "device_revoked");
    (void)device_ask_work(c, &other);
    const audit_lines l = coordinator_audit(c, 0);
    assert_non_null(strstr(l.events, " revoked "));
    assert_non_null(strstr(l.detail, "session="));
    expect(c, "/v1/revoke", "{\"fingerprint\": \"1234567\"}", 400, "value");
    expect(c, "/v1/revoke", "{\"fingerprint\": \"00000000\"}", 404, "absent");
    expect(c, "/v1/revoke", "{}", 400, "value");
}

/* A page of another site can make the browser send the session's cookie only where the browser does
 * not keep SameSite; even then the rest is missing. */
FED_TEST_WITH(a_forged_request_changes_nothing, coordinator *c) {
    static const char body[] = "{\"task\": 1, \"do\": \"pause\"}";
    char wrong[FED_SHA256_HEX];
    run_a_task(c);
    log_in(c);
    const char *good = c->act, *sites[] = {"cross-site", "same-site", "none", ""};
    for (size_t k = 0; k < sizeof sites / sizeof sites[0]; k++) {
        c->fetch_site = sites[k];
        expect(c, "/v1/task", body, 403, "cross_site");
    }
    const char *origins[] = {
        "https://evil.example",        "https://fed.example.org",       "null", "",
        "http://fed.example.org:8443", "https://fed.example.org:84430", NULL};
    c->fetch_site = NULL;
    for (size_t k = 0; k < sizeof origins / sizeof origins[0]; k++) {
        c->origin = origins[k];
        expect(c, "/v1/task", body, 403, "cross_site");
    }
    c->fetch_site = "same-origin";
    memcpy(wrong, good, sizeof wrong);
    wrong[63] = wrong[63] == '0' ? '1' : '0';
    const char *tokens[] = {NULL, "", wrong, "0"};
    for (size_t k = 0; k < sizeof tokens / sizeof tokens[0]; k++) {
        c->act = tokens[k];
        expect(c, "/v1/task", body, 403, "act_token");
    }
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
    assert_non_null(strstr(coordinator_audit(c, 0).events, "refused "));
    assert_null(strstr(coordinator_audit(c, 0).events, "task_paused"));
    /* a browser that sends no Sec-Fetch-Site says whose page it is in Origin */
    c->act = good;
    c->fetch_site = NULL;
    c->origin = "https://FED.example.org:8443";
    expect(c, "/v1/task", body, 200, "");
}

FED_TEST_WITH(another_sessions_token_does_not_act, coordinator *c) {
    char first[FED_SHA256_HEX];
    run_a_task(c);
    log_in(c);
    memcpy(first, c->act, sizeof first);
    log_in(c);
    c->act = first;
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 403, "act_token");
}

FED_TEST_WITH(readers_and_strangers_do_not_act, coordinator *c) {
    static const char *const paths[] = {"/v1/task", "/v1/token", "/v1/revoke"};
    static const char body[] = "{\"task\": 1, \"do\": \"pause\", \"role\": \"device\"}";
    char bearer[FEDSERVER_TOKEN];
    fed_error err = {0};
    run_a_task(c);
    log_in(c);
    coordinator_commit(c);
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, FEDSERVER_PASS_READER, 60, bearer, &err));
    c->cookie = NULL;
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        expect(c, paths[k], body, 403, "login"); /* who asks from this machine may read */
        c->from_elsewhere = true;
        expect(c, paths[k], body, 401, "login");
        c->bearer = bearer;
        expect(c, paths[k], body, 403, "login");
        c->bearer = NULL;
        c->from_elsewhere = false;
    }
    fedserver_configure(c->server, &(fedserver_setup){.page = FEDSERVER_PAGE_ALL});
    expect(c, "/v1/task", body, 403, "login");
    const fedserver_grant grant = {.ttl_s = 60, .role = FEDSERVER_ROLE_OPERATOR};
    const test_device operator= coordinator_enrol_as(c, &grant);
    answer a = coordinator_ask(c, &operator, "POST", "/v1/task", "", body, strlen(body));
    answer_expect(&a, 404, "not_found");
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
}

FED_TEST_WITH(a_page_that_only_shows_does_not_act, coordinator *c) {
    run_a_task(c);
    log_in(c);
    fedserver_configure(c->server, &(fedserver_setup){.page_reads = true});
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 403, "reads_only");
    expect(c, "/v1/token", "{\"role\": \"device\"}", 403, "reads_only");
    json_t *session = coordinator_json(c, "/v1/session", "");
    assert_true(json_is_false(json_object_get(session, "acts")));
    assert_true(json_is_null(json_object_get(session, "act_token")));
    assert_non_null(strstr(json_string_value(json_object_get(session, "why_not")), "--page read"));
    json_decref(session);
}

FED_TEST_WITH(nothing_is_changed_by_a_get, coordinator *c) {
    static const char *const paths[] = {"/v1/task", "/v1/token", "/v1/revoke"};
    log_in(c);
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        answer a = coordinator_ask(c, NULL, "GET", paths[k], "task=1&do=pause", NULL, 0);
        answer_expect(&a, 405, "method_not_allowed");
    }
}

FED_TEST_WITH(the_session_tells_its_page_the_token, coordinator *c) {
    json_t *session = coordinator_json(c, "/v1/session", "");
    assert_true(json_is_false(json_object_get(session, "acts")));
    assert_non_null(strstr(json_string_value(json_object_get(session, "why_not")), "log in"));
    json_decref(session);
    log_in(c);
    session = coordinator_json(c, "/v1/session", "");
    assert_true(json_is_true(json_object_get(session, "acts")));
    assert_string_equal(json_string_value(json_object_get(session, "act_token")), c->act);
    json_decref(session);
}

FED_TEST_WITH(after_sixty_acts_the_page_waits_for_a_minute, coordinator *c) {
    log_in(c);
    for (int k = 0; k < FEDSERVER_ACTS_A_MINUTE; k++) {
        expect(c, "/v1/token", "{\"role\": \"device\"}", 200, "");
    }
    expect(c, "/v1/token", "{\"role\": \"device\"}", 429, "acts");
    coordinator_wait(c, 60 * 1000);
    expect(c, "/v1/token", "{\"role\": \"device\"}", 200, "");
}

FED_TEST_WITH(garbage_is_refused, coordinator *c) {
    static const char *const bodies[] = {
        "",
        "[]",
        "{",
        "null",
        "{\"task\": 1, \"task\": 2, \"do\": \"pause\"}",
        "{\"task\": -1, \"do\": \"pause\"}",
        "{\"task\": \"1\", \"do\": \"pause\"}",
        "{\"task\": 1, \"do\": \"explode\"}",
        "{\"task\": 1, \"do\": 3}",
        "{\"task\": 1, \"do\": \"priority\", \"priority\": -3}",
        "{\"task\": 1, \"do\": \"priority\", \"priority\": 4294967301}",
    };
    run_a_task(c);
    log_in(c);
    for (size_t k = 0; k < sizeof bodies / sizeof bodies[0]; k++) {
        expect(c, "/v1/task", bodies[k], 400, "format");
    }
    char long_body[600];
    memset(long_body, ' ', sizeof long_body - 1);
    long_body[sizeof long_body - 1] = '\0';
    expect(c, "/v1/task", long_body, 413, "too_large");
}

/* S1 in docs/durability.md: what the batch has acknowledged is kept, and what an act writes is
 * committed with it, not before. */
FED_TEST_WITH(an_act_is_committed_with_its_batch, coordinator *c) {
    run_a_task(c);
    log_in(c);
    coordinator_commit(c);
    const test_device d = coordinator_enrol(c);
    expect(c, "/v1/task", "{\"task\": 8, \"do\": \"pause\"}", 404, "absent");
    coordinator_restart(c);
    answer a = coordinator_ask(c, &d, "POST", "/v1/checkin", "", "x", 1);
    assert_int_not_equal(a.status, 403);
    answer_free(&a);
    coordinator_commit(c);
    expect(c, "/v1/task", "{\"task\": 1, \"do\": \"pause\"}", 200, "");
    coordinator_crash(c);
    assert_int_equal(task_of(c, 1).state, FEDSERVER_TASK_RUNNING);
}

/* The front of `fedserver run` is a process of its own. */
FED_TEST_WITH(a_front_of_its_own_acts_through_the_store, coordinator *c) {
    fedserver *front;
    fed_error err = {0};
    fedserver_response response;
    static const char body[] = "{\"task\": 1, \"do\": \"pause\"}";
    run_a_task(c);
    log_in(c);
    coordinator_commit(c);
    assert_fed_ok_err(
        fedserver_open_with(c->directory, NULL, c->server->routing, NULL, &front, &err));
    fedserver_configure(front, &(fedserver_setup){.part = FEDSERVER_GATE});
    assert_fed_ok_err(fedserver_begin(front, &err));
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = "/v1/task",
                                       .query = "",
                                       .cookie = c->cookie,
                                       .fetch_site = c->fetch_site,
                                       .act = c->act,
                                       .body = (const uint8_t *)body,
                                       .body_len = sizeof body - 1};
    assert_fed_ok_err(fedserver_handle(front, &request, c->now_ms, &response, &err));
    assert_int_equal(response.status, 200);
    fedserver_blob_free(response.body);
    assert_fed_ok_err(fedserver_commit(front, &err));
    assert_false(front->rounds.queue_changed || front->rounds.tasks_changed); /* it has no rounds */
    fedserver_close(front);
    coordinator_commit(c);
    assert_null(fedserver_rounds_task(&c->server->rounds, 1));
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
