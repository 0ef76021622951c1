/* Another program holds the coordinator's database: the coordinator waits, says so once, and goes
 * on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <sqlite3.h>

#include "fed/crypto.h"
#include "fed_cases.h"
#include "fedserver/server.h"

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

/* The store of a front, which another program holds as long as `busy` is set. */
static struct {
    const fedserver_store *store;
    bool busy;
    unsigned used; /* how often a token was looked for */
} inner;

static fed_status use_token(void *db, const uint8_t *hash, int64_t now_ms, fed_error *err) {
    inner.used++;
    return inner.busy ? fed_fail(err, FED_EBUSY, "another program holds the database")
                      : inner.store->token_use(db, hash, now_ms, err);
}

static fed_status reserve(void *db, unsigned wait_ms, fed_error *err) {
    return inner.busy ? fed_fail(err, FED_EBUSY, "another program holds the database")
                      : inner.store->reserve(db, wait_ms, err);
}

/* Begin a batch. reserves: does the store have the function `reserve`? */
static void begin_front(world *w, bool reserves) {
    static const fedserver_setup part = {.part = FEDSERVER_GATE};
    static fedserver_store store;
    fed_error err = {0};
    inner.store = w->rounds->store;
    inner.busy = false;
    inner.used = 0;
    store = *inner.store;
    store.token_use = use_token;
    store.reserve = reserves ? reserve : NULL;
    fedserver_configure(w->rounds, &part);
    fedserver_ports(w->rounds, 8443, 8444);
    w->rounds->store = &store;
    assert_fed_ok_err(fedserver_begin(w->rounds, &err));
}

static void next_batch(const world *w) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_commit(w->rounds, &err));
    assert_fed_ok_err(fedserver_begin(w->rounds, &err));
}

static void make_token(const world *w, char token[FEDSERVER_TOKEN]) {
    fed_error err = {0};
    const fedserver_grant grant = {.ttl_s = 3600};
    assert_fed_ok_err(fedserver_token_grant(w->rounds, w->c.now_ms, &grant, token, &err));
}

/* Returns what fedserver_handle returned. */
static fed_status enrol(const world *w, const char *token, int *status) {
    fed_error err = {0};
    fed_pem key, csr;
    fedserver_response response = {0};
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_csr_new(&key, "test", &csr, &err));
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = "/v1/enrol",
                                       .query = "",
                                       .bearer = token,
                                       .body = (const uint8_t *)csr.text,
                                       .body_len = strlen(csr.text)};
    const fed_status result = fedserver_handle(w->rounds, &request, w->c.now_ms, &response, &err);
    *status = response.status;
    fedserver_blob_free(response.body);
    return result;
}

FED_TEST_WITH(a_front_asks_a_held_database_once_and_serves_when_it_is_free, world *w) {
    for (int reserves = 0; reserves < 2; reserves++) {
        char token[FEDSERVER_TOKEN];
        int status = 0;
        begin_front(w, reserves != 0);
        make_token(w, token);
        inner.busy = true;
        for (int k = 0; k < 3; k++) {
            assert_fed_ok(enrol(w, token, &status));
            assert_int_equal(status, 503);
            next_batch(w);
        }
        assert_true(w->heard.held == 1U + (unsigned)reserves);
        assert_int_equal(inner.used, reserves != 0 ? 1 : 3);
        inner.busy = false;
        next_batch(w);
        assert_fed_ok(enrol(w, token, &status));
        assert_int_equal(status, 200);
        next_batch(w);
        assert_true(w->heard.freed == 1U + (unsigned)reserves);
        w->rounds->store = inner.store;
    }
}

/* S1 in docs/durability.md: what an earlier request of the batch wrote is not given up. */
FED_TEST_WITH(a_batch_of_a_front_that_has_written_is_not_split, world *w) {
    char token[FEDSERVER_TOKEN], second[FEDSERVER_TOKEN];
    int status = 0;
    begin_front(w, true);
    make_token(w, token);
    make_token(w, second);
    assert_fed_ok(enrol(w, token, &status));
    assert_int_equal(status, 200);
    inner.busy = true;
    assert_fed_status(enrol(w, second, &status), FED_EBUSY);
    w->rounds->store = inner.store;
}

int main(void) {
    (void)setenv("FED_TEST_STORE", "sqlite", 1); /* other stores have no file to hold */
    return fed_cases_run_each(setup, teardown);
}
