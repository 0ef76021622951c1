/* Contract of every store for a batch in which a step has failed (S18 of docs/durability.md): its
 * commit fails with the first error, and the next batch works again. Each test lets a step fail at
 * each place in turn. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store_fixture.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* Rows that the steps of a batch use. They were committed before the batch. */
typedef struct batch {
    fixture *f;
    fedserver_device device;
    fedserver_update_row row;
    fedserver_task task;
    uint64_t devices;
} batch;

typedef struct step {
    bool writes;
    fed_status (*run)(batch *b, fed_error *err);
} step;

static uint8_t turn_of_test;
static uint8_t *name_of(uint8_t kind) {
    static uint8_t name[FED_SHA256_SIZE];
    name[0] = kind;
    name[1] = turn_of_test;
    return name;
}
enum { USED = 1, NEW, SENDER, ENROLLED, NOBODY };

static fed_status enrols(batch *b, fed_error *err) {
    fedserver_device device = {.fingerprint = {ENROLLED, turn_of_test}};
    return b->f->store->device_add(b->f->db, &device, err);
}

static fed_status makes_a_token(batch *b, fed_error *err) {
    const fedserver_token token = {.expires_ms = 1000};
    return b->f->store->token_add(b->f->db, name_of(NEW), &token, err);
}

static fed_status saves_the_device(batch *b, fed_error *err) {
    b->device.seen_ms++;
    return b->f->store->device_put(b->f->db, &b->device, err);
}

static fed_status gives_a_lease(batch *b, fed_error *err) {
    b->device.lease = 5;
    b->device.lease_task = b->task.wire.id;
    return b->f->store->device_lease(b->f->db, &b->device, err);
}

static fed_status counts_an_update(batch *b, fed_error *err) {
    return b->f->store->update_add(b->f->db, &b->row, (const uint8_t *)"ab", 2, err);
}

static fed_status counts_a_large_update(batch *b, fed_error *err) {
    enum { SIZE = 100000 };
    static const uint8_t body[SIZE];
    fedserver_update_row row = b->row;
    row.lease++;
    return b->f->store->update_add(b->f->db, &row, body, sizeof body, err);
}

static fed_status declines(batch *b, fed_error *err) {
    return b->f->store->decline_put(b->f->db, b->task.wire.id, b->device.id, "no", 1, err);
}

static fed_status measures(batch *b, fed_error *err) {
    const fed_metric metric = {.task = b->task.wire.id, .version = 1, .samples = 1};
    return b->f->store->metric_put(b->f->db, b->device.id, &metric, err);
}

static fed_status starts_the_task(batch *b, fed_error *err) {
    b->task.state = FEDSERVER_TASK_RUNNING;
    return b->f->store->task_put(b->f->db, &b->task, 1U << FEDSERVER_TASK_QUEUED, err);
}

static fed_status writes_the_audit(batch *b, fed_error *err) {
    const fedserver_audit_entry entry = {.at_ms = 1, .event = "e", .detail = "d"};
    return b->f->store->audit_add(b->f->db, &entry, err);
}

static fed_status puts_a_round(batch *b, fed_error *err) {
    const fedserver_round_row row = {.number = 1, .attempts = 1};
    return b->f->store->round_put(b->f->db, b->task.wire.id, &row, err);
}

static fed_status looks_for_a_device(batch *b, fed_error *err) {
    fedserver_device found;
    return b->f->store->device_find(b->f->db, b->device.fingerprint, &found, err);
}

static fed_status looks_for_what_is_not_there(batch *b, fed_error *err) {
    fedserver_token token;
    return b->f->store->token_find(b->f->db, name_of(NOBODY), &token, err);
}

static fed_status uses_no_token(batch *b, fed_error *err) {
    return b->f->store->token_use(b->f->db, name_of(NOBODY), 1, err);
}

static fed_status counts_devices(batch *b, fed_error *err) {
    uint64_t count;
    return b->f->store->device_count(b->f->db, &count, err);
}

static const step steps[] = {
    {true, enrols},           {true, makes_a_token},    {false, looks_for_a_device},
    {true, saves_the_device}, {true, gives_a_lease},    {false, looks_for_what_is_not_there},
    {true, counts_an_update}, {true, declines},         {true, counts_a_large_update},
    {true, uses_no_token},    {true, measures},         {false, counts_devices},
    {true, starts_the_task},  {true, writes_the_audit}, {true, puts_a_round},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void begin_batch(fixture *f, batch *b) {
    turn_of_test++;
    *b = (batch){.f = f, .device = {.fingerprint = {SENDER, turn_of_test}}, .task = {.name = "n"}};
    must(f->store->device_add(f->db, &b->device, &f->err));
    must(f->store->task_add(f->db, &b->task, &f->err));
    b->row = (fedserver_update_row){
        .task = b->task.wire.id, .round = 7, .device = b->device.id, .lease = 2U * turn_of_test};
    const fedserver_token token = {.expires_ms = 1000};
    must(f->store->token_add(f->db, name_of(USED), &token, &f->err));
    must(f->store->commit(f->db, &f->err));
    must(f->store->device_count(f->db, &b->devices, &f->err));
}

static void assert_undone(batch *b) {
    const fedserver_store *s = b->f->store;
    fed_error err = {0};
    uint64_t devices = 0;
    uint32_t updates = 9;
    fedserver_token token;
    void *db = NULL;
    assert_fed_ok_err(s->open(b->f->directory, b->f->where, &db, &err));
    assert_fed_ok_err(s->device_count(db, &devices, &err));
    assert_int_equal(devices, b->devices);
    assert_fed_ok_err(s->update_count(db, b->row.task, b->row.round, &updates, &err));
    assert_int_equal(updates, 0);
    assert_fed_status(s->token_find(db, name_of(NEW), &token, &err), FED_ENOTFOUND);
    s->close(db);
}

static void assert_works(batch *b) {
    fed_error err = {0};
    fedserver_task task;
    assert_false(b->f->store->writing(b->f->db));
    assert_fed_ok_err(
        b->f->store->task_find(b->f->db, FEDSERVER_PICK_ID, b->task.wire.id, &task, &err));
    b->task = task;
    for (size_t k = 0; k < STEPS; k++) {
        const fed_status status = steps[k].run(b, &err);
        assert_true(status == FED_OK || status == FED_ENOTFOUND);
    }
    assert_fed_ok_err(b->f->store->commit(b->f->db, &err));
    assert_false(b->f->store->writing(b->f->db));
    uint32_t updates = 0;
    assert_fed_ok_err(
        b->f->store->update_count(b->f->db, b->row.task, b->row.round, &updates, &err));
    assert_int_equal(updates, 2);
}

static bool is_failure(fed_status status) {
    return status != FED_OK && status != FED_ENOTFOUND;
}

/* Run the steps, with `bad` before step `at`. *first: the first error. */
static void go_on_carelessly(batch *b, const step *bad, size_t at, fed_error *first) {
    *first = (fed_error){0};
    for (size_t k = 0; k <= STEPS; k++) {
        fed_error err = {0};
        if (k == at && bad != NULL) {
            err.status = bad->run(b, &err);
        }
        *first = is_failure(err.status) && !is_failure(first->status) ? err : *first;
        if (k == STEPS) {
            break;
        }
        err = (fed_error){0};
        const fed_status status = steps[k].run(b, &err);
        if (is_failure(first->status) && steps[k].writes) {
            assert_fed_status(status, first->status);
            assert_string_equal(err.text, first->text);
            assert_true(b->f->store->writing(b->f->db));
        } else if (is_failure(status)) {
            *first = err;
        }
    }
}

static void assert_commit_fails(batch *b, const fed_error *first, fed_status expected) {
    fed_error err = {0};
    assert_true(b->f->store->writing(b->f->db));
    assert_fed_status(b->f->store->commit(b->f->db, &err), expected);
    if (is_failure(first->status)) {
        assert_fed_status(first->status, expected);
        assert_string_equal(err.text, first->text);
    }
    assert_false(b->f->store->writing(b->f->db));
}

static fed_status adds_a_row_twice(batch *b, fed_error *err) {
    const fedserver_token token = {.expires_ms = 1};
    return b->f->store->token_add(b->f->db, name_of(USED), &token, err);
}

static void a_write_that_fails_at_any_place_fails_the_commit(void **state) {
    const step bad = {true, adds_a_row_twice};
    for (size_t at = 0; at <= STEPS; at++) {
        batch b;
        fed_error first;
        begin_batch(*state, &b);
        go_on_carelessly(&b, &bad, at, &first);
        assert_commit_fails(&b, &first, FED_EIO);
        assert_undone(&b);
        assert_works(&b);
    }
}

static void a_rollback_ends_it(void **state) {
    const step bad = {true, adds_a_row_twice};
    for (size_t at = 0; at <= STEPS; at++) {
        batch b;
        fed_error first;
        begin_batch(*state, &b);
        go_on_carelessly(&b, &bad, at, &first);
        b.f->store->rollback(b.f->db);
        assert_undone(&b);
        assert_works(&b);
    }
}

static void what_is_not_found_undoes_nothing(void **state) {
    batch b;
    begin_batch(*state, &b);
    fed_error err = {0};
    assert_fed_ok_err(counts_an_update(&b, &err));
    assert_fed_status(uses_no_token(&b, &err), FED_ENOTFOUND);
    assert_fed_status(looks_for_what_is_not_there(&b, &err), FED_ENOTFOUND);
    assert_fed_ok_err(b.f->store->commit(b.f->db, &err));
    uint32_t updates = 0;
    assert_fed_ok_err(b.f->store->update_count(b.f->db, b.row.task, b.row.round, &updates, &err));
    assert_int_equal(updates, 1);
}

/* Run SQL on another connection. Returns false for a store without SQL. */
static bool run_sql(const fixture *f, const char *for_sqlite, const char *for_postgres) {
    if (strcmp(f->store->name, "postgres") == 0) {
        fed_postgres_sql(f->where, for_postgres, NULL, 0);
        return true;
    }
    if (strcmp(f->store->name, "sqlite") != 0) {
        return false;
    }
    char path[300];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/server.db", f->directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, for_sqlite, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return true;
}

static fed_status reads_a_table_that_is_away(batch *b, fed_error *err) {
    fedserver_pass pass;
    return b->f->store->pass_find(b->f->db, name_of(USED), &pass, err);
}

static void a_read_that_fails_within_a_batch_fails_the_commit(void **state) {
    const step bad = {false, reads_a_table_that_is_away};
    for (size_t at = 1; at <= STEPS; at++) {
        batch b;
        fed_error first;
        begin_batch(*state, &b);
        if (!run_sql(*state, "ALTER TABLE passes RENAME TO away",
                     "ALTER TABLE fedserver.passes RENAME TO away")) {
            return;
        }
        go_on_carelessly(&b, &bad, at, &first);
        assert_commit_fails(&b, &first, FED_EIO);
        assert_undone(&b);
        assert_true(run_sql(*state, "ALTER TABLE away RENAME TO passes",
                            "ALTER TABLE fedserver.away RENAME TO passes"));
        assert_works(&b);
    }
}

/* Let the batch's write number `turn` run the SQL text `deed`. With PostgreSQL, a sequence counts
 * writes, because a rollback does not undo it. */
static void lay_trap(const fixture *f, const char *deed, int turn) {
    char text[1400];
    snprintf(text, sizeof text,
             "DROP SEQUENCE IF EXISTS fedserver.turns CASCADE;"
             "CREATE SEQUENCE fedserver.turns;"
             "CREATE OR REPLACE FUNCTION fedserver.trap() RETURNS trigger LANGUAGE plpgsql AS"
             " $$ BEGIN IF nextval('fedserver.turns') = %d THEN %s; END IF; RETURN NULL; END $$;"
             "DO $$ DECLARE t text; BEGIN FOREACH t IN ARRAY ARRAY['revision', 'devices', 'tokens',"
             " 'updates', 'declines', 'metrics', 'tasks', 'audit', 'rounds'] LOOP"
             " EXECUTE format('CREATE OR REPLACE TRIGGER trap BEFORE INSERT OR UPDATE OR DELETE ON"
             " fedserver.%%I FOR EACH STATEMENT EXECUTE FUNCTION fedserver.trap()', t);"
             " END LOOP; END $$",
             turn, deed);
    fed_postgres_sql(f->where, text, NULL, 0);
}

static void clear_trap(const fixture *f) {
    fed_postgres_sql(f->where, "DROP FUNCTION fedserver.trap CASCADE", NULL, 0);
}

static void fail_each_write(fixture *f, const char *deed, fed_status expected, bool lives) {
    bool fired = true;
    int turn = 1;
    for (; fired; turn++) {
        batch b;
        fed_error first;
        char turns[32];
        begin_batch(f, &b);
        lay_trap(f, deed, turn);
        go_on_carelessly(&b, NULL, 0, &first);
        const fed_status status = b.f->store->commit(f->db, &f->err);
        fed_postgres_sql(f->where, "SELECT last_value FROM fedserver.turns", turns, sizeof turns);
        fired = atoi(turns) >= turn;
        clear_trap(f);
        assert_fed_status(status, fired ? expected : FED_OK);
        assert_true(!is_failure(first.status) || strcmp(first.text, f->err.text) == 0);
        assert_true(fired || !is_failure(first.status));
        assert_false(f->store->writing(f->db));
        if (fired) {
            assert_undone(&b);
        }
        if (fired && !lives) {
            reopen(f);
        }
        if (fired) {
            assert_works(&b);
        }
    }
    assert_true(turn > 8);
}

static bool is_postgres(const fixture *f) {
    return strcmp(f->store->name, "postgres") == 0;
}

static void a_full_disk_at_any_write_fails_the_commit(void **state) {
    if (is_postgres(*state)) {
        fail_each_write(*state, "RAISE EXCEPTION 'full' USING ERRCODE = '53100'", FED_ENOSPC, true);
    }
}

static void a_lock_that_does_not_come_at_any_write_fails_the_commit(void **state) {
    if (is_postgres(*state)) {
        fail_each_write(*state, "RAISE EXCEPTION 'lock' USING ERRCODE = '55P03'", FED_EBUSY, true);
    }
}

static void a_connection_that_ends_at_any_write_fails_the_commit(void **state) {
    if (is_postgres(*state)) {
        fail_each_write(*state, "PERFORM pg_terminate_backend(pg_backend_pid())", FED_EIO, false);
    }
}

static void who_does_not_lead_any_more_commits_nothing(void **state) {
    fixture *f = *state;
    if (f->store->serve_term == NULL) {
        return;
    }
    batch b;
    fed_error first, err = {0};
    begin_batch(f, &b);
    fed_postgres_sql(f->where, "UPDATE fedserver.leader SET term = 5", NULL, 0);
    fed_postgres_sql(f->where, "UPDATE fedserver.revision SET term = 5", NULL, 0);
    assert_fed_ok_err(f->store->serve_term(f->db, 5, &err));
    fed_postgres_sql(f->where, "UPDATE fedserver.revision SET term = 6", NULL, 0);
    go_on_carelessly(&b, NULL, 0, &first);
    assert_true(is_failure(first.status));
    assert_commit_fails(&b, &first, FED_ESTATE);
    assert_undone(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_write_that_fails_at_any_place_fails_the_commit),
        WITH(a_rollback_ends_it),
        WITH(what_is_not_found_undoes_nothing),
        WITH(a_read_that_fails_within_a_batch_fails_the_commit),
        WITH(a_full_disk_at_any_write_fails_the_commit),
        WITH(a_lock_that_does_not_come_at_any_write_fails_the_commit),
        WITH(a_connection_that_ends_at_any_write_fails_the_commit),
        WITH(who_does_not_lead_any_more_commits_nothing),
    };
    return run_for_each_store(tests);
}
