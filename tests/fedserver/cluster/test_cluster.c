/* A leader's limited number of links to followers, over real sockets: which connection gets a
 * link, and which one is closed for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_curl.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedserver/cluster/cluster.h"
#include "fedserver/http.h"

typedef struct world {
    gnutls_certificate_credentials_t credentials;
    fed_identity server;
    cluster_keys keys;
    cluster *leader;
    uint16_t port;
    bool admits;
    uint64_t moved;
    int strangers[CLUSTER_LINKS_MOST];
    cluster_link *followers[CLUSTER_LINKS_MOST];
} world;

static bool admit(void *user, int fd) {
    const world *w = user;
    assert_true(fd >= 0);
    return w->admits;
}

static void make_keys(world *w) {
    fed_error err = {0};
    fed_pem key, ca;
    const int64_t now = time(NULL);
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_ca_new(&key, "CA", now - 1000, now + 86400, &ca, &err));
    fed_identity_make(&key, &ca, FED_CERT_SERVER, now - 60, now + 3600, &w->server);
    const gnutls_datum_t own = {(unsigned char *)w->server.cert.text,
                                (unsigned)strlen(w->server.cert.text)};
    const gnutls_datum_t secret = {(unsigned char *)w->server.key.text,
                                   (unsigned)strlen(w->server.key.text)};
    assert_int_equal(gnutls_certificate_allocate_credentials(&w->credentials), 0);
    assert_int_equal(
        gnutls_certificate_set_x509_key_mem(w->credentials, &own, &secret, GNUTLS_X509_FMT_PEM), 0);
    w->keys = (cluster_keys){.credentials = w->credentials, .certificate = w->server.cert.text};
}

static int setup(void **state) {
    fed_error err = {0};
    int fd = -1;
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    make_keys(w);
    assert_fed_ok_err(fedserver_http_listen("127.0.0.1", &w->port, &fd, &err));
    const cluster_handlers handlers = {.user = w, .admit = admit};
    assert_fed_ok_err(cluster_open(fd, &handlers, NULL, &w->leader, &err));
    cluster_use_keys(w->leader, &w->keys);
    w->admits = true;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        cluster_link_free(w->followers[k]);
        if (w->strangers[k] != 0) {
            close(w->strangers[k]);
        }
    }
    cluster_close(w->leader);
    gnutls_certificate_free_credentials(w->credentials);
    free(w);
    return 0;
}

static void turn(world *w) {
    fed_error err = {0};
    cluster_poll(w->leader, true, "", 0, &w->moved);
    for (size_t k = 0; k < CLUSTER_LINKS_MOST && w->followers[k] != NULL; k++) {
        assert_fed_ok_err(cluster_link_run(w->followers[k], fed_clock_monotonic_ms(), NULL, NULL,
                                           &w->moved, &err));
    }
}

static int dial(world *w) {
    const int fd = fed_dial(w->port);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    turn(w);
    return fd;
}

static bool is_closed(int fd) {
    char byte;
    const ssize_t got = recv(fd, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

static void add_follower(world *w, size_t k) {
    fed_error err = {0};
    assert_fed_ok_err(cluster_link_new(dial(w), true, &w->keys, fed_clock_monotonic_ms(),
                                       &w->followers[k], &err));
    for (int turns = 0; turns < 10000 && !cluster_link_up(w->followers[k]); turns++) {
        turn(w);
    }
    assert_true(cluster_link_up(w->followers[k]));
}

/* A new follower takes the place of the oldest silent connection. */
FED_TEST_WITH(silent_strangers_keep_no_follower_out, world *w) {
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        w->strangers[k] = dial(w);
    }
    assert_false(is_closed(w->strangers[0]));
    add_follower(w, 0);
    assert_int_equal(cluster_followers(w->leader), 1);
    assert_true(is_closed(w->strangers[0]));
    assert_false(is_closed(w->strangers[CLUSTER_LINKS_MOST - 1]));
}

FED_TEST_WITH(nobody_gets_a_followers_place, world *w) {
    for (size_t k = 0; k < CLUSTER_LINKS_MOST; k++) {
        add_follower(w, k);
    }
    w->strangers[0] = dial(w);
    assert_true(is_closed(w->strangers[0]));
    assert_int_equal(cluster_followers(w->leader), CLUSTER_LINKS_MOST);
}

FED_TEST_WITH(who_is_not_admitted_is_closed_at_once, world *w) {
    w->admits = false;
    w->strangers[0] = dial(w);
    assert_true(is_closed(w->strangers[0]));
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
