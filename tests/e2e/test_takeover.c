/* Coordinators with one PostgreSQL store take over from each other in the middle of rounds, and the
 * database fails over. The model must have the same bits as in a run without such changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <stdlib.h>

#include "fed/clock.h"
#include "fed/hash.h"
#include "fed/rng.h"
#include "fed_history.h"
#include "fed_postgres.h"

enum { DEVICES = 4, ROUNDS = 3, PARAMETERS = 330, PATIENCE_MS = 200000 };

static const char task[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                           " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 3,"
                           " \"cohort\": 4, \"goal\": 4, \"deadline_s\": 10}";

typedef enum change {
    STAYS,
    LETS_GO,    /* the leader ends in order */
    CUT_OFF,    /* the leader's time expires */
    UNSTORED,   /* the leader ends before a counted update is stored */
    FAILS_OVER, /* the database is replaced by its standby */
} change;

static void noise(float *x, uint32_t round, uint32_t who) {
    fed_rng rng;
    fed_rng_init(&rng, 99, round, who);
    for (int i = 0; i < PARAMETERS; i++) {
        x[i] = fed_rng_float(&rng) - 0.5f;
    }
}

static fedserver *open_second(const coordinator *c, const char *address) {
    fed_error err = {0};
    fedserver *second = NULL;
    const fedserver_setup setup = {.address = address};
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &second, &err));
    fedserver_configure(second, &setup);
    return second;
}

/* Run empty batches until this coordinator is the leader. cut: let the present leader's time
 * expire. */
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
    assert_true(fedserver_begin(server, &err) == FED_ESTATE);
}

static fed_postgres pair[2];

static void open_pair(void) {
    static char store[400];
    char where[300];
    fed_postgres_open(&pair[0]);
    fed_postgres_standby(&pair[0], &pair[1]);
    fed_postgres_where_all(pair, 2, where, sizeof where);
    snprintf(store, sizeof store, "postgres:%s", where);
    (void)setenv("FED_TEST_STORE", store, 1);
}

static void close_pair(void) {
    fed_postgres_close(&pair[1]);
    fed_postgres_close(&pair[0]);
    (void)setenv("FED_TEST_STORE", "postgres", 1);
}

static void fail_over(void) {
    const fed_postgres killed = pair[0];
    pair[0] = pair[1];
    pair[1] = killed;
    const int64_t begin_ms = fed_clock_monotonic_ms();
    fed_postgres_promote(&pair[0]);
    printf("the standby was promoted in %lld ms\n",
           (long long)(fed_clock_monotonic_ms() - begin_ms));
    fed_postgres_standby(&pair[0], &pair[1]);
}

static void end_without_database(fedserver *leader) {
    fed_error err = {0};
    assert_fed_status(fedserver_commit(leader, &err), FED_EIO);
    fedserver_close(leader);
}

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
    } else if (how == FAILS_OVER) {
        fed_postgres_kill(&pair[0]);
        end_without_database(old);
        fail_over();
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

typedef struct run {
    coordinator c;
    test_device devices[DEVICES];
    fed_history *history;
} run;

/* Send a device's update, which must count. Returns the update's digest. */
static uint64_t send(run *r, const fed_assignment *work, uint32_t who) {
    float x[PARAMETERS];
    noise(x, work->round, who);
    assert_int_equal(device_upload(&r->c, &r->devices[who], work, x, who + 1, NULL), 200);
    return fed_digest(x, PARAMETERS);
}

static void upload(run *r, const fed_assignment *work, uint32_t who, change how) {
    if (how == UNSTORED || (how == FAILS_OVER && who == work->round)) {
        const uint32_t before = received(&r->c);
        (void)send(r, work, who);
        change_leader(&r->c, how);
        assert_int_equal(received(&r->c), before);
    }
    const uint64_t digest = send(r, work, who);
    coordinator_commit(&r->c);
    fed_history_acknowledged(r->history, who, work->lease, work->round, digest);
    if (how == LETS_GO || how == CUT_OFF) {
        change_leader(&r->c, how);
    }
}

static void play_round(run *r, uint32_t round, change how) {
    fed_assignment work[DEVICES];
    for (uint32_t k = 0; k < DEVICES; k++) {
        work[k] = device_ask_work(&r->c, &r->devices[k]);
        assert_int_equal(work[k].round, round);
        fed_history_announced(r->history, k, work[k].version, work[k].digest);
    }
    coordinator_commit(&r->c);
    for (uint32_t k = 0; k < DEVICES; k++) {
        upload(r, &work[k], k, how);
    }
    fed_history_committed(r->history, round, DEVICES);
    assert_int_equal(fedserver_rounds_front(&r->c.server->rounds)->versions.version, round);
}

static fed_status note_stored(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    if (row->committed_ms != 0) {
        fed_history_stored(user, row->number, row->updates);
    }
    return FED_OK;
}

static void judge(const run *r) {
    fed_error err = {0};
    char why[300];
    const fedserver *server = r->c.server;
    assert_fed_ok_err(server->store->round_each(server->db, 1, 100, note_stored, r->history, &err));
    if (!fed_history_holds(r->history, why, sizeof why)) {
        fail_msg("%s", why);
    }
}

static uint64_t play(change how) {
    run r = {.history = fed_history_new()};
    coordinator_setup(&r.c);
    r.c.address = "a.example:1";
    coordinator_crash(&r.c);
    for (int k = 0; k < DEVICES; k++) {
        r.devices[k] = coordinator_enrol(&r.c);
    }
    coordinator_task(&r.c, task);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        play_round(&r, round, how);
    }
    judge(&r);
    const uint64_t digest = fedserver_rounds_front(&r.c.server->rounds)->versions.digest;
    coordinator_teardown(&r.c);
    fed_history_free(r.history);
    return digest;
}

static void a_change_of_the_lead_changes_no_bit(void) {
    const uint64_t digest = play(STAYS);
    assert_true(play(LETS_GO) == digest);
    assert_true(play(CUT_OFF) == digest);
    assert_true(play(UNSTORED) == digest);
}

static void a_failover_of_the_database_changes_no_bit(void) {
    const uint64_t digest = play(STAYS);
    open_pair();
    assert_true(play(FAILS_OVER) == digest);
    close_pair();
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

static void a_store_in_files_can_not_be_shared(void) {
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
        fed_unit_test(a_change_of_the_lead_changes_no_bit),
        fed_unit_test(a_failover_of_the_database_changes_no_bit),
        WITH_COORDINATOR(one_that_serves_alone_has_the_database_alone),
        fed_unit_test(a_store_in_files_can_not_be_shared),
    };
    if (!fed_postgres_is_there()) {
        return 77;
    }
    (void)setenv("FED_TEST_STORE", "postgres", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
