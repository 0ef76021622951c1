/* Two coordinators on one PostgreSQL take over from each other in the middle of rounds: not a bit of
 * the model changes, and who led before writes nothing any more. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <stdlib.h>

#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_postgres.h"

enum { DEVICES = 4, ROUNDS = 3, PARAMETERS = 330, PATIENCE_MS = 20000 };

static const char task[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                           " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 3,"
                           " \"cohort\": 4, \"goal\": 4, \"deadline_s\": 10}";

/* How the lead changes. */
typedef enum change {
    STAYS,    /* it does not */
    LETS_GO,  /* the leader ends, and says so */
    CUT_OFF,  /* the leader does not renew its lead; it finds out later */
    UNSTORED, /* the leader ends in the middle of a batch, which counted an update */
} change;

static void noise(float *x, uint32_t round, uint32_t who) {
    fed_rng rng;
    fed_rng_init(&rng, 99, round, who);
    for (int i = 0; i < PARAMETERS; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

/* Open a second coordinator. It follows. */
static fedserver *open_second(const coordinator *c, const char *address) {
    fed_error err = {0};
    fedserver *second = NULL;
    const fedserver_setup setup = {.address = address};
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &second, &err));
    fedserver_configure(second, &setup);
    return second;
}

/* Batches without requests, until it leads. cut: the leader's renewals don't count. */
static void let_lead(fedserver *server, bool cut) {
    static const char overdue[] = "UPDATE fedserver.leader SET until = '-infinity'";
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    fed_error err = {0};
    for (;;) {
        if (cut) {
            fed_postgres_sql(fed_postgres_shared(), overdue, NULL, 0);
        }
        assert_fed_ok_err(fedserver_begin(server, &err));
        if (!server->following) {
            return;
        }
        assert_true(fed_clock_monotonic_ms() < end_ms);
        assert_fed_ok_err(fedserver_commit(server, &err));
        fed_sleep_ms(10);
    }
}

static void expect_to_follow(fedserver *second, const char *leader) {
    fed_error err = {0};
    int64_t next_ms = 0;
    fedserver_response response;
    const fedserver_request request = {
        .listener = FEDSERVER_FRONT, .method = "GET", .path = "/v1/status", .query = ""};
    assert_fed_ok_err(fedserver_begin(second, &err));
    assert_true(second->following);
    assert_string_equal(second->lead.address, leader);
    assert_fed_ok_err(fedserver_handle(second, &request, 5, &response, &err));
    assert_int_equal(response.status, 503);
    assert_fed_ok_err(fedserver_tick(second, 5, &next_ms, &err));
    assert_in_range(next_ms, 6, 1000);
    assert_fed_ok_err(fedserver_commit(second, &err));
}

/* The old leader's batch is refused, whatever it tries. */
static void expect_outdone(fedserver *server) {
    fed_error err = {0};
    fed_status status = fedserver_commit(server, &err);
    status = status == FED_OK ? fedserver_begin(server, &err) : status;
    for (int k = 0; k < 100 && status == FED_OK; k++) {
        fed_sleep_ms(20);
        status = fedserver_commit(server, &err);
        status = status == FED_OK ? fedserver_begin(server, &err) : status;
    }
    assert_true(status == FED_EIO || status == FED_ESTATE);
    assert_true(fedserver_begin(server, &err) == FED_ESTATE); /* and it stays so */
}

/* The two change places. */
static void change_leader(coordinator *c, change how) {
    static const char *const addresses[] = {"a.example:1", "b.example:2"};
    const char *next = addresses[strcmp(c->address, addresses[0]) == 0];
    fedserver *old = c->server;
    fedserver *second = open_second(c, next);
    expect_to_follow(second, c->address);
    if (how == LETS_GO) {
        fedserver_let_go(old);
        fedserver_close(old);
    } else if (how == UNSTORED) {
        fedserver_close(old);
    }
    let_lead(second, how == CUT_OFF);
    if (how == CUT_OFF) {
        expect_outdone(old);
        fedserver_close(old);
    }
    c->server = second;
    c->address = next;
}

static uint32_t received(const coordinator *c) {
    return fedserver_rounds_front(&c->server->rounds)->round.received;
}

static void upload(coordinator *c, const test_device *d, const fed_assignment *work, uint32_t who,
                   change how) {
    float x[PARAMETERS];
    noise(x, work->round, who);
    if (how == UNSTORED) {
        const uint32_t before = received(c);
        assert_int_equal(device_upload(c, d, work, x, who + 1, NULL), 200); /* never sent */
        change_leader(c, how);
        assert_int_equal(received(c), before);
    }
    assert_int_equal(device_upload(c, d, work, x, who + 1, NULL), 200);
    coordinator_commit(c);
    if (how == LETS_GO || how == CUT_OFF) {
        change_leader(c, how);
    }
}

/* The digest of the last model. */
static uint64_t run(change how) {
    coordinator c;
    test_device d[DEVICES];
    coordinator_setup(&c);
    c.address = "a.example:1";
    coordinator_crash(&c);
    for (int k = 0; k < DEVICES; k++) {
        d[k] = coordinator_enrol(&c);
    }
    coordinator_task(&c, task);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        fed_assignment work[DEVICES];
        for (int k = 0; k < DEVICES; k++) {
            work[k] = device_ask_work(&c, &d[k]);
            assert_int_equal(work[k].round, round);
        }
        coordinator_commit(&c);
        for (uint32_t k = 0; k < DEVICES; k++) {
            upload(&c, &d[k], &work[k], k, how);
        }
        assert_int_equal(fedserver_rounds_front(&c.server->rounds)->versions.version, round);
    }
    const uint64_t digest = fedserver_rounds_front(&c.server->rounds)->versions.digest;
    coordinator_teardown(&c);
    return digest;
}

static void a_change_of_the_lead_changes_no_bit(void **state) {
    (void)state;
    const uint64_t digest = run(STAYS);
    assert_true(run(LETS_GO) == digest);
    assert_true(run(CUT_OFF) == digest);
    assert_true(run(UNSTORED) == digest);
}

static void one_that_serves_alone_has_the_database_alone(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    fedserver *second = open_second(c, "b.example:2");
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_begin(second, &err));
    assert_true(second->following);
    assert_string_equal(second->lead.address, "");
    fedserver_close(second);
    c->address = "a.example:1";
    coordinator_crash(c);
    second = open_second(c, NULL);
    assert_fed_status(fedserver_begin(second, &err), FED_EBUSY);
    fedserver_close(second);
}

static void a_store_in_files_can_not_be_shared(void **state) {
    (void)state;
    coordinator c;
    fed_error err = {0};
    (void)unsetenv("FED_TEST_STORE");
    coordinator_setup(&c);
    (void)setenv("FED_TEST_STORE", "postgres", 1);
    fedserver_close(c.server);
    c.server = open_second(&c, "a.example:1");
    assert_fed_status(fedserver_begin(c.server, &err), FED_EINVAL);
    assert_fed_says(err, "can't share the store sqlite");
    assert_fed_says(err, "postgres");
    coordinator_teardown(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_of_the_lead_changes_no_bit),
        WITH_COORDINATOR(one_that_serves_alone_has_the_database_alone),
        cmocka_unit_test(a_store_in_files_can_not_be_shared),
    };
    if (!fed_postgres_is_there()) {
        return 0;
    }
    (void)setenv("FED_TEST_STORE", "postgres", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
