/* `fedserver check`: it finds nothing wrong in a sound directory, and names each rule that is
 * broken. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sqlite3.h>
#include <sys/stat.h>

#include "fed/file.h"
#include "large_world.h"

typedef struct report {
    size_t findings, notes, checked;
    char text[8000];
} report;

static void listen(void *user, fedserver_check_kind kind, const char *text) {
    report *r = user;
    *(kind == FEDSERVER_CHECKED ? &r->checked
                                : (kind == FEDSERVER_NOTED ? &r->notes : &r->findings)) += 1;
    if (kind != FEDSERVER_CHECKED) {
        size_t len = strlen(r->text);
        snprintf(r->text + len, sizeof r->text - len, "%s\n", text);
    }
}

static report check(world *w) {
    fed_error err = {0};
    report r = {0};
    size_t findings;
    fedserver_close(w->home.server);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &w->home.server, &err));
    assert_fed_ok_err(fedserver_check(w->home.server, listen, &r, &findings, &err));
    assert_int_equal(findings, r.findings);
    return r;
}

static void expect_sound(world *w) {
    report r = check(w);
    if (r.findings + r.notes > 0) {
        fail_msg("%s", r.text);
    }
    assert_in_range(r.checked, 3, 10);
}

static void three_rounds_and_a_half(world *w) {
    for (int k = 0; k < 3; k++) {
        one_round(w, &w->home, 0);
    }
    upload(w, &w->home, 0);
    upload(w, &w->home, 1);
}

static void a_coordinator_is_sound_at_every_stage(void **state) {
    world *w = *state;
    fed_error err = {0};
    expect_sound(w);
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    three_rounds_and_a_half(w);
    expect_sound(w);
    fedserver_close(w->home.server);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &w->home.server, &err));
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    upload(w, &w->home, 2);
    expect_sound(w);
}

static void meddle(const world *w, const char *sql) {
    char path[400];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/server.db", w->home.directory);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", sql, why);
    }
    sqlite3_close(db);
}

typedef struct damage {
    const char *sql;
    const char *words;
} damage;

static const damage damages[] = {
    {"UPDATE models SET digest = digest + 1",
     "D5: the values of task 1's model do not have its digest"},
    {"UPDATE models SET version = 2",
     "D5: task 1's deltas lead to version 3; its model is version 2"},
    {"UPDATE models SET version = 2", "S5: round 4 of task 1 is open; its model is version 2"},
    {"UPDATE models SET weights = x'00000000', residual = NULL, residual_guard = NULL",
     "model has 1 values instead of"},
    {"UPDATE models SET residual = NULL", "residual of task 1 is damaged"},
    {"UPDATE deltas SET part = x'00' WHERE version = 2", "D5: delta 2 of task 1 is damaged"},
    {"DELETE FROM deltas WHERE version = 2", "D5: task 1 has no delta between 1 and 3"},
    {"UPDATE keyframes SET digest = digest + 1", "D5: task 1: the stored keyframe of version 0 is"},
    {"UPDATE models SET digest = digest + 1", "deltas after version 0 do not lead to version 3"},
    {"UPDATE keyframes SET weights = x'00000000'",
     "D5: task 1: the stored keyframe of version 0 is"},
    {"UPDATE rounds SET committed_ms = 0 WHERE number = 2",
     "S5: round 2 of task 1 is open; its model is version 3"},
    {"UPDATE rounds SET number = 9 WHERE number = 2", "S5: task 1 has no round between"},
    {"UPDATE tasks SET state = 2", "S5: task 1 is finished"},
    {"INSERT INTO tasks SELECT 2, text, state, queued_ms, started_ms, finished_ms, position, "
     "generation"
     " FROM tasks;"
     "INSERT INTO models SELECT 2, version, digest, weights, residual, state,"
     " residual_guard, state_guard, kept FROM models",
     "S5: task 2 is running; of its rounds"},
    {"UPDATE tasks SET text = json_set(text, '$.model', 'nonsense')",
     "this release can't read task 1"},
    {"UPDATE devices SET counted_lease = 5 WHERE id = 1", "D2, S3: device "},
    {"UPDATE updates SET lease = lease + 1 WHERE device = 2", "is not of the open round"},
    {"UPDATE updates SET guard = guard + 1 WHERE device = 2", "S9: "},
    {"UPDATE updates SET device = 77 WHERE device = 2", "of updates belongs to no row of devices"},
    {"UPDATE updates SET device = 77 WHERE device = 2", "is of no device"},
};

typedef struct kept_file {
    char path[400];
    uint8_t *data;
    size_t len;
} kept_file;

static kept_file keep(const world *w, const char *name) {
    kept_file f;
    fed_error err = {0};
    snprintf(f.path, sizeof f.path, "%.240s/%s", w->home.directory, name);
    assert_fed_ok_err(fed_file_read(f.path, 1 << 28, &f.data, &f.len, &err));
    return f;
}

static void put_back(const kept_file *f) {
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(f->path, f->data, f->len, 0600, &err));
}

static void stop(world *w) {
    fedserver_close(w->home.server);
    w->home.server = NULL;
}

static void each_broken_rule_is_named(void **state) {
    world *w = *state;
    three_rounds_and_a_half(w);
    stop(w);
    kept_file sound = keep(w, "server.db");
    for (size_t k = 0; k < sizeof damages / sizeof damages[0]; k++) {
        meddle(w, damages[k].sql);
        report r = check(w);
        if (r.findings == 0 || strstr(r.text, damages[k].words) == NULL) {
            fail_msg("%s: \"%s\" is not in: %s", damages[k].sql, damages[k].words, r.text);
        }
        stop(w);
        put_back(&sound);
    }
    free(sound.data);
    expect_sound(w);
}

static void a_damaged_page_of_the_database_is_found(void **state) {
    world *w = *state;
    three_rounds_and_a_half(w);
    stop(w);
    kept_file sound = keep(w, "server.db");
    const size_t page = 16384; /* damage the start of a page: its middle may be unused */
    memset(sound.data + sound.len / 2 / page * page, 0xee, 5000);
    put_back(&sound);
    free(sound.data);
    char out[4000];
    char args[300];
    snprintf(args, sizeof args, "check --dir '%s'", w->home.directory);
    assert_int_equal(fed_test_run(w->home.directory, "fedserver", args, out, sizeof out), 1);
    assert_non_null(strstr(out, "backup"));
}

static void what_a_crash_leaves_is_noted_only(void **state) {
    world *w = *state;
    static const uint8_t bytes[100] = {0};
    three_rounds_and_a_half(w);
    stop(w);
    kept_file bodies = keep(w, "updates-1-4.seg");
    bodies.data[bodies.len] = 1; /* overwrite the NUL that fed_file_read has appended */
    bodies.len++;
    put_back(&bodies);
    free(bodies.data);
    fed_test_put(w->home.directory, "updates-1-3.seg", bytes, sizeof bytes);
    report r = check(w);
    assert_int_equal(r.findings, 0);
    assert_int_equal(r.notes, 2);
    assert_non_null(strstr(r.text, "updates-1-4.seg has 1 bytes that were never acknowledged"));
    assert_non_null(strstr(r.text, "updates-1-3.seg belongs to no open round"));
}

static void keys_that_others_can_read_are_noted(void **state) {
    world *w = *state;
    char path[400];
    stop(w);
    snprintf(path, sizeof path, "%s/ca.key", w->home.directory);
    assert_int_equal(chmod(path, 0640), 0);
    snprintf(path, sizeof path, "%s/server.key", w->home.directory);
    assert_int_equal(chmod(path, 0640), 0);
    report r = check(w);
    assert_int_equal(r.findings, 0);
    assert_int_equal(r.notes, 1);
    assert_non_null(strstr(r.text, "ca.key can be read or changed by others (mode 0640)"));
    assert_int_equal(chmod(path, 0644), 0);
    r = check(w);
    assert_int_equal(r.notes, 2);
    fed_test_put(w->home.directory, "front.key", "", 0); /* checked even when not in use */
    snprintf(path, sizeof path, "%s/front.key", w->home.directory);
    assert_int_equal(chmod(path, 0644), 0);
    r = check(w);
    assert_int_equal(r.findings, 0);
    assert_int_equal(r.notes, 3);
    assert_non_null(strstr(r.text, "front.key can be read or changed by others (mode 0644)"));
}

static void every_damaged_body_is_named(void **state) {
    world *w = *state;
    three_rounds_and_a_half(w);
    stop(w);
    kept_file bodies = keep(w, "updates-1-4.seg");
    bodies.data[5]++;
    bodies.len -= 1;
    put_back(&bodies);
    free(bodies.data);
    report r = check(w);
    assert_int_equal(r.findings, 2);
    assert_non_null(strstr(r.text, "in round 4 of task 1 is damaged"));
}

static void a_coordinator_that_serves_is_not_checked(void **state) {
    const world *w = *state;
    char out[4000];
    char args[300];
    snprintf(args, sizeof args, "check --dir '%s'", w->home.directory);
    assert_int_equal(fed_test_run(w->home.directory, "fedserver", args, out, sizeof out), 1);
    assert_non_null(strstr(out, "is being served"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_coordinator_is_sound_at_every_stage),    WITH(each_broken_rule_is_named),
        WITH(a_damaged_page_of_the_database_is_found),  WITH(what_a_crash_leaves_is_noted_only),
        WITH(keys_that_others_can_read_are_noted),      WITH(every_damaged_body_is_named),
        WITH(a_coordinator_that_serves_is_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
