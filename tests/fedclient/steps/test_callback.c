/* The callback's values in the program's own memory: no training is lost, no pointer is kept. A
 * callback that calls the library. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

typedef struct giver {
    fed_device device; /* must be the first member: the callback gets a pointer to it */
    fed_status (*train)(void *user, fedclient_round *round, fed_error *err);
    uint8_t *block;
    size_t len;
    unsigned given;
    bool empty;
} giver;

static void *give(void *user, size_t len) {
    giver *g = user;
    free(g->block);
    g->block = g->empty ? NULL : malloc(len);
    g->len = len;
    g->given++;
    return g->block;
}

static fed_status train_in_block(void *user, fedclient_round *round, fed_error *err) {
    giver *g = user;
    const uint8_t *values = (const uint8_t *)round->values;
    assert_true(values > g->block);
    assert_true(values + round->arch->layout.size * sizeof(float) == g->block + g->len);
    return g->train(user, round, err);
}

static int setup(void **state) {
    giver *g = calloc(1, sizeof *g);
    assert_non_null(g);
    fed_device_open(&g->device, "3lc:s=1", 3);
    g->train = g->device.options.train;
    g->device.options.train = train_in_block;
    g->device.options.room = give;
    fed_device_restart(&g->device);
    *state = g;
    return 0;
}

static int teardown(void **state) {
    giver *g = *state;
    fed_device_close(&g->device);
    free(g->block);
    free(g);
    return 0;
}

FED_TEST_WITH(rounds_are_trained_in_the_programs_memory, giver *g) {
    for (unsigned k = 1; k <= 3; k++) {
        assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(g->given, k);
        memset(g->block, 0xff, g->len); /* the program still has the block, and may write to it */
        fed_device_check(&g->device, 0);
    }
}

FED_TEST_WITH(what_a_crash_leaves_does_not_need_the_memory, giver *g) {
    fed_fake_fail(&g->device.fake, "/v1/update", FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_RETRY);
    memset(g->block, 0xff, g->len);
    fed_device_restart(&g->device);
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(&g->device, 0);
}

FED_TEST_WITH(a_failed_training_leaves_the_memory_alone, giver *g) {
    g->device.answer = FED_EIO;
    fed_device_fail(&g->device, FED_EIO);
    g->device.answer = FED_OK;
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
    fed_device_check(&g->device, 0);
}

FED_TEST_WITH(without_memory_the_training_waits, giver *g) {
    g->empty = true;
    fed_device_fail(&g->device, FED_ENOMEM);
    assert_int_equal(g->device.calls, 0);
    g->empty = false;
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
}

static fed_status measure_in_block(void *user, fedclient_round *round, fed_error *err) {
    giver *g = user;
    (void)err;
    assert_true((uint8_t *)round->values == g->block + FEDCLIENT_RECORD_HEAD);
    round->values[0] = 7; /* this must not change the stored model */
    round->samples = 10;
    round->correct = 5;
    return FED_OK;
}

FED_TEST_WITH(an_evaluation_uses_it_too, giver *g) {
    g->device.options.role = FED_ROLE_EVALUATE;
    g->device.options.train = measure_in_block;
    fed_device_restart(&g->device);
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(g->given, 1);
    uint64_t task;
    uint32_t version;
    float *values = NULL;
    size_t count = 0;
    assert_fed_ok_err_of(&g->device, fedclient_model(g->device.client, &task, &version, &values,
                                                     &count, &g->device.err));
    assert_true(values[0] != 7);
    free(values);
}

FED_TEST_WITH(a_store_that_is_memory_needs_none, giver *g) {
    fed_fake_flash_lend(&g->device.flash);
    g->device.options.train = g->train;
    fed_device_restart(&g->device);
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(g->given, 0);
}

static fed_status train_without_loss(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    (void)err;
    round->samples = 10;
    return FED_OK;
}

static fedclient_event without_loss(giver *g, bool old, bool killed) {
    g->device.fake.no_absent_loss = old;
    if (killed) { /* between training and upload: the loss comes from the stored record */
        g->device.flash.dies_at = g->device.flash.puts + 1;
        fedclient_event event;
        (void)fed_device_step(&g->device, &event);
        fed_device_restart(&g->device);
    }
    return fed_device_event(&g->device);
}

FED_TEST_WITH(a_callback_without_a_loss_sends_none_to_a_coordinator_that_knows, giver *g) {
    g->device.options.room = NULL;
    g->device.options.train = train_without_loss;
    fed_device_restart(&g->device);
    for (int k = 0; k < 3; k++) {
        const fedclient_event event = without_loss(g, k == 2, k == 1);
        assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
        assert_true(isnan(event.loss)); /* the device's own user is told the truth */
        assert_true(k == 2 ? g->device.fake.loss == 0 : isnan(g->device.fake.loss));
    }
}

FED_TEST_WITH(an_evaluation_without_a_loss_sends_none_to_a_coordinator_that_knows, giver *g) {
    g->device.options.role = FED_ROLE_EVALUATE;
    g->device.options.train = measure_in_block;
    for (int k = 0; k < 2; k++) {
        g->device.fake.no_absent_loss = k == 1;
        g->device.fake.evaluated = 0;
        fed_device_restart(&g->device);
        const fedclient_event event = fed_device_event(&g->device);
        assert_int_equal(event.outcome, FEDCLIENT_EVALUATED);
        assert_true(k == 1 ? g->device.fake.metric.loss == 0 : isnan(g->device.fake.metric.loss));
        assert_true(isnan(event.loss) == (k == 0));
    }
}

static fed_status measure_a_loss(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    (void)err;
    round->samples = 10;
    round->loss = 0.5f;
    return FED_OK;
}

FED_TEST_WITH(an_evaluation_without_an_accuracy_sends_none_to_a_coordinator_that_knows, giver *g) {
    g->device.options.role = FED_ROLE_EVALUATE;
    g->device.options.room = NULL;
    g->device.options.train = measure_a_loss;
    for (int k = 0; k < 2; k++) {
        g->device.fake.no_absent_accuracy = k == 1;
        g->device.fake.evaluated = 0;
        fed_device_restart(&g->device);
        const fedclient_event event = fed_device_event(&g->device);
        assert_int_equal(event.outcome, FEDCLIENT_EVALUATED);
        assert_int_equal(g->device.fake.metric.correct, k == 0 ? FED_NO_CORRECT : 0);
        assert_int_equal(event.correct, k == 0 ? FEDCLIENT_NO_CORRECT : 0);
    }
}

FED_TEST_WITH(a_loss_that_is_no_number_is_a_fault, giver *g) {
    g->device.loss = NAN;
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_RETRY);
    assert_fed_says(g->device.err, "left a loss of nan");
    g->device.loss = 0.5f;
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
    assert_true(g->device.fake.loss == 0.5f);
}

static void assert_library_refuses(giver *g) {
    fedclient_event event = {.round = 77};
    fed_error err = {0};
    g->given++;
    assert_fed_status(fedclient_step(g->device.client, &event, &err), FED_ESTATE);
    assert_fed_says(err, "fedclient_step was called within a callback of the same client");
    assert_int_equal(event.round, 77);
    assert_fed_status(fedclient_enrol(g->device.client, "good-token", &err), FED_ESTATE);
    assert_fed_says(err, "fedclient_enrol was called within a callback of the same client");
}

static fed_status step_in_train(void *user, fedclient_round *round, fed_error *err) {
    giver *g = user;
    assert_library_refuses(g);
    return g->train(user, round, err);
}

static fed_status step_in_may_train(void *user, fed_error *err) {
    (void)err;
    assert_library_refuses(user);
    return FED_OK;
}

static void *step_in_room(void *user, size_t len) {
    assert_library_refuses(user);
    return give(user, len);
}

FED_TEST_WITH(a_callback_cannot_begin_another_step, giver *g) {
    g->device.options.train = step_in_train;
    g->device.options.may_train = step_in_may_train;
    g->device.options.room = step_in_room;
    fed_device_restart(&g->device);
    assert_int_equal(fed_device_event(&g->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(g->device.calls, 1);
    assert_true(g->given >= 4);
    fed_device_check(&g->device, 0);
    fed_device_finish(&g->device, 4);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
