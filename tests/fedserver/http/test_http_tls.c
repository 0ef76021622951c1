/* The adapter's TLS: which clients are accepted, and peers that stall in the handshake. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_getcpuclockid */
#include "http_world.h"

#include <poll.h>

#include "fed_tls.h"

static void test_the_front_wants_no_certificate(void **state) {
    world *w = *state;
    fed_reply r = ask_once(w, NULL, w->front_port, "/who", NULL);
    fed_reply_assert(&r, 200, "nobody");
}

static void test_a_device_is_known_by_its_key(void **state) {
    world *w = *state;
    fed_error err = {0};
    uint8_t digest[FED_SHA256_SIZE];
    char hex[FED_SHA256_HEX];
    assert_fed_ok_err(fed_key_fingerprint(&w->device.key, digest, &err));
    fed_hex(digest, sizeof digest, hex);
    CURL *curl = client(w, &w->device, w->devices_port, "/who");
    for (int k = 0; k < 3; k++) {
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
        fed_curl_expect(curl, 200, hex);
    }
    curl_easy_cleanup(curl);
}

static void assert_shut_out(world *w, const fed_identity *who) {
    start(w);
    CURL *curl = client(w, who, w->devices_port, "/who");
    fed_reply r = fed_curl_ask(curl);
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    assert_works(w);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1); /* the one request of assert_works */
}

static void test_nobody_without_a_certificate_comes_in(void **state) {
    assert_shut_out(*state, NULL);
}

static void test_a_certificate_of_another_ca_is_shut_out(void **state) {
    world *w = *state;
    fed_pem ca_key, ca;
    fed_identity rogue;
    const int64_t now = time(NULL);
    make_ca("our CA", &ca_key, &ca); /* another CA with the same name as the real one */
    fed_identity_make(&ca_key, &ca, FED_CERT_CLIENT, now - 3600, now + 86400, &rogue);
    assert_shut_out(w, &rogue);
}

static void test_an_expired_certificate_is_shut_out(void **state) {
    world *w = *state;
    fed_identity old;
    const int64_t now = time(NULL);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - 7200, now - 3600, &old);
    assert_shut_out(w, &old);
}

static void test_a_certificate_that_is_not_valid_yet_is_shut_out(void **state) {
    world *w = *state;
    fed_identity early;
    const int64_t now = time(NULL);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now + 3600, now + 7200, &early);
    assert_shut_out(w, &early);
}

static void test_a_servers_certificate_is_shut_out(void **state) {
    world *w = *state;
    fed_identity server;
    make_usual(w, FED_CERT_SERVER, &server);
    assert_shut_out(w, &server);
}

static void test_a_self_signed_certificate_is_shut_out(void **state) {
    world *w = *state;
    fed_identity self;
    make_ca("test", &self.key, &self.cert);
    assert_shut_out(w, &self);
}

/* Make a request with a certificate that expires at *until, and get the answer before that time.
 * On a busy machine further tries use certificates of longer life. */
static CURL *answered_in_time(world *w, fed_identity *brief, CURLSH **sessions, int64_t *until) {
    enum { MOST_S = 64 };
    for (int64_t life_s = 2; life_s <= MOST_S; life_s *= 2) {
        *until = time(NULL) + life_s;
        fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, *until - 3600, *until, brief);
        CURL *curl = client(w, brief, w->devices_port, "/who");
        *sessions = curl_share_init();
        curl_share_setopt(*sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
        curl_easy_setopt(curl, CURLOPT_SHARE, *sessions);
        fed_reply r = fed_curl_ask(curl);
        const long status = r.status;
        fed_reply_free(&r);
        if (status == 200) {
            return curl;
        }
        curl_easy_cleanup(curl);
        curl_share_cleanup(*sessions);
    }
    fail_msg("no request is answered within %d s", MOST_S);
    return NULL;
}

static void test_a_certificate_expires_under_a_living_connection(void **state) {
    world *w = *state;
    fed_identity brief;
    int64_t until = 0;
    start(w);
    CURLSH *sessions = NULL;
    CURL *curl = answered_in_time(w, &brief, &sessions, &until);
    while (time(NULL) <= until) {
        fed_sleep_ms(50);
    }
    fed_reply r = fed_curl_ask(curl); /* on the same connection as before */
    assert_header(&r, "Connection: close");
    fed_reply_assert(&r, 403, "certificate has expired");
    r = fed_curl_ask(curl); /* a resumed session, in which no certificate is verified */
    fed_reply_assert(&r, 403, "certificate has expired");
    curl_easy_cleanup(curl);
    curl_share_cleanup(sessions);
    finish(w);
    assert_int_equal(atomic_load(&w->server.handled), 1);
}

static void assert_stalling_costs_nothing(world *w, int peers, const uint8_t *words, size_t len) {
    int fds[64];
    start(w);
    for (int k = 0; k < peers; k++) {
        fds[k] = fed_dial(k % 2 == 0 ? w->front_port : w->devices_port);
        assert_int_equal(send(fds[k], words, len, 0), len);
    }
    const int64_t load = server_load_percent(w);
    if (load >= 30) {
        fail_msg("%d peers that stall in the handshake cost the server %d %% of a core", peers,
                 (int)load);
    }
    assert_works(w);
    for (int k = 0; k < peers; k++) {
        close(fds[k]);
    }
    finish(w);
}

static void test_one_byte_and_silence_costs_nothing(void **state) {
    const uint8_t first = 0x16;
    assert_stalling_costs_nothing(*state, 2, &first, 1);
}

static void test_a_client_hello_and_silence_costs_nothing(void **state) {
    uint8_t hello[4096];
    const size_t len = client_hello(*state, hello, sizeof hello);
    assert_stalling_costs_nothing(*state, 2, hello, len);
}

static void test_fifty_half_client_hellos_cost_nothing(void **state) {
    uint8_t hello[4096];
    const size_t len = client_hello(*state, hello, sizeof hello);
    assert_stalling_costs_nothing(*state, 50, hello, len / 2);
}

static void test_garbage_harms_nobody(void **state) {
    world *w = *state;
    static const char garbage[] = "GET / HTTP/1.0\r\n\r\n";
    int fds[8];
    for (int k = 0; k < 8; k++) {
        fds[k] = fed_dial(k % 2 == 0 ? w->front_port : w->devices_port);
        (void)send(fds[k], garbage, sizeof garbage, MSG_NOSIGNAL);
    }
    assert_works(w);
    for (int k = 0; k < 8; k++) {
        close(fds[k]);
    }
}

static void test_a_request_works_while_others_stall(void **state) {
    world *w = *state;
    uint8_t hello[4096];
    const size_t len = client_hello(w, hello, sizeof hello);
    start(w);
    int fds[50];
    for (int k = 0; k < 50; k++) {
        fds[k] = fed_dial(w->devices_port);
        assert_int_equal(send(fds[k], hello, len / 2, 0), len / 2);
    }
    CURL *curl = client(w, &w->device, w->devices_port, "/big");
    for (int k = 0; k < 10; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_int_equal(r.body.len, BIG_BLOB + 1);
        fed_reply_free(&r);
    }
    curl_easy_cleanup(curl);
    for (int k = 0; k < 50; k++) {
        close(fds[k]);
    }
    finish(w);
}

/* Write a certificate for this host by another CA, and its key. The names of both files begin with
 * `name`. */
static void write_pair(const world *w, const char *name, fed_pem *ca) {
    char file[32];
    fed_pem ca_key;
    fed_identity server;
    const int64_t now = time(NULL);
    make_ca("another CA", &ca_key, ca);
    fed_identity_make(&ca_key, ca, FED_CERT_SERVER, now - 3600, now + 86400, &server);
    snprintf(file, sizeof file, "%s.pem", name);
    write_pem(w, file, &server.cert);
    snprintf(file, sizeof file, "%s.key", name);
    write_pem(w, file, &server.key);
}

static void assert_trusts(const fed_pem *ca, const fed_identity *who, uint16_t port, bool trusts) {
    CURL *curl = fed_curl_new(ca, who, port, "/echo");
    fed_reply r = fed_curl_ask(curl);
    assert_int_equal(r.status, trusts ? 200 : 0);
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
}

static void remove_front_pair(const world *w) {
    char path[512];
    snprintf(path, sizeof path, "%s/front.pem", w->server.directory);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/front.key", w->server.directory);
    assert_int_equal(unlink(path), 0);
}

static void test_the_front_may_have_a_certificate_of_its_own(void **state) {
    world *w = *state;
    fed_pem public_ca;
    write_pair(w, "front", &public_ca);
    start(w);
    assert_trusts(&public_ca, NULL, w->front_port, true);
    assert_trusts(&w->ca, NULL, w->front_port, false);
    assert_trusts(&w->ca, &w->device, w->devices_port, true);
    finish(w);
    remove_front_pair(w);
}

static void test_certificates_are_read_again_under_open_connections(void **state) {
    world *w = *state;
    fed_pem public_ca;
    CURL *curl = client(w, NULL, w->front_port, "/echo");
    fed_curl_expect(curl, 200, "");
    write_pair(w, "front", &public_ca);
    atomic_store(&w->reload, 1);
    wait_for(&w->server.reloads, 1);
    assert_trusts(&public_ca, NULL, w->front_port, true);
    assert_trusts(&w->ca, &w->device, w->devices_port, true);
    fed_reply r = fed_curl_ask(curl);
    long connects = -1;
    curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connects);
    assert_int_equal(connects, 0);
    fed_reply_assert(&r, 200, "");
    curl_easy_cleanup(curl);
    remove_front_pair(w);
}

static void test_certificates_that_make_no_sense_are_not_taken(void **state) {
    world *w = *state;
    fed_pem garbage = {.text = "garbage"}, kept = w->ca;
    start(w);
    const int before = atomic_load(&w->server.reloads);
    write_pem(w, "ca.pem", &garbage);
    atomic_store(&w->reload, 1);
    wait_for(&w->server.reloads, before + 1);
    assert_trusts(&w->ca, NULL, w->front_port, true);
    assert_trusts(&w->ca, &w->device, w->devices_port, true);
    write_pem(w, "ca.pem", &kept);
    finish(w);
}

/* Returns whether a session of one server is resumed at a second server with the same files. */
static bool resumes_elsewhere(world *w, gnutls_datum_t *session) {
    start(w);
    const bool resumed = fed_tls_visit(w->devices_port, &w->device, session);
    finish(w);
    return resumed;
}

static void test_servers_that_share_tickets_resume_each_others_sessions(void **state) {
    world *w = *state;
    gnutls_datum_t session = {NULL, 0};
    w->options.shared_tickets = true;
    assert_false(resumes_elsewhere(w, &session));
    assert_true(resumes_elsewhere(w, &session));
    assert_true(resumes_elsewhere(w, &session));

    fed_identity other;
    make_usual(w, FED_CERT_SERVER, &other);
    write_pem(w, "server.pem", &other.cert);
    write_pem(w, "server.key", &other.key);
    assert_false(resumes_elsewhere(w, &session));
    assert_true(resumes_elsewhere(w, &session));

    fed_pem key, ca, both;
    make_ca("the next CA", &key, &ca);
    const int len = snprintf(both.text, sizeof both.text, "%s%s", w->ca.text, ca.text);
    assert_in_range(len, 1, sizeof both.text - 1);
    write_pem(w, "ca.pem", &both);
    assert_false(resumes_elsewhere(w, &session));
    write_pem(w, "ca.pem", &w->ca);
    w->options.shared_tickets = false;
    gnutls_free(session.data);
}

static void test_a_server_alone_keeps_its_tickets_to_itself(void **state) {
    world *w = *state;
    gnutls_datum_t session = {NULL, 0};
    start(w);
    assert_false(fed_tls_visit(w->devices_port, &w->device, &session));
    assert_true(fed_tls_visit(w->devices_port, &w->device, &session));
    finish(w);
    assert_false(resumes_elsewhere(w, &session));
    gnutls_free(session.data);
}

static bool hello_is_answered(const world *w, const uint8_t *hello, size_t len) {
    uint8_t byte;
    const int fd = fed_dial(w->devices_port);
    assert_int_equal(send(fd, hello, len, MSG_NOSIGNAL), len);
    const bool answered = recv(fd, &byte, 1, 0) == 1;
    close(fd);
    return answered;
}

static void test_a_flood_of_hellos_shuts_out_full_handshakes_not_resumed_ones(void **state) {
    enum { REFUSALS = 20, HELLOS_MOST = 2000, BURST = 20 };
    world *w = *state;
    uint8_t hello[4096];
    const size_t len = client_hello(w, hello, sizeof hello);
    int answered = 0, refused = 0;
    w->options.requests_per_s = 1;
    start(w);
    CURLSH *sessions = curl_share_init();
    curl_share_setopt(sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    CURL *curl = client(w, &w->device, w->devices_port, "/who");
    curl_easy_setopt(curl, CURLOPT_SHARE, sessions);
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    fed_curl_expect(curl, 200, "");
    for (int k = 0; k < HELLOS_MOST && refused < REFUSALS; k++) {
        const bool was = hello_is_answered(w, hello, len);
        answered += was;
        refused += !was;
    }
    assert_int_equal(refused, REFUSALS);
    assert_true(answered >= BURST - 1);
    for (int k = 0; k < 3; k++) {
        fed_curl_expect(curl, 200, "");
    }
    curl_easy_cleanup(curl);
    curl_share_cleanup(sessions);
    w->options.requests_per_s = 0;
    finish(w);
}

/* Send these bytes and then a TLS client's hello. Returns whether the server answers, rather than
 * closes the connection. */
static bool is_answered_behind(const world *w, const char *words, const uint8_t *hello,
                               size_t len) {
    uint8_t byte;
    const int fd = fed_dial(w->devices_port);
    assert_int_equal(send(fd, words, strlen(words), MSG_NOSIGNAL), strlen(words));
    (void)send(fd, hello, len, MSG_NOSIGNAL);
    const bool answered = recv(fd, &byte, 1, 0) == 1;
    close(fd);
    return answered;
}

#define PROXY(address) "PROXY TCP4 " address " 192.0.2.1 50000 8444\r\n"

static void test_a_proxy_says_whose_limits_count(void **state) {
    enum { REFUSALS = 5, HELLOS_MOST = 2000 };
    world *w = *state;
    uint8_t hello[4096];
    const size_t len = client_hello(w, hello, sizeof hello);
    int refused = 0;
    w->options.requests_per_s = 1;
    w->options.proxies = "192.0.2.9,127.0.0.1";
    start(w);
    for (int k = 0; k < HELLOS_MOST && refused < REFUSALS; k++) {
        refused += !is_answered_behind(w, PROXY("198.51.100.1"), hello, len);
    }
    assert_int_equal(refused, REFUSALS);
    for (int k = 0; k < 3; k++) {
        assert_true(is_answered_behind(w, PROXY("198.51.100.2"), hello, len));
    }
    assert_false(is_answered_behind(w, "", hello, len));
    assert_false(is_answered_behind(w, "PROXY TCP4 me you 1 2\r\n", hello, len));
    w->options.requests_per_s = 0;
    w->options.proxies = NULL;
    finish(w);
}

/* A proxy for one connection. It sends the PROXY header in small pieces, then forwards all
 * bytes. */
typedef struct proxy {
    int listening;
    uint16_t port, to;
} proxy;

static void *pass_on(void *user) {
    static const char words[] = PROXY("203.0.113.7");
    const proxy *p = user;
    struct pollfd ends[2] = {{.fd = accept(p->listening, NULL, NULL), .events = POLLIN},
                             {.fd = fed_dial(p->to), .events = POLLIN}};
    for (size_t k = 0; k < sizeof words - 1; k++) {
        (void)send(ends[1].fd, words + k, 1, MSG_NOSIGNAL);
        fed_sleep_ms(k % 10 == 0 ? 2 : 0);
    }
    for (ssize_t n = 1; n > 0 && poll(ends, 2, 10000) > 0;) {
        uint8_t bytes[4096];
        const int from = ends[0].revents != 0 ? 0 : 1;
        n = recv(ends[from].fd, bytes, sizeof bytes, 0);
        (void)!send(ends[1 - from].fd, bytes, n > 0 ? (size_t)n : 0, MSG_NOSIGNAL);
    }
    close(ends[0].fd);
    close(ends[1].fd);
    return NULL;
}

static void test_a_request_through_a_proxy_is_not_of_this_machine(void **state) {
    world *w = *state;
    pthread_t thread;
    w->options.proxies = "127.0.0.1";
    start(w);
    proxy p = {.to = w->front_port};
    p.listening = listening(&p.port);
    assert_int_equal(pthread_create(&thread, NULL, pass_on, &p), 0);
    CURL *curl = client(w, NULL, p.port, "/from");
    fed_curl_expect(curl, 200, "elsewhere");
    curl_easy_cleanup(curl);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(p.listening);
    w->options.proxies = NULL;
    finish(w);
}

static void test_nobody_else_says_whose_limits_count(void **state) {
    world *w = *state;
    uint8_t hello[4096];
    const size_t len = client_hello(w, hello, sizeof hello);
    w->options.proxies = "192.0.2.9";
    start(w);
    assert_false(is_answered_behind(w, PROXY("198.51.100.2"), hello, len));
    assert_works(w);
    w->options.proxies = NULL;
    finish(w);
}

static void test_a_proxy_that_is_no_address_is_named(void **state) {
    world *w = *state;
    w->options.proxies = "127.0.0.1,proxy.example";
    start(w);
    join(w);
    w->options.proxies = NULL;
    assert_fed_status(w->status, FED_EINVAL);
    assert_fed_says(w->err, "\"proxy.example\" is not an IP address");
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void open_sealer(const world *w, fed_sealer *s) {
    fed_sealer_open(s, w->devices_port, &w->device);
}

static void assert_hears_both(fed_sealer *s) {
    char heard[2048];
    fed_sealer_receive(s, "/two?", heard, sizeof heard, 10000);
    assert_non_null(strstr(heard, "/one?"));
    assert_non_null(strstr(heard, "/two?"));
}

static void test_two_requests_of_one_record_or_segment_are_answered(void **state) {
    world *w = *state;
    fed_sealer s;
    open_sealer(w, &s);
    for (int k = 0; k < 3; k++) {
        fed_sealer_add(&s, GET("/one") GET("/two"));
        fed_sealer_send(&s, SIZE_MAX);
        assert_hears_both(&s);
        fed_sealer_add(&s, GET("/one"));
        fed_sealer_add(&s, GET("/two"));
        fed_sealer_send(&s, SIZE_MAX);
        assert_hears_both(&s);
    }
    fed_sealer_close(&s);
}

/* While the first request waits, its connection is suspended. The second request has been read
 * already. */
static void test_a_record_behind_a_request_that_waits_is_not_lost(void **state) {
    static const char *const waits[] = {GET("/promise"), GET("/hold?300")};
    world *w = *state;
    fed_sealer s;
    char heard[2048];
    open_sealer(w, &s);
    for (size_t k = 0; k < 2; k++) {
        fed_sealer_add(&s, waits[k]);
        fed_sealer_add(&s, GET("/two"));
        fed_sealer_send(&s, SIZE_MAX);
        fed_sealer_receive(&s, "/two?", heard, sizeof heard, 10000);
        assert_non_null(strstr(heard, k == 0 ? "/promise?" : "held"));
        assert_non_null(strstr(heard, "/two?"));
    }
    fed_sealer_close(&s);
}

static void test_records_that_are_cut_anywhere_arrive(void **state) {
    enum { AROUND = 8 };
    world *w = *state;
    fed_sealer s;
    open_sealer(w, &s);
    for (size_t k = 1; k <= 2 * AROUND; k++) {
        fed_sealer_add(&s, GET("/one"));
        const size_t first = s.sealed.len;
        fed_sealer_add(&s, GET("/two"));
        fed_sealer_send(&s, k <= AROUND ? k : first - AROUND + k - AROUND);
        fed_sleep_ms(3);
        fed_sealer_send(&s, SIZE_MAX);
        assert_hears_both(&s);
    }
    fed_sealer_close(&s);
}

static void test_a_request_that_comes_byte_by_byte_is_answered(void **state) {
    world *w = *state;
    fed_sealer s;
    open_sealer(w, &s);
    fed_sealer_add(&s, GET("/one"));
    fed_sealer_add(&s, GET("/two"));
    while (s.sealed.len > 0) {
        fed_sealer_send(&s, 1);
    }
    assert_hears_both(&s);
    fed_sealer_close(&s);
}

/* Send records of 16 KiB in segments of odd sizes. The next request follows the body directly. */
static void test_a_body_in_odd_segments_arrives_whole(void **state) {
    enum { SIZE = 300000, HEARD = SIZE + 4096, SEGMENT = 3001 };
    world *w = *state;
    fed_sealer s;
    char *body = malloc(SIZE + 1), *heard = malloc(HEARD);
    assert_true(body != NULL && heard != NULL);
    for (size_t k = 0; k < SIZE; k++) {
        body[k] = (char)('a' + k % 23);
    }
    body[SIZE] = '\0';
    start(w);
    open_sealer(w, &s);
    fed_sealer_add(&s, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
    fed_sealer_seal(&s, body, SIZE);
    fed_sealer_add(&s, GET("/two"));
    for (size_t k = 1; s.sealed.len > 0; k++) {
        fed_sealer_send(&s, k % SEGMENT);
    }
    fed_sealer_receive(&s, "/two?", heard, HEARD, 10000);
    assert_non_null(strstr(heard, body));
    assert_non_null(strstr(heard, "/two?"));
    fed_sealer_close(&s);
    finish(w);
    free(heard);
    free(body);
}

/* The peer sends a request and close_notify with one send. The second time it then shuts down
 * its sending side. */
static void test_who_asks_and_leaves_is_answered_and_let_go(void **state) {
    world *w = *state;
    fed_sealer s;
    char heard[2048];
    for (int k = 0; k < 2; k++) {
        open_sealer(w, &s);
        fed_sealer_add(&s, GET("/one"));
        fed_sealer_bye(&s);
        fed_sealer_send(&s, SIZE_MAX);
        if (k == 1) {
            assert_int_equal(shutdown(s.fd, SHUT_WR), 0);
        }
        fed_sealer_receive(&s, "/one?", heard, sizeof heard, 10000);
        assert_non_null(strstr(heard, "/one?"));
        fed_sealer_receive(&s, "?", heard, sizeof heard, 5000);
        assert_string_equal(heard, "");
        struct pollfd end = {.fd = s.fd, .events = POLLRDHUP};
        assert_int_equal(poll(&end, 1, 5000), 1);
        fed_sealer_close(&s);
    }
}

/* The connection is reset while its second request waits for the answer to the first. */
static void test_a_reset_harms_nobody(void **state) {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    world *w = *state;
    fed_sealer s;
    for (int k = 0; k < 10; k++) {
        open_sealer(w, &s);
        fed_sealer_add(&s, GET("/hold?50"));
        fed_sealer_add(&s, GET("/two"));
        fed_sealer_send(&s, SIZE_MAX);
        wait_for(&w->server.waiting, k + 1);
        assert_int_equal(setsockopt(s.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        fed_sealer_close(&s);
    }
    assert_works(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SERVING(test_the_front_wants_no_certificate),
        SERVING(test_a_device_is_known_by_its_key),
        cmocka_unit_test(test_nobody_without_a_certificate_comes_in),
        cmocka_unit_test(test_a_certificate_of_another_ca_is_shut_out),
        cmocka_unit_test(test_an_expired_certificate_is_shut_out),
        cmocka_unit_test(test_a_certificate_that_is_not_valid_yet_is_shut_out),
        cmocka_unit_test(test_a_servers_certificate_is_shut_out),
        cmocka_unit_test(test_a_self_signed_certificate_is_shut_out),
        cmocka_unit_test(test_a_certificate_expires_under_a_living_connection),
        cmocka_unit_test(test_one_byte_and_silence_costs_nothing),
        cmocka_unit_test(test_a_client_hello_and_silence_costs_nothing),
        cmocka_unit_test(test_fifty_half_client_hellos_cost_nothing),
        SERVING(test_garbage_harms_nobody),
        cmocka_unit_test(test_a_request_works_while_others_stall),
        cmocka_unit_test(test_the_front_may_have_a_certificate_of_its_own),
        SERVING(test_certificates_are_read_again_under_open_connections),
        cmocka_unit_test(test_certificates_that_make_no_sense_are_not_taken),
        cmocka_unit_test(test_servers_that_share_tickets_resume_each_others_sessions),
        cmocka_unit_test(test_a_server_alone_keeps_its_tickets_to_itself),
        cmocka_unit_test(test_a_flood_of_hellos_shuts_out_full_handshakes_not_resumed_ones),
        cmocka_unit_test(test_a_proxy_says_whose_limits_count),
        cmocka_unit_test(test_a_request_through_a_proxy_is_not_of_this_machine),
        cmocka_unit_test(test_nobody_else_says_whose_limits_count),
        cmocka_unit_test(test_a_proxy_that_is_no_address_is_named),
        SERVING(test_two_requests_of_one_record_or_segment_are_answered),
        SERVING(test_a_record_behind_a_request_that_waits_is_not_lost),
        SERVING(test_records_that_are_cut_anywhere_arrive),
        SERVING(test_a_request_that_comes_byte_by_byte_is_answered),
        cmocka_unit_test(test_a_body_in_odd_segments_arrives_whole),
        SERVING(test_who_asks_and_leaves_is_answered_and_let_go),
        SERVING(test_a_reset_harms_nobody),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
