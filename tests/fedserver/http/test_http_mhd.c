/* The HTTPS adapter on libmicrohttpd: requests, refused bodies, held requests, batches, start
 * and stop. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

#include <zlib.h>

static void test_a_request_and_its_answer_pass_through_unchanged(void **state) {
    world *w = *state;
    CURL *curl = client(w, NULL, w->front_port, "/v1/echo?a=1&b=%20");
    fed_curl_header(curl, "Authorization: Bearer tok-en");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "some body");
    fed_reply r = fed_curl_ask(curl);
    assert_header(&r, "Content-Type: application/json");
    assert_header(&r, "Cache-Control: no-store");
    assert_null(strstr(fed_reply_text(&r.headers), "ETag"));
    fed_reply_assert(&r, 200, "POST /v1/echo?a=1&b=%20 tok-en 9 some body");
    fed_curl_close(curl);
}

static void test_a_large_body_arrives_whole(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    assert_echoes_large(curl, 1);
    curl_easy_cleanup(curl);
}

static void test_a_large_answer_arrives_whole(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/big");
    for (int k = 0; k < 3; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_int_equal(r.code, CURLE_OK);
        assert_int_equal(r.body.len, BIG_BLOB + 1);
        fed_reply_free(&r);
    }
    curl_easy_cleanup(curl);
}

static void test_a_connection_carries_many_requests(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    for (int k = 0; k < 20; k++) {
        fed_reply r = fed_curl_ask(curl);
        long connects = 0;
        curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connects);
        assert_int_equal(connects, k == 0 ? 1 : 0);
        assert_null(strstr(fed_reply_text(&r.headers), "Connection: close"));
        fed_reply_assert(&r, 200, "POST /echo?");
    }
    curl_easy_cleanup(curl);
}

static void test_pipelined_requests_are_all_answered(void **state) {
    world *w = *state;
    CURL *curl = raw(w, NULL, w->front_port);
    fed_curl_send(curl, "GET /one HTTP/1.1\r\nHost: x\r\n\r\nGET /two HTTP/1.1\r\nHost: x\r\n\r\n");
    char heard[2048];
    fed_curl_receive(curl, "/two?", heard, sizeof heard);
    assert_non_null(strstr(heard, "/one?"));
    assert_non_null(strstr(heard, "/two?"));
    curl_easy_cleanup(curl);
}

static void test_retry_after_is_passed_on(void **state) {
    fed_reply r = ask_front(*state, "/later", NULL);
    assert_header(&r, "Retry-After: 7");
    fed_reply_assert(&r, 503, "");
}

static void unpack(const fed_writer *packed, char *text, size_t cap) {
    z_stream z = {.next_in = packed->data,
                  .avail_in = (uInt)packed->len,
                  .next_out = (Bytef *)text,
                  .avail_out = (uInt)cap};
    memset(text, 0, cap);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
}

static void test_a_long_answer_is_compressed_for_who_reads_that(void **state) {
    static const char *const takes[] = {"Accept-Encoding: gzip", "Accept-Encoding: br, gzip;q=0.5",
                                        "Accept-Encoding: *"};
    static const char *const not [] = {"X: y", "Accept-Encoding: br", "Accept-Encoding: gzip;q=0",
                                       "Accept-Encoding: gzip; q=0.0, br"};
    world *w = *state;
    for (size_t k = 0; k < sizeof takes / sizeof takes[0]; k++) {
        char text[8000];
        fed_reply r = ask_front(w, "/long", takes[k]);
        assert_int_equal(r.status, 200);
        assert_header(&r, "Content-Encoding: gzip");
        assert_header(&r, "Vary: Accept-Encoding");
        assert_true(r.body.len < 400);
        unpack(&r.body, text, sizeof text);
        assert_int_equal(strspn(text, "l"), 4000);
        assert_int_equal(strlen(text), 4000);
        fed_reply_free(&r);
    }
    for (size_t k = 0; k < sizeof not / sizeof not [0]; k++) {
        fed_reply r = ask_front(w, "/long", not [k]);
        assert_null(strstr(fed_reply_text(&r.headers), "Content-Encoding"));
        assert_int_equal(strspn(fed_reply_text(&r.body), "l"), 4000);
        fed_reply_free(&r);
    }
}

static void test_what_the_asker_has_is_not_sent_again(void **state) {
    world *w = *state;
    fed_reply r = ask_front(w, "/long", "If-None-Match: \"other\", W/\"long\"");
    assert_int_equal(r.body.len, 1); /* only the NUL that fed_reply appends */
    assert_header(&r, "ETag: W/\"long\"");
    fed_reply_assert(&r, 304, "");
    r = ask_front(w, "/long", "If-None-Match: \"other\"");
    fed_reply_assert(&r, 200, "llll");
}

static void test_a_head_is_a_get_without_its_body(void **state) {
    world *w = *state;
    CURL *curl = raw(w, NULL, w->front_port);
    fed_curl_send(curl, "HEAD /long HTTP/1.1\r\nHost: x\r\n\r\n"
                        "HEAD /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    char heard[4096];
    fed_curl_receive(curl, "never said", heard, sizeof heard);
    assert_non_null(strstr(heard, "HTTP/1.1 200 "));
    assert_non_null(strstr(heard, "Content-Length: 4000\r\n"));
    assert_non_null(strstr(heard, "Content-Length: 15\r\n"));
    assert_null(strstr(heard, "llll"));
    assert_null(strstr(heard, "DOCTYPE"));
    curl_easy_cleanup(curl);
}

static void test_a_405_names_the_methods(void **state) {
    world *w = *state;
    CURL *curl = client(w, NULL, w->front_port, "/no");
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
    fed_reply r = fed_curl_ask(curl);
    assert_header(&r, "Allow: GET, HEAD\r\n");
    fed_reply_assert(&r, 405, "no");
    curl_easy_cleanup(curl);
}

static void test_an_absolute_target_names_its_path(void **state) {
    static const char *const pairs[][2] = {{"https://fed.example:8443/a/b?c=d", "GET /a/b?c=d "},
                                           {"HTTP://fed.example/a", "GET /a? "},
                                           {"https://fed.example?c=d", "GET /?c=d "},
                                           {"https://fed.example", "GET /? "}};
    world *w = *state;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        char words[200];
        CURL *curl = raw(w, NULL, w->front_port);
        snprintf(words, sizeof words,
                 "GET %s HTTP/1.1\r\nHost: fed.example\r\nConnection: close\r\n\r\n", pairs[k][0]);
        fed_curl_send(curl, words);
        fed_curl_expect_words(curl, pairs[k][1]);
        curl_easy_cleanup(curl);
    }
}

static void ask_at_length(const world *w, const fed_identity *who, uint16_t port, size_t len,
                          long status) {
    char line[10000] = "X-Long: ";
    const size_t begun = strlen(line);
    memset(line + begun, 'x', len - begun);
    fed_reply r = ask_once(w, who, port, "/one", line);
    fed_reply_assert(&r, status, status == 200 ? "/one?" : "");
}

static void ask_with_arguments(world *w, const fed_identity *who, uint16_t port, unsigned count,
                               long status) {
    char path[5000] = "/echo?a";
    size_t len = strlen(path);
    for (unsigned k = 1; k < count; k++) {
        len += (size_t)snprintf(path + len, sizeof path - len, "&a");
    }
    CURL *curl = fed_curl_new(&w->ca, who, port, path);
    fed_curl_expect(curl, status, status == 200 ? path + 1 : "64 arguments");
    fed_curl_close(curl);
}

static void test_a_query_with_too_many_arguments_gets_its_431(void **state) {
    world *w = *state;
    static const unsigned counts[] = {65, 71, 120, 300, 1000};
    ask_with_arguments(w, NULL, w->front_port, 64, 200);
    ask_with_arguments(w, &w->device, w->devices_port, 64, 200);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        ask_with_arguments(w, NULL, w->front_port, counts[k], 431);
        ask_with_arguments(w, &w->device, w->devices_port, counts[k], 431);
    }
}

static void test_a_long_head_is_read_and_a_longer_one_gets_its_431(void **state) {
    world *w = *state;
    ask_at_length(w, NULL, w->front_port, 6500, 200);
    ask_at_length(w, NULL, w->front_port, 9000, 431);
    ask_at_length(w, &w->device, w->devices_port, 4000, 200);
    ask_at_length(w, &w->device, w->devices_port, 6000, 431);
    assert_works(w);
}

static void test_a_body_that_is_too_large_gets_its_413(void **state) {
    world *w = *state;
    enum { SIZE = 2000000 };
    char *body = calloc(1, SIZE);
    CURL *curl = client(w, NULL, w->front_port, "/small");
    fed_curl_header(curl, "Expect:"); /* no wait for 100 Continue */
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)SIZE);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    for (int k = 0; k < 5; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_header(&r, "application/json");
        assert_null(strstr(fed_reply_text(&r.headers), "Connection: close"));
        fed_reply_assert(&r, 413, "{\"error\": \"too_large\", \"message\": \"");
    }
    assert_int_equal(atomic_load(&w->server.handled), 0);
    free(body);
    fed_curl_close(curl);
}

static void test_a_body_of_an_unknown_device_gets_its_403(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/forbidden");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "x");
    fed_curl_expect(curl, 403, "{\"error\": \"device_refused\", \"message\": \"");
    assert_int_equal(atomic_load(&w->server.handled), 0);
    curl_easy_cleanup(curl);
}

static size_t give_zeros(char *dst, size_t size, size_t n, void *user) {
    (void)user;
    memset(dst, 0, size * n);
    return size * n;
}

static void test_who_asks_before_sending_need_not_send(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/small");
    fed_curl_header(curl, "Expect: 100-continue");
    curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 30000L);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)1 << 40);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_zeros);
    fed_reply r = fed_curl_ask(curl);
    curl_off_t sent = -1;
    curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &sent);
    assert_int_equal(sent, 0);
    fed_reply_assert(&r, 413, "too_large");
    fed_curl_close(curl);
}

static void test_a_chunked_body_is_refused(void **state) {
    world *w = *state;
    CURL *curl = raw(w, NULL, w->front_port);
    fed_curl_send(curl, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    char heard[2048];
    fed_curl_receive(curl, "length_required", heard, sizeof heard);
    assert_non_null(strstr(heard, "HTTP/1.1 411 "));
    assert_non_null(strstr(heard, "length_required"));
    curl_easy_cleanup(curl);
}

/* Send these bytes on a new connection. The server must refuse them and close the connection,
 * so that bytes after them are not read as another request. */
static void assert_refused_and_closed(const world *w, const char *words, size_t len) {
    static const char behind[] = "GET /behind HTTP/1.1\r\nHost: x\r\n\r\n";
    char heard[4096];
    CURL *curl = raw(w, NULL, w->front_port);
    assert_true(fed_curl_send_bytes(curl, words, len));
    (void)fed_curl_send_bytes(curl, behind, sizeof behind - 1);
    fed_curl_receive(curl, "\r\n\r\nnever said", heard, sizeof heard);
    /* libmicrohttpd from version 1.0 on closes the connection itself at a NUL byte */
    const bool hung_up = heard[0] == '\0' && memchr(words, 0, len) != NULL;
    if ((strncmp(heard, "HTTP/1.1 400 ", 13) != 0 && !hung_up) ||
        strstr(heard, "/behind") != NULL) {
        fail_msg("the request \"%s\" got the wrong answer: %s", words, heard);
    }
    curl_easy_cleanup(curl);
}

static void test_a_head_that_can_be_read_in_two_ways_is_refused(void **state) {
#define BYTES(text)                                                                                \
    { text, sizeof(text) - 1 }
    static const struct {
        const char *bytes;
        size_t len;
    } heads[] = {
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 50\r\n"
              "\r\nhello"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\ncontent-length: 5\r\n"
              "\r\nhello"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello"),
        BYTES("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\t: chunked\r\n\r\n"),
        BYTES("GET /echo\0/../secret HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET /echo?a=b\0c HTTP/1.1\r\nHost: x\r\n\r\n"),
        BYTES("GET \0/echo HTTP/1.1\r\nHost: x\r\n\r\n"),
    };
#undef BYTES
    world *w = *state;
    for (size_t k = 0; k < sizeof heads / sizeof heads[0]; k++) {
        assert_refused_and_closed(w, heads[k].bytes, heads[k].len);
    }
    assert_int_equal(atomic_load(&w->server.handled), 0);
    assert_works(w);
}

static void test_a_broken_upload_harms_nobody(void **state) {
    world *w = *state;
    start(w);
    for (int k = 0; k < 10; k++) {
        CURL *curl = raw(w, &w->device, w->devices_port);
        fed_curl_send(
            curl, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nsome of it");
        curl_easy_cleanup(curl);
    }
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1);
}

/* End the connection in the middle of a TLS record or between two records. Only the sending half
 * is closed, because a reset could overtake what was sent. */
static void break_line(CURL *curl, bool in_record) {
    static const char start[] = "\x17\x03\x03\x40\x11 and so on";
    curl_socket_t fd;
    assert_int_equal(curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd), CURLE_OK);
    if (in_record) {
        assert_int_equal(send(fd, start, sizeof start, 0), sizeof start);
    }
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
}

static void test_the_beginning_of_a_body_that_is_worth_something_is_kept(void **state) {
    world *w = *state;
    assert_fed_ok(fed_cert_key_fingerprint(w->device.cert.text, w->server.known, NULL));
    start(w);
    for (int k = 0; k < 20; k++) {
        CURL *curl = raw(w, &w->device, w->devices_port);
        fed_curl_send(curl,
                      "POST /parts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nppppp");
        break_line(curl, k % 2 == 1);
        wait_for(&w->server.parts, 5 * (k + 1));
        curl_easy_cleanup(curl);
    }
    assert_works(w);
    assert_int_equal(atomic_load(&w->server.parts), 100);
    CURL *stays = raw(w, &w->device, w->devices_port);
    fed_curl_send(stays, "POST /parts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nppppp");
    fed_sleep_ms(20);
    finish(w);
    curl_easy_cleanup(stays);
}

static void test_ranges_and_tags_pass_through(void **state) {
    world *w = *state;
    CURL *curl = client(w, &w->device, w->devices_port, "/range");
    fed_curl_header(curl, "Range: bytes=5-");
    fed_curl_header(curl, "If-Range: \"name\"");
    fed_reply r = fed_curl_ask(curl);
    assert_header(&r, "ETag: \"name\"");
    assert_header(&r, "Content-Range: bytes 5-6/7");
    fed_reply_assert(&r, 206, "bytes=5- \"name\"");
    fed_curl_close(curl);
}

static void test_slow_bodies_block_nobody(void **state) {
    world *w = *state;
    enum { SLOW = 20 };
    CURL *slow[SLOW];
    for (int k = 0; k < SLOW; k++) {
        slow[k] = raw(w, &w->device, w->devices_port);
        fed_curl_send(slow[k], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
    }
    assert_works(w);
    assert_true(server_load_percent(w) < 30);
    for (int k = 0; k < SLOW; k++) {
        fed_curl_send(slow[k], "cd");
        fed_curl_expect_words(slow[k], "POST /echo? - 4 abcd");
        curl_easy_cleanup(slow[k]);
    }
}

static void test_a_held_request_is_asked_again_when_its_time_is_over(void **state) {
    world *w = *state;
    fed_reply r = ask_once(w, &w->device, w->devices_port, "/hold?300", NULL);
    assert_null(strstr(fed_reply_text(&r.headers), "Connection: close"));
    fed_reply_assert(&r, 200, "held");
    assert_int_equal(atomic_load(&w->server.handled), 2);
}

static void test_a_hundred_held_requests_cost_nothing_and_wake_together(void **state) {
    world *w = *state;
    enum { HELD = 100 };
    CURL *curl[HELD];
    fed_reply r[HELD];
    CURLM *all = curl_multi_init();
    for (int k = 0; k < HELD; k++) {
        curl[k] = client(w, &w->device, w->devices_port, "/hold?50000");
        fed_curl_listen(curl[k], &r[k]);
        curl_multi_add_handle(all, curl[k]);
    }
    int running = HELD;
    for (int k = 0; k < 60000 && atomic_load(&w->server.waiting) < HELD; k++) {
        curl_multi_perform(all, &running);
        curl_multi_poll(all, NULL, 0, 1, NULL);
    }
    assert_int_equal(atomic_load(&w->server.waiting), HELD);
    assert_true(server_load_percent(w) < 10);
    atomic_store(&w->server.released, true);
    atomic_fetch_add(&w->server.epoch, 1);
    while (running > 0) {
        curl_multi_perform(all, &running);
        curl_multi_poll(all, NULL, 0, 100, NULL);
    }
    for (int k = 0; k < HELD; k++) {
        fed_curl_conclude(curl[k], CURLE_OK, &r[k]);
        fed_reply_assert(&r[k], 200, "held");
        curl_multi_remove_handle(all, curl[k]);
        curl_easy_cleanup(curl[k]);
    }
    curl_multi_cleanup(all);
}

/* Of three held requests, one is named by its key: only that one is handled again. */
static void test_a_key_wakes_those_that_wait_with_it(void **state) {
    world *w = *state;
    CURL *curl[3];
    char heard[1024];
    for (int k = 0; k < 3; k++) {
        char request[80];
        curl[k] = raw(w, &w->device, w->devices_port);
        snprintf(request, sizeof request, "GET /hold?50000&key=%d HTTP/1.1\r\nHost: x\r\n\r\n", k);
        fed_curl_send(curl[k], request);
        wait_for(&w->server.waiting, k + 1);
    }
    atomic_store(&w->server.released, true);
    atomic_store(&w->server.woken, 1);
    assert_works(w); /* a batch after which the adapter takes the keys */
    fed_curl_receive(curl[1], "held", heard, sizeof heard);
    assert_non_null(strstr(heard, "held"));
    assert_works(w);
    assert_int_equal(atomic_load(&w->server.handled), 3 + 1 + 2);
    for (int k = 0; k < 3; k++) {
        curl_easy_cleanup(curl[k]);
    }
}

static void test_nothing_is_given_to_a_held_peer_that_has_gone(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, &w->device, w->devices_port);
    fed_curl_send(curl, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    curl_easy_cleanup(curl);
    assert_works(w);
    const int handled = atomic_load(&w->server.handled);
    atomic_store(&w->server.released, true);
    atomic_fetch_add(&w->server.epoch, 1);
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), handled + 1);
}

static void test_nothing_is_given_to_a_woken_peer_that_has_gone(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, &w->device, w->devices_port);
    fed_curl_send(curl, "GET /hold?50000&key=7 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    curl_easy_cleanup(curl);
    assert_works(w);
    const int handled = atomic_load(&w->server.handled);
    atomic_store(&w->server.released, true);
    atomic_store(&w->server.woken, 7);
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), handled + 1);
}

static void test_stopping_sends_home_who_is_held(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = raw(w, &w->device, w->devices_port);
    fed_curl_send(curl, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    const int before = atomic_load(&w->server.let_go);
    finish(w);
    assert_int_equal(atomic_load(&w->server.let_go), before + 1);
    char heard[2048];
    fed_curl_receive(curl, "}", heard, sizeof heard);
    assert_non_null(strstr(heard, "HTTP/1.1 503 "));
    assert_non_null(strstr(heard, "Retry-After: "));
    assert_non_null(strstr(heard, "{\"error\": \"stopping\""));
    curl_easy_cleanup(curl);
}

static void test_time_passes_without_requests(void **state) {
    world *w = *state;
    wait_for(&w->server.ticks, atomic_load(&w->server.ticks) + 2);
}

static void test_a_device_beyond_its_rate_is_told_to_wait(void **state) {
    world *w = *state;
    w->options.requests_per_s = 1;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    int refused = 0;
    for (int k = 0; k < 20; k++) {
        fed_reply r = fed_curl_ask(curl);
        refused += r.status == 429;
        assert_true(r.status == 200 || strstr(fed_reply_text(&r.headers), "Retry-After: ") != NULL);
        fed_reply_free(&r);
    }
    assert_true(refused > 0);
    assert_works(w);
    curl_easy_cleanup(curl);
    finish(w);
    w->options.requests_per_s = 0;
}

static void test_one_connection_too_many_is_told_to_wait(void **state) {
    world *w = *state;
    w->options.connections = 2;
    start(w);
    CURL *curl[3];
    for (int k = 0; k < 3; k++) {
        curl[k] = client(w, &w->device, w->devices_port, "/echo");
        fed_curl_expect(curl[k], k < 2 ? 200 : 429, k < 2 ? "GET /echo" : "too_many");
    }
    for (int k = 0; k < 3; k++) {
        curl_easy_cleanup(curl[k]);
    }
    finish(w);
    w->options.connections = 0;
}

/* A device may have four uploads at a time. Here each upload has ended, with an answer or cut
 * off in the middle. */
static void test_uploads_that_have_ended_are_in_nobodys_way(void **state) {
    world *w = *state;
    assert_fed_ok(fed_cert_key_fingerprint(w->device.cert.text, w->server.known, NULL));
    start(w);
    const int parts = atomic_load(&w->server.parts);
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    assert_echoes_large(curl, 6);
    for (int k = 0; k < 6; k++) {
        CURL *cut = raw(w, &w->device, w->devices_port);
        fed_curl_send(cut,
                      "POST /parts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nppppp");
        break_line(cut, k % 2 == 1);
        wait_for(&w->server.parts, parts + 5 * (k + 1));
        curl_easy_cleanup(cut);
    }
    assert_echoes_large(curl, 1);
    curl_easy_cleanup(curl);
    finish(w);
}

static void test_a_body_that_is_not_taken_is_not_paid_for(void **state) {
    world *w = *state;
    CURL *bad = raw(w, &w->device, w->devices_port);
    fed_curl_send(bad, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 99000000000\r\n\r\n");
    fed_curl_expect_words(bad, "HTTP/1.1 413");
    CURL *curl = client(w, &w->device, w->devices_port, "/echo");
    fed_curl_expect(curl, 200, "GET /echo");
    curl_easy_cleanup(bad);
    curl_easy_cleanup(curl);
}

static void test_no_answer_leaves_when_the_commit_fails(void **state) {
    world *w = *state;
    start(w);
    CURL *pending = raw(w, &w->device, w->devices_port);
    fed_curl_send(pending, "GET /hold?50000 HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&w->server.waiting, 1);
    atomic_store(&w->server.commit_fails, true);
    CURL *curl = client(w, NULL, w->front_port, "/promise");
    fed_reply r = fed_curl_ask(curl);
    join(w);
    assert_fed_status(w->status, FED_EIO);
    assert_string_equal(w->err.text, "the disk failed");
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    char heard[64];
    fed_curl_receive(pending, "HTTP", heard, sizeof heard);
    assert_string_equal(heard, "");
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    curl_easy_cleanup(pending);
    assert_true(atomic_load(&w->server.let_go) > 0);
    atomic_store(&w->server.commit_fails, false);
}

static void test_a_port_in_use_is_named(void **state) {
    world *w = *state;
    uint16_t port = 0;
    const int fd = listening(&port);
    w->options.devices_port = port;
    start(w);
    join(w);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "port %u ", port);
    assert_fed_status(w->status, FED_EBUSY);
    assert_non_null(strstr(w->err.text, wanted));
    assert_non_null(strstr(w->err.text, "in use"));
    w->options.devices_port = 0;
    close(fd);
}

static void test_a_restart_finds_its_ports_free(void **state) {
    world *w = *state;
    start(w);
    CURL *curl = client(w, &w->device, w->devices_port, "/who");
    fed_curl_expect(curl, 200, "");
    w->options.front_port = w->front_port;
    w->options.devices_port = w->devices_port;
    finish(w); /* the server closes first, so that its connection is in TIME_WAIT */
    start(w);
    assert_works(w);
    finish(w);
    w->options.front_port = w->options.devices_port = 0;
    curl_easy_cleanup(curl);
}

static void test_all_addresses_are_those_of_ipv4_too(void **state) {
    world *w = *state;
    w->options.bind = "::";
    start(w);
    w->options.bind = NULL;
    if (!atomic_load(&w->ready)) {
        join(w);
        skip();
    }
    assert_works(w);
    finish(w);
}

static void test_a_bind_address_that_is_none_is_refused(void **state) {
    world *w = *state;
    fed_error err = {0};
    const fedserver_http_options options = {.bind = "nowhere.example", .stop = &w->stop};
    assert_fed_status(fedserver_http_serve(&w->server, &options, NULL, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "nowhere.example"));
}

static void test_a_key_of_another_certificate_is_refused(void **state) {
    world *w = *state;
    char path[512];
    fed_error err = {0};
    uint8_t *good = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/server.key", w->server.directory);
    assert_fed_ok_err(fed_file_read(path, FED_PEM_SIZE, &good, &len, &err));
    write_pem(w, "server.key", &w->device.key);
    const fedserver_http_options options = {.bind = "127.0.0.1", .stop = &w->stop};
    assert_fed_status(fedserver_http_serve(&w->server, &options, NULL, &err), FED_EFORMAT);
    assert_non_null(strstr(err.text, "server.key"));
    assert_fed_ok_err(fed_file_replace(path, good, len, 0600, &err));
    free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SERVING(test_a_request_and_its_answer_pass_through_unchanged),
        SERVING(test_a_large_body_arrives_whole),
        SERVING(test_a_large_answer_arrives_whole),
        SERVING(test_a_connection_carries_many_requests),
        SERVING(test_pipelined_requests_are_all_answered),
        SERVING(test_retry_after_is_passed_on),
        SERVING(test_a_long_answer_is_compressed_for_who_reads_that),
        SERVING(test_what_the_asker_has_is_not_sent_again),
        SERVING(test_a_head_is_a_get_without_its_body),
        SERVING(test_a_405_names_the_methods),
        SERVING(test_an_absolute_target_names_its_path),
        SERVING(test_a_query_with_too_many_arguments_gets_its_431),
        SERVING(test_a_long_head_is_read_and_a_longer_one_gets_its_431),
        SERVING(test_a_body_that_is_too_large_gets_its_413),
        SERVING(test_a_body_of_an_unknown_device_gets_its_403),
        SERVING(test_who_asks_before_sending_need_not_send),
        SERVING(test_a_chunked_body_is_refused),
        SERVING(test_a_head_that_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(test_a_broken_upload_harms_nobody),
        cmocka_unit_test(test_the_beginning_of_a_body_that_is_worth_something_is_kept),
        SERVING(test_ranges_and_tags_pass_through),
        SERVING(test_slow_bodies_block_nobody),
        SERVING(test_a_held_request_is_asked_again_when_its_time_is_over),
        SERVING(test_a_hundred_held_requests_cost_nothing_and_wake_together),
        SERVING(test_a_key_wakes_those_that_wait_with_it),
        cmocka_unit_test(test_nothing_is_given_to_a_held_peer_that_has_gone),
        cmocka_unit_test(test_nothing_is_given_to_a_woken_peer_that_has_gone),
        cmocka_unit_test(test_stopping_sends_home_who_is_held),
        SERVING(test_time_passes_without_requests),
        cmocka_unit_test(test_a_device_beyond_its_rate_is_told_to_wait),
        cmocka_unit_test(test_one_connection_too_many_is_told_to_wait),
        cmocka_unit_test(test_uploads_that_have_ended_are_in_nobodys_way),
        SERVING(test_a_body_that_is_not_taken_is_not_paid_for),
        cmocka_unit_test(test_no_answer_leaves_when_the_commit_fails),
        cmocka_unit_test(test_a_port_in_use_is_named),
        cmocka_unit_test(test_a_restart_finds_its_ports_free),
        cmocka_unit_test(test_all_addresses_are_those_of_ipv4_too),
        cmocka_unit_test(test_a_bind_address_that_is_none_is_refused),
        cmocka_unit_test(test_a_key_of_another_certificate_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
