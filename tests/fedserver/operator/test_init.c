/* A new coordinator's directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <sys/stat.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fed_postgres.h"
#include "fedserver/operator.h"

static unsigned mode_of(const char *directory, const char *name) {
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777;
}

FED_TEST(keys_and_database_are_private) {
    char base[256];
    char directory[270];
    fed_error err = {0};
    fed_test_tmpdir(base, sizeof base);
    snprintf(directory, sizeof directory, "%s/new", base);
    assert_fed_ok_err(fedserver_init(directory, &(fedserver_init_options){0}, &err));
    assert_int_equal(mode_of(base, "new"), 0700);
    assert_int_equal(mode_of(directory, "ca.key"), 0600);
    assert_int_equal(mode_of(directory, "server.key"), 0600);
    assert_int_equal(mode_of(directory, "server.db"), 0600);
    assert_int_equal(mode_of(directory, "ca.pem"), 0644);
    fed_test_rmdir(base);
}

/* Names that Kubernetes, Compose and URLs have. A subject has at most 64 bytes, a host 253. */
FED_TEST(each_name_that_a_coordinator_may_have_makes_a_certificate) {
    static const char *const names[] = {
        "fedserver-0.fedserver-headless.federated-learning-production.svc.cluster.local",
        "fed_server", "[::1]"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const char *const hosts[] = {names[k], NULL}, *const more[] = {"more.example", NULL};
        char directory[256];
        fed_error err = {0};
        fedserver_certificate c;
        fed_test_tmpdir(directory, sizeof directory);
        const fedserver_init_options options = {.hosts = hosts};
        assert_fed_ok_err(fedserver_init(directory, &options, &err));
        assert_fed_ok_err(fedserver_certificate_renew(directory, more, fed_clock_unix_ms(), &err));
        assert_fed_ok_err(fedserver_certificate_read(directory, &c, &err));
        assert_int_equal(c.host_count, 2);
        assert_string_equal(c.hosts[0], k == 2 ? "::1" : names[k]);
        fed_test_rmdir(directory);
    }
}

FED_TEST(a_second_init_changes_nothing) {
    char directory[256];
    char path[300];
    uint8_t *before;
    uint8_t *after;
    size_t len;
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/ca.pem", directory);
    assert_fed_ok_err(fedserver_init(directory, NULL, &err));
    assert_fed_ok_err(fed_file_read(path, 4096, &before, &len, &err));
    assert_fed_fails(fedserver_init(directory, NULL, &err), FED_EEXIST, directory);
    assert_fed_ok_err(fed_file_read(path, 4096, &after, &len, &err));
    assert_string_equal((char *)before, (char *)after);
    free(before);
    free(after);
    fed_test_rmdir(directory);
}

FED_TEST(an_interrupted_init_can_be_run_again) {
    char directory[256];
    char half[300];
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(half, sizeof half, "%s/server.db.new", directory);
    assert_int_equal(mkdir(half, 0700), 0); /* a folder in the way of init's last step */
    for (int k = 0; k < 2; k++) {
        assert_fed_status(fedserver_init(directory, NULL, &err), FED_EIO);
        assert_int_equal(mode_of(directory, "ca.key"), 0600);
        assert_fed_fails(fedserver_open(directory, NULL, &server, &err), FED_ENOTFOUND,
                         "fedserver init");
    }
    assert_int_equal(rmdir(half), 0);
    fed_test_put(directory, "ca.key.new-a1B2c3", "half", 4); /* of a process that died */
    assert_fed_ok_err(fedserver_init(directory, NULL, &err));
    snprintf(half, sizeof half, "%s/ca.key.new-a1B2c3", directory);
    assert_int_equal(access(half, F_OK), -1);
    assert_fed_ok_err(fedserver_open(directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_begin(server, &err));
    assert_fed_ok_err(fedserver_commit(server, &err));
    fedserver_close(server);
    fed_test_rmdir(directory);
}

static void lose_store(const char *directory, const char *store) {
    char path[300];
    if (store != NULL) {
        fed_postgres_clear(store + strlen("postgres:"));
        return;
    }
    snprintf(path, sizeof path, "%s/server.db", directory);
    assert_int_equal(unlink(path), 0);
}

static char *read_key(const char *directory) {
    char path[300];
    uint8_t *text;
    size_t len;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/ca.key", directory);
    assert_fed_ok_err(fed_file_read(path, 4096, &text, &len, &err));
    return (char *)text;
}

static void keep_keys(const char *directory, const char *store) {
    const fedserver_init_options options = {.store = store};
    char args[800], out[1000];
    fed_error err = {0};
    fedserver *server = NULL;
    assert_fed_ok_err(fedserver_init(directory, &options, &err));
    char *before = read_key(directory);
    lose_store(directory, store);
    assert_fed_fails(fedserver_init(directory, &options, &err), FED_ENOTFOUND, "restore a backup");
    assert_fed_fails(fedserver_open(directory, NULL, &server, &err), FED_ENOTFOUND,
                     "restore a backup");
    assert_null(strstr(err.text, "fedserver init"));
    snprintf(args, sizeof args, "init --keep --dir '%s' %s%s%s", directory,
             store != NULL ? "--store '" : "", store != NULL ? store : "",
             store != NULL ? "'" : "");
    assert_int_equal(fed_test_run("/", "fedserver", args, out, sizeof out), 1);
    assert_non_null(strstr(out, "restore a backup"));
    char *after = read_key(directory);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

FED_TEST(the_keys_of_a_coordinator_whose_store_is_lost_are_kept) {
    char directory[256];
    fed_test_tmpdir(directory, sizeof directory);
    keep_keys(directory, NULL);
    fed_test_rmdir(directory);
    if (fed_postgres_is_there()) {
        fed_test_tmpdir(directory, sizeof directory);
        keep_keys(directory, fed_postgres_store("postgres"));
        fed_test_rmdir(directory);
    }
}

/* The lost database has left its journal, with a token that was made after the backup. */
FED_TEST(a_backup_is_restored_where_the_store_is_lost) {
    char directory[256], backup[300], journal[300], token[FEDSERVER_TOKEN], out[1000];
    uint8_t *bytes;
    size_t len;
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(backup, sizeof backup, "%s/backup", directory);
    assert_fed_ok_err(fedserver_init(directory, NULL, &err));
    assert_fed_ok_err(fedserver_open(directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_backup(server, backup, &err));
    assert_fed_ok_err(fedserver_token_new(server, 1, 3600, token, &err));
    snprintf(journal, sizeof journal, "%s/server.db-wal", directory);
    assert_fed_ok_err(fed_file_read(journal, 1 << 24, &bytes, &len, &err));
    fedserver_close(server);
    lose_store(directory, NULL);
    fed_test_put(directory, "server.db-wal", bytes, len);
    free(bytes);
    assert_fed_ok_err(fedserver_restore(backup, directory, &err));
    assert_int_equal(fed_test_run(directory, "fedserver", "tokens --dir .", out, sizeof out), 0);
    assert_non_null(strstr(out, "no token"));
    assert_fed_ok_err(fedserver_open(directory, NULL, &server, &err));
    fedserver_close(server);
    fed_test_rmdir(directory);
}

static void put_store(const char *directory, const char *line) {
    fed_test_put(directory, "store", line, strlen(line));
}

static void expect_open(const char *directory, fed_status expected, fed_error *err) {
    fedserver *server = NULL;
    assert_fed_status(fedserver_open(directory, NULL, &server, err), expected);
    fedserver_close(server);
}

FED_TEST(a_directory_names_its_store_and_an_older_one_is_sqlites) {
    char directory[256];
    char path[300];
    uint8_t *text;
    size_t len;
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    assert_fed_ok_err(fedserver_init(directory, NULL, &err));
    snprintf(path, sizeof path, "%s/store", directory);
    assert_fed_ok_err(fed_file_read(path, 4096, &text, &len, &err));
    assert_string_equal((char *)text, "sqlite\n");
    free(text);
    assert_int_equal(unlink(path), 0); /* releases before 0.2.0 did not make the file `store` */
    expect_open(directory, FED_OK, &err);
    assert_fed_status(fedserver_init(directory, NULL, &err), FED_EEXIST);
    put_store(directory, "cardfile:host=db\n");
    expect_open(directory, FED_EINVAL, &err);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "no store \"cardfile\""));
    put_store(directory, "sqlite:/elsewhere\n");
    expect_open(directory, FED_EINVAL, &err);
    assert_non_null(strstr(err.text, "leave out"));
    fed_test_rmdir(directory);
}
