/* A coordinator's store in a temporary directory, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "fed_test.h"

#include <stdbool.h>

#include "fed_postgres.h"
#include "fedserver/stores/stores.h"

static const fedserver_store *tried;

typedef struct fixture {
    const fedserver_store *store;
    const char *where;
    char directory[256];
    void *db;
    fed_error err;
} fixture;

#define must(call)                                                                                 \
    do {                                                                                           \
        const fed_status must_status_ = (call);                                                    \
        if (must_status_ != FED_OK) {                                                              \
            fail_msg("%s: %s (%s)", #call, fed_status_name(must_status_), f->err.text);            \
        }                                                                                          \
    } while (0)

/* Return the connection string of the store to test, if its kind needs one: FED_TEST_STORE_WHERE,
 * whose contents are deleted, or a server of the tests. */
static inline const char *fixture_where(const fedserver_store *store) {
    if (store->where == NULL) {
        return "";
    }
    const char *where = getenv("FED_TEST_STORE_WHERE");
    return where != NULL                          ? where
           : strcmp(store->name, "postgres") == 0 ? fed_postgres_shared()
                                                  : "";
}

static inline void fixture_clear(const fedserver_store *store, const char *where) {
    if (strcmp(store->name, "postgres") == 0) {
        fed_postgres_clear(where);
    }
}

static inline int setup(void **state) {
    static fixture fresh;
    fixture *f = &fresh;
    f->err = (fed_error){0};
    f->store = tried != NULL ? tried : fedserver_store_at(0);
    f->where = fixture_where(f->store);
    fed_test_tmpdir(f->directory, sizeof f->directory);
    fixture_clear(f->store, f->where);
    must(f->store->create(f->directory, f->where, &f->err));
    must(f->store->open(f->directory, f->where, &f->db, &f->err));
    *state = f;
    return 0;
}

static inline int teardown(void **state) {
    fixture *f = *state;
    f->store->close(f->db);
    fed_test_rmdir(f->directory);
    return 0;
}

static inline void reopen(fixture *f) {
    f->store->close(f->db);
    must(f->store->open(f->directory, f->where, &f->db, &f->err));
}

static inline void reopen_upgraded(fixture *f) {
    f->store->close(f->db);
    must(f->store->upgrade(f->directory, f->where, &f->err));
    must(f->store->open(f->directory, f->where, &f->db, &f->err));
}

static inline void keep(fixture *f) {
    must(f->store->commit(f->db, &f->err));
    reopen(f);
}

typedef struct sums {
    fedserver_update_row last;
    int count;
    uint64_t bytes; /* sum of all bytes */
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

/* Store a task and a device. Returns an update's row for both. */
static inline fedserver_update_row a_lease(fixture *f) {
    fedserver_device device = {.fingerprint = {1}};
    fedserver_task task = {.name = "n"};
    must(f->store->device_add(f->db, &device, &f->err));
    must(f->store->task_add(f->db, &task, &f->err));
    return (fedserver_update_row){
        .task = task.wire.id, .round = 7, .device = device.id, .lease = 1};
}

static inline fedserver_device add_device(fixture *f, uint8_t first) {
    fedserver_device device = {.fingerprint = {first}, .enrolled_ms = first, .expires_ms = 1000};
    must(f->store->device_add(f->db, &device, &f->err));
    return device;
}

static inline uint64_t add_task(fixture *f, const char *name) {
    fedserver_task task = {.queued_ms = 10};
    strcpy(task.name, name);
    must(f->store->task_add(f->db, &task, &f->err));
    return task.wire.id;
}

static inline void put_state(fixture *f, uint64_t id, fedserver_task_state to,
                             int64_t finished_ms) {
    fedserver_task task;
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, id, &task, &f->err));
    task.state = to;
    task.finished_ms = finished_ms;
    must(f->store->task_put(f->db, &task, ~0U, &f->err));
}

static inline fed_status say_decline(void *user, const fedserver_decline *decline, fed_error *err) {
    char *said = user;
    (void)err;
    assert_true(decline->device > 0);
    sprintf(said + strlen(said), "%u:%s@%d%s ", decline->fingerprint[0], decline->reason,
            (int)decline->at_ms, decline->revoked ? " revoked" : "");
    return FED_OK;
}

/* Run the tests on each store of this build, or on FED_TEST_STORE only. */
#define run_for_each_store(tests) run_each((tests), sizeof(tests) / sizeof((tests)[0]))

static inline int run_each(const struct CMUnitTest *tests, size_t count) {
    const char *only = getenv("FED_TEST_STORE");
    int failures = 0;
    bool found = only == NULL;
    for (size_t k = 0; (tried = fedserver_store_at(k)) != NULL; k++) {
        const bool wanted = only == NULL || strcmp(tried->name, only) == 0;
        if (wanted && (tried->where == NULL || fixture_where(tried)[0] != '\0')) {
            failures += _cmocka_run_group_tests(tried->name, tests, count, NULL, NULL);
            found = true;
        }
    }
    return failures + !found;
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
