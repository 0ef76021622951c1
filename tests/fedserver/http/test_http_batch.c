/* Batches: which answers leave before the commit, and which wait for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

enum { SOON_MS = 10000, NOT_YET_MS = 300 };

static CURL *connected(const world *w) {
    return raw(w, &w->device, w->devices_port);
}

static void ask(CURL *curl, const char *path) {
    char request[128];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    fed_curl_send(curl, request);
}

static void assert_answered(CURL *curl, const char *part) {
    char heard[1024];
    fed_curl_receive_for(curl, part, heard, sizeof heard, SOON_MS);
    assert_non_null(strstr(heard, part));
}

static void assert_not_answered(CURL *curl, int ms) {
    char heard[1024];
    fed_curl_receive_for(curl, "HTTP", heard, sizeof heard, ms);
    assert_string_equal(heard, "");
}

/* stop: whether the tick before a batch's commit waits. */
static void stop_in_the_tick(world *w, bool stop) {
    atomic_store(&w->server.tick_waits, stop);
}

static void test_an_answer_that_promises_nothing_leaves_before_the_commit(void **state) {
    world *w = *state;
    CURL *curl = connected(w);
    stop_in_the_tick(w, true);
    ask(curl, "/echo");
    assert_answered(curl, "/echo?");
    stop_in_the_tick(w, false);
    curl_easy_cleanup(curl);
}

static void test_a_promise_leaves_after_the_commit(void **state) {
    world *w = *state;
    CURL *curl = connected(w);
    stop_in_the_tick(w, true);
    ask(curl, "/promise");
    assert_not_answered(curl, NOT_YET_MS);
    stop_in_the_tick(w, false);
    assert_answered(curl, "/promise?");
    ask(curl, "/echo"); /* a new batch, in which nothing is written */
    assert_answered(curl, "/echo?");
    curl_easy_cleanup(curl);
}

/* Wait until the server's system has acknowledged all sent bytes, so that the server can read
 * them. */
static void await_delivery(CURL *curl) {
    curl_socket_t fd = CURL_SOCKET_BAD;
    int left = 1;
    assert_int_equal(curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd), CURLE_OK);
    for (int k = 0; k < SOON_MS && left != 0; k++) {
        assert_int_equal(ioctl(fd, SIOCOUTQ, &left), 0);
        fed_sleep_ms(1);
    }
    assert_int_equal(left, 0);
}

/* Send three requests on three connections. While the batch of the first request ends, the other
 * two requests arrive, so they are together in the next batch. */
static void ask_in_one_batch(world *w, CURL *curls[3], const char *second, const char *third) {
    for (int k = 0; k < 3; k++) {
        curls[k] = connected(w);
    }
    stop_in_the_tick(w, true);
    ask(curls[0], "/first");
    assert_answered(curls[0], "/first?");
    ask(curls[1], second);
    await_delivery(curls[1]);
    ask(curls[2], third);
    await_delivery(curls[2]);
}

static void ask_behind_a_write(world *w, CURL *curls[3]) {
    ask_in_one_batch(w, curls, "/promise", "/after");
}

static void close_all(CURL *curls[3]) {
    for (int k = 0; k < 3; k++) {
        curl_easy_cleanup(curls[k]);
    }
}

static void test_an_answer_behind_a_write_waits_too(void **state) {
    world *w = *state;
    CURL *curls[3];
    start(w);
    ask_behind_a_write(w, curls);
    atomic_store(&w->server.commit_fails, true);
    stop_in_the_tick(w, false);
    join(w);
    assert_fed_status(w->status, FED_EIO);
    assert_int_equal(atomic_load(&w->server.handled), 3);
    assert_not_answered(curls[1], SOON_MS);
    assert_not_answered(curls[2], SOON_MS);
    close_all(curls);
    atomic_store(&w->server.commit_fails, false);
}

static void test_both_are_answered_where_the_commit_succeeds(void **state) {
    world *w = *state;
    CURL *curls[3];
    ask_behind_a_write(w, curls);
    stop_in_the_tick(w, false);
    assert_answered(curls[1], "/promise?");
    assert_answered(curls[2], "/after?");
    close_all(curls);
}

/* The last two requests are in one batch. The first of them waits for the next epoch, and the
 * second starts that epoch. */
static void test_who_waits_misses_no_epoch_of_its_own_batch(void **state) {
    world *w = *state;
    CURL *curls[3];
    ask_in_one_batch(w, curls, "/hold?50000", "/wake");
    stop_in_the_tick(w, false);
    assert_answered(curls[1], "held");
    close_all(curls);
}

static void test_a_failing_request_ends_the_server(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = connected(w);
    ask(curl, "/broken");
    assert_not_answered(curl, SOON_MS);
    join(w);
    assert_fed_status(w->status, FED_EIO);
    assert_string_equal(w->err.text, "the disk is gone");
    curl_easy_cleanup(curl);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SERVING(test_an_answer_that_promises_nothing_leaves_before_the_commit),
        SERVING(test_a_promise_leaves_after_the_commit),
        cmocka_unit_test(test_an_answer_behind_a_write_waits_too),
        SERVING(test_both_are_answered_where_the_commit_succeeds),
        SERVING(test_who_waits_misses_no_epoch_of_its_own_batch),
        cmocka_unit_test(test_a_failing_request_ends_the_server),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
