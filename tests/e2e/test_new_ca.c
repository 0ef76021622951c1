/* The coordinator changes its CA while devices work, over each transport of this build. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <unistd.h>

#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_curl.h"
#include "fedclient/fedclient.h"

enum { TOKENS = 6, TRIES = 500, PAUSE_MS = 20 };

typedef struct device {
    fedclient_platform platform;
    fedclient_transport transport;
    fedclient *client;
} device;

typedef struct world {
    char directory[300], server[64], said[4000];
    const char *transport;
    sim_coordinator coordinator;
    fed_pem new_ca;
    char token[TOKENS][FEDSERVER_TOKEN];
    int tokens_used;
    device awake, asleep;
} world;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round;
    return fed_fail(err, FED_ESTATE, "there is nothing to train");
}

static void device_open(const world *w, device *d, const fed_pem *ca) {
    fed_error err = {0};
    assert_fed_ok_err(fedclient_transport_open(
        w->transport, &(fedclient_transport_options){.ca_pem = ca->text}, &d->transport, &err));
    const fedclient_options options = {
        .server = w->server, .platform = &d->platform, .transport = &d->transport, .train = train};
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
}

static void device_shut(device *d) {
    fedclient_close(d->client);
    fedclient_transport_close(&d->transport);
}

static void device_enrol(world *w, device *d, const fed_pem *ca) {
    fed_error err = {0};
    assert_fed_ok_err(fedclient_platform_memory_open(&d->platform, &err));
    device_open(w, d, ca);
    assert_fed_ok_err(fedclient_enrol(d->client, w->token[w->tokens_used++], &err));
}

static void device_end(device *d) {
    device_shut(d);
    fedclient_platform_memory_close(&d->platform);
}

static fed_status check_in(device *d, fed_error *err) {
    fedclient_event event;
    d->transport.disconnect(d->transport.user);
    return fedclient_step(d->client, &event, err);
}

static void assert_goes_on(device *d) {
    fed_error err = {0};
    assert_fed_ok_err(check_in(d, &err));
}

static int run_cert(world *w, const char *words) {
    char args[800];
    snprintf(args, sizeof args, "cert %s --dir %s", words, w->coordinator.directory);
    return fed_test_run(w->directory, "fedserver", args, w->said, sizeof w->said);
}

static void assert_cert(world *w, const char *words, bool works, const char *says) {
    if ((run_cert(w, words) == 0) != works || strstr(w->said, says) == NULL) {
        fail_msg("cert %s: wanted \"%s\" in: %s", words, says, w->said);
    }
}

/* Return the HTTP status of a check-in; 0: no answer, as when a certificate is not trusted. */
static long ask(const fed_pem *ca, const fed_identity *who, uint16_t port) {
    CURL *curl = fed_curl_new(ca, who, port, "/v1/checkin");
    fed_reply r = fed_curl_ask(curl);
    const long status = r.status;
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    return status;
}

/* Let the coordinator read its certificates again, and wait until it refuses this client. */
static void hang_up_until_refused(const world *w, const fed_pem *ca, const fed_identity *who,
                                  uint16_t port) {
    assert_int_equal(kill(w->coordinator.pid, SIGHUP), 0);
    for (int k = 0; k < TRIES && ask(ca, who, port) != 0; k++) {
        fed_sleep_ms(PAUSE_MS);
    }
    assert_int_equal(ask(ca, who, port), 0);
}

static void start(world *w, const char *transport) {
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 3}";
    fed_error err = {0};
    *w = (world){.transport = transport};
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_test_put(w->directory, "task.json", task, sizeof task - 1);
    char path[400];
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    const sim_options options = {
        .transport = SIM_HTTPS, .task = path, .fedserver = FED_BIN_DIR "/fedserver"};
    assert_fed_ok_err(sim_coordinator_prepare(&w->coordinator, &options, TOKENS, w->token, &err));
    snprintf(path, sizeof path, "cancel 1 --dir %.300s", w->coordinator.directory);
    assert_int_equal(fed_test_run(w->directory, "fedserver", path, w->said, sizeof w->said), 0);
    assert_fed_ok_err(sim_coordinator_start(&w->coordinator, &err));
    snprintf(w->server, sizeof w->server, "https://127.0.0.1:%u", w->coordinator.front_port);
}

static void read_new_ca(world *w) {
    char path[700];
    uint8_t *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/ca.pem", w->coordinator.directory);
    assert_fed_ok(fed_file_read(path, sizeof w->new_ca.text - 1, &text, &len, NULL));
    memcpy(w->new_ca.text, text, len + 1);
    free(text);
}

static void change_over(world *w) {
    assert_int_equal(kill(w->coordinator.pid, SIGHUP), 0);
    for (int k = 0; k < TRIES && strstr(w->said, "2 of 3 devices") == NULL; k++) {
        assert_goes_on(&w->awake);
        assert_int_equal(run_cert(w, "show"), 0);
        fed_sleep_ms(PAUSE_MS);
    }
    if (strstr(w->said, "2 of 3 devices") == NULL) {
        fail_msg("no device changed over to the new CA: %s", w->said);
    }
}

static void another_ca_over(world *w) {
    const uint16_t front = w->coordinator.front_port, devices = w->coordinator.devices_port;
    const fed_pem *old_ca = &w->coordinator.ca;
    fed_identity never; /* a device that never changes to the new CA */
    fed_error err = {0};
    device late;
    device_enrol(w, &w->awake, old_ca);
    device_enrol(w, &w->asleep, old_ca);
    assert_goes_on(&w->awake);
    assert_goes_on(&w->asleep);
    assert_int_equal(fed_curl_enrol(old_ca, front, w->token[w->tokens_used++], &never), 200);
    assert_cert(w, "new-ca", true, "3 of 3 devices still have certificates of the old CA");
    assert_cert(w, "new-ca", false, "drop-old-ca");
    assert_cert(w, "renew", false, "3 of 3 devices");
    assert_cert(w, "drop-old-ca", false, "3 of 3 devices");
    change_over(w);
    read_new_ca(w);
    assert_cert(w, "drop-old-ca --force", false, "fedserver cert renew");
    assert_cert(w, "renew --force", true, "server.pem is of the new one");
    hang_up_until_refused(w, old_ca, NULL, front);
    hang_up_until_refused(w, old_ca, &never, devices);
    assert_int_not_equal(ask(&w->new_ca, &never, devices), 0);
    assert_goes_on(&w->awake);
    device_shut(&w->awake);
    device_open(w, &w->awake, old_ca);
    assert_goes_on(&w->awake);
    assert_cert(w, "drop-old-ca", false, "2 of 3 devices");
    assert_cert(w, "drop-old-ca --force", true, "SIGHUP");
    hang_up_until_refused(w, &w->new_ca, &never, devices);
    assert_goes_on(&w->awake);
    assert_fed_fails(check_in(&w->asleep, &err), FED_EAUTH, "enrol anew with its new ca.pem");
    read_new_ca(w);
    device_enrol(w, &late, &w->new_ca);
    assert_goes_on(&late);
    device_end(&late);
    assert_fed_ok_err(sim_coordinator_alive(&w->coordinator, &err));
}

FED_TEST(devices_that_check_in_change_over) {
    static world w;
    const char *name = NULL;
    for (size_t k = 0; (name = fedclient_transport_name(k)) != NULL; k++) {
        fed_error err = {0};
        print_message("over the transport %s\n", name);
        start(&w, name);
        another_ca_over(&w);
        device_end(&w.awake);
        device_end(&w.asleep);
        assert_fed_ok_err(sim_coordinator_stop(&w.coordinator, SIGTERM, &err));
        sim_coordinator_clean(&w.coordinator);
        fed_test_rmdir(w.directory);
    }
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = fed_cases_run(NULL, NULL);
    curl_global_cleanup();
    return failed;
}
