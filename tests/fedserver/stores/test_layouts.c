/* A release must leave the tables of an older release as they are while a process of the older
 * release serves. Each command is run beside a serving process, on each layout that the tests can
 * make. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <sqlite3.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed_cases.h"
#include "fed_first_release.h"
#include "fed_postgres.h"
#include "fedserver/operator.h"
#include "fedserver/stores/stores.h"

enum { MOST = 16384 };

static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 2}";
static const float ones[6] = {1, 1, 1, 1, 1, 1};

/* The older layouts, and the SQL that makes them from today's layout. */
static const struct layout {
    const char *store;
    int number;
    const char *sql[5];
} layouts[] = {
    {"sqlite", 16, {FED_LAYOUT_16}},
    {"sqlite", 15, {FED_LAYOUT_16, FED_LAYOUT_15}},
    {"sqlite", 14, {FED_LAYOUT_16, FED_LAYOUT_15, FED_LAYOUT_14}},
    {"sqlite", 13, {FED_LAYOUT_16, FED_LAYOUT_15, FED_LAYOUT_14, FED_LAYOUT_13}},
    {"sqlite", 8, {FED_LAYOUT_8}},
    {"sqlite", 7, {FED_LAYOUT_8, FED_LAYOUT_7}},
    {"sqlite", 1, {FED_LAYOUT_8, FED_LAYOUT_7, FED_FIRST_RELEASE}},
    {"postgres", 5, {FED_PG_LAYOUT_5}},
    {"postgres", 4, {FED_PG_LAYOUT_5, FED_PG_LAYOUT_4}},
    {"postgres", 3, {FED_PG_LAYOUT_5, FED_PG_LAYOUT_4, FED_PG_LAYOUT_3}},
    {"postgres", 2, {FED_PG_LAYOUT_5, FED_PG_LAYOUT_4, FED_PG_LAYOUT_3, FED_PG_LAYOUT_2}},
    {"postgres",
     1,
     {FED_PG_LAYOUT_5, FED_PG_LAYOUT_4, FED_PG_LAYOUT_3, FED_PG_LAYOUT_2, FED_PG_LAYOUT_1}},
};
enum { STEPS = 5, LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* Run SQL on the store in this directory, as a program of another release would. `first`, which has
 * MOST bytes or is NULL, gets the first value of the result. */
static void sql(const coordinator *c, const char *directory, const char *text, char *first) {
    char path[400];
    sqlite3 *db;
    sqlite3_stmt *row;
    if (strcmp(c->server->store->name, "postgres") == 0) {
        fed_postgres_sql(c->server->where, text, first, MOST);
        return;
    }
    snprintf(path, sizeof path, "%s/server.db", directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (first == NULL) {
        assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    } else {
        assert_int_equal(sqlite3_prepare_v2(db, text, -1, &row, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(row), SQLITE_ROW);
        snprintf(first, MOST, "%s", (const char *)sqlite3_column_text(row, 0));
        sqlite3_finalize(row);
    }
    sqlite3_close(db);
}

static void make_older(const coordinator *c, const char *directory, const struct layout *l) {
    for (size_t k = 0; k < STEPS && l->sql[k] != NULL; k++) {
        sql(c, directory, l->sql[k], NULL);
    }
}

static void read_tables(const coordinator *c, char *text) {
    sql(c, c->directory,
        strcmp(c->server->store->name, "postgres") == 0
            ? "SELECT string_agg(table_name || '.' || column_name, ' ' ORDER BY 1) || (SELECT"
              " version FROM fedserver.layout) FROM information_schema.columns"
              " WHERE table_schema = 'fedserver'"
            : "SELECT group_concat(sql) || (SELECT user_version FROM pragma_user_version) FROM"
              " sqlite_master",
        text);
}

enum {
#define COMMAND(name) COMMAND_##name,
#include "fedserver/commands/commands.def"
#undef COMMAND
    COMMANDS
};

static const char *const names[COMMANDS] = {
#define COMMAND(name) #name,
#include "fedserver/commands/commands.def"
#undef COMMAND
};

/* The rest of each command's line after `--dir .`, and the words with which the command must fail.
 * If `says` is NULL, the error says that the store has an older layout. */
static const struct use {
    const char *rest, *says;
} uses[COMMANDS] = {[COMMAND_init] = {"", "holds a coordinator already"},
                    [COMMAND_run] = {"--front-port 0 --devices-port 0", "is being served by"},
                    [COMMAND_front] = {"--front-port 0 --devices-port 1", NULL},
                    [COMMAND_helper] = {"--upstream https://127.0.0.1:1 --upstream-ca ca.pem",
                                        "is not enrolled yet"},
                    [COMMAND_token] = {"", NULL},
                    [COMMAND_tokens] = {"", NULL},
                    [COMMAND_task] = {"task.json", NULL},
                    [COMMAND_tasks] = {"", NULL},
                    [COMMAND_cancel] = {"1", NULL},
                    [COMMAND_pause] = {"1", NULL},
                    [COMMAND_resume] = {"1", NULL},
                    [COMMAND_priority] = {"1 1", NULL},
                    [COMMAND_move] = {"1 1", NULL},
                    [COMMAND_ledger] = {"1", NULL},
                    [COMMAND_reopen] = {"1", NULL},
                    [COMMAND_page] = {"", NULL},
                    [COMMAND_devices] = {"", NULL},
                    [COMMAND_rename] = {"00000000 it", NULL},
                    [COMMAND_revoke] = {"00000000", NULL},
                    [COMMAND_audit] = {"", NULL},
                    [COMMAND_status] = {"", NULL},
                    [COMMAND_export] = {"model.safetensors", NULL},
                    [COMMAND_backup] = {"copy", NULL},
                    [COMMAND_restore] = {"copy", "copy holds no coordinator"},
                    [COMMAND_check] = {"", NULL},
                    [COMMAND_health] = {"", "nobody serves"},
                    [COMMAND_cert] = {"show", NULL}};

static int run(const coordinator *c, const char *command, const char *rest, char *out) {
    char args[400];
    snprintf(args, sizeof args, "%s --dir . %s", command, rest);
    return fed_test_run(c->directory, "fedserver", args, out, MOST);
}

static void expect_older(const char *command, const char *out, int layout, const char *more) {
    char words[60];
    snprintf(words, sizeof words, "has layout %d, of %s", layout,
             layout == 7 ? "release 0.1.0" : "an older release");
    if (strstr(out, words) == NULL || strstr(out, more) == NULL) {
        fail_msg("fedserver %s on layout %d must say \"%s\" and \"%s\", but says: %s", command,
                 layout, words, more, out);
    }
}

/* This process plays the older release: it serves, and has the lock. */
static void run_each_beside_it(const coordinator *c, int layout) {
    char before[MOST], after[MOST], out[MOST], served[60];
    snprintf(served, sizeof served, "process %ld serves it", (long)getpid());
    read_tables(c, before);
    for (size_t k = 0; k < COMMANDS; k++) {
        if (uses[k].rest == NULL) {
            fail_msg("say in `uses` how to run fedserver %s", names[k]);
        }
        if (run(c, names[k], uses[k].rest, out) != 1 ||
            (uses[k].says != NULL && strstr(out, uses[k].says) == NULL)) {
            fail_msg("fedserver %s on layout %d: %s", names[k], layout, out);
        }
        if (uses[k].says == NULL) {
            expect_older(names[k], out, layout, served);
        }
        read_tables(c, after);
        if (strcmp(before, after) != 0) {
            fail_msg("fedserver %s has changed the tables of layout %d", names[k], layout);
        }
    }
}

static void upload(coordinator *c, const test_device *d) {
    const fed_assignment work = device_ask_work(c, d);
    assert_int_equal(device_upload(c, d, &work, ones, 1, NULL), 200);
}

/* Open a coordinator with a round, which an evaluator has measured, and an update of the next. */
static void open_with_update(coordinator *c) {
    uint8_t body[100];
    fed_writer w;
    coordinator_setup(c);
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    const test_device judge = coordinator_enrol_evaluator(c);
    fed_metric metric = {.version = 1, .samples = 10, .correct = 5, .loss = 2.5f};
    metric.task = coordinator_task(c, task);
    upload(c, &a);
    upload(c, &b);
    coordinator_wait(c, 1);
    fed_writer_fixed(&w, body, sizeof body);
    fed_metric_write(&w, &metric);
    assert_int_equal(coordinator_status(c, &judge, "POST", "/v1/metric", "", body, w.len), 200);
    upload(c, &a);
    coordinator_commit(c);
}

/* Check that the first round is as open_with_update has left it. */
static fed_status check_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    if (row->number == 1) {
        *(bool *)user = true;
        assert_int_equal(row->updates, 2);
        assert_true(row->measured && row->accuracy == 0.5 && row->test_loss == 2.5);
    }
    return FED_OK;
}

/* Call `each` for each layout of the store under test, with a new coordinator. */
static void for_each_layout(void (*each)(coordinator *c, const struct layout *l)) {
    for (size_t k = 0; k < LAYOUTS; k++) {
        coordinator c;
        open_with_update(&c);
        if (strcmp(layouts[k].store, c.server->store->name) == 0) {
            each(&c, &layouts[k]);
        }
        coordinator_teardown(&c);
    }
}

static void no_command(coordinator *c, const struct layout *l) {
    make_older(c, c->directory, l);
    run_each_beside_it(c, l->number);
}

FED_TEST(no_command_upgrades_what_a_process_serves) {
    for_each_layout(no_command);
}

static void a_start(coordinator *c, const struct layout *l) {
    fed_error err = {0};
    char out[MOST];
    const char *directory = c->directory;
    make_older(c, directory, l);
    fedserver_close(c->server);
    assert_int_equal(run(c, "status", "", out), 1);
    expect_older("status", out, l->number, "stop the coordinator and start it with this release");
    assert_null(strstr(out, "serves it"));
    assert_fed_ok_err(fedserver_upgrade(directory, &err));
    assert_fed_ok_err(fedserver_upgrade(directory, &err));
    coordinator_check(directory);
    coordinator_open(c);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->round.received, 1);
    bool found = false;
    assert_fed_ok_err(c->server->store->round_each(c->server->db, 1, 2, check_round, &found, &err));
    assert_true(found);
}

FED_TEST(a_start_upgrades_once_nobody_serves) {
    for_each_layout(a_start);
}

static fed_status add_token(const coordinator *c, const uint8_t *hash, fed_error *err) {
    const fedserver_token token = {.expires_ms = 1000};
    const fedserver_store *store = c->server->store;
    const fed_status status = store->token_add(c->server->db, hash, &token, err);
    return fedserver_store_finish(store, c->server->db, status, err);
}

static void set_layout(const coordinator *c, int number) {
    char text[100];
    snprintf(text, sizeof text,
             strcmp(c->server->store->name, "postgres") == 0
                 ? "UPDATE fedserver.layout SET version = %d"
                 : "PRAGMA user_version = %d",
             number);
    sql(c, c->directory, text, NULL);
}

FED_TEST(a_process_ends_before_it_writes_to_tables_that_another_release_has_changed) {
    static const char says[] = "another release has changed the tables";
    static const uint8_t first[FED_SHA256_SIZE] = {1}, second[FED_SHA256_SIZE] = {2};
    coordinator c;
    fed_error err = {0};
    fedserver_token token;
    open_with_update(&c);
    assert_fed_ok_err(add_token(&c, first, &err));
    set_layout(&c, 99);
    assert_fed_fails(add_token(&c, second, &err), FED_EVERSION, says);
    if (strcmp(c.server->store->name, "postgres") == 0) {
        fed_postgres_look_again(c.server->db);
    }
    assert_fed_fails(fedserver_begin(c.server, &err), FED_EVERSION, says);
    assert_fed_ok_err(c.server->store->token_find(c.server->db, first, &token, &err));
    assert_fed_status(c.server->store->token_find(c.server->db, second, &token, &err),
                      FED_ENOTFOUND);
    coordinator_teardown(&c);
}
