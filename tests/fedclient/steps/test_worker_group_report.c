/* A device that is a cluster reports its worker group to the coordinator while it trains. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"

typedef struct cluster {
    fed_device device; /* must be the first member: teardown closes the device at this address */
    fed_worker_group group;
    fed_status status;
    fed_error why;
    bool breaks; /* the callback fails after the report */
} cluster;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    cluster *c = user;
    c->status = fedclient_round_worker_group(round, &c->group, &c->why);
    if (c->breaks) {
        return fed_fail(err, FED_EINVAL, "the workers' data are gone");
    }
    round->values[0] += 1.0f / 1024;
    round->samples = 10;
    round->loss = 0.5f;
    return FED_OK;
}

static int setup(void **state) {
    cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    fed_device_open(&c->device, "float32", 3);
    c->group =
        (fed_worker_group){.size = 2,
                           .link = "threads",
                           .verdict = "worker 1 died",
                           .count = 2,
                           .worker = {{.waits_for = 1}, {.rank = 1, .state = FED_WORKER_DEAD}}};
    c->device.options.train = train;
    c->device.options.user = c;
    fed_device_restart(&c->device);
    *state = c;
    return 0;
}

FED_TEST_WITH(the_coordinator_is_told_of_the_workers_of_this_round, cluster *c) {
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(c->status);
    const fed_worker_group *told = &c->device.fake.group;
    assert_int_equal(c->device.fake.groups, 1);
    assert_true(told->task == c->device.fake.task.id);
    assert_int_equal(told->round, 1);
    assert_int_equal(told->count, 2);
    assert_int_equal(told->worker[0].waits_for, 1);
    assert_int_equal(told->worker[1].state, FED_WORKER_DEAD);
    assert_string_equal(told->verdict, "worker 1 died");
}

FED_TEST_WITH(what_workers_compute_on_is_for_coordinators_that_read_it, cluster *c) {
    const fed_worker_group *told = &c->device.fake.group;
    strcpy(c->group.worker[1].computes_on, "cuda:0 H100");
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(c->status);
    assert_string_equal(told->worker[0].computes_on, "");
    assert_string_equal(told->worker[1].computes_on, "cuda:0 H100");
    c->device.fake.no_named = true; /* the fake fails the test if the newer layout comes */
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(c->status);
    assert_int_equal(c->device.fake.groups, 2);
    assert_string_equal(told->worker[1].computes_on, "");
    assert_int_equal(told->worker[1].state, FED_WORKER_DEAD);
}

FED_TEST_WITH(an_older_coordinator_is_told_nothing, cluster *c) {
    c->device.fake.no_worker_groups = true; /* the fake fails the test if a worker group comes */
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(c->status);
}

FED_TEST_WITH(a_message_that_is_lost_does_no_harm, cluster *c) {
    fed_fake_fail(&c->device.fake, "/v1/gang", FED_FAKE_UNREACHABLE, 1);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_status(c->status, FED_ENET);
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_ok(c->status);
    assert_int_equal(c->device.fake.group.round, 2);
}

/* A lost report must not make the program's own error look like a network error. */
FED_TEST_WITH(a_fault_of_the_program_does_not_heal_because_a_message_was_lost, cluster *c) {
    fedclient_event event;
    c->breaks = true;
    fed_fake_fail(&c->device.fake, "/v1/gang", FED_FAKE_UNREACHABLE, 1);
    assert_fed_status(fedclient_step(c->device.client, &event, &c->device.err), FED_EINVAL);
    assert_fed_says(c->device.err, "the workers' data are gone");
    assert_fed_status(c->status, FED_ENET);
}

FED_TEST_WITH(a_refusal_says_why, cluster *c) {
    fed_fake_refuse(&c->device.fake, "/v1/gang", 400, "bad_gang");
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_status(c->status, FED_EFORMAT);
    assert_non_null(strstr(c->why.text, "bad_gang"));
}

FED_TEST_WITH(a_value_that_is_not_allowed_is_not_sent, cluster *c) {
    c->group.worker[1].rank = 2;
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_status(c->status, FED_EINVAL);
    c->group.count = FED_WORKER_GROUP_WORKERS + 1;
    assert_int_equal(fed_device_event(&c->device).outcome, FEDCLIENT_COUNTED);
    assert_fed_status(c->status, FED_EINVAL);
    assert_int_equal(c->device.fake.groups, 0);
}

int main(void) {
    return fed_cases_run_each(setup, fed_device_teardown);
}
