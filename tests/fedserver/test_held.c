/* Another program holds the coordinator's database: the coordinator waits, says so once, and goes
 * on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <sqlite3.h>

#include "fed_cases.h"

typedef struct heard {
    unsigned held, freed;
} heard;

typedef struct world {
    coordinator c;
    fedserver *rounds;
    heard heard;
    fed_log log;
    sqlite3 *other; /* the other program's connection to the database */
} world;

static void hear(void *user, fed_log_level level, const char *line) {
    heard *h = user;
    h->held += level == FED_LOG_WARN && strstr(line, "another program holds the database") != NULL;
    h->freed += level == FED_LOG_INFO && strstr(line, "the database is free again") != NULL;
}

static void tell_other(const world *w, const char *sql) {
    assert_int_equal(sqlite3_exec(w->other, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int setup(void **state) {
    static world w;
    static const fedserver_setup part = {.part = FEDSERVER_ROUNDS};
    fed_error err = {0};
    char path[300];
    w = (world){.heard = {0}};
    w.log = (fed_log){.user = &w.heard, .write = hear, .level = FED_LOG_INFO};
    coordinator_setup(&w.c);
    snprintf(path, sizeof path, "%s/server.db", w.c.directory);
    coordinator_commit(&w.c);
    fedserver_close(w.c.server);
    assert_fed_ok_err(fedserver_open(w.c.directory, &w.log, &w.rounds, &err));
    fedserver_configure(w.rounds, &part);
    assert_int_equal(sqlite3_open(path, &w.other), SQLITE_OK);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    sqlite3_close(w->other);
    fedserver_close(w->rounds);
    coordinator_open(&w->c);
    coordinator_teardown(&w->c);
    return 0;
}

/* Make a device's request in a batch of its own. Returns the HTTP status of the answer. */
static int ask(const world *w) {
    const fedserver_request request = {
        .listener = FEDSERVER_DEVICES, .method = "GET", .path = "/v1/model", .query = ""};
    fedserver_response response = {0};
    fed_error err = {0};
    int64_t next_ms = 0;
    assert_fed_ok_err(fedserver_begin(w->rounds, &err));
    assert_fed_ok_err(fedserver_handle(w->rounds, &request, 5, &response, &err));
    assert_fed_ok_err(fedserver_tick(w->rounds, 5, &next_ms, &err));
    assert_in_range(next_ms, 6, 1005);
    assert_fed_ok_err(fedserver_commit(w->rounds, &err));
    fedserver_blob_free(response.body);
    return response.status;
}

static void expect_refused_while_held(world *w) {
    enum { BATCHES = 3 };
    tell_other(w, "BEGIN EXCLUSIVE");
    for (int k = 0; k < BATCHES; k++) {
        assert_int_equal(ask(w), 503);
    }
    assert_true(w->heard.held == 1 && w->heard.freed == 0);
    tell_other(w, "COMMIT");
    assert_int_not_equal(ask(w), 503);
    assert_true(w->heard.held == 1 && w->heard.freed == 1);
}

FED_TEST_WITH(a_coordinator_that_serves_waits_and_goes_on, world *w) {
    assert_int_not_equal(ask(w), 503);
    expect_refused_while_held(w);
}

FED_TEST_WITH(a_coordinator_that_starts_waits_and_goes_on, world *w) {
    expect_refused_while_held(w);
}

FED_TEST_WITH(a_batch_that_writes_nothing_leaves_the_database_to_others, world *w) {
    assert_int_not_equal(ask(w), 503);
    tell_other(w, "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; COMMIT");
}

int main(void) {
    (void)setenv("FED_TEST_STORE", "sqlite", 1); /* other stores have no file to hold */
    return fed_cases_run_each(setup, teardown);
}
