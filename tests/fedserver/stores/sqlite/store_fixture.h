/* A store in a directory of its own, for the tests of the SQLite store. */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "fed_test.h"

#include <sqlite3.h>
#include <stdbool.h>

#include "fedserver/stores/stores.h"

typedef struct fixture {
    const fedserver_store *store;
    char directory[256];
    char path[300];
    void *db;
} fixture;

static inline int setup(void **state) {
    static fixture f;
    fed_error err = {0};
    f.store = fedserver_store_at(0);
    fed_test_tmpdir(f.directory, sizeof f.directory);
    snprintf(f.path, sizeof f.path, "%s/server.db", f.directory);
    assert_fed_ok_err(f.store->create(f.directory, "", &err));
    assert_fed_ok_err(f.store->open(f.directory, "", &f.db, &err));
    *state = &f;
    return 0;
}

static inline int teardown(void **state) {
    fixture *f = *state;
    f->store->close(f->db);
    fed_test_rmdir(f->directory);
    return 0;
}

static inline void reopen(fixture *f) {
    fed_error err = {0};
    f->store->close(f->db);
    assert_fed_ok_err(f->store->open(f->directory, "", &f->db, &err));
}

/* Run SQL on a connection of its own, as another process would. */
static inline void meddle(const fixture *f, const char *sql) {
    sqlite3 *other;
    assert_int_equal(sqlite3_open(f->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
}

/* What a walk over the updates has seen. */
typedef struct sums {
    fedserver_update_row last;
    int count;
    uint64_t bytes; /* their sum */
} sums;

static inline fed_status sum_up(void *user, const fedserver_update_row *row, const uint8_t *body,
                                size_t len, fed_error *err) {
    (void)err;
    sums *s = user;
    s->last = *row;
    s->count++;
    for (size_t k = 0; k < len; k++) {
        s->bytes += body[k];
    }
    return FED_OK;
}

/* Leaves a task and a device to which updates belong. */
static inline fedserver_update_row a_lease(fixture *f) {
    fed_error err = {0};
    fedserver_device device = {.fingerprint = {1}};
    fedserver_task task = {.name = "n"};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    return (fedserver_update_row){
        .task = task.wire.id, .round = 7, .device = device.id, .lease = 1};
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
