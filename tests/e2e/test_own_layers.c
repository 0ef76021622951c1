/* A task with private layers over HTTPS: each device keeps and trains its own, and shares the rest,
 * although devices and coordinator end on the way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/arch.h"
#include "fed/clock.h"
#include "fed_cases.h"
#include "fed_https_device.h"
#include "fed_test.h"

#define MODEL "input 4 | a: dense 6 | relu | b: dense 3"

enum { DEVICES = 3, ROUNDS = 4, SHARED = 30, OWN = 21, ALL = SHARED + OWN, STEPS = 20000 };

typedef struct world world;

typedef struct device {
    world *w;
    unsigned k, trained, died;
    fed_https_device https;
} device;

struct world {
    char directory[256];
    fed_coordinator home;
    device devices[DEVICES];
    float initial[ALL];
};

/* What a device's private value has become after its trainings. */
static float own_value(const device *d, size_t i) {
    float value = d->w->initial[SHARED + i];
    for (unsigned t = 0; t < d->trained; t++) {
        value += (float)(d->k + 1);
    }
    return value;
}

/* In each training but the first a device ends once, before it trains, and the coordinator with
 * it. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    assert_string_equal(round->task->private_layers, "head");
    assert_int_equal(round->arch->layout.size, ALL);
    assert_int_equal(round->own_is_new, d->trained == 0);
    if (d->died < d->trained) {
        d->died++;
        fed_coordinator_stop(&d->w->home);
        fed_coordinator_start(&d->w->home);
        return fed_fail(err, FED_ECANCELED, "this device ends");
    }
    for (size_t i = 0; i < OWN; i++) {
        assert_true(round->values[SHARED + i] == own_value(d, i));
        round->values[SHARED + i] += (float)(d->k + 1);
    }
    for (size_t i = 0; i < SHARED; i++) {
        round->values[i] += 0.5F * (float)(i % 4);
    }
    d->trained++;
    round->samples = 10;
    round->loss = 0.5F;
    return FED_OK;
}

static void open_device(world *w, unsigned k) {
    device *d = &w->devices[k];
    d->w = w;
    d->k = k;
    fed_https_device_open(&d->https, &w->home, w->directory, k,
                          (fedclient_options){.train = train, .user = d});
}

static void add_task(world *w) {
    char json[400];
    fed_error err = {0};
    fed_arch arch;
    snprintf(json, sizeof json,
             "{\"model\": \"" MODEL "\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": %d, \"cohort\": %d, \"deadline_s\": 60, \"seed\": 3,"
             " \"private_layers\": \"head\"}",
             ROUNDS, DEVICES);
    assert_fed_ok_err(fed_https_task(&w->home, w->directory, json, &err));
    assert_fed_ok_err(fed_arch_parse(MODEL, &arch, &err));
    assert_int_equal(arch.layout.size, ALL);
    fed_arch_init_values(&arch, 3, w->initial);
    fed_arch_free(&arch);
}

static void run_to_the_end(world *w) {
    unsigned finished = 0;
    for (unsigned step = 0; step < STEPS && finished < DEVICES; step++) {
        fedclient_event event = {0};
        fed_error err = {0};
        device *d = &w->devices[step % DEVICES];
        const fed_status status = fedclient_step(d->https.client, &event, &err);
        if (status == FED_ECANCELED) {
            fed_https_device_close(&d->https);
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

static void check_shared(const world *w, const float *values) {
    for (size_t i = 0; i < SHARED; i++) {
        assert_true(values[i] - (w->initial[i] + ROUNDS * 0.5F * (float)(i % 4)) < 1e-5F);
        assert_true(values[i] - (w->initial[i] + ROUNDS * 0.5F * (float)(i % 4)) > -1e-5F);
    }
}

static void check_export(const world *w) {
    fed_model model;
    fed_https_model(&w->home, w->directory, &model);
    assert_int_equal(model.layout.size, SHARED);
    assert_null(fed_layout_find(&model.layout, "b.weight"));
    check_shared(w, model.values);
    fed_model_free(&model);
}

static void check_device(device *d) {
    fedclient_personal_model own;
    fed_error err = {0};
    assert_int_equal(d->trained, ROUNDS);
    assert_int_equal(d->died, ROUNDS - 1);
    assert_fed_ok_err(fedclient_personal(d->https.client, &own, &err));
    assert_int_equal(own.version, ROUNDS);
    assert_int_equal(own.count, ALL);
    check_shared(d->w, own.values);
    for (size_t i = 0; i < OWN; i++) {
        assert_true(own.values[SHARED + i] == own_value(d, i));
    }
    fedclient_personal_free(&own);
}

FED_TEST(private_layers_stay_with_their_devices_whoever_ends) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    add_task(w);
    for (unsigned k = 0; k < DEVICES; k++) {
        open_device(w, k);
    }
    run_to_the_end(w);
    for (unsigned k = 0; k < DEVICES; k++) {
        check_device(&w->devices[k]);
        fed_https_device_close(&w->devices[k].https);
    }
    check_export(w);
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
}
