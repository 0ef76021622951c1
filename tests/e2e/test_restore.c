/* A coordinator is restored from a backup. Devices with newer versions than those in the backup
 * must go on (D5 and D6 of docs/durability.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "fed/hash.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_operator.h"
#include "fedclient/fedclient.h"
#include "fedserver/server.h"

enum { DEVICES = 2, TURNS = 300 };

/* An update of this task has 100 KB and is kept in a segment file. */
static const char task_json[] = "{\"model\": \"input 784 | dense 32 | dense 10\","
                                " \"codec_up\": \"float32\", \"codec_down\": \"float32\","
                                " \"rounds\": 6, \"cohort\": 2, \"goal\": 2, \"deadline_s\": 100}";

typedef struct device {
    fedclient_platform platform;
    fedclient_transport line, transport; /* transport: sends over line, or fails to send updates */
    fedclient *client;
    bool breaks;
    float step;
} device;

typedef struct world {
    char directory[256], backup[300];
    fed_coordinator home;
    char server[64];
    device devices[DEVICES];
} world;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)err;
    const device *d = user;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += d->step * (float)(i % 5 + round->round);
    }
    round->samples = 10;
    round->loss = 0.5f;
    return FED_OK;
}

static fed_status send_or_break(void *user, const fedclient_request *request, int *status,
                                fed_writer *answer, fed_error *err) {
    device *d = user;
    if (d->breaks && strstr(request->url, "/v1/update") != NULL) {
        return fed_fail(err, FED_ENET, "the test breaks this upload");
    }
    return d->line.send(d->line.user, request, status, answer, err);
}

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    device *d = user;
    return d->line.identify(d->line.user, key, cert, err);
}

static void disconnect(void *user) {
    device *d = user;
    d->line.disconnect(d->line.user);
}

static void traffic(void *user, fedclient_traffic *t) {
    device *d = user;
    d->line.traffic(d->line.user, t);
}

static void device_open(world *w, device *d) {
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    assert_fed_ok_err(fedclient_platform_memory_open(&d->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->home.ca}, &d->line, &err));
    d->transport = (fedclient_transport){.user = d,
                                         .send = send_or_break,
                                         .identify = identify,
                                         .disconnect = disconnect,
                                         .traffic = traffic};
    const fedclient_options options = {.server = w->server,
                                       .platform = &d->platform,
                                       .transport = &d->transport,
                                       .train = train,
                                       .user = d};
    fed_coordinator_token(&w->home, token);
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
    assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
}

static void device_close(device *d) {
    fedclient_close(d->client);
    fedclient_transport_close(&d->line);
    fedclient_platform_memory_close(&d->platform);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->backup, sizeof w->backup, "%s/backup", w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    snprintf(w->server, sizeof w->server, "https://127.0.0.1:%u", w->home.front);
    for (int k = 0; k < DEVICES; k++) {
        w->devices[k].step = 0.001f * (float)(k + 1);
        device_open(w, &w->devices[k]);
    }
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < DEVICES; k++) {
        device_close(&w->devices[k]);
    }
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static fedserver *look(const world *w) {
    fed_error err = {0};
    fedserver *other;
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &other, &err));
    return other;
}

static void back_up(const world *w) {
    fed_error err = {0};
    fedserver *other = look(w);
    assert_fed_ok_err(fedserver_backup(other, w->backup, &err));
    fedserver_close(other);
}

static void restore(world *w) {
    fed_error err = {0};
    char away[400];
    snprintf(away, sizeof away, "%s/away", w->directory);
    fed_coordinator_stop(&w->home);
    assert_int_equal(rename(w->home.directory, away), 0);
    assert_fed_ok_err(fedserver_restore(w->backup, w->home.directory, &err));
    fed_coordinator_start(&w->home);
}

static fedclient_event step_until(device *d, fedclient_outcome wanted) {
    fedclient_event event = {0};
    for (int k = 0; k < TURNS; k++) {
        fed_error err = {0};
        assert_fed_ok_err(fedclient_step(d->client, &event, &err));
        if (event.outcome == wanted) {
            return event;
        }
    }
    fail_msg("fedclient_step did not have the outcome %d in %d steps", (int)wanted, TURNS);
    return event;
}

static void round_trip(world *w, uint32_t number) {
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(step_until(&w->devices[k], FEDCLIENT_COUNTED).round, number);
    }
}

static void run_to_the_end(world *w) {
    int finished = 0;
    for (int k = 0; k < TURNS && finished < DEVICES; k++) {
        finished = 0;
        for (int i = 0; i < DEVICES; i++) {
            fed_error err = {0};
            fedclient_event event;
            assert_fed_ok_err(fedclient_step(w->devices[i].client, &event, &err));
            finished += event.outcome == FEDCLIENT_FINISHED;
        }
    }
    assert_int_equal(finished, DEVICES);
}

static uint64_t stored_digest(const world *w, uint32_t *version) {
    fed_error err = {0};
    fedserver *other = look(w);
    fedserver_model_row row;
    assert_fed_ok_err(other->store->model_find(other->db, 1, &row, &err));
    free(row.values);
    free(row.residual);
    free(row.state);
    fedserver_close(other);
    *version = row.version;
    return row.digest;
}

FED_TEST_WITH(devices_ahead_of_an_older_backup_heal_and_finish_the_task, world *w) {
    (void)fed_operator_task(w->home.directory, w->directory, task_json);
    round_trip(w, 1);
    round_trip(w, 2);
    step_until(&w->devices[0], FEDCLIENT_COUNTED);
    back_up(w);
    step_until(&w->devices[1], FEDCLIENT_COUNTED);
    round_trip(w, 4);
    step_until(&w->devices[0], FEDCLIENT_COUNTED);
    w->devices[1].breaks = true;
    step_until(&w->devices[1], FEDCLIENT_RETRY);
    w->devices[1].breaks = false;
    restore(w);
    step_until(&w->devices[1], FEDCLIENT_REFUSED);
    run_to_the_end(w);
    uint32_t version;
    uint64_t digest = stored_digest(w, &version);
    assert_int_equal(version, 6);
    for (int k = 0; k < DEVICES; k++) {
        fed_error err = {0};
        uint64_t task;
        float *values;
        size_t count;
        assert_fed_ok_err(
            fedclient_model(w->devices[k].client, &task, &version, &values, &count, &err));
        assert_int_equal(version, 6);
        assert_true(fed_digest(values, count) == digest);
        free(values);
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
