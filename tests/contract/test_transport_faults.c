/* Contract of every transport of transports.def with servers that misbehave. A TLS server follows
 * each test's script. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"
#include "fed_tls.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/transport.h"

enum { PATIENCE_MS = 1000, HOUR_S = 3600, MB = 1 << 20, HEAD_TOO_LONG = 17000 };

static const char *kind;

typedef struct world {
    fed_pem ca_key, ca;
    fed_identity who;
    fed_tls server;
    fedclient_transport transport;
    fed_writer answer;
    int status;
    uint32_t hold_ms, patience_ms;
    int64_t stop_at_ms; /* 0: never */
    size_t limit;
    fed_error err;
} world;

static bool stopped(void *user) {
    const world *w = user;
    return w->stop_at_ms != 0 && fed_clock_monotonic_ms() >= w->stop_at_ms;
}

static void open_transport(world *w, uint32_t patience_ms) {
    const fedclient_transport_options options = {
        .ca_pem = w->ca.text, .patience_ms = patience_ms, .stopped = stopped, .user = w};
    fedclient_transport_close(&w->transport);
    assert_fed_ok(fedclient_transport_open(kind, &options, &w->transport, &w->err));
}

static void make_ca(fed_pem *key, fed_pem *ca) {
    fed_error err = {0};
    const int64_t now = fed_clock_unix_ms() / 1000;
    assert_fed_ok_err(fed_key_new(key, &err));
    assert_fed_ok_err(fed_ca_new(key, "test", now - HOUR_S, now + HOUR_S, ca, &err));
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    const int64_t now = fed_clock_unix_ms() / 1000;
    make_ca(&w->ca_key, &w->ca);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_SERVER, now - HOUR_S, now + HOUR_S, &w->who);
    w->limit = 8 * MB;
    fed_writer_growing(&w->answer);
    open_transport(w, 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedclient_transport_close(&w->transport);
    fed_tls_close(&w->server);
    fed_writer_free(&w->answer);
    free(w);
    return 0;
}

#define SCRIPT(...) ((const fed_step[]){__VA_ARGS__, {FED_END, NULL, 0}})
#define play(w, ...)                                                                               \
    fed_tls_open(&(w)->server, &(fed_tls_options){.who = &(w)->who, .scripts = {__VA_ARGS__}})

#define HEAR                                                                                       \
    { FED_RECEIVE, NULL, 0 }
#define RECEIVE_BODY                                                                               \
    { FED_RECEIVE_BODY, NULL, 0 }
#define SAY(text)                                                                                  \
    { FED_SEND, text, 0 }
#define BYTES(size)                                                                                \
    { FED_SEND_BYTES, NULL, size }
#define WAIT(ms)                                                                                   \
    { FED_WAIT, NULL, ms }
#define DRAIN                                                                                      \
    { FED_DRAIN, NULL, 0 }
#define CUT                                                                                        \
    { FED_CUT, NULL, 0 }
#define OK_HELLO SAY("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

static const fed_step hello[] = {HEAR, OK_HELLO, {FED_END, NULL, 0}};

static fed_status read_body(void *user, void *dst, size_t cap, size_t *len) {
    size_t *at = user;
    *len = cap < 5000 ? cap : 5000;
    for (size_t k = 0; k < *len; k++) {
        ((uint8_t *)dst)[k] = fed_tls_byte((*at)++);
    }
    return FED_OK;
}

static fed_status ask(world *w, const char *url, const fedclient_body *body,
                      fedclient_range *range) {
    const fedclient_request request = {.method = body != NULL ? "POST" : "GET",
                                       .url = url,
                                       .body = body,
                                       .range = range,
                                       .answer_limit = w->limit,
                                       .hold_ms = w->hold_ms,
                                       .patience_ms = w->patience_ms};
    w->answer.len = 0;
    w->status = 0;
    w->err = (fed_error){0};
    return w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err);
}

static fed_status ask_host(world *w, const char *host) {
    char url[100];
    snprintf(url, sizeof url, "https://%s:%u/", host, w->server.port);
    return ask(w, url, NULL, NULL);
}

static fed_status get(world *w) {
    return ask_host(w, "127.0.0.1");
}

static fed_status get_range(world *w, fedclient_range *range) {
    char url[100];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/x", w->server.port);
    return ask(w, url, NULL, range);
}

static fed_status post(world *w, size_t size, bool in_memory) {
    char url[100];
    size_t at = 0;
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    for (size_t k = 0; k < size; k++) {
        data[k] = fed_tls_byte(k);
    }
    const fedclient_body body = {
        .user = &at, .size = size, .read = read_body, .data = in_memory ? data : NULL};
    snprintf(url, sizeof url, "https://127.0.0.1:%u/x", w->server.port);
    fed_status status = ask(w, url, &body, NULL);
    free(data);
    return status;
}

static fedclient_traffic traffic(world *w) {
    fedclient_traffic t;
    w->transport.traffic(w->transport.user, &t);
    return t;
}

static void assert_hello(world *w) {
    assert_int_equal(w->status, 200);
    assert_int_equal(w->answer.len, 5);
    assert_memory_equal(w->answer.data, "hello", 5);
}

#define assert_fails(w, call, wanted, words)                                                       \
    do {                                                                                           \
        fed_status status_ = (call);                                                               \
        if (status_ != (wanted)) {                                                                 \
            fail_msg("%s: %s (%s)", #call, fed_status_name(status_), (w)->err.text);               \
        }                                                                                          \
        assert_fed_says((w)->err, words);                                                          \
    } while (0)

static void bodies_of_all_sizes_arrive(void **state) {
    world *w = *state;
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 65535, 65536, 3 * MB};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (int in_memory = 0; in_memory < 2; in_memory++) {
            play(w, SCRIPT(HEAR, SAY("HTTP/1.1 100 Continue\r\n\r\n"), RECEIVE_BODY, OK_HELLO));
            assert_fed_ok(post(w, sizes[k], in_memory != 0));
            assert_hello(w);
            assert_int_equal(w->server.body_bytes, sizes[k]);
            assert_int_equal(w->server.odd_bytes, 0);
            assert_int_equal(strstr(w->server.head, "Expect: 100-continue") != NULL,
                             sizes[k] >= 65536);
            w->transport.disconnect(w->transport.user);
            fed_tls_close(&w->server);
        }
    }
}

static void answers_of_all_sizes_arrive(void **state) {
    world *w = *state;
    static const size_t sizes[] = {0, 1, 16384, 16385, 3 * MB};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        char head[80];
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", sizes[k]);
        play(w, SCRIPT(HEAR, SAY(head), BYTES(sizes[k]), HEAR, OK_HELLO));
        assert_fed_ok(get(w));
        assert_int_equal(w->answer.len, sizes[k]);
        for (size_t i = 0; i < sizes[k]; i++) {
            if (w->answer.data[i] != fed_tls_byte(i)) {
                fail_msg("byte %zu of %zu is wrong", i, sizes[k]);
            }
        }
        assert_fed_ok(get(w));
        assert_hello(w);
        assert_int_equal(traffic(w).connections, k + 1);
        w->transport.disconnect(w->transport.user);
        fed_tls_close(&w->server);
    }
}

static void an_answer_in_chunks_arrives(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR,
                   SAY("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n"
                       "0001;why=not\r\nl\r\n1\r\no\r\n0\r\nDigest: none\r\n\r\n"),
                   HEAR, OK_HELLO));
    for (int k = 0; k < 2; k++) {
        assert_fed_ok(get(w));
        assert_hello(w);
    }
    assert_int_equal(traffic(w).connections, 1);
}

static void an_answer_may_end_with_its_connection(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")),
         SCRIPT(HEAR, OK_HELLO));
    for (int k = 0; k < 2; k++) {
        assert_fed_ok(get(w));
        assert_hello(w);
    }
}

static void an_answer_without_a_body_has_none(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, SAY("HTTP/1.1 204 Nothing\r\n\r\n"), HEAR, OK_HELLO));
    assert_fed_ok(get(w));
    assert_true(w->status == 204 && w->answer.len == 0);
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void a_redirect_is_an_answer_and_is_not_followed(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR,
                   SAY("HTTP/1.1 307 Elsewhere\r\nLocation: /elsewhere\r\n"
                       "Content-Length: 0\r\n\r\n"),
                   HEAR, OK_HELLO));
    assert_fed_ok(get(w));
    assert_true(w->status == 307 && w->answer.len == 0);
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void what_follows_the_callers_bytes_is_the_answer(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, OK_HELLO));
    char url[100];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/", w->server.port);
    const fedclient_request request = {.method = "GET", .url = url, .answer_limit = 100};
    fed_write_bytes(&w->answer, "well, ", 6);
    assert_fed_ok(w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err));
    assert_int_equal(w->answer.len, 11);
    assert_memory_equal(w->answer.data, "well, hello", 11);
}

static void who_asks_is_said(void **state) {
    world *w = *state;
    char url[100];
    play(w, SCRIPT(HEAR, OK_HELLO));
    snprintf(url, sizeof url, "https://127.0.0.1:%u/", w->server.port);
    const fedclient_request request = {.method = "GET",
                                       .url = url,
                                       .bearer = "token",
                                       .device_name = "kitchen",
                                       .software = "test/1",
                                       .computes_on = "cuda:0 H100",
                                       .classes = "0123456789abcdef",
                                       .answer_limit = 100};
    assert_fed_ok(w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err));
    assert_non_null(strstr(w->server.head, "\r\nAuthorization: Bearer token\r\n"));
    assert_non_null(strstr(w->server.head, "\r\nFed-Device-Name: kitchen\r\n"));
    assert_non_null(strstr(w->server.head, "\r\nUser-Agent: test/1\r\n"));
    assert_non_null(strstr(w->server.head, "\r\nFed-Computes-On: cuda:0 H100\r\n"));
    assert_non_null(strstr(w->server.head, "\r\nFed-Classes: 0123456789abcdef\r\n"));
}

static void leave_to_send_may_be_missing(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, RECEIVE_BODY, OK_HELLO));
    assert_fed_ok(post(w, MB, false));
    assert_hello(w);
    assert_int_equal(w->server.odd_bytes, 0);
}

static void leave_to_send_may_be_refused(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR,
                   SAY("HTTP/1.1 413 Too much\r\nContent-Length: 2\r\n"
                       "Connection: close\r\n\r\nno"),
                   DRAIN));
    assert_fed_ok(post(w, MB, false));
    assert_int_equal(w->status, 413);
    assert_int_equal(w->answer.len, 2);
    assert_int_equal(w->server.body_bytes, 0);
}

static void an_answer_may_come_while_the_body_is_sent(void **state) {
    world *w = *state;
    play(w,
         SCRIPT(HEAR, SAY("HTTP/1.1 100 Continue\r\n\r\n"), {FED_RECEIVE_BODY, NULL, 100000},
                SAY("HTTP/1.1 413 Too much\r\nContent-Length: 2\r\n"
                    "Connection: close\r\n\r\nno"),
                DRAIN),
         SCRIPT(HEAR, OK_HELLO));
    assert_fed_ok(post(w, 8 * MB, true));
    assert_int_equal(w->status, 413);
    assert_int_equal(w->answer.len, 2);
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void a_kept_connection_that_was_closed_is_replaced(void **state) {
    world *w = *state;
    static const fed_step bye[] = {HEAR, OK_HELLO, {FED_END, NULL, 0}};
    static const fed_step cut[] = {HEAR, OK_HELLO, CUT};
    static const size_t sizes[] = {0, 1000, 65535, MB};
    const fed_step *whole = SCRIPT(HEAR, RECEIVE_BODY, OK_HELLO);
    for (size_t k = 0; k < 2 * sizeof sizes / sizeof sizes[0]; k++) {
        play(w, k % 2 == 0 ? bye : cut, whole);
        const uint64_t before = traffic(w).connections;
        assert_fed_ok(get(w));
        /* let the close arrive before the request */
        fed_sleep_ms(20);
        assert_fed_ok(post(w, sizes[k / 2], false));
        assert_hello(w);
        assert_int_equal(traffic(w).connections, before + 2);
        assert_int_equal(w->server.odd_bytes, 0);
        w->transport.disconnect(w->transport.user);
        fed_tls_close(&w->server);
    }
}

static void a_fresh_connection_that_ends_without_a_word_is_a_failure(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, CUT), SCRIPT(HEAR), SCRIPT(HEAR, OK_HELLO));
    assert_fails(w, get(w), FED_ENET, "https://127.0.0.1:");
    assert_fails(w, get(w), FED_ENET, "https://127.0.0.1:");
    assert_fed_ok(get(w));
}

static void a_session_is_resumed(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, OK_HELLO));
    for (int k = 0; k < 3; k++) {
        assert_fed_ok(get(w));
        w->transport.disconnect(w->transport.user);
    }
    assert_int_equal(w->server.handshakes, 3);
    assert_int_equal(w->server.resumed, 2);
    assert_fed_ok(w->transport.identify(w->transport.user, NULL, NULL, &w->err));
    assert_fed_ok(get(w));
    assert_int_equal(w->server.resumed, 2);
}

static void nobody_there_is_a_failure_of_the_network(void **state) {
    world *w = *state;
    assert_fails(w, ask(w, "https://127.0.0.1:1/", NULL, NULL), FED_ENET, "https://127.0.0.1:1/");
    assert_fails(w, ask(w, "https://no-such-host.invalid/", NULL, NULL), FED_ENET,
                 "no-such-host.invalid");
}

static void an_address_that_is_none_is_said(void **state) {
    world *w = *state;
    static const char *const urls[] = {
        "http://127.0.0.1/",        "ftp://127.0.0.1/",     "https://",
        "https://127.0.0.1:99999/", "https://127.0.0.1:x/", "https://[::1/",
        "https://127.0.0.1 /a"};
    for (size_t k = 0; k < sizeof urls / sizeof urls[0]; k++) {
        assert_fails(w, ask(w, urls[k], NULL, NULL), FED_EINVAL, "https://HOST:PORT");
    }
}

static void a_name_is_found_in_the_certificate(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, OK_HELLO));
    assert_fed_ok(ask_host(w, "localhost"));
    assert_hello(w);
}

static void serve_for(world *w, const char *const *hosts, const char *bind) {
    const int64_t now = fed_clock_unix_ms() / 1000;
    const fed_cert_options options = {.purpose = FED_CERT_SERVER,
                                      /* not among the certificate's hosts */
                                      .common_name = "127.0.0.1",
                                      .hosts = hosts,
                                      .not_before = now - HOUR_S,
                                      .not_after = now + HOUR_S};
    fed_pem csr;
    fed_error err = {0};
    assert_fed_ok_err(fed_csr_new(&w->who.key, "test", &csr, &err));
    assert_fed_ok_err(fed_cert_issue(&w->ca_key, &w->ca, csr.text, &options, &w->who.cert, &err));
    fed_tls_open(&w->server, &(fed_tls_options){.who = &w->who, .bind = bind, .scripts = {hello}});
}

static void another_name_is_not_trusted(void **state) {
    world *w = *state;
    static const char *const name[] = {"localhost", "127.0.0.2", "::1", NULL};
    static const char *const address[] = {"127.0.0.1", "localhost.example", NULL};
    serve_for(w, name, NULL);
    assert_fails(w, get(w), FED_EAUTH, "check the CA file, the host name");
    fed_tls_close(&w->server);
    serve_for(w, address, NULL);
    assert_fails(w, ask_host(w, "localhost"), FED_EAUTH, "check the CA file, the host name");
}

static bool has_ipv6(void) {
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST};
    int fd = getaddrinfo("::1", NULL, &hints, &found) == 0 ? socket(AF_INET6, SOCK_STREAM, 0) : -1;
    bool has = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (fd >= 0) {
        close(fd);
    }
    freeaddrinfo(found);
    return has;
}

static void an_address_of_ipv6_is_found_in_the_certificate(void **state) {
    world *w = *state;
    static const char *const six[] = {"::1", NULL};
    static const char *const other[] = {"::2", NULL};
    if (!has_ipv6()) {
        skip();
    }
    serve_for(w, six, "::1");
    assert_fed_ok(ask_host(w, "[::1]"));
    assert_hello(w);
    fed_tls_close(&w->server);
    w->transport.disconnect(w->transport.user);
    assert_fed_ok(w->transport.identify(w->transport.user, NULL, NULL, &w->err));
    serve_for(w, other, "::1");
    assert_fails(w, ask_host(w, "[::1]"), FED_EAUTH, "check the CA file, the host name");
}

static void another_ca_is_not_trusted(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, OK_HELLO));
    make_ca(&w->ca_key, &w->ca);
    open_transport(w, 0);
    assert_fails(w, get(w), FED_EAUTH, "check the CA file");
    assert_int_equal(traffic(w).sent_bytes, 0);
}

static void a_certificate_out_of_its_time_is_not_trusted(void **state) {
    world *w = *state;
    const int64_t now = fed_clock_unix_ms() / 1000;
    static const int64_t from[] = {-2 * HOUR_S, HOUR_S}, until[] = {-HOUR_S, 2 * HOUR_S};
    for (int k = 0; k < 2; k++) {
        fed_identity_make(&w->ca_key, &w->ca, FED_CERT_SERVER, now + from[k], now + until[k],
                          &w->who);
        play(w, SCRIPT(HEAR, OK_HELLO));
        assert_fails(w, get(w), FED_EAUTH, "the clock");
        fed_tls_close(&w->server);
    }
}

static void a_clients_certificate_is_none_for_a_server(void **state) {
    world *w = *state;
    const int64_t now = fed_clock_unix_ms() / 1000;
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &w->who);
    play(w, SCRIPT(HEAR, OK_HELLO));
    assert_fails(w, get(w), FED_EAUTH, "can't be trusted");
}

static void an_older_tls_is_not_spoken(void **state) {
    world *w = *state;
    fed_tls_open(&w->server, &(fed_tls_options){.who = &w->who,
                                                .priority = "NORMAL:-VERS-ALL:+VERS-TLS1.2",
                                                .scripts = {hello}});
    assert_fails(w, get(w), FED_ENET, "https://127.0.0.1:");
}

static void demand_certificate(world *w) {
    fed_tls_open(&w->server,
                 &(fed_tls_options){.who = &w->who, .client_ca = &w->ca, .scripts = {hello}});
}

static void a_certificate_is_presented(void **state) {
    world *w = *state;
    fed_identity own;
    const int64_t now = fed_clock_unix_ms() / 1000;
    demand_certificate(w);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &own);
    assert_fed_ok(w->transport.identify(w->transport.user, &own.key, &own.cert, &w->err));
    memset(&own, 0, sizeof own);
    for (int k = 0; k < 3; k++) {
        assert_fed_ok(get(w));
        assert_hello(w);
        w->transport.disconnect(w->transport.user);
    }
    assert_fed_ok(w->transport.identify(w->transport.user, NULL, NULL, &w->err));
    fed_status status = get(w);
    /* FED_EAUTH: the TLS alert arrived before the connection ended */
    assert_true(status == FED_EAUTH || status == FED_ENET);
}

static void a_certificate_that_is_refused_is_said_after_a_few_times(void **state) {
    world *w = *state;
    fed_identity own;
    fed_pem key, ca;
    const int64_t now = fed_clock_unix_ms() / 1000;
    demand_certificate(w);
    make_ca(&key, &ca);
    fed_identity_make(&key, &ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &own);
    assert_fed_ok(w->transport.identify(w->transport.user, &own.key, &own.cert, &w->err));
    fed_status status = FED_ENET;
    for (int k = 0; k < 5 && status == FED_ENET; k++) {
        status = get(w);
    }
    assert_fed_status(status, FED_EAUTH);
    assert_fed_says(w->err, "certificate");
}

static void a_key_and_a_certificate_that_do_not_fit_are_refused(void **state) {
    world *w = *state;
    fed_identity own, other;
    void *t = w->transport.user;
    const int64_t now = fed_clock_unix_ms() / 1000;
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &own);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - HOUR_S, now + HOUR_S, &other);
    assert_fails(w, w->transport.identify(t, &own.key, &other.cert, &w->err), FED_EAUTH, "enrol");
    assert_fails(w, w->transport.identify(t, &own.cert, &own.cert, &w->err), FED_EAUTH, "enrol");
    assert_fed_status(w->transport.identify(t, &own.key, NULL, &w->err), FED_EINVAL);
    play(w, SCRIPT(HEAR, OK_HELLO));
    assert_fed_ok(get(w));
}

static void silence_is_not_waited_out(void **state) {
    world *w = *state;
    const fed_step *scripts[] = {
        SCRIPT(HEAR, WAIT(20000)), SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\n"), WAIT(20000)),
        SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), WAIT(20000))};
    for (size_t k = 0; k < sizeof scripts / sizeof scripts[0]; k++) {
        open_transport(w, PATIENCE_MS);
        play(w, scripts[k]);
        assert_fails(w, get(w), FED_ETIMEOUT, "no byte moved");
        fed_tls_close(&w->server);
    }
}

static void silence_after_a_body_is_not_waited_out(void **state) {
    world *w = *state;
    open_transport(w, PATIENCE_MS);
    play(w, SCRIPT(HEAR, WAIT(20000), OK_HELLO));
    assert_fails(w, post(w, 1000, true), FED_ETIMEOUT, "no byte moved");
}

static void a_request_may_be_less_patient_than_its_transport(void **state) {
    enum { LONG_MS = 3600 * 1000 };
    world *w = *state;
    open_transport(w, LONG_MS);
    w->patience_ms = PATIENCE_MS;
    play(w, SCRIPT(HEAR, WAIT(20000)));
    assert_fails(w, get(w), FED_ETIMEOUT, "no byte moved");
    fed_tls_close(&w->server);
    fed_tls_open(&w->server, &(fed_tls_options){.who = &w->who, .mute = true});
    assert_fails(w, get(w), FED_ETIMEOUT, "no byte moved");
    fed_tls_close(&w->server);
    open_transport(w, PATIENCE_MS);
    w->patience_ms = LONG_MS;
    play(w, SCRIPT(HEAR, WAIT(20000)));
    assert_fails(w, get(w), FED_ETIMEOUT, "no byte moved");
}

static void silence_in_the_handshake_is_not_waited_out(void **state) {
    world *w = *state;
    open_transport(w, PATIENCE_MS);
    fed_tls_open(&w->server, &(fed_tls_options){.who = &w->who, .mute = true});
    assert_fails(w, get(w), FED_ETIMEOUT, "no byte moved");
}

/* The server does not read the body. libcurl may go on writing into the socket's buffer, so the
 * server closes the connection after 10 s. */
static void a_body_that_is_not_taken_is_not_waited_out(void **state) {
    world *w = *state;
    open_transport(w, PATIENCE_MS);
    play(w, SCRIPT(HEAR, SAY("HTTP/1.1 100 Continue\r\n\r\n"), WAIT(10000), CUT));
    fed_status status = post(w, 16 * MB, true);
    assert_true(status == FED_ETIMEOUT || status == FED_ENET);
}

/* The whole answer takes longer than the time limit for silence, but no single byte does. */
static void a_slow_answer_is_awaited(void **state) {
    world *w = *state;
    open_transport(w, 2 * PATIENCE_MS);
    play(w, SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
                   {FED_DRIP, "hello", 550}));
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void an_answer_may_be_held(void **state) {
    world *w = *state;
    open_transport(w, PATIENCE_MS);
    w->hold_ms = 5000;
    play(w, SCRIPT(HEAR, WAIT(2500), OK_HELLO));
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void a_stop_ends_the_wait(void **state) {
    world *w = *state;
    play(w, SCRIPT(HEAR, WAIT(20000)), SCRIPT(HEAR, OK_HELLO));
    w->stop_at_ms = fed_clock_monotonic_ms() + 200;
    assert_fails(w, get(w), FED_ECANCELED, "asked to stop");
    fed_tls_close(&w->server);
    play(w, SCRIPT(HEAR, OK_HELLO));
    w->stop_at_ms = 0;
    assert_fed_ok(get(w));
    assert_hello(w);
}

static void a_cut_is_a_failure_of_the_network(void **state) {
    world *w = *state;
    static const char *const texts[] = {
        "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"};
    for (size_t k = 0; k < 2 * sizeof texts / sizeof texts[0]; k++) {
        play(w, k % 2 == 0 ? SCRIPT(HEAR, SAY(texts[k / 2]), CUT) : SCRIPT(HEAR, SAY(texts[k / 2])),
             SCRIPT(HEAR, OK_HELLO));
        assert_fails(w, get(w), FED_ENET, "https://127.0.0.1:");
        assert_fed_ok(get(w));
        assert_hello(w);
        w->transport.disconnect(w->transport.user);
        fed_tls_close(&w->server);
    }
}

static void what_came_before_a_cut_is_kept(void **state) {
    world *w = *state;
    fedclient_range range = {.first = 7, .most = 100, .if_tag = 0xABCDEF};
    play(w, SCRIPT(HEAR,
                   SAY("HTTP/1.1 206 Part\r\nETag: \"0000000000abcdef\"\r\nContent-Length: 9\r\n"
                       "Content-Range: bytes 7-15/16\r\n\r\nhello"),
                   CUT));
    assert_fed_status(get_range(w, &range), FED_ENET);
    assert_non_null(strstr(w->server.head, "\r\nRange: bytes=7-106\r\n"));
    assert_non_null(strstr(w->server.head, "\r\nIf-Range: \"0000000000abcdef\"\r\n"));
    assert_true(range.begin == 7 && range.total == 16 && range.tag == 0xABCDEF);
    assert_int_equal(w->answer.len, 5);
    assert_memory_equal(w->answer.data, "hello", 5);
}

static void what_is_not_http_is_refused(void **state) {
    world *w = *state;
    static const char *const texts[] = {
        "SSH-2.0-OpenSSH_9.2\r\n\r\n", "\r\n\r\n\r\n\r\n", "{\"hello\": 1}",
        "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\nhello\r\n"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        play(w, SCRIPT(HEAR, SAY(texts[k])), SCRIPT(HEAR, OK_HELLO));
        assert_fails(w, get(w), FED_ENET, "https://127.0.0.1:");
        assert_fed_ok(get(w));
        assert_hello(w);
        w->transport.disconnect(w->transport.user);
        fed_tls_close(&w->server);
    }
}

static void a_head_without_an_end_is_refused(void **state) {
    world *w = *state;
    static char one[HEAD_TOO_LONG + 1], many[HEAD_TOO_LONG + 1];
    memset(one, 'x', HEAD_TOO_LONG);
    for (size_t k = 0; k + 6 <= HEAD_TOO_LONG; k += 6) {
        memcpy(many + k, "a: b\r\n", 6);
    }
    for (int k = 0; k < 2; k++) {
        play(w, SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\n"), SAY(k == 0 ? "A: " : ""),
                       SAY(k == 0 ? one : many), SAY("\r\n\r\n"), DRAIN));
        assert_fails(w, get(w), FED_ENET, "head is longer than");
        fed_tls_close(&w->server);
    }
}

static void an_answer_past_its_limit_is_refused(void **state) {
    world *w = *state;
    w->limit = 4;
    play(w, SCRIPT(HEAR, OK_HELLO),
         SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")),
         SCRIPT(HEAR, SAY("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")),
         SCRIPT(HEAR, OK_HELLO));
    for (int k = 0; k < 3; k++) {
        assert_fails(w, get(w), FED_ERANGE, "longer than the 4 bytes");
    }
    w->limit = 5;
    assert_fed_ok(get(w));
    assert_hello(w);
}

/* The answer is within its limit, but the caller's memory is full. The error must not say that the
 * answer is too long. */
static void an_answer_without_room_is_told_from_one_past_its_limit(void **state) {
    world *w = *state;
    uint8_t room[4];
    fed_writer_free(&w->answer);
    fed_writer_fixed(&w->answer, room, sizeof room);
    play(w, SCRIPT(HEAR, OK_HELLO));
    assert_fails(w, get(w), FED_ENOSPC, fed_status_text(FED_ENOSPC));
    assert_null(strstr(w->err.text, "longer"));
    fed_writer_growing(&w->answer);
}

static void what_this_build_lacks_is_said(void **state) {
    world *w = *state;
    const fedclient_transport_options options = {.ca_pem = w->ca.text};
    fedclient_transport none = {0};
    assert_fails(w, fedclient_transport_open("pigeon", &options, &none, &w->err), FED_ENOTFOUND,
                 "no transport \"pigeon\"; it has ");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(bodies_of_all_sizes_arrive),
        test(answers_of_all_sizes_arrive),
        test(an_answer_in_chunks_arrives),
        test(an_answer_may_end_with_its_connection),
        test(an_answer_without_a_body_has_none),
        test(a_redirect_is_an_answer_and_is_not_followed),
        test(what_follows_the_callers_bytes_is_the_answer),
        test(who_asks_is_said),
        test(leave_to_send_may_be_missing),
        test(leave_to_send_may_be_refused),
        test(an_answer_may_come_while_the_body_is_sent),
        test(a_kept_connection_that_was_closed_is_replaced),
        test(a_fresh_connection_that_ends_without_a_word_is_a_failure),
        test(a_session_is_resumed),
        test(nobody_there_is_a_failure_of_the_network),
        test(an_address_that_is_none_is_said),
        test(a_name_is_found_in_the_certificate),
        test(another_name_is_not_trusted),
        test(an_address_of_ipv6_is_found_in_the_certificate),
        test(another_ca_is_not_trusted),
        test(a_certificate_out_of_its_time_is_not_trusted),
        test(a_clients_certificate_is_none_for_a_server),
        test(an_older_tls_is_not_spoken),
        test(a_certificate_is_presented),
        test(a_certificate_that_is_refused_is_said_after_a_few_times),
        test(a_key_and_a_certificate_that_do_not_fit_are_refused),
        test(silence_is_not_waited_out),
        test(silence_after_a_body_is_not_waited_out),
        test(a_request_may_be_less_patient_than_its_transport),
        test(silence_in_the_handshake_is_not_waited_out),
        test(a_body_that_is_not_taken_is_not_waited_out),
        test(a_slow_answer_is_awaited),
        test(an_answer_may_be_held),
        test(a_stop_ends_the_wait),
        test(a_cut_is_a_failure_of_the_network),
        test(what_came_before_a_cut_is_kept),
        test(what_is_not_http_is_refused),
        test(a_head_without_an_end_is_refused),
        test(an_answer_past_its_limit_is_refused),
        test(an_answer_without_room_is_told_from_one_past_its_limit),
        test(what_this_build_lacks_is_said),
    };
    int failures = 0;
    for (size_t k = 0; (kind = fedclient_transport_name(k)) != NULL; k++) {
        failures += cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    }
    return failures;
}
