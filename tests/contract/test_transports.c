/* Contract of every transport with a real coordinator on loopback. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "fed_coordinator.h"
#include "fed_operator.h"
#include "fed_test.h"
#include "fedclient/fedclient.h"

static const char *kind;

/* How often a transport has asked for the address of MOVES. That name moves once: nobody listens at
 * its first address. */
#define MOVES "moves.test"
static atomic_uint lookups;

/* The transports call this function in place of the system's. The names of its parameters in libc
 * are reserved. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found) {
    typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    lookup *real = (lookup *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (host != NULL && strcmp(host, MOVES) == 0) {
        host = atomic_fetch_add(&lookups, 1) == 0 ? "127.0.0.2" : "127.0.0.1";
    }
    return real(host, service, hints, found);
}

/* How often curl has given bytes to the system to be sent. */
static atomic_uint sends;

/* curl calls this function in place of the system's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
ssize_t send(int fd, const void *bytes, size_t len, int flags) {
    typedef ssize_t sender(int, const void *, size_t, int);
    sender *real = (sender *)(uintptr_t)dlsym(RTLD_NEXT, "send");
    atomic_fetch_add(&sends, 1);
    return real(fd, bytes, len, flags);
}

typedef struct world {
    char directory[256];
    fed_coordinator home, other;
    fedclient_transport transport;
    fed_writer answer;
    int status;
    fed_error err;
    bool stopped;
} world;

static bool stopped(void *user) {
    const world *w = user;
    return w->stopped;
}

static fed_status open_for(world *w, const char *ca) {
    const fedclient_transport_options options = {.ca_pem = ca, .stopped = stopped, .user = w};
    return fedclient_transport_open(kind, &options, &w->transport, &w->err);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    assert_fed_ok(open_for(w, w->home.ca));
    fed_writer_growing(&w->answer);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedclient_transport_close(&w->transport);
    fed_writer_free(&w->answer);
    fed_coordinator_close(&w->home);
    fed_coordinator_close(&w->other);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

/* A body whose reading fails at breaks_at. */
typedef struct stream {
    size_t at, breaks_at;
} stream;

static fed_status stream_read(void *user, void *dst, size_t cap, size_t *len) {
    stream *s = user;
    FED_REQUIRE(s->at < s->breaks_at, FED_EIO);
    size_t left = s->breaks_at - s->at;
    *len = left < cap ? left : cap;
    memset(dst, 'x', *len);
    s->at += *len;
    return FED_OK;
}

static fed_status send_to(world *w, uint16_t port, const char *method, const char *path,
                          const fedclient_body *body) {
    char url[200];
    snprintf(url, sizeof url, "https://127.0.0.1:%u%s", port, path);
    const fedclient_request request = {
        .method = method, .url = url, .body = body, .answer_limit = 1 << 20};
    w->answer.len = 0;
    return w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err);
}

static fed_status get_status(world *w) {
    return send_to(w, w->home.front, "GET", "/v1/status", NULL);
}

static fedclient_traffic traffic(world *w) {
    fedclient_traffic t;
    w->transport.traffic(w->transport.user, &t);
    return t;
}

static void an_answer_arrives_with_its_status(void **state) {
    world *w = *state;
    assert_fed_ok(get_status(w));
    assert_int_equal(w->status, 200);
    assert_true(w->answer.len > 10 && w->answer.data[0] == '{');
    assert_fed_ok(send_to(w, w->home.front, "GET", "/v1/nothing", NULL));
    assert_int_equal(w->status, 404);
    assert_non_null(memchr(w->answer.data, '{', w->answer.len));
}

static void a_request_to_be_asked_later_is_passed_on(void **state) {
    world *w = *state;
    char url[64];
    uint32_t retry_after_s = 0;
    fed_coordinator_stop(&w->home);
    w->home.requests_per_s = 1;
    fed_coordinator_start(&w->home);
    snprintf(url, sizeof url, "https://127.0.0.1:%u/v1/nothing", w->home.front);
    const fedclient_request request = {
        .method = "GET", .url = url, .answer_limit = 1000, .retry_after_s = &retry_after_s};
    for (unsigned k = 0; k < 1000 && w->status != 429; k++) {
        assert_int_equal(retry_after_s, 0);
        w->answer.len = 0;
        assert_fed_ok(
            w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err));
    }
    assert_int_equal(w->status, 429);
    assert_true(retry_after_s > 0);
}

static void requests_share_a_connection(void **state) {
    world *w = *state;
    for (unsigned k = 0; k < 5; k++) {
        assert_fed_ok(get_status(w));
    }
    assert_int_equal(traffic(w).requests, 5);
    assert_int_equal(traffic(w).connections, 1);
    w->transport.disconnect(w->transport.user);
    assert_fed_ok(get_status(w));
    assert_int_equal(traffic(w).connections, 2);
}

static void no_byte_is_sent_that_says_nothing(void **state) {
    world *w = *state;
    char expected[300];
    stream s = {.breaks_at = 7};
    const fedclient_body body = {.user = &s, .size = 7, .read = stream_read};
    assert_fed_ok(get_status(w));
    int len = snprintf(expected, sizeof expected,
                       "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", w->home.front);
    assert_int_equal(traffic(w).sent_bytes, len);
    assert_true(traffic(w).received_bytes > w->answer.len);
    assert_fed_ok(send_to(w, w->home.front, "POST", "/v1/enrol", &body));
    len += snprintf(expected, sizeof expected,
                    "POST /v1/enrol HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 7\r\n\r\n"
                    "xxxxxxx",
                    w->home.front);
    assert_int_equal(traffic(w).sent_bytes, len);
    assert_int_equal(w->status, 401);
}

/* Sent apart, the head would wake the coordinator before there is anything to do. The transport on
 * mbedTLS saves the memory for both. */
static void a_small_body_in_memory_leaves_with_its_head(void **state) {
    world *w = *state;
    const size_t most = 10000;
    uint8_t *bytes = calloc(1, most);
    assert_non_null(bytes);
    assert_fed_ok(get_status(w));
    for (size_t size = 0; size <= most && strcmp(kind, "curl") == 0; size += most / 2) {
        stream s = {.breaks_at = size};
        const fedclient_body body = {.user = &s, .size = size, .read = stream_read, .data = bytes};
        const uint64_t sent = traffic(w).sent_bytes;
        atomic_store(&sends, 0);
        assert_fed_ok(send_to(w, w->home.front, "POST", "/v1/enrol", &body));
        assert_int_equal(atomic_load(&sends), 1);
        assert_true(traffic(w).sent_bytes - sent > size);
        assert_int_equal(w->status, size < 4096 ? 401 : 413);
    }
    assert_int_equal(traffic(w).connections, 1);
    free(bytes);
}

static void a_coordinator_that_comes_back_is_reached_without_an_error(void **state) {
    world *w = *state;
    assert_fed_ok(get_status(w));
    for (unsigned k = 0; k < 3; k++) {
        stream s = {.breaks_at = 7};
        const fedclient_body body = {.user = &s, .size = 7, .read = stream_read};
        fed_coordinator_stop(&w->home);
        fed_coordinator_start(&w->home);
        assert_fed_ok(send_to(w, w->home.front, "POST", "/v1/enrol", &body));
        assert_int_equal(w->status, 401);
    }
    assert_int_equal(traffic(w).connections, 4);
}

static void nobody_there_is_a_network_failure(void **state) {
    world *w = *state;
    assert_fed_status(send_to(w, 1, "GET", "/", NULL), FED_ENET);
    assert_non_null(strstr(w->err.text, "https://127.0.0.1:1/"));
}

static void a_name_that_moves_is_found_at_the_next_connection(void **state) {
    world *w = *state;
    char url[64];
    snprintf(url, sizeof url, "https://" MOVES ":%u/v1/status", w->home.front);
    const fedclient_request request = {.method = "GET", .url = url, .answer_limit = 1000};
    atomic_store(&lookups, 0);
    assert_fed_status(
        w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err), FED_ENET);
    assert_int_equal(atomic_load(&lookups), 1);
    /* The certificate is for another name, so the coordinator is there. */
    assert_fed_status(
        w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err), FED_EAUTH);
}

static void a_coordinator_of_another_ca_is_not_trusted(void **state) {
    world *w = *state;
    fed_coordinator_open(&w->other, w->directory, "other");
    assert_fed_status(send_to(w, w->other.front, "GET", "/v1/status", NULL), FED_EAUTH);
    assert_non_null(strstr(w->err.text, "check the CA file"));
}

static void a_name_that_is_not_in_the_certificate_is_not_trusted(void **state) {
    world *w = *state;
    char url[100];
    snprintf(url, sizeof url, "https://127.0.0.2:%u/v1/status", w->home.front);
    const fedclient_request request = {.method = "GET", .url = url, .answer_limit = 1 << 20};
    fed_status status =
        w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err);
    /* FED_ENET: the machine has no 127.0.0.2 */
    assert_true(status == FED_EAUTH || status == FED_ENET);
}

static void a_ca_that_is_none_is_refused(void **state) {
    world *w = *state;
    fedclient_transport_close(&w->transport);
    assert_fed_status(open_for(w, ""), FED_EFORMAT);
    assert_fed_status(open_for(w, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                      FED_EFORMAT);
}

static void only_https_is_spoken(void **state) {
    world *w = *state;
    const fedclient_request request = {.method = "GET", .url = "http://127.0.0.1:1/"};
    assert_fed_status(
        w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err),
        FED_EINVAL);
}

/* For caches, a client may use plain HTTP, and trusts only its CA for caches. */
static void lines_to_caches_trust_other_cas(void **state) {
    world *w = *state;
    fed_coordinator_open(&w->other, w->directory, "other");
    fedclient_transport_options options = {.ca_pem = w->other.ca, .for_caches = true};
    fedclient_transport_close(&w->transport);
    assert_fed_ok(fedclient_transport_open(kind, &options, &w->transport, &w->err));
    assert_fed_status(get_status(w), FED_EAUTH);
    assert_fed_ok(send_to(w, w->other.front, "GET", "/v1/status", NULL));
    fedclient_transport_close(&w->transport);
    options.ca_pem = NULL;
    const fed_status opened = fedclient_transport_open(kind, &options, &w->transport, &w->err);
    if (strcmp(kind, "mbedtls") == 0) {
        assert_fed_status(opened, FED_ENOTFOUND);
        return;
    }
    assert_fed_ok(opened);
    assert_fed_status(get_status(w), FED_EAUTH);
    const fedclient_request plain = {.method = "GET", .url = "http://127.0.0.1:1/"};
    assert_fed_status(w->transport.send(w->transport.user, &plain, &w->status, &w->answer, &w->err),
                      FED_ENET);
}

static void an_answer_past_its_limit_is_refused(void **state) {
    world *w = *state;
    char url[100];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/v1/status", w->home.front);
    const fedclient_request request = {.method = "GET", .url = url, .answer_limit = 20};
    assert_fed_status(
        w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err),
        FED_ERANGE);
    assert_fed_ok(get_status(w));
}

static void a_body_that_breaks_off_breaks_the_request_off(void **state) {
    world *w = *state;
    static const size_t sizes[] = {100, 65535, 65536, 500000};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        stream s = {.breaks_at = sizes[k] / 2};
        const fedclient_body body = {.user = &s, .size = sizes[k], .read = stream_read};
        fed_status status = send_to(w, w->home.front, "POST", "/v1/enrol", &body);
        /* a large body may be refused before it is sent */
        assert_true(status == FED_EIO || (status == FED_OK && w->status == 413));
        assert_fed_ok(get_status(w));
    }
}

static void a_body_too_large_gets_its_answer(void **state) {
    world *w = *state;
    for (unsigned k = 0; k < 10; k++) {
        stream s = {.breaks_at = 3000000};
        const fedclient_body body = {.user = &s, .size = 3000000, .read = stream_read};
        assert_fed_ok(send_to(w, w->home.front, "POST", "/v1/enrol", &body));
        assert_int_equal(w->status, 413);
        assert_int_equal(s.at, 0);
    }
}

static void a_stop_breaks_a_request_off(void **state) {
    world *w = *state;
    w->stopped = true;
    assert_fed_status(get_status(w), FED_ECANCELED);
    w->stopped = false;
    assert_fed_ok(get_status(w));
}

static fed_status nothing(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round;
    return fed_fail(err, FED_ESTATE, "not called");
}

typedef struct device {
    fedclient_platform platform;
    fedclient *client;
    char server[64];
} device;

static void device_open(world *w, device *d, const fed_coordinator *at) {
    snprintf(d->server, sizeof d->server, "https://127.0.0.1:%u", at->front);
    const fedclient_options options = {.server = d->server,
                                       .platform = &d->platform,
                                       .transport = &w->transport,
                                       .train = nothing};
    fed_error err = {0};
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
}

static void device_enrol(world *w, device *d, fed_coordinator *at) {
    char token[FEDSERVER_TOKEN];
    fed_error err = {0};
    fed_coordinator_token(at, token);
    assert_fed_ok_err(fedclient_platform_memory_open(&d->platform, &err));
    device_open(w, d, at);
    assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
    assert_fed_status(fedclient_enrol(d->client, token, &err), FED_EAUTH);
}

static void device_close(device *d) {
    fedclient_close(d->client);
    fedclient_platform_memory_close(&d->platform);
}

static void an_enrolled_device_is_let_in(void **state) {
    world *w = *state;
    device d = {0};
    fedclient_event event;
    device_enrol(w, &d, &w->home);
    for (unsigned k = 0; k < 3; k++) {
        fed_error err = {0};
        assert_fed_ok_err(fedclient_step(d.client, &event, &err));
        assert_int_equal(event.outcome, FEDCLIENT_WAITED);
        assert_int_equal(event.reason, FED_WAIT_NO_TASK);
    }
    device_close(&d);
}

static void a_device_without_a_certificate_is_not_let_in(void **state) {
    world *w = *state;
    fed_status status = send_to(w, w->home.devices, "POST", "/v1/checkin", NULL);
    /* FED_EAUTH: the TLS alert arrived before the connection ended */
    assert_true(status == FED_EAUTH || status == FED_ENET);
}

static void start_task(world *w) {
    static const char task[] = "{\"model\": \"input 2 | dense 2\", \"rounds\": 1, \"cohort\": 1}";
    (void)fed_operator_task(w->home.directory, w->directory, task);
}

static fed_status get_model(world *w, fedclient_range *range) {
    char url[200];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/v1/model?task=1&have=none&want=0",
             w->home.devices);
    const fedclient_request request = {
        .method = "GET", .url = url, .range = range, .answer_limit = 1 << 20};
    w->answer.len = 0;
    return w->transport.send(w->transport.user, &request, &w->status, &w->answer, &w->err);
}

static void an_answer_can_be_had_from_any_byte_on(void **state) {
    world *w = *state;
    device d = {0};
    fedclient_range whole = {0};
    start_task(w);
    device_enrol(w, &d, &w->home);
    assert_fed_ok(get_model(w, &whole));
    assert_int_equal(w->status, 200);
    assert_int_equal(whole.begin, 0);
    assert_int_equal(whole.total, w->answer.len);
    assert_true(whole.tag != 0);

    fedclient_range part = {.first = 5, .most = 10, .if_tag = whole.tag};
    assert_fed_ok(get_model(w, &part));
    assert_int_equal(w->status, 206);
    assert_int_equal(w->answer.len, 10);
    assert_true(part.begin == 5 && part.total == whole.total && part.tag == whole.tag);

    fedclient_range rest = {.first = 5, .if_tag = whole.tag};
    assert_fed_ok(get_model(w, &rest));
    assert_int_equal(w->answer.len, whole.total - 5);

    fedclient_range other = {.first = 5, .if_tag = whole.tag ^ 1};
    assert_fed_ok(get_model(w, &other));
    assert_int_equal(w->status, 200);
    assert_true(other.begin == 0 && other.total == whole.total);

    fedclient_range behind = {.first = whole.total, .begin = 7, .total = 7};
    assert_fed_ok(get_model(w, &behind));
    assert_int_equal(w->status, 416);
    assert_int_equal(behind.total, 0);
    device_close(&d);
}

/** After a few refusals the client reports the refused certificate. */
static void a_refused_certificate_is_told_from_bad_luck(void **state) {
    world *w = *state;
    device d = {0};
    fed_status status = FED_OK;
    fed_coordinator_open(&w->other, w->directory, "other");
    fedclient_transport_close(&w->transport);
    assert_fed_ok(open_for(w, w->other.ca));
    device_enrol(w, &d, &w->other);
    fedclient_close(d.client);
    fedclient_transport_close(&w->transport);
    assert_fed_ok(open_for(w, w->home.ca));
    w->home.devices = w->other.devices;
    fed_coordinator_close(&w->other);
    fed_coordinator_stop(&w->home);
    fed_coordinator_start(&w->home);
    device_open(w, &d, &w->home);
    unsigned turns = 0;
    while (status == FED_OK && turns++ < 10) {
        fedclient_event event;
        status = fedclient_step(d.client, &event, &w->err);
        assert_true(status != FED_OK || event.outcome == FEDCLIENT_RETRY);
    }
    assert_fed_status(status, FED_EAUTH);
    assert_non_null(strstr(w->err.text, "certificate"));
    device_close(&d);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(an_answer_arrives_with_its_status),
        test(a_request_to_be_asked_later_is_passed_on),
        test(requests_share_a_connection),
        test(no_byte_is_sent_that_says_nothing),
        test(a_small_body_in_memory_leaves_with_its_head),
        test(a_coordinator_that_comes_back_is_reached_without_an_error),
        test(nobody_there_is_a_network_failure),
        test(a_name_that_moves_is_found_at_the_next_connection),
        test(a_coordinator_of_another_ca_is_not_trusted),
        test(a_name_that_is_not_in_the_certificate_is_not_trusted),
        test(a_ca_that_is_none_is_refused),
        test(only_https_is_spoken),
        test(lines_to_caches_trust_other_cas),
        test(an_answer_past_its_limit_is_refused),
        test(a_body_that_breaks_off_breaks_the_request_off),
        test(a_body_too_large_gets_its_answer),
        test(a_stop_breaks_a_request_off),
        test(an_enrolled_device_is_let_in),
        test(an_answer_can_be_had_from_any_byte_on),
        test(a_device_without_a_certificate_is_not_let_in),
        test(a_refused_certificate_is_told_from_bad_luck),
    };
    int failures = 0;
    for (size_t k = 0; (kind = fedclient_transport_name(k)) != NULL; k++) {
        failures += cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    }
    return failures;
}
