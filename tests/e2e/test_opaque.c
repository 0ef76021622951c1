/* Models without layers: a coordinator that knows tensors only, and devices with a trainer of their
 * own, over TLS. A device with our trainer declines such a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed_coordinator.h"
#include "fed_test.h"
#include "fedclient/fedclient.h"

enum { DEVICES = 2, VALUES = 526, TRAINED = 520, STEPS = 20000 };

static const char MODEL[] = "tensors conv1.weight 20x1x5x5 | conv1.bias 20 | "
                            "statistics bn1.running_mean 3 | statistics bn1.running_var 3";

typedef struct device {
    fedclient_platform platform;
    fedclient_transport transport;
    fedclient *client;
    float share;     /* how far one training goes towards the target */
    uint32_t rounds; /* trained */
} device;

typedef struct world {
    char directory[256];
    fed_coordinator home;
    device devices[DEVICES];
} world;

static float first_value(size_t i) {
    return (float)(i % 7) / 8;
}

static float target(size_t i) {
    return (float)(i % 11) - 5;
}

/* A trainer that the library does not know. It may look at names and shapes only. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    (void)err;
    assert_true(fed_arch_is_opaque(round->arch));
    assert_int_equal(round->arch->layout.size, VALUES);
    assert_non_null(fed_layout_find(&round->arch->layout, "bn1.running_var"));
    assert_string_equal(round->task->app, "{\"towards\":[\"the target\",0.5]}");
    for (size_t i = 0; i < TRAINED; i++) {
        round->values[i] += d->share * (target(i) - round->values[i]);
    }
    for (size_t i = TRAINED; i < VALUES; i++) {
        round->values[i] = 4 * d->share; /* what this device measured */
    }
    round->samples = 10;
    round->loss = d->share;
    d->rounds++;
    return FED_OK;
}

static fed_status decline(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    fed_error why = {0};
    assert_int_equal(fed_arch_require_layers(round->arch, &why), FED_EINVAL);
    return fed_fail(err, FED_EDECLINED, "%s", why.text);
}

static void open_device(world *w, int k,
                        fed_status (*callback)(void *, fedclient_round *, fed_error *)) {
    device *d = &w->devices[k];
    fed_error err = {0};
    char url[64], state[300], token[FEDSERVER_TOKEN];
    *d = (device){.share = k == 0 ? 0.25F : 0.75F};
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->home.front);
    snprintf(state, sizeof state, "%s/device%d", w->directory, k);
    assert_fed_ok_err(fedclient_platform_posix_open(state, &d->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->home.ca}, &d->transport, &err));
    const fedclient_options options = {.server = url,
                                       .platform = &d->platform,
                                       .transport = &d->transport,
                                       .train = callback,
                                       .user = d};
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
    fed_coordinator_token(&w->home, token);
    assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
}

static void close_device(device *d) {
    if (d->client != NULL) {
        fedclient_close(d->client);
        fedclient_transport_close(&d->transport);
        fedclient_platform_posix_close(&d->platform);
    }
    *d = (device){.client = NULL};
}

/* Write the first model's file beside the tasks. */
static void write_first(const world *w) {
    fed_error err = {0};
    char path[320];
    float values[VALUES];
    fed_arch arch;
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = first_value(i);
    }
    assert_fed_ok_err(fed_arch_parse(MODEL, &arch, &err));
    snprintf(path, sizeof path, "%s/first.safetensors", w->directory);
    assert_fed_ok_err(fed_checkpoint_save(path, &arch.layout, values, NULL, &err));
    fed_arch_free(&arch);
}

/* settings: the task's other keys. */
static fed_status add_task(const world *w, const char *model, const char *settings,
                           fed_error *err) {
    char path[320], json[600];
    uint64_t id = 0;
    fedserver *server = NULL;
    snprintf(json, sizeof json, "{\"model\": \"%s\", \"initial\": \"first.safetensors\", %s}",
             model, settings);
    fed_test_put(w->directory, "task.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    FED_TRY(fedserver_open(w->home.directory, NULL, &server, err));
    fed_status status = fedserver_task_add(server, fed_clock_unix_ms(), path, &id, err);
    fedserver_close(server);
    return status;
}

/* The devices take turns until each of them has heard of the end. */
static void run_to_the_end(world *w) {
    bool finished[DEVICES] = {false};
    fed_error err = {0};
    for (int step = 0; step < STEPS && !(finished[0] && finished[1]); step++) {
        for (int k = 0; k < DEVICES; k++) {
            fedclient_event event = {0};
            assert_fed_ok_err(fedclient_step(w->devices[k].client, &event, &err));
            finished[k] = finished[k] || event.outcome == FEDCLIENT_FINISHED;
        }
        fed_sleep_ms(1);
    }
    assert_true(finished[0] && finished[1]);
}

static void read_model(world *w, float values[VALUES]) {
    fed_error err = {0};
    fedserver *server = NULL;
    fed_model model = {.values = NULL};
    char path[320];
    snprintf(path, sizeof path, "%s/last.safetensors", w->directory);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_model_export(server, 0, path, &err));
    fedserver_close(server);
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.size, VALUES);
    assert_int_equal(fed_layout_find(&model.layout, "conv1.weight")->rank, 4);
    memcpy(values, model.values, VALUES * sizeof *values);
    fed_model_free(&model);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    write_first(w);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < DEVICES; k++) {
        close_device(&w->devices[k]);
    }
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void the_model_is_what_a_plain_computation_gives(void **state) {
    world *w = *state;
    fed_error err = {0};
    float values[VALUES];
    assert_fed_ok_err(add_task(w, MODEL,
                               "\"codec_up\": \"float32\", \"codec_down\": \"float32\", "
                               "\"rounds\": 3, \"cohort\": 2, \"device_share\": 1, "
                               "\"app\": {\"towards\": [\"the target\", 0.5]}",
                               &err));
    for (int k = 0; k < DEVICES; k++) {
        open_device(w, k, train);
    }
    run_to_the_end(w);
    read_model(w, values);
    assert_int_equal(w->devices[0].rounds, 3);
    assert_int_equal(w->devices[1].rounds, 3);
    for (size_t i = 0; i < VALUES; i++) {
        /* the mean of a quarter and three quarters of the way is half of it, each round */
        float wanted = i < TRAINED ? target(i) + (first_value(i) - target(i)) / 8 : 2;
        if (fabsf(values[i] - wanted) > 1e-5F) {
            fail_msg("value %zu is %g, not %g", i, (double)values[i], (double)wanted);
        }
    }
}

static void coarse_updates_reach_the_target(void **state) {
    world *w = *state;
    fed_error err = {0};
    float values[VALUES];
    assert_fed_ok_err(add_task(w, MODEL,
                               "\"codec_up\": \"int8\", \"codec_down\": \"3lc:s=1\", "
                               "\"rounds\": 120, \"cohort\": 2, "
                               "\"app\": {\"towards\": [\"the target\", 0.5]}",
                               &err));
    for (int k = 0; k < DEVICES; k++) {
        open_device(w, k, train);
        w->devices[k].share = 0.125F;
    }
    run_to_the_end(w);
    read_model(w, values);
    double before = 0, after = 0;
    for (size_t i = 0; i < TRAINED; i++) {
        before += fabs((double)(first_value(i) - target(i)));
        after += fabs((double)(values[i] - target(i)));
    }
    if (after > 0.2 * before) {
        fail_msg("the mean distance from the target was %g and is %g", before / TRAINED,
                 after / TRAINED);
    }
}

static void who_needs_layers_declines_with_a_sentence(void **state) {
    world *w = *state;
    fed_error err = {0};
    fedclient_event event = {0};
    uint64_t declines = 0;
    uint32_t leased = 0;
    assert_fed_ok_err(add_task(w, MODEL, "\"rounds\": 1, \"cohort\": 1", &err));
    open_device(w, 0, decline);
    for (int step = 0; step < STEPS && event.outcome != FEDCLIENT_DECLINED; step++) {
        fed_status status = fedclient_step(w->devices[0].client, &event, &err);
        assert_true(status == FED_OK || status == FED_EDECLINED);
    }
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    fed_coordinator_look(&w->home, &leased, &declines);
    assert_int_equal(declines, 1);
}

static void a_first_model_of_other_shapes_is_refused(void **state) {
    fed_error err = {0};
    assert_int_equal(add_task(*state, "vector 526", "\"rounds\": 1, \"cohort\": 1", &err),
                     FED_EFORMAT);
    assert_non_null(strstr(err.text, "first.safetensors"));
    assert_non_null(strstr(err.text, "values"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_is_what_a_plain_computation_gives, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(coarse_updates_reach_the_target, setup, teardown),
        cmocka_unit_test_setup_teardown(who_needs_layers_declines_with_a_sentence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_first_model_of_other_shapes_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
