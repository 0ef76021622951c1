/* A task of thousands of tensors over HTTPS. Its layout is fetched once by each device, although
 * the coordinator and the devices end between that and their training. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/bytes.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/layout_reference.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_test.h"
#include "fedclient/fedclient.h"

enum { DEVICES = 2, TENSORS = 4000, VALUES = TENSORS / 2 * 3, ROUNDS = 3, STEPS = 20000 };

typedef struct world world;

typedef struct device {
    world *w;
    fedclient_platform platform;
    fedclient_transport transport, counting;
    fedclient *client;
    unsigned layouts, deaths, rounds;
} device;

struct world {
    char directory[256];
    fed_coordinator home;
    device devices[DEVICES];
    char text[32 * TENSORS];
};

static void write_text(world *w) {
    fed_writer text;
    fed_writer_fixed(&text, w->text, sizeof w->text);
    fed_write_printf(&text, "tensors ");
    for (int k = 0; k < TENSORS; k++) {
        fed_write_printf(&text, "%sh.%d.attn.weight %d", k > 0 ? " | " : "", k, 1 + k % 2);
    }
    assert_fed_ok(text.status);
}

static fed_status count(void *user, const fedclient_request *request, int *status,
                        fed_writer *answer, fed_error *err) {
    device *d = user;
    d->layouts += strstr(request->url, "/v1/layout?") != NULL;
    return d->transport.send(d->transport.user, request, status, answer, err);
}

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    const device *d = user;
    return d->transport.identify(d->transport.user, key, cert, err);
}

static void disconnect(void *user) {
    const device *d = user;
    d->transport.disconnect(d->transport.user);
}

static void traffic(void *user, fedclient_traffic *traffic) {
    const device *d = user;
    d->transport.traffic(d->transport.user, traffic);
}

/* In its first training a device ends, and before that the coordinator. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    assert_int_equal(round->arch->layout.count, TENSORS);
    assert_string_equal(round->arch->text, d->w->text);
    assert_true(fed_layout_is_reference(round->task->model));
    if (d->deaths == 0) {
        d->deaths++;
        fed_coordinator_stop(&d->w->home);
        fed_coordinator_start(&d->w->home);
        return fed_fail(err, FED_ECANCELED, "this device ends");
    }
    for (size_t i = 0; i < VALUES; i++) {
        round->values[i] += (float)(i % 8);
    }
    round->samples = 10;
    round->loss = 0.5F;
    d->rounds++;
    return FED_OK;
}

static void open_device(world *w, int k) {
    device *d = &w->devices[k];
    fed_error err = {0};
    char url[64], state[300], token[FEDSERVER_TOKEN];
    d->w = w;
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->home.front);
    snprintf(state, sizeof state, "%s/device%d", w->directory, k);
    assert_fed_ok_err(fedclient_platform_posix_open(state, &d->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->home.ca}, &d->transport, &err));
    d->counting = (fedclient_transport){.user = d,
                                        .send = count,
                                        .identify = identify,
                                        .disconnect = disconnect,
                                        .traffic = traffic};
    const fedclient_options options = {.server = url,
                                       .platform = &d->platform,
                                       .transport = &d->counting,
                                       .train = train,
                                       .user = d};
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
    if (!fedclient_enrolled(d->client)) {
        fed_coordinator_token(&w->home, token);
        assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
    }
}

static void close_device(device *d) {
    if (d->client != NULL) {
        fedclient_close(d->client);
        fedclient_transport_close(&d->transport);
        fedclient_platform_posix_close(&d->platform);
        d->client = NULL;
    }
}

static void add_task(world *w) {
    static char json[33 * TENSORS];
    char path[320];
    fed_error err = {0};
    uint64_t id = 0;
    fedserver *server = NULL;
    snprintf(path, sizeof path, "%s/net.txt", w->directory);
    fed_test_put(w->directory, "net.txt", w->text, strlen(w->text));
    snprintf(json, sizeof json,
             "{\"model\": \"@net.txt\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": %d, \"cohort\": %d, \"deadline_s\": 60}",
             ROUNDS, DEVICES);
    fed_test_put(w->directory, "task.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    fedserver_close(server);
}

static void run_to_the_end(world *w) {
    int finished = 0;
    for (int step = 0; step < STEPS && finished < DEVICES; step++) {
        fedclient_event event = {0};
        fed_error err = {0};
        device *d = &w->devices[step % DEVICES];
        const fed_status status = fedclient_step(d->client, &event, &err);
        if (status == FED_ECANCELED) {
            close_device(d);
            open_device(w, step % DEVICES);
            continue;
        }
        assert_fed_ok_err(status);
        finished += event.outcome == FEDCLIENT_FINISHED;
        if (event.outcome == FEDCLIENT_WAITED || event.outcome == FEDCLIENT_RETRY) {
            fed_sleep_ms(1);
        }
    }
    assert_int_equal(finished, DEVICES);
}

static void check_export(const world *w) {
    char path[320];
    fed_error err = {0};
    fed_model model;
    fedserver *server = NULL;
    snprintf(path, sizeof path, "%s/last.safetensors", w->directory);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_model_export(server, 0, path, &err));
    fedserver_close(server);
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.count, TENSORS);
    assert_string_equal(model.layout.tensors[TENSORS - 1].name, "h.3999.attn.weight");
    for (size_t i = 0; i < VALUES; i++) {
        assert_true(model.values[i] == (float)(ROUNDS * (i % 8)));
    }
    fed_model_free(&model);
}

FED_TEST(each_device_fetches_a_layout_once_whoever_ends_in_between) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    write_text(w);
    add_task(w);
    for (int k = 0; k < DEVICES; k++) {
        open_device(w, k);
    }
    run_to_the_end(w);
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(w->devices[k].deaths, 1);
        assert_int_equal(w->devices[k].rounds, ROUNDS);
        assert_int_equal(w->devices[k].layouts, 1);
        close_device(&w->devices[k]);
    }
    check_export(w);
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
}
