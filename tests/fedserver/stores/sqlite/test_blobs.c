/* Model values in files (S9 in docs/durability.md): a damaged file is reported and not used,
 * files that a crash has left are deleted, and files of others stay. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "meddle.h"

static const float values[] = {1, 2, 3};

static const char *in_directory(const fixture *f, const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return path;
}

static const char *blob_of(const fixture *f, uint64_t task, uint64_t digest) {
    char name[64];
    snprintf(name, sizeof name, "blob-%llu-%016llx", (unsigned long long)task,
             (unsigned long long)digest);
    return in_directory(f, name);
}

static const char *store_model(fixture *f, uint64_t *task) {
    fed_error err = {0};
    float copy[3];
    memcpy(copy, values, sizeof copy);
    *task = add_task(f, "t");
    const fedserver_model_row row = {
        .version = 1, .digest = fed_digest(copy, 3), .values = copy, .size = 3, .kept = true};
    assert_fed_ok_err(f->store->blob_put(f->db, *task, row.digest, copy, sizeof copy, &err));
    assert_fed_ok_err(f->store->model_put(f->db, *task, &row, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    return blob_of(f, *task, row.digest);
}

static void replace(const char *path, const void *bytes, size_t len) {
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(path, bytes, len, 0600, &err));
}

static void a_damaged_file_is_named_and_not_handed_out(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_model_row row;
    uint64_t task;
    const char *path = store_model(f, &task);
    replace(path, "three floats", 12);
    assert_fed_status(f->store->model_find(f->db, task, &row, &err), FED_EFORMAT);
    assert_fed_says(err, path);
    assert_fed_says(err, "backup");
}

static void a_lost_file_is_named(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_model_row row;
    fedserver_keyframe keyframe;
    uint64_t task;
    const char *path = store_model(f, &task);
    const fedserver_keyframe kept = {
        .version = 1, .digest = fed_digest(values, 3), .size = 3, .kept = true};
    assert_fed_ok_err(f->store->keyframe_add(f->db, task, &kept, &err));
    assert_int_equal(unlink(path), 0);
    assert_fed_status(f->store->model_find(f->db, task, &row, &err), FED_EFORMAT);
    assert_fed_says(err, path);
    assert_fed_status(f->store->keyframe_find(f->db, task, 1, &keyframe, NULL, &err), FED_EFORMAT);
}

static void a_damaged_file_is_written_again(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_model_row row;
    uint64_t task;
    replace(store_model(f, &task), "three floats", 12);
    assert_fed_ok_err(
        f->store->blob_put(f->db, task, fed_digest(values, 3), values, sizeof values, &err));
    assert_fed_ok_err(f->store->model_find(f->db, task, &row, &err));
    assert_memory_equal(row.values, values, sizeof values);
    free(row.values);
}

static void what_a_crash_has_left_goes_and_nothing_else(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    uint64_t task;
    const char *foreign[] = {"blob-1-abc", "blob-x-0000000000000001", "blob-1-00000000000000ABcd",
                             "blob-1-0000000000000001.txt"};
    const char *left[] = {"blob-1-0000000000000001", "blob-1-0000000000000001.new-a1B2c3",
                          "blob-77-00000000000000ff"};
    store_model(f, &task);
    for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++) {
        replace(in_directory(f, foreign[k]), "x", 1);
    }
    for (size_t k = 0; k < sizeof left / sizeof left[0]; k++) {
        replace(in_directory(f, left[k]), "x", 1);
    }
    assert_fed_ok_err(f->store->recover(f->db, &err));
    for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++) {
        assert_int_equal(access(in_directory(f, foreign[k]), F_OK), 0);
    }
    for (size_t k = 0; k < sizeof left / sizeof left[0]; k++) {
        assert_int_not_equal(access(in_directory(f, left[k]), F_OK), 0);
    }
    assert_int_equal(access(blob_of(f, task, fed_digest(values, 3)), F_OK), 0);
}

static void note(void *user, fedserver_check_kind kind, const char *text) {
    char *said = user;
    if (kind != FEDSERVER_CHECKED) {
        snprintf(said + strlen(said), 1000 - strlen(said), "%d %s\n", (int)kind, text);
    }
}

static void a_check_finds_damaged_files_and_notes_those_of_no_version(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    uint64_t task;
    char said[1000] = "";
    fedserver_checker checker = {.report = note, .user = said};
    const char *path = store_model(f, &task);
    assert_fed_ok_err(f->store->lock(f->db, &err));
    assert_fed_ok_err(f->store->check(f->db, &checker, &err));
    assert_string_equal(said, "");
    replace(path, "three floats", 12);
    replace(in_directory(f, "blob-1-0000000000000001"), "x", 1);
    assert_fed_ok_err(f->store->check(f->db, &checker, &err));
    assert_int_equal(checker.findings, 1);
    assert_non_null(strstr(said, "is damaged"));
    assert_non_null(strstr(said, "blob-1-0000000000000001 belongs to no version"));
}

static void a_copy_of_a_damaged_file_is_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    uint64_t task;
    char elsewhere[256];
    fed_test_tmpdir(elsewhere, sizeof elsewhere);
    replace(store_model(f, &task), "three floats", 12);
    assert_fed_status(f->store->copy(f->directory, elsewhere, &err), FED_EFORMAT);
    assert_fed_status(f->store->exists(elsewhere, "", &err), FED_ENOTFOUND);
    fed_test_rmdir(elsewhere);
}

/* Every user of the folder must be able to use each file, whoever's command made it. */
static void each_file_of_a_shared_folder_is_the_groups(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fixture shared = {.store = f->store};
    uint64_t task;
    static const uint8_t body[100000];
    fed_test_tmpdir(shared.directory, sizeof shared.directory);
    assert_int_equal(chmod(shared.directory, 02770), 0);
    const mode_t before = umask(0077);
    assert_fed_ok_err(f->store->create(shared.directory, "", &err));
    assert_fed_ok_err(f->store->open(shared.directory, "", &shared.db, &err));
    assert_fed_ok_err(f->store->lock(shared.db, &err));
    store_model(&shared, &task);
    const fedserver_update_row row = a_lease(&shared);
    assert_fed_ok_err(f->store->update_add(shared.db, &row, body, sizeof body, &err));
    assert_fed_ok_err(f->store->commit(shared.db, &err));
    umask(before);
    DIR *folder = opendir(shared.directory);
    assert_non_null(folder);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat info;
        assert_int_equal(fstatat(dirfd(folder), entry->d_name, &info, 0), 0);
        if (S_ISREG(info.st_mode) && (info.st_mode & 0777) != 0660) {
            fail_msg("%s has the mode %o", entry->d_name, (unsigned)info.st_mode & 0777);
        }
        files += S_ISREG(info.st_mode);
    }
    closedir(folder);
    assert_true(files >= 6);
    f->store->close(shared.db);
    fed_test_rmdir(shared.directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_damaged_file_is_named_and_not_handed_out),
        WITH(a_lost_file_is_named),
        WITH(a_damaged_file_is_written_again),
        WITH(what_a_crash_has_left_goes_and_nothing_else),
        WITH(a_check_finds_damaged_files_and_notes_those_of_no_version),
        WITH(a_copy_of_a_damaged_file_is_refused),
        WITH(each_file_of_a_shared_folder_is_the_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
