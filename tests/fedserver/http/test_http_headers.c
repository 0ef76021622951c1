/* The headers of answers: what a browser may do with a page, and the client's address of a
 * request. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

static void assert_page_headers(const world *w, uint16_t port) {
    fed_reply r = ask_once(w, &w->device, port, "/page", NULL);
    static const char *const wanted[] = {
        "Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; ",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Permissions-Policy: ",
        "Strict-Transport-Security: max-age="};
    for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
        assert_header(&r, wanted[k]);
    }
    assert_null(strstr(fed_reply_text(&r.headers), "unsafe-"));
    fed_reply_assert(&r, 200, "<!DOCTYPE html>");
}

static void test_a_page_may_load_nothing_from_elsewhere(void **state) {
    world *w = *state;
    assert_page_headers(w, w->front_port);
    assert_page_headers(w, w->devices_port);
}

/* The header Strict-Transport-Security would hold for every port of localhost, and other programs
 * may serve plain HTTP there. */
static void test_localhost_is_not_bound_to_https(void **state) {
    world *w = *state;
    static const char *const hosts[] = {"Host: localhost", "Host: LocalHost:8443"};
    for (size_t k = 0; k < 2; k++) {
        fed_reply r = ask_front(w, "/page", hosts[k]);
        assert_null(strstr(fed_reply_text(&r.headers), "Strict-Transport-Security"));
        fed_reply_assert(&r, 200, "<!DOCTYPE html>");
    }
    fed_reply r = ask_front(w, "/page", "Host: localhost.example");
    assert_header(&r, "Strict-Transport-Security");
    fed_reply_free(&r);
}

static void test_a_proxy_does_not_speak_for_this_machine(void **state) {
    world *w = *state;
    static const char *const lines[] = {"X-Forwarded-For: 192.0.2.1", "forwarded: for=192.0.2.1",
                                        "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1"};
    fed_reply r = ask_front(w, "/from", "Cookie: a=b; c=d");
    fed_reply_assert(&r, 200, "this machine, a=b; c=d");
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        r = ask_front(w, "/from", lines[k]);
        fed_reply_assert(&r, 200, "elsewhere, -");
    }
}

static void test_a_cookie_and_a_files_name_are_sent(void **state) {
    world *w = *state;
    fed_reply r = ask_front(w, "/cookie", NULL);
    assert_header(&r, "Set-Cookie: a=b; Secure\r\n");
    assert_header(&r, "Content-Disposition: attachment; filename=\"x.csv\"\r\n");
    assert_header(&r, "WWW-Authenticate: Bearer\r\n");
    fed_reply_free(&r);
}

static void test_only_what_never_changes_may_be_kept(void **state) {
    world *w = *state;
    fed_reply r = ask_front(w, "/kept", NULL);
    assert_header(&r, "Cache-Control: public, max-age=31536000, immutable\r\n");
    assert_header(&r, "Accept-Ranges: bytes\r\n");
    assert_null(strstr(fed_reply_text(&r.headers), "no-store"));
    fed_reply_free(&r);
    static const char *const others[] = {"/kept/not", "/echo", "/page"};
    for (size_t k = 0; k < 3; k++) {
        r = ask_front(w, others[k], NULL);
        assert_header(&r, "Cache-Control: no-store\r\n");
        fed_reply_free(&r);
    }
}

/* A GET that is answered 401 does not count as a failed trial, unlike a POST. */
static void test_looking_at_the_page_costs_no_trials(void **state) {
    world *w = *state;
    for (int k = 0; k < 30; k++) {
        fed_reply r = ask_front(w, "/cookie", NULL);
        assert_int_equal(r.status, 401);
        fed_reply_free(&r);
    }
    CURL *curl = client(w, NULL, w->front_port, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    fed_curl_expect(curl, 200, "POST /echo?");
    curl_easy_cleanup(curl);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SERVING(test_a_page_may_load_nothing_from_elsewhere),
        SERVING(test_localhost_is_not_bound_to_https),
        SERVING(test_a_proxy_does_not_speak_for_this_machine),
        SERVING(test_a_cookie_and_a_files_name_are_sent),
        SERVING(test_only_what_never_changes_may_be_kept),
        SERVING(test_looking_at_the_page_costs_no_trials),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
