/* Who may read the page: by the option --page, a login link, a session, a bearer token or a
 * certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

static void serve_with(coordinator *c, fedserver_page page) {
    fedserver_configure(c->server, &(fedserver_setup){.page = page});
}

/* GET path and return the HTTP status. `error` gets the answer's error word, or "" for a page. */
static int look(coordinator *c, const char *path, char error[32]) {
    answer a = coordinator_ask(c, NULL, "GET", path, "", NULL, 0);
    memcpy(error, a.error, sizeof a.error);
    answer_free(&a);
    return a.status;
}

static void expect(coordinator *c, int status) {
    static const char *const paths[] = {"/", "/v1/status", "/metrics"};
    char error[32];
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        assert_int_equal(look(c, paths[k], error), status);
        assert_string_equal(error, status == 200 || k == 0 ? "" : "login");
    }
}

static void pass(coordinator *c, fedserver_pass_kind kind, char token[FEDSERVER_TOKEN]) {
    fed_error err = {0};
    coordinator_commit(c);
    assert_fed_ok_err(
        fedserver_pass_grant(c->server, c->now_ms, kind, FEDSERVER_LINK_S, token, &err));
}

/* Log in with a link. Returns the HTTP status, and puts the cookie into c->cookie as a browser
 * would send it. */
static int login(coordinator *c, const char *token, char error[32]) {
    static char cookie[128];
    answer a = coordinator_ask(c, NULL, "POST", "/v1/login", "", token, strlen(token));
    memcpy(error, a.error, sizeof a.error);
    if (a.status == 200) {
        assert_non_null(
            strstr(a.set_cookie, "; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict"));
        snprintf(cookie, sizeof cookie, "theme=dark; %.*s", (int)strcspn(a.set_cookie, ";"),
                 a.set_cookie);
        c->cookie = cookie;
    } else {
        assert_string_equal(a.set_cookie, "");
    }
    answer_free(&a);
    return a.status;
}

static void each_policy_admits_those_it_names(void **state) {
    coordinator *c = *state;
    static const int here[] = {200, 401, 200}, elsewhere[] = {401, 401, 200};
    for (int page = FEDSERVER_PAGE_LOOPBACK; page <= FEDSERVER_PAGE_ALL; page++) {
        serve_with(c, (fedserver_page)page);
        c->from_elsewhere = false;
        expect(c, here[page]);
        c->from_elsewhere = true;
        expect(c, elsewhere[page]);
    }
}

static void a_stranger_is_told_what_to_do(void **state) {
    coordinator *c = *state;
    c->from_elsewhere = true;
    answer a = coordinator_ask(c, NULL, "GET", "/", "", NULL, 0);
    assert_int_equal(a.status, 401);
    assert_string_equal(a.content_type, "text/html; charset=utf-8");
    assert_non_null(strstr((char *)a.body, "fedserver page --dir DIR"));
    answer_free(&a);
    a = coordinator_ask(c, NULL, "GET", "/v1/status", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "fedserver page --dir DIR"));
    answer_free(&a);
}

/* Paths that reveal nothing about the training, above all enrolment, need no login. */
static void what_a_stranger_needs_stays_open(void **state) {
    coordinator *c = *state;
    static const char *const paths[] = {"/login", "/login.js", "/page.css", "/page.js"};
    char error[32];
    c->from_elsewhere = true;
    serve_with(c, FEDSERVER_PAGE_OPERATORS);
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        assert_int_equal(look(c, paths[k], error), 200);
    }
    (void)coordinator_enrol(c);
}

static void a_link_logs_in_once(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], error[32];
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_LINK, link);
    assert_int_equal(login(c, link, error), 200);
    expect(c, 200);
    assert_int_equal(login(c, link, error), 401);
    assert_string_equal(error, "link_used");
    expect(c, 200);
}

static void a_link_expires_after_ten_minutes(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], error[32];
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_LINK, link);
    coordinator_wait(c, FEDSERVER_LINK_S * 1000);
    assert_int_equal(login(c, link, error), 401);
    assert_string_equal(error, "link_expired");
    expect(c, 401);
}

static void other_tokens_do_not_log_in(void **state) {
    coordinator *c = *state;
    char bearer[FEDSERVER_TOKEN], token[FEDSERVER_TOKEN], error[32];
    fed_error err = {0};
    pass(c, FEDSERVER_PASS_READER, bearer);
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_token_new(c->server, c->now_ms, 3600, token, &err));
    const char *const wrong[] = {bearer, token, "", "x"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        assert_int_equal(login(c, wrong[k], error), 401);
        assert_string_equal(error, "link_unknown");
    }
}

static void a_session_ends_after_twelve_hours(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], error[32];
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_LINK, link);
    assert_int_equal(login(c, link, error), 200);
    coordinator_wait(c, FEDSERVER_SESSION_S * 1000LL - 1);
    expect(c, 200);
    coordinator_wait(c, 1);
    expect(c, 401);
}

static void a_wrong_cookie_is_a_strangers(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], error[32], cookie[200];
    static const char *const forms[] = {"__Host-fed=%s",
                                        "__Host-fed=%sx",
                                        "__Host-fed=",
                                        "__Host-fed",
                                        "x__Host-fed=%s",
                                        ";;= ;",
                                        ""};
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_LINK, link);
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        snprintf(cookie, sizeof cookie, forms[k], link);
        c->cookie = cookie;
        expect(c, 401);
    }
    assert_int_equal(login(c, link, error), 200);
    char *last = strchr(c->cookie, '\0') - 1;
    *last = *last == 'A' ? 'B' : 'A';
    expect(c, 401);
}

static void a_bearer_token_reads_until_it_expires(void **state) {
    coordinator *c = *state;
    char bearer[FEDSERVER_TOKEN], link[FEDSERVER_TOKEN];
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_READER, bearer);
    pass(c, FEDSERVER_PASS_LINK, link);
    c->bearer = link;
    expect(c, 401);
    c->bearer = bearer;
    expect(c, 200);
    expect(c, 200);
    coordinator_wait(c, FEDSERVER_LINK_S * 1000);
    expect(c, 401);
}

static void everything_can_be_revoked_at_once(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], bearer[FEDSERVER_TOKEN], error[32];
    fed_error err = {0};
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_READER, bearer);
    pass(c, FEDSERVER_PASS_LINK, link);
    assert_int_equal(login(c, link, error), 200);
    c->bearer = bearer;
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_pass_revoke_all(c->server, c->now_ms, &err));
    coordinator_commit(c);
    expect(c, 401);
    c->cookie = NULL;
    expect(c, 401);
}

static void passes_outlive_a_crash(void **state) {
    coordinator *c = *state;
    char link[FEDSERVER_TOKEN], error[32];
    c->from_elsewhere = true;
    pass(c, FEDSERVER_PASS_LINK, link);
    assert_int_equal(login(c, link, error), 200);
    coordinator_restart(c);
    expect(c, 200);
    assert_int_equal(login(c, link, error), 401);
}

static void an_operators_certificate_reads_on_the_other_port(void **state) {
    coordinator *c = *state;
    static const char *const paths[] = {"/", "/page.css", "/page.js", "/v1/status", "/metrics"};
    serve_with(c, FEDSERVER_PAGE_OPERATORS);
    const fedserver_grant grant = {.ttl_s = 60, .role = FEDSERVER_ROLE_OPERATOR};
    test_device operator= coordinator_enrol_as(c, &grant), device = coordinator_enrol(c);
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        assert_int_equal(coordinator_status(c, &operator, "GET", paths[k], "", NULL, 0), 200);
        answer a = coordinator_ask(c, &device, "GET", paths[k], "", NULL, 0);
        answer_expect(&a, 403, "role");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(each_policy_admits_those_it_names),
        WITH_COORDINATOR(a_stranger_is_told_what_to_do),
        WITH_COORDINATOR(what_a_stranger_needs_stays_open),
        WITH_COORDINATOR(a_link_logs_in_once),
        WITH_COORDINATOR(a_link_expires_after_ten_minutes),
        WITH_COORDINATOR(other_tokens_do_not_log_in),
        WITH_COORDINATOR(a_session_ends_after_twelve_hours),
        WITH_COORDINATOR(a_wrong_cookie_is_a_strangers),
        WITH_COORDINATOR(a_bearer_token_reads_until_it_expires),
        WITH_COORDINATOR(everything_can_be_revoked_at_once),
        WITH_COORDINATOR(passes_outlive_a_crash),
        WITH_COORDINATOR(an_operators_certificate_reads_on_the_other_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
