/* Who may do what at the ports of a real coordinator: clients without a certificate, with one of
 * another CA, and enrolled devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_curl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedserver/http.h"
#include "fedserver/operator.h"

typedef struct world {
    char parent[256], directory[300];
    fedserver *server;
    fed_pem ca, ca_key;
    atomic_int stop;
    atomic_bool ready;
    uint16_t front_port, devices_port;
    pthread_t thread;
    fed_status status;
    fed_error err;
    char token[FEDSERVER_TOKEN];
} world;

static void on_ready(void *user, uint16_t front_port, uint16_t devices_port) {
    world *w = user;
    w->front_port = front_port;
    w->devices_port = devices_port;
    atomic_store(&w->ready, true);
}

static void *serve(void *user) {
    world *w = user;
    const fedserver_http_options options = {
        .bind = "127.0.0.1", .stop = &w->stop, .ready = on_ready, .user = w};
    w->status = fedserver_http_serve(w->server, &options, NULL, &w->err);
    atomic_store(&w->ready, true);
    return NULL;
}

static void read_pem(const world *w, const char *name, fed_pem *pem) {
    char path[400];
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    assert_fed_ok_err(fed_file_read(path, sizeof pem->text - 1, &data, &len, &err));
    memcpy(pem->text, data, len + 1);
    free(data);
}

static int setup(void **state) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    const fedserver_init_options options = {.hosts = hosts};
    fed_error err = {0};
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->parent, sizeof w->parent);
    snprintf(w->directory, sizeof w->directory, "%s/coordinator", w->parent);
    assert_fed_ok_err(fedserver_init(w->directory, &options, &err));
    assert_fed_ok_err(fedserver_open(w->directory, NULL, &w->server, &err));
    assert_fed_ok_err(fedserver_token_new(w->server, fed_clock_unix_ms(), 3600, w->token, &err));
    read_pem(w, "ca.pem", &w->ca);
    read_pem(w, "ca.key", &w->ca_key);
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
    while (!atomic_load(&w->ready)) {
        fed_sleep_ms(1);
    }
    assert_true(w->front_port != 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    w->stop = 1;
    pthread_join(w->thread, NULL);
    fedserver_close(w->server);
    fed_test_rmdir(w->parent);
    const int failed = w->status != FED_OK;
    if (failed) {
        print_error("%s\n", w->err.text);
    }
    free(w);
    return failed;
}

FED_TEST_WITH(test_people_see_the_status_and_the_page, world *w) {
    CURL *curl = fed_curl_new(&w->ca, NULL, w->front_port, "/v1/status");
    fed_curl_expect(curl, 200, "\"protocol\":");
    curl_easy_cleanup(curl);
    curl = fed_curl_new(&w->ca, NULL, w->front_port, "/");
    fed_reply r = fed_curl_ask(curl);
    assert_non_null(strstr(fed_reply_text(&r.headers), "Content-Security-Policy: "));
    fed_reply_assert(&r, 200, "</html>");
    curl_easy_cleanup(curl);
}

FED_TEST_WITH(test_a_stranger_with_a_good_certificate_is_unknown, world *w) {
    fed_identity who;
    const int64_t now = time(NULL);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - 60, now + 3600, &who);
    CURL *curl = fed_curl_new(&w->ca, &who, w->devices_port, "/v1/checkin");
    fed_curl_expect(curl, 403, "device_unknown");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "a body");
    fed_curl_expect(curl, 403, "device_unknown");
    curl_easy_cleanup(curl);
}

static void assert_shut_out(const world *w, const fed_identity *who) {
    CURL *curl = fed_curl_new(&w->ca, who, w->devices_port, "/v1/checkin");
    fed_reply r = fed_curl_ask(curl);
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
}

FED_TEST_WITH(test_bad_certificates_end_in_the_handshake, world *w) {
    fed_error err = {0};
    fed_identity who;
    fed_pem rogue_key, rogue;
    const int64_t now = time(NULL);
    assert_shut_out(w, NULL);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_CLIENT, now - 7200, now - 3600, &who);
    assert_shut_out(w, &who);
    fed_identity_make(&w->ca_key, &w->ca, FED_CERT_SERVER, now - 60, now + 3600, &who);
    assert_shut_out(w, &who);
    assert_fed_ok_err(fed_key_new(&rogue_key, &err));
    assert_fed_ok_err(
        fed_ca_new(&rogue_key, "fed coordinator CA", now - 7200, now + 7200, &rogue, &err));
    fed_identity_make(&rogue_key, &rogue, FED_CERT_CLIENT, now - 60, now + 3600, &who);
    assert_shut_out(w, &who);
}

/* The devices' port must accept a new certificate at once. */
FED_TEST_WITH(test_a_device_enrols_and_is_let_in, world *w) {
    fed_identity who, other;
    assert_int_equal(fed_curl_enrol(&w->ca, w->front_port, w->token, &who), 200);
    assert_int_equal(fed_curl_enrol(&w->ca, w->front_port, w->token, &other), 401);

    CURL *curl = fed_curl_new(&w->ca, &who, w->devices_port, "/v1/checkin");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "not a check-in");
    fed_curl_expect(curl, 400, "\"error\":");
    curl_easy_cleanup(curl);
}

FED_TEST_WITH(test_a_body_too_large_for_its_route_gets_a_413, world *w) {
    static char body[100000];
    memset(body, 'x', sizeof body - 1);
    CURL *curl = fed_curl_new(&w->ca, NULL, w->front_port, "/v1/enrol");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    fed_curl_expect(curl, 413, "\"too_large\"");
    curl_easy_cleanup(curl);
}

int main(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = fed_cases_run(setup, teardown);
    curl_global_cleanup();
    return failed;
}
