/* Backup and restore: a copy made at any time is a whole coordinator, and gives the same model
 * bit for bit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed_first_release.h"
#include "large_world.h"

/* Make a backup through a second handle, as `fedserver backup` does in another process. */
static fed_status back_up(const char *from, const char *to, fed_error *err) {
    fedserver *other;
    FED_TRY(fedserver_open(from, NULL, &other, err));
    fed_status status = fedserver_backup(other, to, err);
    fedserver_close(other);
    return status;
}

static void open_copy(world *w) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_open(w->copy.directory, NULL, &w->copy.server, &err));
    assert_fed_ok_err(fedserver_begin(w->copy.server, &err));
}

static void a_backup_of_a_serving_coordinator_goes_on_bit_for_bit(void **state) {
    world *w = *state;
    fed_error err = {0};
    one_round(w, &w->home, 0);
    upload(w, &w->home, 0);
    upload(w, &w->home, 1);
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    assert_fed_ok_err(fedserver_restore(w->backup, w->copy.directory, &err));
    open_copy(w);
    assert_int_equal(fedserver_rounds_front(&w->copy.server->rounds)->round.received, 2);
    for (int k = 0; k < 2; k++) {
        coordinator *c = k == 0 ? &w->home : &w->copy;
        upload(w, c, 2);
        one_round(w, c, 0);
        assert_int_equal(fedserver_rounds_front(&c->server->rounds)->versions.version, 3);
    }
    assert_true(fedserver_rounds_front(&w->home.server->rounds)->versions.digest ==
                fedserver_rounds_front(&w->copy.server->rounds)->versions.digest);
    fedserver_close(w->copy.server);
}

typedef struct copying {
    const world *w;
    atomic_int stop;
    int count;
    fed_status status;
    fed_error err;
} copying;

static void *copy_on(void *user) {
    copying *c = user;
    while (c->status == FED_OK && (!c->stop || c->count == 0)) {
        char to[400];
        snprintf(to, sizeof to, "%s-%d", c->w->backup, c->count);
        c->status = back_up(c->w->home.directory, to, &c->err);
        c->count += c->status == FED_OK;
    }
    return NULL;
}

static void backups_made_while_rounds_come_and_go_are_whole(void **state) {
    world *w = *state;
    copying c = {.w = w};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, copy_on, &c), 0);
    for (int k = 0; k < 4; k++) {
        one_round(w, &w->home, 0);
    }
    c.stop = 1;
    pthread_join(thread, NULL);
    if (c.status != FED_OK) {
        fail_msg("%s", c.err.text);
    }
    for (int k = 0; k < c.count; k++) {
        snprintf(w->copy.directory, sizeof w->copy.directory, "%.240s-%d", w->backup, k);
        open_copy(w);
        const fedserver_training *t = fedserver_rounds_front(&w->copy.server->rounds);
        while (t->task.state == FEDSERVER_TASK_RUNNING) {
            one_round(w, &w->copy, (int)t->round.received);
        }
        assert_true(t->versions.digest ==
                    fedserver_rounds_front(&w->home.server->rounds)->versions.digest);
        fedserver_close(w->copy.server);
    }
}

static void make_older(const char *path) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, FED_LAYOUT_8, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, FED_LAYOUT_7, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void assert_has_bytes(const char *path, const uint8_t *bytes, size_t len) {
    fed_error err = {0};
    uint8_t *now;
    size_t now_len;
    assert_fed_ok_err(fed_file_read(path, 1 << 28, &now, &now_len, &err));
    assert_int_equal(now_len, len);
    assert_memory_equal(now, bytes, len);
    free(now);
}

static void an_older_backup_is_restored_and_stays_as_it_is(void **state) {
    world *w = *state;
    fed_error err = {0};
    char path[400], out[2000];
    uint8_t *bytes;
    size_t len;
    upload(w, &w->home, 0);
    upload(w, &w->home, 1);
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    snprintf(path, sizeof path, "%s/server.db", w->backup);
    make_older(path);
    assert_fed_ok_err(fed_file_read(path, 1 << 28, &bytes, &len, &err));
    assert_int_equal(fed_test_run(w->backup, "fedserver", "check --dir .", out, sizeof out), 1);
    assert_non_null(strstr(out, "restore it into a new directory"));
    assert_has_bytes(path, bytes, len);
    assert_fed_ok_err(fedserver_restore(w->backup, w->copy.directory, &err));
    assert_has_bytes(path, bytes, len);
    free(bytes);
    coordinator_check(w->copy.directory);
    open_copy(w);
    assert_int_equal(fedserver_rounds_front(&w->copy.server->rounds)->round.received, 2);
    upload(w, &w->copy, 2);
    assert_int_equal(fedserver_rounds_front(&w->copy.server->rounds)->versions.version, 1);
    fedserver_close(w->copy.server);
}

static void keys_are_for_the_owner_only(void **state) {
    world *w = *state;
    fed_error err = {0};
    upload(w, &w->home, 0);
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    static const char *const names[] = {"ca.key", "server.key", "server.db", "updates-1-1.seg"};
    for (int k = 0; k < 4; k++) {
        char path[400];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", w->backup, names[k]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 077, 0);
    }
}

/* Returns whether a backup does not copy this file as it is. */
static bool stays_behind(const char *name) {
    static const char *const names[] = {".",          "..",          "alive.sock",
                                        "backup",     "copy",        "front.sock",
                                        "front-port", "server.lock", "task.json"};
    bool found = strncmp(name, "server.db", 9) == 0 || /* with its -wal and -shm files */
                 strncmp(name, "backup", 6) == 0;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        found = found || strcmp(name, names[k]) == 0;
    }
    return found;
}

static void assert_same_file(const char *from, const char *to, const char *name) {
    char path[2][600];
    uint8_t *data[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    struct stat info[2];
    fed_error err = {0};
    for (int k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "%s/%s", k == 0 ? from : to, name);
        if (fed_file_read(path[k], 1 << 28, &data[k], &len[k], &err) != FED_OK) {
            fail_msg("a file can't be read: %s", err.text);
        }
        assert_int_equal(stat(path[k], &info[k]), 0);
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(data[0], data[1], len[0]);
    assert_int_equal(info[0].st_mode, info[1].st_mode);
    free(data[0]);
    free(data[1]);
}

static size_t assert_whole(const char *from, const char *to) {
    size_t count = 0;
    DIR *folder = opendir(from);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (!stays_behind(e->d_name)) {
            assert_same_file(from, to, e->d_name);
            count++;
        }
    }
    closedir(folder);
    return count;
}

static void put_with_mode(const world *w, const char *name, unsigned mode) {
    char path[600];
    fed_error err = {0};
    snprintf(path, sizeof path, "%.240s/%s", w->home.directory, name);
    assert_fed_ok_err(fed_file_replace(path, name, strlen(name), mode, &err));
}

static void a_backup_has_every_file_of_the_coordinators_folder(void **state) {
    world *w = *state;
    fed_error err = {0};
    upload(w, &w->home, 0);
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    assert_int_equal(assert_whole(w->home.directory, w->backup), 6);
    put_with_mode(w, "front.key", 0600);
    put_with_mode(w, "front.pem", 0644);
    strcat(w->backup, "-2");
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    assert_int_equal(assert_whole(w->home.directory, w->backup), 8);
    assert_fed_ok_err(fedserver_restore(w->backup, w->copy.directory, &err));
    assert_int_equal(assert_whole(w->backup, w->copy.directory), 8);
}

static void a_front_without_its_key_stops_a_backup(void **state) {
    world *w = *state;
    fed_error err = {0};
    put_with_mode(w, "front.pem", 0644);
    assert_fed_fails(back_up(w->home.directory, w->backup, &err), FED_ENOTFOUND, "front.key");
    char path[400];
    snprintf(path, sizeof path, "%s/server.db", w->backup);
    assert_int_equal(access(path, F_OK), -1); /* an incomplete copy is no coordinator */
    put_with_mode(w, "front.key", 0600);
    fed_test_put(w->backup, "ca.key.new-a1B2c3", "half", 4); /* of a process that died */
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    assert_int_equal(assert_whole(w->backup, w->home.directory), 7);
}

static void a_coordinator_is_never_overwritten(void **state) {
    world *w = *state;
    fed_error err = {0};
    assert_fed_ok_err(back_up(w->home.directory, w->backup, &err));
    assert_fed_status(back_up(w->home.directory, w->backup, &err), FED_EEXIST);
    assert_fed_fails(fedserver_restore(w->backup, w->home.directory, &err), FED_EEXIST,
                     "move it away");
}

/* The missing parent may be a disk that is not mounted. */
static void missing_parents_are_not_made(void **state) {
    world *w = *state;
    fed_error err = {0};
    char parent[300], path[320];
    snprintf(parent, sizeof parent, "%.280s/disk", w->home.directory);
    snprintf(path, sizeof path, "%s/backup/", parent);
    assert_fed_fails(back_up(w->home.directory, path, &err), FED_ENOTFOUND, parent);
    assert_fed_says(err, "mount its disk");
    assert_int_not_equal(access(parent, F_OK), 0);
    assert_int_equal(mkdir(parent, 0700), 0);
    coordinator_commit(&w->home);
    assert_fed_ok_err(back_up(w->home.directory, path, &err));
}

static void a_damaged_update_stops_a_backup(void **state) {
    world *w = *state;
    fed_error err = {0};
    char path[400];
    upload(w, &w->home, 0);
    snprintf(path, sizeof path, "%.240s/updates-1-1.seg", w->home.directory);
    assert_int_equal(truncate(path, 100), 0);
    assert_fed_status(back_up(w->home.directory, w->backup, &err), FED_EFORMAT);
    snprintf(path, sizeof path, "%s/server.db", w->backup);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_backup_of_a_serving_coordinator_goes_on_bit_for_bit),
        WITH(backups_made_while_rounds_come_and_go_are_whole),
        WITH(an_older_backup_is_restored_and_stays_as_it_is),
        WITH(keys_are_for_the_owner_only),
        WITH(a_backup_has_every_file_of_the_coordinators_folder),
        WITH(a_front_without_its_key_stops_a_backup),
        WITH(a_coordinator_is_never_overwritten),
        WITH(missing_parents_are_not_made),
        WITH(a_damaged_update_stops_a_backup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
