/* Private layers: they never travel, they stay with the device, and each training of them is kept.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/point.h"
#include "fed/private_layers.h"
#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

#define TWO_LAYERS "input 8 | fc: dense 4 | relu | out: dense 3"
#define WITH_BN    "input 1x4x4 | conv 2 3 | bn | relu | fc: dense 3"

enum { ROUNDS = 3, MOST = 128 };

/* A device of a task with private layers, and what its own layers must be. */
typedef struct layers_case {
    fed_device device; /* first: for fed_device_teardown */
    fed_arch whole;
    fed_private_layers split;
    float own[MOST], last[MOST]; /* after the trainings that are stored; the latest change */
    uint64_t number;             /* of the latest training */
    unsigned ahead, begun;       /* trainings whose layers, but not whose residual, were stored */
    bool leaves_change, masks, reports;
    unsigned sent;
} layers_case;

/* What the callback gets is what the latest training left. If that training was lost, its layers
 * may have been stored all the same. */
static void check_own(layers_case *c, const fedclient_round *round) {
    float own[MOST], left[MOST];
    const size_t bytes = c->split.own * sizeof own[0];
    const bool repeated = round->number == c->number;
    fed_private_layers_take(&c->split, &c->whole.layout, round->values, NULL, own);
    for (size_t i = 0; i < c->split.own; i++) {
        left[i] = c->own[i] + c->last[i];
    }
    if (c->number != 0 && (!repeated || memcmp(own, left, bytes) == 0)) {
        c->ahead += repeated;
        memcpy(c->own, left, bytes);
    }
    assert_memory_equal(own, c->own, bytes);
    c->number = round->number;
}

static void note_sent(void *user, const float *sent, size_t count) {
    layers_case *c = user;
    float own[MOST];
    assert_int_equal(count, c->whole.layout.size);
    fed_private_layers_take(&c->split, &c->whole.layout, sent, NULL, own);
    for (size_t i = 0; i < c->split.own; i++) {
        assert_true(own[i] == 0);
    }
    c->sent++;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    layers_case *c = user;
    fed_device *d = &c->device;
    const size_t n = round->arch->layout.size;
    float change[MOST];
    assert_int_equal(n, c->whole.layout.size);
    c->begun += round->own_is_new;
    if (round->is_personal) {
        d->copies++;
        return d->copy(d, round, err);
    }
    check_own(c, round);
    if (c->masks) {
        float *before = malloc(n * sizeof *before);
        memcpy(before, round->values, n * sizeof *before);
        FED_TRY(fedclient_round_sent(round, note_sent, c, err));
        assert_memory_equal(before, round->values, n * sizeof *before);
        free(before);
    }
    d->calls++;
    if (c->reports && d->calls == 1) {
        FED_TRY(fedclient_round_metric(round, "once", 1, err));
    }
    for (size_t i = 0; i < n; i++) {
        change[i] = d->step * (float)((i * 7 + d->calls * 3) % 9) - 4 * d->step;
        round->values[i] = change[i] + (c->leaves_change ? 0 : round->values[i]);
    }
    round->is_change = c->leaves_change;
    fed_private_layers_take(&c->split, &c->whole.layout, change, d->last, c->last);
    round->values[c->whole.layout.size - 1] += d->poison;
    round->samples = d->samples;
    round->loss = d->loss;
    return FED_OK;
}

static void begin(layers_case *c, const char *model, const char *layers) {
    fed_device *d = &c->device;
    float all[MOST];
    fed_error err = {0};
    fed_device_new_task(d, model);
    assert_fed_ok_err(fed_arch_share(&d->fake.arch, layers, &err));
    snprintf(d->fake.task.private_layers, sizeof d->fake.task.private_layers, "%s", layers);
    fed_private_layers_free(&c->split);
    fed_arch_free(&c->whole);
    assert_fed_ok_err(fed_arch_parse(model, &c->whole, &err));
    assert_fed_ok_err(fed_private_layers_split(&c->whole, layers, &c->split, &err));
    assert_true(c->whole.layout.size <= MOST);
    fed_arch_init_values(&c->whole, d->fake.task.seed, all);
    fed_private_layers_take(&c->split, &c->whole.layout, all, NULL, c->own);
    c->number = 0;
}

static void open_case(layers_case *c, const char *codec, const char *model, const char *layers) {
    *c = (layers_case){0};
    fed_device_open(&c->device, codec, ROUNDS);
    c->device.options.train = train;
    fed_device_restart(&c->device);
    begin(c, model, layers);
}

static void close_case(layers_case *c) {
    fed_private_layers_free(&c->split);
    fed_arch_free(&c->whole);
    fed_device_close(&c->device);
}

static int setup(void **state) {
    layers_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    open_case(c, "3lc:s=1", TWO_LAYERS, "head");
    *state = c;
    return 0;
}

static int teardown(void **state) {
    close_case(*state);
    free(*state);
    return 0;
}

/* The device's own model of this version: the fake's shared values, and c->own after all
 * trainings. */
static void check_model(layers_case *c, uint32_t version) {
    fed_device *d = &c->device;
    fedclient_personal_model own = {0};
    float shared[MOST], layers[MOST];
    assert_fed_ok_err_of(d, fedclient_personal(d->client, &own, &d->err));
    assert_int_equal(own.task, d->fake.task.id);
    assert_int_equal(own.version, version);
    assert_int_equal(own.count, c->whole.layout.size);
    assert_string_equal(own.model, c->whole.text);
    fed_private_layers_take(&c->split, &c->whole.layout, own.values, shared, layers);
    assert_memory_equal(shared, d->fake.model, c->split.shared.size * sizeof shared[0]);
    for (size_t i = 0; i < c->split.own; i++) {
        assert_true(layers[i] == c->own[i] + c->last[i]);
    }
    fedclient_personal_free(&own);
}

FED_TEST_WITH(private_layers_stay_and_are_trained_on, layers_case *c) {
    fed_device *d = &c->device;
    for (unsigned k = 0; k < ROUNDS; k++) {
        assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
        fed_device_restart(d);
    }
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_FINISHED);
    assert_int_equal(c->begun, 1);
    check_model(c, ROUNDS);
    fed_device_check(d, 0);
    assert_int_equal(d->copies, 0); /* nothing to train, and nothing to measure with */
}

FED_TEST(what_stays_is_no_byte_of_an_update_nor_of_a_download) {
    layers_case c;
    fed_device plain;
    fed_device_open(&plain, "float32", ROUNDS);
    fed_device_new_task(&plain, TWO_LAYERS);
    assert_int_equal(fed_device_event(&plain).outcome, FEDCLIENT_COUNTED);
    open_case(&c, "float32", TWO_LAYERS, "head");
    assert_int_equal(fed_device_event(&c.device).outcome, FEDCLIENT_COUNTED);
    const uint64_t bytes = c.split.own * sizeof(float);
    assert_true(c.device.fake.last_update.len + bytes <= plain.fake.last_update.len);
    assert_true(c.device.fake.sent_bytes + bytes <= plain.fake.sent_bytes);
    close_case(&c);
    fed_device_close(&plain);
}

FED_TEST_WITH(a_program_may_leave_the_change, layers_case *c) {
    c->leaves_change = true;
    fed_device_finish(&c->device, ROUNDS + 1);
    check_model(c, ROUNDS);
    fed_device_check(&c->device, 0);
}

FED_TEST(masking_sees_the_whole_model_and_zeros_for_what_stays) {
    layers_case c;
    open_case(&c, "sbc:p=0.2", TWO_LAYERS, "1");
    c.masks = true;
    fed_device_finish(&c.device, ROUNDS + 1);
    assert_int_equal(c.sent, ROUNDS - 1);
    fed_device_check(&c.device, 1e-6f);
    close_case(&c);
}

static fed_status add_one(fed_device *d, fedclient_round *round, fed_error *err) {
    (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += 1;
    }
    round->samples = d->samples;
    return FED_OK;
}

FED_TEST_WITH(training_a_copy_leaves_the_private_layers_as_they_are, layers_case *c) {
    fed_device *d = &c->device;
    d->fake.task.personal_steps = 5;
    d->copy = add_one;
    fed_device_finish(d, ROUNDS + 1);
    assert_int_equal(d->copies, ROUNDS + 1);
    fedclient_personal_model own = {0};
    float layers[MOST];
    assert_fed_ok_err_of(d, fedclient_personal(d->client, &own, &d->err));
    fed_private_layers_take(&c->split, &c->whole.layout, own.values, NULL, layers);
    for (size_t i = 0; i < c->split.own; i++) {
        assert_true(layers[i] == c->own[i] + c->last[i] + 1);
    }
    fedclient_personal_free(&own);
}

/* A program that trains the copy all the same, or keeps none, does not spoil it. */
FED_TEST_WITH(without_personal_steps_a_copy_is_only_measured, layers_case *c) {
    c->device.fake.task.holdout = 0.25f;
    c->device.copy = add_one;
    fed_device_finish(&c->device, ROUNDS + 1);
    assert_int_equal(c->device.copies, ROUNDS + 1);
    check_model(c, ROUNDS);
}

FED_TEST_WITH(a_copy_that_is_not_measured_sends_no_metric_again, layers_case *c) {
    c->reports = true;
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(c->device.fake.own.count, 1);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(c->device.fake.own.count, 0);
}

FED_TEST_WITH(a_training_that_diverges_in_a_private_layer_is_dropped, layers_case *c) {
    fed_device *d = &c->device;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    d->poison = NAN;
    const uint64_t puts = d->flash.puts;
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_RETRY);
    assert_fed_says(d->err, "private tensor out.bias at value 2");
    assert_int_equal(d->flash.puts, puts + 1); /* the model's download alone */
    d->poison = 0;
    memset(c->last, 0, sizeof c->last);
    c->number = 0;
    fedclient_personal_model own = {0};
    assert_fed_ok_err_of(d, fedclient_personal(d->client, &own, &d->err));
    fed_private_layers_take(&c->split, &c->whole.layout, own.values, NULL, c->own);
    fedclient_personal_free(&own);
    fed_device_finish(d, ROUNDS + 1);
    check_model(c, ROUNDS);
    fed_device_check(d, 0);
}

FED_TEST_WITH(another_task_begins_with_its_own_initial_values, layers_case *c) {
    fed_device *d = &c->device;
    fed_device_finish(d, ROUNDS + 1);
    begin(c, TWO_LAYERS, "head");
    d->fake.task.seed = 99;
    float all[MOST];
    fed_arch_init_values(&c->whole, 99, all);
    fed_private_layers_take(&c->split, &c->whole.layout, all, NULL, c->own);
    fed_device_finish(d, ROUNDS + 1);
    assert_int_equal(c->begun, 2);
    check_model(c, ROUNDS);
}

FED_TEST_WITH(damaged_layers_begin_anew, layers_case *c) {
    fed_device *d = &c->device;
    fedclient_platform *store = &d->flash.inner;
    uint8_t *bytes = NULL;
    size_t len = 0;
    float all[MOST];
    assert_int_equal(fed_device_event(d).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok_err_of(d, store->get(store->user, "own", &bytes, &len, &d->err));
    assert_int_equal(len, FEDCLIENT_RECORD_HEAD + c->split.own * sizeof(float));
    bytes[len - 2] ^= 1;
    assert_fed_ok_err_of(d, store->put(store->user, "own", bytes, len, &d->err));
    free(bytes);
    fed_device_restart(d);
    fed_arch_init_values(&c->whole, d->fake.task.seed, all);
    fed_private_layers_take(&c->split, &c->whole.layout, all, NULL, c->own);
    c->number = 0;
    fed_device_finish(d, ROUNDS + 1);
    assert_int_equal(c->begun, 2);
    check_model(c, ROUNDS);
    fed_device_check(d, 0);
}

static void check_declined(layers_case *c, const char *words) {
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_DECLINED);
    assert_non_null(strstr(c->device.fake.declined.reason, words));
}

FED_TEST_WITH(a_list_that_does_not_fit_the_model_is_declined, layers_case *c) {
    strcpy(c->device.fake.task.private_layers, "4");
    check_declined(c, "there is no layer 4");
}

FED_TEST_WITH(a_device_that_only_measures_declines, layers_case *c) {
    c->device.options.role = FED_ROLE_EVALUATE;
    fed_device_restart(&c->device);
    check_declined(c, "nobody else can measure");
}

/* What is clipped and summed is what travels, and a layer with statistics may stay. */
static void private_sum(const char *codec, bool helper, const char *model, const char *layers) {
    layers_case c;
    fed_error err = {0};
    open_case(&c, codec, model, layers);
    fed_fake *fake = &c.device.fake;
    fake->privacy = (fed_privacy){.clip = 1, .minimum = 1, .goal = 1, .cohort = 1, .apart = 1};
    fake->privacy.helpers = helper ? 1 : 0;
    if (helper) {
        assert_fed_ok_err(fed_point_new(fake->helper_secret, fake->privacy.helper_key[0], &err));
    }
    fed_device_finish(&c.device, ROUNDS + 1);
    assert_int_equal(fake->version, ROUNDS);
    check_model(&c, ROUNDS);
    close_case(&c);
}

FED_TEST(private_sums_are_of_what_travels) {
    private_sum("ring:b=16", false, TWO_LAYERS, "head");
    private_sum("ring:b=16", true, TWO_LAYERS, "head");
    private_sum("ring:b=8,p=0.5", true, TWO_LAYERS, "1");
    private_sum("ring:b=16", true, WITH_BN, "bn");
}

FED_TEST(a_private_sum_with_statistics_that_travel_is_declined) {
    layers_case c;
    open_case(&c, "ring:b=16", WITH_BN, "head");
    c.device.fake.privacy =
        (fed_privacy){.clip = 1, .minimum = 1, .goal = 1, .cohort = 1, .apart = 1};
    check_declined(&c, "running statistics");
    close_case(&c);
}

/* Power fails in put number `at`. Returns true if fewer puts were made. */
static bool survives(uint64_t at, bool writing, unsigned *ahead) {
    layers_case c;
    open_case(&c, "3lc:s=1", WITH_BN, "bn,head");
    fed_device *d = &c.device;
    d->flash.puts = 0;
    d->flash.dies_at = at;
    d->flash.dies_writing = writing;
    fedclient_event event;
    for (unsigned k = 0; k <= ROUNDS && !d->flash.dead; k++) {
        const fed_status status = fed_device_step(d, &event);
        assert_true(status == FED_OK || d->flash.dead);
    }
    const bool died = d->flash.dead;
    fed_device_restart(d);
    fed_device_finish(d, 2 * ROUNDS);
    assert_int_equal(d->fake.version, ROUNDS);
    fed_device_check(d, 0);
    check_model(&c, ROUNDS);
    assert_true(c.ahead <= 1);
    *ahead += c.ahead;
    close_case(&c);
    return !died;
}

FED_TEST(power_loss_at_any_put_leaves_private_layers_one_training_ahead_at_most) {
    unsigned ahead = 0;
    for (unsigned writing = 0; writing < 2; writing++) {
        uint64_t at = 0;
        while (!survives(at, writing == 1, &ahead)) {
            at++;
        }
        assert_int_equal(at, 6 * ROUNDS + 2); /* rounds of 6 puts; the last model and its copy */
    }
    assert_true(ahead > 0);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
