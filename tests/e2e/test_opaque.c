/* Models without layers: the coordinator knows their tensors only. Devices use a trainer of their
 * own. A device that needs layers declines such a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_https_device.h"
#include "fed_test.h"

enum { DEVICES = 3, VALUES = 526, TRAINED = 520, STEPS = 20000 };

/* Each training moves the values by this share of the distance to a target. */
static const float shares[DEVICES] = {0.25F, 0.875F, 0.375F};

static const char MODEL[] = "tensors conv1.weight 20x1x5x5 | conv1.bias 20 | "
                            "statistics bn1.running_mean 3 | statistics bn1.running_var 3";

typedef struct device {
    fed_https_device https;
    float share;
    uint32_t rounds;
} device;

typedef struct world {
    char directory[256];
    fed_coordinator home;
    device devices[DEVICES];
} world;

#define APP "\"app\": {\"towards\": [\"the target\", 0.5]}"

static float first_value(size_t i) {
    return (float)(i % 7) / 8;
}

static float target(size_t i) {
    return (float)(i % 11) - 5;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    device *d = user;
    assert_true(fed_arch_is_opaque(round->arch));
    assert_int_equal(round->arch->layout.size, VALUES);
    assert_non_null(fed_layout_find(&round->arch->layout, "bn1.running_var"));
    assert_string_equal(round->task->app, "{\"towards\":[\"the target\",0.5]}");
    for (size_t i = 0; i < TRAINED; i++) {
        round->values[i] += d->share * (target(i) - round->values[i]);
    }
    for (size_t i = TRAINED; i < VALUES; i++) {
        round->values[i] = 4 * d->share;
    }
    round->samples = 10;
    round->loss = d->share;
    d->rounds++;
    return fedclient_round_metric(round, "share", (double)d->share, err);
}

static fed_status decline(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    fed_error why = {0};
    assert_int_equal(fed_arch_require_layers(round->arch, &why), FED_EINVAL);
    return fed_fail(err, FED_EDECLINED, "%s", why.text);
}

static void open_device(world *w, unsigned k,
                        fed_status (*callback)(void *, fedclient_round *, fed_error *)) {
    device *d = &w->devices[k];
    *d = (device){.share = shares[k]};
    fed_https_device_open(&d->https, &w->home, w->directory, k,
                          (fedclient_options){.train = callback, .user = d});
}

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

/* Add a task. settings: the JSON keys other than model and initial. */
static fed_status add_task(const world *w, const char *model, const char *settings,
                           fed_error *err) {
    char json[600];
    snprintf(json, sizeof json, "{\"model\": \"%s\", \"initial\": \"first.safetensors\", %s}",
             model, settings);
    return fed_https_task(&w->home, w->directory, json, err);
}

/* Let the devices take turns until the task has ended. restarts: restart the coordinator in each
 * round. */
static void run_to_the_end(world *w, bool restarts) {
    int finished = 0;
    fed_error err = {0};
    for (int k = 0; k < DEVICES && w->devices[k].https.client == NULL; k++) {
        open_device(w, (unsigned)k, train);
    }
    for (int step = 0; step < STEPS && finished < DEVICES; step++) {
        const int k = step % DEVICES;
        fedclient_event event = {0};
        assert_fed_ok_err(fedclient_step(w->devices[k].https.client, &event, &err));
        finished += event.outcome == FEDCLIENT_FINISHED;
        if (restarts && k == 0 && event.outcome == FEDCLIENT_COUNTED) {
            fed_coordinator_stop(&w->home);
            fed_coordinator_start(&w->home);
        }
        if (event.outcome == FEDCLIENT_WAITED) {
            fed_sleep_ms(1);
        }
    }
    assert_int_equal(finished, DEVICES);
}

static void read_model(world *w, float values[VALUES]) {
    fed_model model = {.values = NULL};
    fed_https_model(&w->home, w->directory, &model);
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
    w->home.requests_per_s = 100000;
    fed_coordinator_stop(&w->home);
    fed_coordinator_start(&w->home);
    write_first(w);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int k = 0; k < DEVICES; k++) {
        fed_https_device_close(&w->devices[k].https);
    }
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

/* The strategy for one value of the model. u: the mean change; state: the strategy's state for the
 * value. Returns the new value. */
typedef double (*server_step)(double value, double u, double state[2]);

static double by_mean(double value, double u, double state[2]) {
    (void)state;
    return value + u;
}

static double by_momentum(double value, double u, double state[2]) {
    state[0] = 0.5 * state[0] + u;
    return value + state[0];
}

static double by_adam(double value, double u, double state[2]) {
    const double tau = 0.25;
    state[0] = 0.9 * state[0] + 0.1 * u;
    state[1] = 0.99 * (state[1] == 0 ? tau * tau : state[1]) + 0.01 * u * u;
    return value + 0.5 * state[0] / (sqrt(state[1]) + tau);
}

static const struct strategy {
    const char *spec;
    double taken;
    server_step step;
} strategies[] = {{"fedavg", 0.5, by_mean},
                  {"fedavgm:m=0.5", 0.5, by_momentum},
                  {"fedadam:lr=0.5,tau=0.25", 0.5, by_adam},
                  {"median", 0.375, by_mean}};

enum { ROUNDS = 4 };

static void expect_computed(const float *values, const struct strategy *s) {
    for (size_t i = 0; i < VALUES; i++) {
        double wanted = (double)first_value(i), state[2] = {0, 0};
        for (int round = 0; round < ROUNDS; round++) {
            wanted = s->step(wanted, s->taken * ((double)target(i) - wanted), state);
        }
        if (i >= TRAINED) {
            wanted = 4 * s->taken;
        }
        if (fabs((double)values[i] - wanted) > 1e-5) {
            fail_msg("%s: value %zu is %g, not %g", s->spec, i, (double)values[i], wanted);
        }
    }
}

static void the_model_is_what_a_plain_computation_gives(void **state) {
    world *w = *state;
    fed_error err = {0};
    for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
        char settings[400];
        float values[VALUES];
        snprintf(settings, sizeof settings,
                 "\"strategy\": \"%s\", \"codec_up\": \"float32\", \"codec_down\": \"float32\", "
                 "\"rounds\": %d, \"cohort\": 3, \"device_share\": 1, " APP,
                 strategies[k].spec, ROUNDS);
        assert_fed_ok_err(add_task(w, MODEL, settings, &err));
        run_to_the_end(w, false);
        read_model(w, values);
        expect_computed(values, &strategies[k]);
    }
    assert_int_equal(w->devices[0].rounds, ROUNDS * 4);
}

static double distance(const float *values) {
    double sum = 0;
    for (size_t i = 0; i < TRAINED; i++) {
        sum += fabs((double)(values[i] - target(i)));
    }
    return sum / TRAINED;
}

static void coarse_updates_and_deltas_reach_the_target(void **state) {
    static const struct {
        const char *up, *down;
    } codecs[] = {{"int8", "3lc:s=1"}, {"3lc:s=1.5", "inceptionn:e=10"}, {"sbc:p=0.1", "onebit"}};
    world *w = *state;
    fed_error err = {0};
    float values[VALUES];
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = first_value(i);
    }
    const double before = distance(values);
    for (int k = 0; k < DEVICES; k++) {
        open_device(w, (unsigned)k, train);
        w->devices[k].share /= 4;
    }
    for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
        char settings[300];
        snprintf(
            settings, sizeof settings,
            "\"codec_up\": \"%s\", \"codec_down\": \"%s\", \"rounds\": 30, \"cohort\": 3, " APP,
            codecs[k].up, codecs[k].down);
        assert_fed_ok_err(add_task(w, MODEL, settings, &err));
        run_to_the_end(w, false);
        read_model(w, values);
        if (distance(values) > 0.2 * before) {
            fail_msg("%s, %s: the mean distance from the target was %g and is %g", codecs[k].up,
                     codecs[k].down, before, distance(values));
        }
    }
}

static fed_status expect_share(void *user, const fedserver_own_list *list, fed_error *err) {
    uint32_t *rounds = user;
    (void)err;
    assert_int_equal(list->round, ++*rounds);
    assert_true(!list->evaluated && list->count == 1);
    const fedserver_own_metric *m = &list->rows[0];
    assert_string_equal(m->name, "share");
    assert_true(m->reports == DEVICES && m->samples == 10 * DEVICES);
    assert_true(m->mean == 0.5 && m->least == 0.25 && m->most == 0.875);
    return FED_OK;
}

static void the_devices_own_metrics_outlive_restarts_of_the_coordinator(void **state) {
    world *w = *state;
    fed_error err = {0};
    fedserver *server = NULL;
    uint32_t rounds = 0;
    assert_fed_ok_err(add_task(w, MODEL, "\"rounds\": 3, \"cohort\": 3, " APP, &err));
    run_to_the_end(w, true);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_own_each(server, 0, 0, expect_share, &rounds, &err));
    fedserver_close(server);
    assert_int_equal(rounds, 3);
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
        fed_status status = fedclient_step(w->devices[0].https.client, &event, &err);
        assert_true(status == FED_OK || status == FED_EDECLINED);
    }
    assert_int_equal(event.outcome, FEDCLIENT_DECLINED);
    fed_coordinator_look(&w->home, &leased, &declines);
    assert_int_equal(declines, 1);
}

static void spoil_first(const world *w) {
    static const uint8_t nan[4] = {0, 0, 0xc0, 0x7f};
    char path[320];
    uint8_t *bytes = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/first.safetensors", w->directory);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &bytes, &len, &err));
    memcpy(bytes + len - (VALUES - 503) * sizeof(float), nan, sizeof nan);
    fed_test_put(w->directory, "first.safetensors", bytes, len);
    free(bytes);
}

static void expect_refusal(const world *w, const char *model, fed_status status,
                           const char *words) {
    fed_error err = {0};
    assert_fed_status(add_task(w, model, "\"rounds\": 1, \"cohort\": 1", &err), status);
    assert_fed_says(err, "first.safetensors: ");
    assert_fed_says(err, words);
    assert_fed_says(err,
                    "; key \"initial\" takes a safetensors file with the names and shapes of key "
                    "\"model\", and finite numbers");
}

static void a_first_model_that_does_not_fit_is_refused_with_the_reason(void **state) {
    const world *w = *state;
    expect_refusal(w, "vector 526", FED_EFORMAT,
                   "not the weights of this model: it lacks values; the model has no "
                   "conv1.weight, conv1.bias, bn1.running_mean and 1 more");
    expect_refusal(w,
                   "tensors conv1.weight 20x5x1x5 | conv1.bias 20 | "
                   "statistics bn1.running_mean 3 | statistics bn1.running_var 3",
                   FED_EFORMAT, "tensor \"conv1.weight\" is 20x1x5x5, but 20x5x1x5 in the model");
    spoil_first(w);
    expect_refusal(w, MODEL, FED_ENONFINITE,
                   "value 3 of tensor \"conv1.bias\" is not a finite number");
    fed_test_put(w->directory, "first.safetensors", "no header", 9);
    expect_refusal(w, MODEL, FED_EFORMAT, "not a safetensors file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_is_what_a_plain_computation_gives, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(coarse_updates_and_deltas_reach_the_target, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_devices_own_metrics_outlive_restarts_of_the_coordinator,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(who_needs_layers_declines_with_a_sentence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_first_model_that_does_not_fit_is_refused_with_the_reason,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
