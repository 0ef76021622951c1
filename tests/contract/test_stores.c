/* Contract of every store of stores.def as a whole: creation, locks, transactions and copies, also
 * on a failing disk. S5 to S12 are rules of docs/durability.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_sweep.h"
#include "fed_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fedserver/server.h"
#include "store_fixture.h"

static void *open_again(const fixture *f) {
    fed_error err = {0};
    void *db = NULL;
    assert_fed_ok_err(f->store->open(f->directory, f->where, &db, &err));
    return db;
}

static void add_token(const fixture *f, void *db, uint8_t first) {
    fed_error err = {0};
    const uint8_t hash[FED_SHA256_SIZE] = {first};
    const fedserver_token token = {.expires_ms = 1000};
    assert_fed_ok_err(f->store->token_add(db, hash, &token, &err));
}

static fed_status find_token(const fixture *f, void *db, uint8_t first) {
    fed_error err = {0};
    fedserver_token token;
    const uint8_t hash[FED_SHA256_SIZE] = {first};
    return f->store->token_find(db, hash, &token, &err);
}

static void commit(const fixture *f, void *db) {
    fed_error err = {0};
    assert_fed_ok_err(f->store->commit(db, &err));
}

static void every_member_is_there(void **state) {
    const fixture *f = *state;
    const fedserver_store *s = f->store;
    typedef void (*function)(void);
    const function members[] = {
#define MEMBER(name) (function) s->name
        MEMBER(exists),         MEMBER(create),         MEMBER(open),
        MEMBER(close),          MEMBER(lock),           MEMBER(holder),
        MEMBER(check),          MEMBER(recover),        MEMBER(commit),
        MEMBER(rollback),       MEMBER(changed),        MEMBER(token_add),
        MEMBER(token_find),     MEMBER(token_each),     MEMBER(token_withdraw),
        MEMBER(token_use),      MEMBER(pass_add),       MEMBER(pass_find),
        MEMBER(pass_use),       MEMBER(pass_end),       MEMBER(device_add),
        MEMBER(device_put),     MEMBER(device_revoke),  MEMBER(device_name),
        MEMBER(device_rename),  MEMBER(device_renew),   MEMBER(device_find),
        MEMBER(device_lease),   MEMBER(device_newest),  MEMBER(device_leased),
        MEMBER(device_each),    MEMBER(device_page),    MEMBER(device_count),
        MEMBER(device_changes), MEMBER(task_add),       MEMBER(task_find),
        MEMBER(task_put),       MEMBER(task_each),      MEMBER(task_place),
        MEMBER(task_describe),  MEMBER(layout_put),     MEMBER(layout_find),
        MEMBER(task_clear),     MEMBER(shrink),         MEMBER(decline_put),
        MEMBER(blob_put),       MEMBER(blob_sweep),     MEMBER(blob_find),
        MEMBER(decline_each),   MEMBER(decline_forget), MEMBER(model_put),
        MEMBER(model_find),     MEMBER(delta_add),      MEMBER(delta_prune),
        MEMBER(delta_each),     MEMBER(delta_sum),      MEMBER(keyframe_add),
        MEMBER(keyframe_find),  MEMBER(keyframe_prune), MEMBER(round_put),
        MEMBER(round_each),     MEMBER(update_add),     MEMBER(update_each),
        MEMBER(update_count),   MEMBER(update_clear),   MEMBER(update_remove),
        MEMBER(piece_add),      MEMBER(piece_find),     MEMBER(piece_join),
        MEMBER(piece_clear),    MEMBER(lease_prune),    MEMBER(audit_add),
        MEMBER(audit_each),     MEMBER(audit_tasks),    MEMBER(metric_put),
        MEMBER(writing),        MEMBER(upgrade),        MEMBER(task_renew),
        MEMBER(copied),
#undef MEMBER
    };
    for (size_t k = 0; k < sizeof members / sizeof members[0]; k++) {
        assert_true(members[k] != NULL);
    }
    fedserver_store_choice choice;
    fed_error err = {0};
    char text[600];
    snprintf(text, sizeof text, "%s%s%s", s->name, s->where != NULL ? ":" : "", f->where);
    assert_fed_ok_err(fedserver_store_parse(text, &choice, &err));
    assert_true(choice.store == s);
    assert_string_equal(choice.where, f->where);
}

static void what_is_not_there_is_not_found(void **state) {
    const fixture *f = *state;
    fed_error err = {0};
    void *db = NULL;
    char elsewhere[256];
    fed_test_tmpdir(elsewhere, sizeof elsewhere);
    assert_fed_ok_err(f->store->exists(f->directory, f->where, &err));
    if (f->store->where == NULL) {
        assert_fed_status(f->store->exists(elsewhere, "", &err), FED_ENOTFOUND);
        assert_fed_status(f->store->open(elsewhere, "", &db, &err), FED_ENOTFOUND);
        assert_fed_says(err, elsewhere);
    }
    fed_test_rmdir(elsewhere);
}

static void what_was_committed_is_there_when_it_is_opened_again_and_nothing_else(void **state) {
    fixture *f = *state;
    add_token(f, f->db, 1);
    commit(f, f->db);
    add_token(f, f->db, 2);
    assert_fed_ok(find_token(f, f->db, 2));
    reopen(f);
    assert_fed_ok(find_token(f, f->db, 1));
    assert_fed_status(find_token(f, f->db, 2), FED_ENOTFOUND);
}

static void a_rollback_forgets_what_was_not_committed(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    sums seen = {0};
    commit(f, f->db);
    must(f->store->update_add(f->db, &row, (const uint8_t *)"ab", 2, &f->err));
    add_token(f, f->db, 1);
    f->store->rollback(f->db);
    f->store->rollback(f->db);
    assert_fed_status(find_token(f, f->db, 1), FED_ENOTFOUND);
    must(f->store->update_each(f->db, 0, 0, sum_up, &seen, &f->err));
    assert_int_equal(seen.count, 0);
    add_token(f, f->db, 1);
    commit(f, f->db);
    commit(f, f->db);
    reopen(f);
    assert_fed_ok(find_token(f, f->db, 1));
}

static void a_handle_knows_whether_it_has_anything_to_commit(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    assert_true(f->store->writing(f->db));
    commit(f, f->db);
    assert_false(f->store->writing(f->db));
    assert_fed_status(find_token(f, f->db, 1), FED_ENOTFOUND);
    assert_false(f->store->writing(f->db));
    must(f->store->update_add(f->db, &row, (const uint8_t *)"ab", 2, &f->err));
    assert_true(f->store->writing(f->db));
    f->store->rollback(f->db);
    assert_false(f->store->writing(f->db));
    reopen(f);
    assert_false(f->store->writing(f->db));
}

static void a_commit_is_what_other_handles_see(void **state) {
    fixture *f = *state;
    void *other = open_again(f);
    bool changed = false;
    must(f->store->changed(other, &changed, &f->err));
    must(f->store->changed(other, &changed, &f->err));
    assert_false(changed);
    add_token(f, f->db, 1);
    assert_fed_status(find_token(f, other, 1), FED_ENOTFOUND);
    must(f->store->changed(other, &changed, &f->err));
    assert_false(changed);
    commit(f, f->db);
    assert_fed_ok(find_token(f, other, 1));
    must(f->store->changed(other, &changed, &f->err));
    assert_true(changed);
    must(f->store->changed(other, &changed, &f->err));
    assert_false(changed);
    add_token(f, other, 2);
    commit(f, other);
    must(f->store->changed(other, &changed, &f->err));
    assert_false(changed);
    f->store->close(other);
    assert_fed_ok(find_token(f, f->db, 2));
}

static void a_handle_that_is_closed_leaves_nothing_uncommitted(void **state) {
    fixture *f = *state;
    void *other = open_again(f);
    add_token(f, other, 1);
    f->store->close(other);
    add_token(f, f->db, 2);
    commit(f, f->db);
    assert_fed_status(find_token(f, f->db, 1), FED_ENOTFOUND);
}

static fed_status stop_at_second(void *user, const fedserver_update_row *row, const uint8_t *body,
                                 size_t len, fed_error *err) {
    (void)row, (void)body, (void)len;
    return ++*(int *)user < 2 ? FED_OK : fed_fail(err, FED_ERANGE, "that is enough");
}

static void a_visitor_that_stops_ends_the_walk_and_not_the_transaction(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    int seen = 0;
    for (uint64_t k = 1; k <= 3; k++) {
        row.lease = k;
        must(f->store->update_add(f->db, &row, (const uint8_t *)"x", 1, &f->err));
    }
    assert_fed_status(f->store->update_each(f->db, 0, 0, stop_at_second, &seen, &f->err),
                      FED_ERANGE);
    assert_string_equal(f->err.text, "that is enough");
    assert_int_equal(seen, 2);
    uint32_t count = 0;
    commit(f, f->db);
    must(f->store->update_count(f->db, row.task, row.round, &count, &f->err));
    assert_int_equal(count, 3);
}

/* S6 in docs/durability.md. */
static void one_process_serves(void **state) {
    fixture *f = *state;
    assert_int_equal(f->store->holder(f->db), 0);
    must(f->store->lock(f->db, &f->err));
    must(f->store->lock(f->db, &f->err));
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        void *other = NULL;
        char holder[40];
        snprintf(holder, sizeof holder, "process %ld", (long)getppid());
        bool right = f->store->open(f->directory, f->where, &other, &f->err) == FED_OK;
        right = right && f->store->holder(other) == getppid();
        right = right && f->store->lock(other, &f->err) == FED_EBUSY;
        right = right && strstr(f->err.text, holder) != NULL;
        _exit(right ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    reopen(f);
    assert_int_equal(f->store->holder(f->db), 0);
    must(f->store->lock(f->db, &f->err));
}

static size_t findings;

static void count_findings(void *user, fedserver_check_kind kind, const char *text) {
    (void)user, (void)text;
    findings += kind == FEDSERVER_FOUND;
}

static size_t check(const fixture *f, void *db) {
    fed_error err = {0};
    fedserver_checker checker = {.report = count_findings};
    findings = 0;
    assert_fed_ok_err(f->store->check(db, &checker, &err));
    assert_int_equal(checker.findings, findings);
    return findings;
}

enum { LARGE = 200000 };

static fedserver_update_row two_updates(fixture *f) {
    fedserver_update_row row = a_lease(f);
    uint8_t *body = malloc(LARGE);
    assert_non_null(body);
    memset(body, 2, LARGE);
    must(f->store->update_add(f->db, &row, body + 1, 1, &f->err));
    row.lease = 2;
    must(f->store->update_add(f->db, &row, body, LARGE, &f->err));
    free(body);
    return row;
}

/* S12 in docs/durability.md. */
static void a_copy_holds_what_was_committed_and_goes_its_own_way(void **state) {
    fixture *f = *state;
    fixture copy = *f;
    sums seen = {0};
    if (f->store->copy == NULL) {
        return;
    }
    fed_test_tmpdir(copy.directory, sizeof copy.directory);
    two_updates(f);
    commit(f, f->db);
    void *other = open_again(f);
    add_token(f, other, 1);
    must(f->store->copy(f->directory, copy.directory, &f->err));
    commit(f, other);
    f->store->close(other);
    copy.db = open_again(&copy);
    assert_fed_status(find_token(&copy, copy.db, 1), FED_ENOTFOUND);
    must(f->store->update_each(copy.db, 0, 0, sum_up, &seen, &f->err));
    assert_int_equal(seen.count, 2);
    assert_true(seen.bytes == 2 * (LARGE + 1));
    assert_int_equal(check(&copy, copy.db), 0);
    add_token(&copy, copy.db, 2);
    commit(&copy, copy.db);
    assert_fed_status(find_token(f, f->db, 2), FED_ENOTFOUND);
    f->store->close(copy.db);
    fed_test_rmdir(copy.directory);
}

/* Change one byte in every run of at least `run` bytes equal to `byte` in a file. Returns the
 * number of changes. */
static int damage_file(const char *path, uint8_t byte, size_t run) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    uint8_t now;
    size_t found = 0;
    int damaged = 0;
    struct stat info;
    if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return 0;
    }
    uint8_t *bytes = malloc((size_t)info.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(file, bytes, (size_t)info.st_size, 0), info.st_size);
    for (off_t at = 0; at < info.st_size; at++) {
        found = bytes[at] == byte ? found + 1 : 0;
        if (found == run) {
            now = (uint8_t)~byte;
            assert_int_equal(pwrite(file, &now, 1, at), 1);
            damaged++;
        }
    }
    free(bytes);
    close(file);
    return damaged;
}

static int damage(const char *directory, uint8_t byte, size_t run) {
    int damaged = 0;
    DIR *folder = opendir(directory);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        damaged += damage_file(path, byte, run);
    }
    closedir(folder);
    return damaged;
}

/* S9 of docs/durability.md. */
static void a_body_that_is_not_what_was_acknowledged_is_not_handed_out(void **state) {
    fixture *f = *state;
    static const size_t sizes[] = {3000, LARGE};
    for (size_t k = 0; k < 2; k++) {
        fedserver_update_row row = {0};
        sums seen = {0};
        uint8_t *body = malloc(sizes[k]);
        assert_non_null(body);
        memset(body, 0xa0 + (int)k, sizes[k]);
        row = k == 0 ? a_lease(f) : (fedserver_update_row){1, 7, 1, 2};
        must(f->store->update_add(f->db, &row, body, sizes[k], &f->err));
        commit(f, f->db);
        free(body);
        assert_int_equal(check(f, f->db), 0);
        f->store->close(f->db);
        const int damaged = damage(f->directory, (uint8_t)(0xa0 + k), 2000);
        f->db = open_again(f);
        const fed_status status = f->store->update_each(f->db, 0, 0, sum_up, &seen, &f->err);
        assert_fed_status(status, damaged > 0 ? FED_EFORMAT : FED_OK);
        assert_int_equal(seen.count, damaged > 0 ? 0 : 1);
        assert_true(damaged == 0 || check(f, f->db) > 0);
        assert_true(damaged == 0 || strstr(f->err.text, "0100000000000000") != NULL);
        must(f->store->update_clear(f->db, row.task, UINT32_MAX, &f->err));
        commit(f, f->db);
    }
}

static const uint32_t before_version = 1, after_version = 2;

static fed_status write_together(const fixture *f, void *db, uint32_t version, fed_error *err) {
    enum { SIZE = 50000 };
    static float values[SIZE];
    uint8_t *body = (uint8_t *)values;
    fedserver_device device = {.fingerprint = {(uint8_t)version}};
    fedserver_update_row row = {.task = 1, .round = version, .lease = version};
    values[0] = (float)version;
    FED_TRY(f->store->device_add(db, &device, err));
    row.device = device.id;
    FED_TRY(f->store->update_add(db, &row, body, sizeof values, err));
    const fedserver_model_row model = {.version = version, .values = values, .size = SIZE};
    FED_TRY(f->store->model_put(db, 1, &model, err));
    return f->store->commit(db, err);
}

/* Check that the store's devices, updates and model belong to the same commit. Returns the model's
 * version. */
static uint32_t read_together(const fixture *f, void *db) {
    fed_error err = {0};
    fedserver_model_row model;
    uint64_t devices = 0;
    sums seen = {0};
    assert_fed_ok_err(f->store->model_find(db, 1, &model, &err));
    assert_true(model.values[0] == (float)model.version);
    assert_fed_ok_err(f->store->device_count(db, &devices, &err));
    assert_int_equal(devices, model.version);
    assert_fed_ok_err(f->store->update_each(db, 1, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, model.version);
    assert_int_equal(seen.last.lease, model.version);
    free(model.values);
    return model.version;
}

static bool deed_update(void *user) {
    const fixture *f = user;
    fed_error err = {0};
    void *db = NULL;
    if (f->store->open(f->directory, f->where, &db, &err) != FED_OK) {
        return 0;
    }
    fed_status status = f->store->recover(db, &err);
    status = status == FED_OK ? write_together(f, db, after_version, &err) : status;
    if (status != FED_OK) { /* the transaction had no effect, and can be repeated */
        f->store->rollback(db);
        fedserver_token token;
        const uint8_t hash[FED_SHA256_SIZE] = {1};
        (void)!f->store->token_find(db, hash, &token, &err);
        status = read_together(f, db) == before_version ? status : FED_OK;
    }
    f->store->close(db);
    return status == FED_OK;
}

static bool deed_create(void *user) {
    const fixture *f = user;
    fed_error err = {0};
    return f->store->create(f->directory, f->where, &err) == FED_OK;
}

static char copy_directory[300];

static bool deed_copy(void *user) {
    const fixture *f = user;
    fed_error err = {0};
    return f->store->copy(f->directory, copy_directory, &err) == FED_OK;
}

static void start_with_version_1(void *user) {
    fixture *f = user;
    fed_test_rmdir(f->directory);
    assert_int_equal(mkdir(f->directory, 0700), 0);
    must(f->store->create(f->directory, f->where, &f->err));
    f->db = open_again(f);
    assert_int_equal(add_task(f, "n"), 1);
    must(write_together(f, f->db, before_version, &f->err));
    f->store->close(f->db);
}

static void expect_a_version(void *user, bool acknowledged) {
    fixture *f = user;
    f->db = open_again(f);
    must(f->store->recover(f->db, &f->err));
    const uint32_t version = read_together(f, f->db);
    assert_true(version == after_version || (version == before_version && !acknowledged));
    assert_int_equal(check(f, f->db), 0);
    f->store->close(f->db);
}

static void start_without_a_store(void *user) {
    fixture *f = user;
    fed_test_rmdir(f->directory);
    assert_int_equal(mkdir(f->directory, 0700), 0);
}

static void expect_a_store_or_none(void *user, bool acknowledged) {
    fixture *f = user;
    if (f->store->exists(f->directory, f->where, &f->err) != FED_OK) {
        assert_false(acknowledged);
        must(f->store->create(f->directory, f->where, &f->err));
    }
    f->db = open_again(f);
    assert_int_equal(check(f, f->db), 0);
    add_token(f, f->db, 1);
    commit(f, f->db);
    f->store->close(f->db);
}

static void start_without_a_copy(void *user) {
    fixture *f = user;
    start_with_version_1(f);
    snprintf(copy_directory, sizeof copy_directory, "%s/copy", f->directory);
    assert_int_equal(mkdir(copy_directory, 0700), 0);
}

static void expect_a_copy_or_none(void *user, bool acknowledged) {
    fixture *f = user;
    fixture copy = *f;
    snprintf(copy.directory, sizeof copy.directory, "%.240s/copy", f->directory);
    if (f->store->exists(copy.directory, "", &f->err) != FED_OK) {
        assert_false(acknowledged);
        must(f->store->copy(f->directory, copy.directory, &f->err));
    }
    copy.db = open_again(&copy);
    assert_int_equal(read_together(&copy, copy.db), before_version);
    assert_int_equal(check(&copy, copy.db), 0);
    f->store->close(copy.db);
}

static bool on_disk(const fixture *f) {
    return f->store->where == NULL;
}

static void sweep(fixture *f, uint64_t step, void (*start)(void *user), bool (*deed)(void *user),
                  void (*end)(void *user, bool acknowledged)) {
    const fault_sweep all = {f->directory, step * FED_TEST_TRIES(1, 4), f, start, deed, end};
    f->store->close(f->db);
    if (on_disk(f)) {
        fault_sweep_run(&all);
    }
    f->db = open_again(f);
}

/* D1, S5 and S9 in docs/durability.md. */
static void whatever_fails_a_transaction_is_there_as_a_whole_or_not_at_all(void **state) {
    sweep(*state, 1, start_with_version_1, deed_update, expect_a_version);
}

/* S7 in docs/durability.md. */
static void whatever_fails_a_store_is_complete_or_not_there(void **state) {
    sweep(*state, 2, start_without_a_store, deed_create, expect_a_store_or_none);
}

/* S12 in docs/durability.md. */
static void whatever_fails_a_copy_is_complete_or_not_there(void **state) {
    const fixture *f = *state;
    if (f->store->copy != NULL) {
        sweep(*state, 4, start_without_a_copy, deed_copy, expect_a_copy_or_none);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(every_member_is_there),
        WITH(what_is_not_there_is_not_found),
        WITH(what_was_committed_is_there_when_it_is_opened_again_and_nothing_else),
        WITH(a_rollback_forgets_what_was_not_committed),
        WITH(a_handle_knows_whether_it_has_anything_to_commit),
        WITH(a_commit_is_what_other_handles_see),
        WITH(a_handle_that_is_closed_leaves_nothing_uncommitted),
        WITH(a_visitor_that_stops_ends_the_walk_and_not_the_transaction),
        WITH(one_process_serves),
        WITH(a_copy_holds_what_was_committed_and_goes_its_own_way),
        WITH(a_body_that_is_not_what_was_acknowledged_is_not_handed_out),
        WITH(whatever_fails_a_transaction_is_there_as_a_whole_or_not_at_all),
        WITH(whatever_fails_a_store_is_complete_or_not_there),
        WITH(whatever_fails_a_copy_is_complete_or_not_there),
    };
    fault_sweep_in_memory();
    return run_for_each_store(tests);
}
