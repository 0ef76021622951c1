/* The headers of an answer: what browsers may do with it, and who a request is from. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

static void assert_page_headers(const world *w, uint16_t port) {
    CURL *curl = client(w, &w->device, port, "/page");
    fed_reply r = fed_curl_ask(curl);
    static const char *const wanted[] = {
        "Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; ",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Permissions-Policy: ",
        "Strict-Transport-Security: max-age="};
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        assert_non_null(strstr(fed_reply_text(&r.headers), wanted[k]));
    }
    assert_null(strstr(fed_reply_text(&r.headers), "unsafe-"));
    fed_reply_assert(&r, 200, "<!DOCTYPE html>");
    curl_easy_cleanup(curl);
}

static void test_a_page_may_load_nothing_from_elsewhere(void **state) {
    world *w = *state;
    start(w);
    assert_page_headers(w, w->front_port);
    assert_page_headers(w, w->devices_port);
    finish(w);
}

/* The answer to GET path with one more header. */
static fed_reply ask_with(const world *w, const char *path, const char *line) {
    CURL *curl = client(w, NULL, w->front_port, path);
    struct curl_slist *headers = curl_slist_append(NULL, line);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    fed_reply r = fed_curl_ask(curl);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return r;
}

/* It would hold for every port of this machine, and other programs serve plain HTTP there. */
static void test_localhost_is_not_bound_to_https(void **state) {
    world *w = *state;
    start(w);
    static const char *const hosts[] = {"Host: localhost", "Host: LocalHost:8443"};
    for (size_t k = 0; k < 2; k++) {
        fed_reply r = ask_with(w, "/page", hosts[k]);
        assert_null(strstr(fed_reply_text(&r.headers), "Strict-Transport-Security"));
        fed_reply_assert(&r, 200, "<!DOCTYPE html>");
    }
    fed_reply r = ask_with(w, "/page", "Host: localhost.example");
    assert_non_null(strstr(fed_reply_text(&r.headers), "Strict-Transport-Security"));
    fed_reply_free(&r);
    finish(w);
}

static void test_a_proxy_does_not_speak_for_this_machine(void **state) {
    world *w = *state;
    start(w);
    static const char *const lines[] = {"X-Forwarded-For: 192.0.2.1", "forwarded: for=192.0.2.1",
                                        "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1"};
    fed_reply r = ask_with(w, "/from", "Cookie: a=b; c=d");
    fed_reply_assert(&r, 200, "this machine, a=b; c=d");
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        r = ask_with(w, "/from", lines[k]);
        fed_reply_assert(&r, 200, "elsewhere, -");
    }
    finish(w);
}

static void test_a_cookie_and_a_files_name_are_sent(void **state) {
    world *w = *state;
    start(w);
    fed_reply r = ask_with(w, "/cookie", "X-Nothing: 1");
    assert_non_null(strstr(fed_reply_text(&r.headers), "Set-Cookie: a=b; Secure\r\n"));
    assert_non_null(strstr(fed_reply_text(&r.headers),
                           "Content-Disposition: attachment; filename=\"x.csv\"\r\n"));
    assert_non_null(strstr(fed_reply_text(&r.headers), "WWW-Authenticate: Bearer\r\n"));
    fed_reply_free(&r);
    finish(w);
}

static void test_only_what_never_changes_may_be_kept(void **state) {
    world *w = *state;
    start(w);
    fed_reply r = ask_with(w, "/kept", "X-Nothing: 1");
    assert_non_null(strstr(fed_reply_text(&r.headers),
                           "Cache-Control: public, max-age=31536000, immutable\r\n"));
    assert_non_null(strstr(fed_reply_text(&r.headers), "Accept-Ranges: bytes\r\n"));
    assert_null(strstr(fed_reply_text(&r.headers), "no-store"));
    fed_reply_free(&r);
    static const char *const others[] = {"/kept/not", "/echo", "/page"};
    for (size_t k = 0; k < 3; k++) {
        r = ask_with(w, others[k], "X-Nothing: 1");
        assert_non_null(strstr(fed_reply_text(&r.headers), "Cache-Control: no-store\r\n"));
        fed_reply_free(&r);
    }
    finish(w);
}

/* Who is sent away from the page has tried nothing: whoever enrols from there is let in. */
static void test_looking_at_the_page_costs_no_trials(void **state) {
    world *w = *state;
    start(w);
    for (int k = 0; k < 30; k++) {
        fed_reply r = ask_with(w, "/cookie", "X-Nothing: 1");
        assert_int_equal(r.status, 401);
        fed_reply_free(&r);
    }
    CURL *curl = client(w, NULL, w->front_port, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    fed_reply r = fed_curl_ask(curl);
    fed_reply_assert(&r, 200, "POST /echo?");
    curl_easy_cleanup(curl);
    finish(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_may_load_nothing_from_elsewhere),
        cmocka_unit_test(test_localhost_is_not_bound_to_https),
        cmocka_unit_test(test_a_proxy_does_not_speak_for_this_machine),
        cmocka_unit_test(test_a_cookie_and_a_files_name_are_sent),
        cmocka_unit_test(test_only_what_never_changes_may_be_kept),
        cmocka_unit_test(test_looking_at_the_page_costs_no_trials),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = cmocka_run_group_tests(tests, setup, teardown);
    curl_global_cleanup();
    return failed;
}
