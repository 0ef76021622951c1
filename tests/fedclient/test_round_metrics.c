/* Custom metrics: they are sent with the update and the evaluation, if the coordinator takes
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"

typedef struct reporter {
    fed_device device; /* must be the first member: teardown closes the device at this address */
    int calls;
    fed_status wrong; /* the library's status for a value that is not finite */
    fed_error why;
} reporter;

static fed_status report(void *user, fedclient_round *round, fed_error *err) {
    reporter *r = user;
    round->values[0] += 1.0f / 1024;
    round->samples = 10;
    round->loss = 0.5f;
    r->wrong = fedclient_round_metric(round, "wrong", (double)NAN, &r->why);
    FED_TRY(fedclient_round_metric(round, "calls", ++r->calls, err));
    if (r->calls == 1) {
        FED_TRY(fedclient_round_metric(round, "first", 1, err));
    }
    return FED_OK;
}

static void open_as(reporter *r, fed_role role) {
    r->device.options.train = report;
    r->device.options.user = r;
    r->device.options.role = role;
    fed_device_restart(&r->device);
}

static int setup(void **state) {
    reporter *r = calloc(1, sizeof *r);
    assert_non_null(r);
    fed_device_open(&r->device, "3lc:s=1", 3);
    open_as(r, FED_ROLE_TRAIN);
    *state = r;
    return 0;
}

FED_TEST_WITH(metrics_travel_with_the_update_of_their_round, reporter *r) {
    const fed_own_metrics *own = &r->device.fake.own;
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(own->count, 2);
    assert_string_equal(own->items[0].name, "calls");
    assert_true(own->items[0].value == 1);
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(own->count, 1); /* the metric "first" belongs to the first round */
    assert_true(own->items[0].value == 2);
}

FED_TEST_WITH(a_value_that_is_not_finite_is_refused_and_the_round_goes_on, reporter *r) {
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_status(r->wrong, FED_EINVAL);
    assert_fed_says(r->why, "metric \"wrong\" is nan");
}

FED_TEST_WITH(an_older_coordinator_gets_none, reporter *r) {
    r->device.fake.no_own = true;
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(r->device.fake.own.count, 0);
    r->device.fake.no_own = false;
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(r->device.fake.own.count, 1);
}

FED_TEST_WITH(a_message_that_was_lost_is_sent_again_with_its_metrics, reporter *r) {
    fed_fake_fail(&r->device.fake, "/v1/update", FED_FAKE_LOST_ANSWER, 1);
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_RETRY);
    open_as(r, FED_ROLE_TRAIN);
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
    assert_true(r->device.fake.resent == 1 && r->device.fake.own.count == 2);
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_COUNTED);
}

FED_TEST_WITH(metrics_travel_with_the_evaluation, reporter *r) {
    open_as(r, FED_ROLE_EVALUATE);
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(r->device.fake.own.count, 2);
    assert_true(r->device.fake.own.items[0].value == 1);
}

FED_TEST_WITH(an_older_coordinator_gets_no_metrics_of_an_evaluation, reporter *r) {
    open_as(r, FED_ROLE_EVALUATE);
    r->device.fake.no_own = true;
    assert_int_equal(fed_device_event(&r->device).outcome, FEDCLIENT_EVALUATED);
    assert_int_equal(r->device.fake.own.count, 0);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
