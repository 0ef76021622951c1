/* Tests of what only the store on PostgreSQL does. The tests for all stores are in
 * tests/contract/test_stores.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_drill.h"
#include "fed_postgres.h"
#include "fedserver/operator.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_host.h"
#include "fedserver/stores/store.h"
#include "store_fixture.h"

static int begin(void **state) {
    fedserver_store_choice choice;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_store_parse("postgres:x", &choice, &err));
    tried = choice.store;
    return setup(state);
}

static void sql(const fixture *f, const char *text) {
    fed_postgres_sql(f->where, text, NULL, 0);
}

static fed_status add_update(fixture *f, fedserver_update_row *row, const uint8_t *body, size_t len,
                             fed_error *err) {
    row->lease++;
    return f->store->update_add(f->db, row, body, len, err);
}

static fedserver_update_row committed_lease(fixture *f) {
    fed_error err = {0};
    const fedserver_update_row row = a_lease(f);
    assert_fed_ok_err(f->store->commit(f->db, &err));
    return row;
}

static uint32_t count_updates(fixture *f, uint64_t task) {
    fed_error err = {0};
    uint32_t count = 0;
    assert_fed_ok_err(f->store->update_count(f->db, task, 7, &count, &err));
    return count;
}

static void a_url_or_a_name_tells_the_store(void **state) {
    const fixture *f = *state;
    static const char *const names[][2] = {
        {"postgres://fed@db/fed", "postgres://fed@db/fed"},
        {"postgresql://fed@db/fed", "postgresql://fed@db/fed"},
        {"postgres:host=db password=a://b", "host=db password=a://b"}};
    for (int k = 0; k < 3; k++) {
        fedserver_store_choice choice;
        fed_error err = {0};
        assert_fed_ok_err(fedserver_store_parse(names[k][0], &choice, &err));
        assert_string_equal(choice.store->name, "postgres");
        assert_string_equal(choice.where, names[k][1]);
        fedserver_store_choice read;
        assert_fed_ok_err(fedserver_store_write(f->directory, &choice, &err));
        assert_fed_ok_err(fedserver_store_read(f->directory, &read, &err));
        assert_true(read.store == choice.store);
        assert_string_equal(read.where, names[k][1]);
    }
}

/* The file `store` in the directory may hold a password. */
static void no_error_repeats_a_password_and_the_file_is_private(void **state) {
    const fixture *f = *state;
    static const char *const strings[] = {"postgres:host=/nowhere password=geheim",
                                          "postgres:host=/nowhere password=mein geheim",
                                          "postgres://fed:geheim@[::1]:1/fed",
                                          "postgres://fed:geheim@127.0.0.1:1/fed?geheim=1",
                                          "postgres://fed:x@geheim@127.0.0.1:1/fed",
                                          "postgres://fed:geheim/x@127.0.0.1:1/fed",
                                          "postgres://fed:x@y/geheim@127.0.0.1:1/fed",
                                          "postgres://fed:x@y:geheim@127.0.0.1:1/fed",
                                          "host=/nowhere password=geheim"};
    for (size_t k = 0; k < sizeof strings / sizeof strings[0]; k++) {
        fed_error err = {0};
        const fedserver_init_options options = {.store = strings[k]};
        assert_true(fedserver_init(f->directory, &options, &err) != FED_OK);
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "geheim"));
    }
    fedserver_store_choice choice;
    fed_error err = {0};
    char path[300];
    struct stat info;
    assert_fed_ok_err(fedserver_store_parse(strings[0], &choice, &err));
    assert_fed_ok_err(fedserver_store_write(f->directory, &choice, &err));
    snprintf(path, sizeof path, "%s/store", f->directory);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void a_database_that_is_away_is_not_called_empty(void **state) {
    const fixture *f = *state;
    fed_error err = {0};
    assert_fed_status(f->store->exists(f->directory, "host=/nowhere", &err), FED_EIO);
    assert_fed_says(err, "/nowhere");
    fed_postgres_clear(f->where);
    assert_fed_status(f->store->exists(f->directory, f->where, &err), FED_ENOTFOUND);
}

static void a_newer_layout_and_another_encoding_are_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *other = NULL;
    char where[400];
    sql(f, "UPDATE fedserver.layout SET version = 999");
    assert_fed_status(f->store->open(f->directory, f->where, &other, &err), FED_EVERSION);
    assert_fed_says(err, "layout 999");
    sql(f, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0");
    snprintf(where, sizeof where, "%.*s dbname=ascii", (int)strcspn(f->where, "\n"), f->where);
    assert_fed_status(f->store->create(f->directory, where, &err), FED_EINVAL);
    assert_fed_says(err, "UTF8");
    sql(f, "DROP DATABASE ascii");
}

static fed_status take_device(void *user, const fedserver_device *device, fed_error *err) {
    (void)err;
    *(fedserver_device *)user = *device;
    return FED_OK;
}

/* PostgreSQL refuses invalid UTF-8. A device may send it as User-Agent, which must not fail the
 * batch. */
static void text_that_is_not_utf8_is_stored_readably(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = add_device(f, 1);
    fedserver_device read = {0};
    strcpy(device.software, "a\xff"
                            "b\n\xc3\xa4");
    assert_fed_ok_err(f->store->device_put(f->db, &device, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    assert_fed_ok_err(f->store->device_each(f->db, take_device, &read, &err));
    assert_string_equal(read.software, "a?b?\xc3\xa4");
    strcpy(device.software, "a\n\xc3\xa4");
    assert_fed_ok_err(f->store->device_put(f->db, &device, &err));
    assert_fed_ok_err(f->store->device_each(f->db, take_device, &read, &err));
    assert_string_equal(read.software, "a\n\xc3\xa4");
}

/* Add a trigger: each INSERT into `updates` first runs `deed`, a statement of PL/pgSQL. */
static void trap_updates(const fixture *f, const char *deed) {
    char text[700];
    snprintf(text, sizeof text,
             "CREATE FUNCTION fedserver.trap() RETURNS trigger LANGUAGE plpgsql AS"
             " $$ BEGIN %s; RETURN NEW; END $$;"
             "CREATE TRIGGER trap BEFORE INSERT ON fedserver.updates"
             " FOR EACH ROW EXECUTE FUNCTION fedserver.trap()",
             deed);
    sql(f, text);
}

static void end_trap(const fixture *f) {
    sql(f, "DROP FUNCTION fedserver.trap CASCADE");
}

static void what_fails_in_a_pipeline_fails_its_batch_with_its_own_words(void **state) {
    fixture *f = *state;
    static const struct {
        const char *code;
        fed_status status;
        const char *says;
    } failures[] = {{"53100", FED_ENOSPC, "disk is full"},
                    {"53200", FED_ENOMEM, "out of memory"},
                    {"40P01", FED_EBUSY, "another process"},
                    {"XX001", FED_EFORMAT, "backup"},
                    {"22000", FED_EIO, "22000"}};
    fedserver_update_row row = committed_lease(f);
    for (size_t k = 0; k < sizeof failures / sizeof failures[0]; k++) {
        fed_error err = {0};
        char deed[120];
        snprintf(deed, sizeof deed, "RAISE EXCEPTION 'trapped' USING ERRCODE = '%s'",
                 failures[k].code);
        trap_updates(f, deed);
        for (int n = 0; n < 3; n++) {
            assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
        }
        assert_fed_status(f->store->commit(f->db, &err), failures[k].status);
        assert_fed_says(err, failures[k].says);
        end_trap(f);
        assert_int_equal(count_updates(f, row.task), (int)k);
        assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
        assert_fed_ok_err(f->store->commit(f->db, &err));
    }
}

static void a_read_that_fails_works_again_afterwards(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    fedserver_pass pass;
    sql(f, "ALTER TABLE fedserver.passes RENAME TO away");
    assert_fed_status(f->store->pass_find(f->db, hash, &pass, &err), FED_EIO);
    sql(f, "ALTER TABLE fedserver.away RENAME TO passes");
    assert_fed_status(f->store->pass_find(f->db, hash, &pass, &err), FED_ENOTFOUND);
}

/* The server sends megabytes of warnings while the coordinator sends megabytes of updates. If both
 * sides only wrote, both would wait for ever. */
static void neither_end_waits_for_the_other_forever(void **state) {
    fixture *f = *state;
    enum { UPDATES = 48, SIZE = 400000 };
    fed_error err = {0};
    uint8_t *body = calloc(1, SIZE);
    assert_non_null(body);
    fedserver_update_row row = committed_lease(f);
    trap_updates(f, "FOR k IN 1..30 LOOP RAISE WARNING '%', repeat('w', 8000); END LOOP");
    for (int k = 0; k < UPDATES; k++) {
        assert_fed_ok_err(add_update(f, &row, body, SIZE, &err));
    }
    assert_fed_ok_err(f->store->commit(f->db, &err));
    end_trap(f);
    assert_int_equal(count_updates(f, row.task), UPDATES);
    free(body);
}

static void who_holds_the_database_for_too_long_is_not_waited_for(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *other = NULL;
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    const fedserver_token token = {.expires_ms = 1};
    assert_fed_ok_err(f->store->open(f->directory, f->where, &other, &err));
    assert_fed_ok_err(f->store->token_add(other, hash, &token, &err));
    assert_fed_status(f->store->token_find(other, hash, &(fedserver_token){0}, &err), FED_OK);
    assert_fed_ok_err(f->store->token_add(f->db, hash, &token, &err));
    assert_fed_status(f->store->commit(f->db, &err), FED_EBUSY);
    f->store->rollback(other);
    assert_fed_ok_err(f->store->token_add(f->db, hash, &token, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    f->store->close(other);
}

/* The answer to COMMIT is lost, so it is not known whether the batch is stored. */
static void a_commit_without_an_answer_ends_the_handle(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = committed_lease(f);
    sql(f, "CREATE FUNCTION fedserver.cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
           "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON fedserver.updates DEFERRABLE INITIALLY"
           " DEFERRED FOR EACH ROW EXECUTE FUNCTION fedserver.cut()");
    assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
    assert_fed_status(f->store->commit(f->db, &err), FED_EIO);
    assert_fed_says(err, "it is unknown whether");
    bool changed;
    assert_fed_status(f->store->changed(f->db, &changed, &err), FED_EIO);
    f->store->rollback(f->db);
    sql(f, "DROP FUNCTION fedserver.cut CASCADE");
    reopen(f);
    assert_int_equal(count_updates(f, row.task), 0);
}

static void what_was_committed_survives_a_server_that_is_killed_in_a_batch(void **state) {
    (void)state;
    fed_postgres server;
    fixture f = {.store = tried};
    fed_error err = {0};
    fed_postgres_open(&server);
    f.where = server.where;
    fed_test_tmpdir(f.directory, sizeof f.directory);
    assert_fed_ok_err(f.store->create(f.directory, f.where, &err));
    assert_fed_ok_err(f.store->open(f.directory, f.where, &f.db, &err));
    fedserver_update_row row = committed_lease(&f);
    uint32_t acknowledged = 0;
    for (int life = 0; life < 3; life++) {
        for (int k = 0; k < 10; k++) {
            assert_fed_ok_err(add_update(&f, &row, (const uint8_t *)"x", 1, &err));
            assert_fed_ok_err(f.store->commit(f.db, &err));
            acknowledged++;
        }
        assert_fed_ok_err(add_update(&f, &row, (const uint8_t *)"y", 1, &err));
        fed_postgres_kill(&server);
        acknowledged += f.store->commit(f.db, &err) == FED_OK ? 1 : 0;
        fed_postgres_start(&server);
        reopen(&f);
        assert_fed_ok_err(f.store->recover(f.db, &err));
        assert_fed_ok_err(f.store->lock(f.db, &err));
        const uint32_t stored = count_updates(&f, row.task);
        assert_in_range(stored, acknowledged, acknowledged + 1);
        acknowledged = stored;
    }
    f.store->close(f.db);
    fed_test_rmdir(f.directory);
    fed_postgres_close(&server);
}

/* The server frees the lock of a dead process only a moment later, so the next start must wait for
 * the lock. */
static void the_lock_of_a_process_that_was_killed_is_free(void **state) {
    fixture *f = *state;
    for (int k = 0; k < 5; k++) {
        int ready[2];
        char byte;
        int how;
        fed_error err = {0};
        assert_int_equal(pipe(ready), 0);
        fflush(NULL);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            void *db = NULL;
            if (f->store->open(f->directory, f->where, &db, &err) != FED_OK ||
                f->store->lock(db, &err) != FED_OK || write(ready[1], "", 1) != 1) {
                _exit(1);
            }
            for (;;) {
                pause();
            }
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        assert_int_equal(f->store->holder(f->db), pid);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_fed_ok_err(f->store->lock(f->db, &err));
        reopen(f);
    }
}

static void a_connection_names_its_process(void **state) {
    (void)state;
    char name[FEDSERVER_PG_NAME];
    long process;
    bool here;
    fedserver_pg_name_here(name);
    fedserver_pg_name_read(name, &process, &here);
    assert_true(process == getpid() && here);
    fedserver_pg_name_read("fedserver 12 on elsewhere.example", &process, &here);
    assert_true(process == 12 && !here);
    fedserver_pg_name_read("psql", &process, &here);
    assert_true(process == 0 && !here);
}

static fed_status look(const fixture *f, bool *changed) {
    fed_error err = {0};
    return f->store->changed(f->db, changed, &err);
}

static bool sees_a_change(const fixture *f) {
    bool changed = false;
    for (int k = 0; k < 1000 && !changed; k++) {
        assert_fed_ok(look(f, &changed));
        fed_sleep_ms(changed ? 0 : 5);
    }
    return changed;
}

static void a_change_is_noticed_with_a_notification_and_without_one(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *other = NULL;
    bool changed;
    assert_fed_ok_err(f->store->lock(f->db, &err));
    assert_fed_ok(look(f, &changed));
    assert_fed_ok_err(f->store->open(f->directory, f->where, &other, &err));
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    assert_fed_ok_err(f->store->token_add(other, hash, &(fedserver_token){0}, &err));
    assert_fed_ok_err(f->store->commit(other, &err));
    assert_true(sees_a_change(f));
    assert_fed_ok(look(f, &changed));
    assert_false(changed);
    /* Change the revision without a notification, as if the notification was lost. */
    sql(f, "UPDATE fedserver.revision SET number = number + 1");
    assert_true(sees_a_change(f));
    f->store->close(other);
}

static fedserver_lead lead(const fixture *f, void *db) {
    fed_error err = {0};
    fedserver_lead seen;
    assert_fed_ok_err(f->store->lead(db, "127.0.0.1:8500", &seen, &err));
    return seen;
}

/* The term alone must stop this batch, because the connection still works. */
static void a_batch_of_an_older_term_is_not_stored(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = committed_lease(f);
    assert_true(lead(f, f->db).mine);
    assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    sql(f, "UPDATE fedserver.revision SET term = term + 1");
    assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
    assert_fed_status(f->store->commit(f->db, &err), FED_ESTATE);
    assert_fed_says(err, "another coordinator leads");
    assert_int_equal(count_updates(f, row.task), 1);
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    assert_fed_status(f->store->token_use(f->db, hash, 1, &err), FED_ESTATE);
}

static void *change_term_slowly(void *where) {
    fed_postgres_sql(where, "UPDATE fedserver.revision SET term = term + 1; SELECT pg_sleep(1)",
                     NULL, 0);
    return NULL;
}

/* The row of the revision is locked while the leader changes. The old leader's batch waits for
 * the row and then finds the new term. */
static void a_batch_that_waits_while_the_lead_changes_is_not_stored(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    pthread_t thread;
    char sleeping[8] = "0";
    fedserver_update_row row = committed_lease(f);
    assert_true(lead(f, f->db).mine);
    assert_int_equal(pthread_create(&thread, NULL, change_term_slowly, (void *)(uintptr_t)f->where),
                     0);
    for (int k = 0; k < 1000 && strcmp(sleeping, "1") != 0; k++) {
        fed_postgres_sql(f->where,
                         "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
                         sleeping, sizeof sleeping);
    }
    assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
    assert_fed_status(f->store->commit(f->db, &err), FED_ESTATE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count_updates(f, row.task), 0);
}

static void a_lead_whose_pulse_is_cut_off_says_so(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_lead seen = lead(f, f->db);
    assert_true(seen.mine);
    /* With another term in the row, the leader can't stay leader. */
    sql(f, "UPDATE fedserver.leader SET term = term + 1");
    for (int k = 0; k < 1000 && seen.mine; k++) {
        fed_sleep_ms(10);
        seen = lead(f, f->db);
    }
    assert_false(seen.mine);
    reopen(f);
    assert_true(lead(f, f->db).mine);
    sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
           " WHERE query LIKE 'UPDATE leader%' AND pid <> pg_backend_pid()");
    fed_status status = FED_OK;
    for (int k = 0; k < 1000 && status == FED_OK; k++) {
        fed_sleep_ms(10);
        status = f->store->lead(f->db, "127.0.0.1:8500", &seen, &err);
        sql(f, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
               " WHERE query LIKE 'UPDATE leader%' AND pid <> pg_backend_pid()");
    }
    assert_fed_status(status, FED_EIO);
    assert_fed_says(err, "another coordinator leads now");
}

/* PostgreSQL's advisory lock (0x46656454, term), which all connections of a leader share. */
#define TAG "1181049940"

/* Wait until so many connections hold TAG: the server may notice a closed connection late. */
static void await_tags(const fixture *f, const char *wanted) {
    char held[24] = "";
    for (int k = 0; k < 6000 && strcmp(held, wanted) != 0; k++) {
        fed_sleep_ms(k > 0 ? 10 : 0);
        fed_postgres_sql(f->where,
                         "SELECT count(*) FROM pg_locks WHERE objsubid = 2 AND granted"
                         " AND classid::bigint = " TAG,
                         held, sizeof held);
    }
    assert_string_equal(held, wanted);
}

/* The second connection is like that of a thread that closes a round. The store would reject its
 * writes, but the rows that it has locked would make the next leader wait. */
static void who_takes_the_lead_ends_the_connections_of_older_leads(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    char left[24] = "";
    void *thread = NULL, *other = NULL;
    assert_fed_ok_err(f->store->open(f->directory, f->where, &thread, &err));
    assert_fed_ok_err(f->store->open(f->directory, f->where, &other, &err));
    const fedserver_lead first = lead(f, f->db);
    assert_fed_ok_err(f->store->serve_term(thread, first.term, &err));
    f->store->let_go(f->db);
    await_tags(f, "1");
    const fedserver_lead next = lead(f, other);
    assert_true(next.mine && next.term > first.term);
    fed_postgres_sql(f->where,
                     "SELECT count(*) FROM pg_locks l, fedserver.leader WHERE"
                     " objsubid = 2 AND classid::bigint = " TAG " AND objid::bigint < leader.term",
                     left, sizeof left);
    assert_string_equal(left, "0");
    fed_postgres_sql(f->where,
                     "SELECT count(*) > 0 FROM pg_locks l, fedserver.leader WHERE"
                     " objsubid = 2 AND classid::bigint = " TAG " AND objid::bigint = leader.term",
                     left, sizeof left);
    assert_string_equal(left, "t");
    f->store->close(thread);
    f->store->close(other);
}

/* The old leader's connections are closed, so a follower must not be told its address. */
static void a_lead_without_connections_is_not_told(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *alone = NULL, *follower = NULL;
    assert_fed_ok_err(f->store->open(f->directory, f->where, &alone, &err));
    assert_fed_ok_err(f->store->open(f->directory, f->where, &follower, &err));
    const int usual_ms = ((fedserver_pg *)follower)->answer_ms;
    assert_true(lead(f, f->db).mine);
    assert_string_equal(lead(f, follower).address, "127.0.0.1:8500");
    f->store->let_go(f->db);
    await_tags(f, "0");
    assert_fed_ok_err(f->store->lock(alone, &err));
    sql(f, "UPDATE fedserver.leader SET until = clock_timestamp() + interval '1 hour'");
    const fedserver_lead seen = lead(f, follower);
    assert_false(seen.mine);
    assert_string_equal(seen.address, "");
    assert_int_equal(((fedserver_pg *)follower)->answer_ms, usual_ms);
    f->store->close(follower);
    f->store->close(alone);
}

static void a_lead_whose_time_is_over_is_not_told_and_loses_its_connections(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *follower = NULL;
    char left[24] = "";
    assert_fed_ok_err(f->store->open(f->directory, f->where, &follower, &err));
    const fedserver_lead first = lead(f, f->db);
    /* the old leader's renewals have no effect */
    sql(f, "CREATE FUNCTION fedserver.no_pulse() RETURNS trigger LANGUAGE plpgsql AS"
           " 'BEGIN NEW.until := OLD.until; RETURN NEW; END';"
           " UPDATE fedserver.leader SET until = clock_timestamp() - interval '1 s';"
           " CREATE TRIGGER no_pulse BEFORE UPDATE ON fedserver.leader FOR EACH ROW"
           " WHEN (NEW.term = OLD.term) EXECUTE FUNCTION fedserver.no_pulse()");
    const fedserver_lead seen = lead(f, follower);
    assert_true(seen.mine || seen.address[0] == '\0');
    fedserver_lead next = seen;
    for (int k = 0; k < 3000 && !next.mine; k++) {
        fed_sleep_ms(10);
        next = lead(f, follower);
    }
    assert_true(next.mine && next.term > first.term);
    fed_postgres_sql(f->where,
                     "SELECT count(*) FROM pg_locks l, fedserver.leader WHERE"
                     " objsubid = 2 AND classid::bigint = " TAG " AND objid::bigint < leader.term",
                     left, sizeof left);
    assert_string_equal(left, "0");
    f->store->close(follower);
}

/* Hold the lock TAG of term 1 until somebody waits for it. Then change the leader. */
static void *change_lead_behind_the_tag(void *where) {
    fed_postgres_sql(
        where,
        "DO $$ BEGIN PERFORM pg_advisory_lock(" TAG ", 1);"
        " FOR k IN 1..6000 LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE objsubid = 2"
        " AND NOT granted AND classid::bigint = " TAG ");"
        " PERFORM pg_sleep(0.01); END LOOP;"
        " UPDATE fedserver.leader SET term = 2; END $$",
        NULL, 0);
    return NULL;
}

static void who_gets_its_tag_too_late_finds_the_new_term(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    pthread_t thread;
    char held[8] = "0";
    sql(f, "UPDATE fedserver.leader SET term = 1");
    assert_int_equal(
        pthread_create(&thread, NULL, change_lead_behind_the_tag, (void *)(uintptr_t)f->where), 0);
    for (int k = 0; k < 3000 && strcmp(held, "1") != 0; k++) {
        fed_postgres_sql(f->where,
                         "SELECT count(*) FROM pg_locks WHERE objsubid = 2 AND granted"
                         " AND classid::bigint = " TAG " AND mode = 'ExclusiveLock'",
                         held, sizeof held);
    }
    assert_string_equal(held, "1");
    const fed_status status = f->store->serve_term(f->db, 1, &err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_fed_status(status, FED_ESTATE);
    assert_fed_says(err, "another coordinator leads");
}

/* A follower's devices wait while the follower waits for the store. */
static void a_follower_does_not_wait_long_for_a_silent_server(void **state) {
    fixture *f = *state;
    fed_postgres server;
    fixture other = {.store = tried};
    fed_error err = {0};
    fedserver_lead seen;
    void *db = NULL;
    fed_postgres_open(&server);
    assert_fed_ok_err(f->store->create(f->directory, server.where, &err));
    assert_fed_ok_err(f->store->open(f->directory, server.where, &other.db, &err));
    assert_fed_ok_err(f->store->open(f->directory, server.where, &db, &err));
    assert_true(lead(&other, other.db).mine);
    assert_false(lead(&other, db).mine);
    fed_postgres_signal(&server, SIGSTOP);
    const fed_status status = f->store->lead(db, "127.0.0.1:8501", &seen, &err);
    fed_postgres_signal(&server, SIGCONT);
    assert_fed_status(status, FED_EIO);
    assert_fed_says(err, "has not answered for 2 s");
    f->store->close(db);
    f->store->close(other.db);
    fed_postgres_close(&server);
}

static void asynchronous_commits_are_made_synchronous(void **state) {
    fixture *f = *state;
    char setting[40];
    sql(f, "ALTER DATABASE postgres SET synchronous_commit = off");
    reopen(f);
    fed_error err = {0};
    fedserver_update_row row = committed_lease(f);
    trap_updates(f, "IF current_setting('synchronous_commit') <> 'on' THEN"
                    " RAISE EXCEPTION 'asynchronous'; END IF");
    assert_fed_ok_err(add_update(f, &row, (const uint8_t *)"x", 1, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    end_trap(f);
    fed_postgres_sql(f->where, "SHOW synchronous_commit", setting, sizeof setting);
    sql(f, "ALTER DATABASE postgres RESET synchronous_commit");
    assert_string_equal(setting, "off");
}

static void set_and_reload(const fixture *f, const char *setting, const char *name) {
    char shown[40] = "";
    char text[100];
    sql(f, setting);
    fed_postgres_sql(f->where, "SELECT pg_reload_conf()", shown, sizeof shown);
    snprintf(text, sizeof text, "SHOW %s", name);
    fed_sleep_ms(300);
    fed_postgres_sql(f->where, text, shown, sizeof shown);
}

static void a_server_that_does_not_sync_is_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *other = NULL;
    set_and_reload(f, "ALTER SYSTEM SET fsync = off", "fsync");
    reopen(f);
    const fed_status status = f->store->lock(f->db, &err);
    set_and_reload(f, "ALTER SYSTEM RESET fsync", "fsync");
    assert_fed_status(status, FED_EINVAL);
    assert_fed_says(err, "fsync off");
    assert_fed_ok_err(f->store->open(f->directory, f->where, &other, &err));
    assert_fed_ok_err(f->store->lock(other, &err));
    f->store->close(other);
}

/* A connection string with several servers means failover. Without a synchronous standby, a
 * failover loses acknowledged updates. */
static void several_servers_without_a_synchronous_standby_are_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *several = NULL;
    char where[500];
    char directory[260];
    snprintf(directory, sizeof directory, "%s", strstr(f->where, "host=") + strlen("host="));
    directory[strcspn(directory, " ")] = '\0';
    snprintf(where, sizeof where, "host=%.200s,/nowhere user=fed dbname=postgres", directory);
    assert_fed_ok_err(f->store->open(f->directory, where, &several, &err));
    assert_fed_status(f->store->lock(several, &err), FED_EINVAL);
    assert_fed_says(err, "synchronous standby");
    f->store->close(several);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define OWN(test) cmocka_unit_test_setup_teardown(test, begin, teardown)
        OWN(a_url_or_a_name_tells_the_store),
        OWN(no_error_repeats_a_password_and_the_file_is_private),
        OWN(a_database_that_is_away_is_not_called_empty),
        OWN(a_newer_layout_and_another_encoding_are_refused),
        OWN(text_that_is_not_utf8_is_stored_readably),
        OWN(what_fails_in_a_pipeline_fails_its_batch_with_its_own_words),
        OWN(a_read_that_fails_works_again_afterwards),
        OWN(neither_end_waits_for_the_other_forever),
        OWN(who_holds_the_database_for_too_long_is_not_waited_for),
        OWN(a_commit_without_an_answer_ends_the_handle),
        OWN(what_was_committed_survives_a_server_that_is_killed_in_a_batch),
        OWN(the_lock_of_a_process_that_was_killed_is_free),
        OWN(a_connection_names_its_process),
        OWN(a_change_is_noticed_with_a_notification_and_without_one),
        OWN(a_batch_of_an_older_term_is_not_stored),
        OWN(a_batch_that_waits_while_the_lead_changes_is_not_stored),
        OWN(a_lead_whose_pulse_is_cut_off_says_so),
        OWN(who_takes_the_lead_ends_the_connections_of_older_leads),
        OWN(a_lead_without_connections_is_not_told),
        OWN(a_lead_whose_time_is_over_is_not_told_and_loses_its_connections),
        OWN(who_gets_its_tag_too_late_finds_the_new_term),
        OWN(a_follower_does_not_wait_long_for_a_silent_server),
        OWN(asynchronous_commits_are_made_synchronous),
        OWN(a_server_that_does_not_sync_is_refused),
        OWN(several_servers_without_a_synchronous_standby_are_refused),
    };
    return fed_postgres_is_there() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
