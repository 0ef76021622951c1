/* The health check of listeners: at each address, behind each proxy, and where nobody answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "http_world.h"

#include "fedserver/http/http_health.h"

static bool has_address(const char *bind) {
    fed_error err = {0};
    uint16_t port = 0;
    int fd = -1;
    const bool has = fedserver_http_listen(bind, &port, &fd, &err) == FED_OK;
    if (has) {
        close(fd);
    }
    return has;
}

static void expect_well(const char *bind, const char *proxies) {
    world *w = NULL;
    fed_error err = {0};
    assert_int_equal(setup((void **)&w), 0);
    w->options.bind = bind;
    w->options.proxies = proxies;
    start(w);
    const fed_status status = fedserver_http_health(w->server.directory, &err);
    if (status != FED_OK || atomic_load(&w->server.handled) != 1) {
        fail_msg("on %s, with proxies %s: %s", bind, proxies != NULL ? proxies : "none", err.text);
    }
    finish(w);
    assert_fed_ok_err(fedserver_http_health(w->server.directory, &err)); /* nobody need be asked */
    assert_int_equal(teardown((void **)&w), 0);
}

static void each_listener_is_asked_where_it_serves(void) {
    static const char *const binds[] = {"127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::"};
    static const char *const proxies[] = {NULL, "192.0.2.1", "127.0.0.1,::1", "::1,192.0.2.1"};
    for (size_t k = 0; k < 5; k++) {
        for (size_t i = 0; i < 4 && has_address(binds[k]); i++) {
            expect_well(binds[k], proxies[i]);
        }
    }
}

static void expect_ill(const world *w, fedserver_listener kind, const char *bind, uint16_t port,
                       const char *says) {
    const fedserver_http_options options = {.bind = bind};
    fed_error err = {0};
    char words[100];
    assert_fed_ok_err(http_health_note(w->server.directory, kind, &options, port, &err));
    snprintf(words, sizeof words, strchr(bind, ':') != NULL ? "https://[%s]:%u" : "https://%s:%u",
             bind, port);
    assert_fed_fails(fedserver_http_health(w->server.directory, &err), FED_EIO, says);
    assert_fed_says(err, words);
    http_health_forget(w->server.directory, kind);
}

/* Take a port at which nobody listens: a closed one could become another test's. */
static int take_port(uint16_t *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void one_that_does_not_answer_is_named(void **state) {
    const world *w = *state;
    fed_error err = {0};
    uint16_t port = 0, silent_port = 0;
    int silent = -1;
    const int fd = take_port(&port);
    expect_ill(w, FEDSERVER_FRONT, "127.0.0.1", port, "Connection refused");
    expect_ill(w, FEDSERVER_DEVICES, "0.0.0.0", port, "the devices' listener");
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", &silent_port, &silent, &err));
    expect_ill(w, FEDSERVER_FRONT, "127.0.0.1", silent_port, "the front");
    /* a version may take seconds to make, so a devices' listener need only listen */
    const fedserver_http_options options = {.bind = "127.0.0.1"};
    assert_fed_ok_err(
        http_health_note(w->server.directory, FEDSERVER_DEVICES, &options, silent_port, &err));
    assert_fed_ok_err(fedserver_http_health(w->server.directory, &err));
    close(silent);
    close(fd);
}

static void a_damaged_note_is_named(void **state) {
    const world *w = *state;
    fed_error err = {0};
    static const char *const notes[] = {"", "127.0.0.1", "127.0.0.1 70000\n", "x"};
    for (size_t k = 0; k < sizeof notes / sizeof notes[0]; k++) {
        fed_test_put(w->server.directory, "front-listener", notes[k], strlen(notes[k]));
        assert_fed_fails(fedserver_http_health(w->server.directory, &err), FED_EFORMAT,
                         "front-listener is damaged");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(each_listener_is_asked_where_it_serves),
        cmocka_unit_test_setup_teardown(one_that_does_not_answer_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_note_is_named, setup, teardown),
    };
    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
