/* A task of thousands of tensors over HTTPS. Its layout is fetched once by each device, although
 * the coordinator and the devices end between that and their training. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/bytes.h"
#include "fed/clock.h"
#include "fed/layout_reference.h"
#include "fed_cases.h"
#include "fed_https_device.h"
#include "fed_test.h"

enum { DEVICES = 2, TENSORS = 4000, VALUES = TENSORS / 2 * 3, ROUNDS = 3, STEPS = 20000 };

typedef struct world world;

typedef struct device {
    world *w;
    fed_https_device https;
    fedclient_transport counting;
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
    return d->https.transport.send(d->https.transport.user, request, status, answer, err);
}

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    const device *d = user;
    return d->https.transport.identify(d->https.transport.user, key, cert, err);
}

static void disconnect(void *user) {
    const device *d = user;
    d->https.transport.disconnect(d->https.transport.user);
}

static void traffic(void *user, fedclient_traffic *traffic) {
    const device *d = user;
    d->https.transport.traffic(d->https.transport.user, traffic);
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

static void open_device(world *w, unsigned k) {
    device *d = &w->devices[k];
    d->w = w;
    d->counting = (fedclient_transport){.user = d,
                                        .send = count,
                                        .identify = identify,
                                        .disconnect = disconnect,
                                        .traffic = traffic};
    fed_https_device_open(
        &d->https, &w->home, w->directory, k,
        (fedclient_options){.transport = &d->counting, .train = train, .user = d});
}

static void add_task(world *w) {
    char json[400];
    fed_error err = {0};
    fed_test_put(w->directory, "net.txt", w->text, strlen(w->text));
    snprintf(json, sizeof json,
             "{\"model\": \"@net.txt\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": %d, \"cohort\": %d, \"deadline_s\": 60}",
             ROUNDS, DEVICES);
    assert_fed_ok_err(fed_https_task(&w->home, w->directory, json, &err));
}

static void run_to_the_end(world *w) {
    int finished = 0;
    for (int step = 0; step < STEPS && finished < DEVICES; step++) {
        fedclient_event event = {0};
        fed_error err = {0};
        device *d = &w->devices[step % DEVICES];
        const fed_status status = fedclient_step(d->https.client, &event, &err);
        if (status == FED_ECANCELED) {
            fed_https_device_close(&d->https);
            open_device(w, (unsigned)(step % DEVICES));
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
    fed_model model;
    fed_https_model(&w->home, w->directory, &model);
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
        open_device(w, (unsigned)k);
    }
    run_to_the_end(w);
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(w->devices[k].deaths, 1);
        assert_int_equal(w->devices[k].rounds, ROUNDS);
        assert_int_equal(w->devices[k].layouts, 1);
        fed_https_device_close(&w->devices[k].https);
    }
    check_export(w);
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
}
