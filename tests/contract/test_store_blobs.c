/* Contract of every store that keeps blobs. Blobs are written before the rows that name them, and
 * deleted after these rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "store_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

enum { SIZE = 70000 };

/* Return float32[SIZE], all equal to `value`. The caller frees it. */
static float *values_of(float value) {
    float *values = malloc(SIZE * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < SIZE; i++) {
        values[i] = value;
    }
    return values;
}

static uint64_t put(fixture *f, void *db, uint64_t task, const void *bytes, size_t len) {
    const uint64_t digest = fed_digest_bytes(bytes, len);
    must(f->store->blob_put(db, task, digest, bytes, len, &f->err));
    return digest;
}

static void commit(fixture *f, void *db) {
    must(f->store->commit(db, &f->err));
}

static bool is_there(fixture *f, uint64_t task, uint64_t digest) {
    void *bytes = NULL;
    size_t len = 0;
    fed_status status = f->store->blob_find(f->db, task, digest, &bytes, &len, &f->err);
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    assert_true(status != FED_OK || fed_digest_bytes(bytes, len) == digest);
    free(bytes);
    return status == FED_OK;
}

/* Store a version: blobs first, then rows. All values are `value`. */
static void make_version(fixture *f, uint64_t task, uint32_t version, float value) {
    char delta[32];
    snprintf(delta, sizeof delta, "delta %g", (double)value);
    float *values = values_of(value), *residual = values_of(-1);
    fedserver_model_row row = {.version = version,
                               .values = values,
                               .residual = residual,
                               .size = SIZE,
                               .state = (uint8_t *)(uintptr_t) "state",
                               .state_len = 5,
                               .kept = true};
    row.digest = put(f, f->db, task, values, SIZE * sizeof *values);
    row.residual_digest = put(f, f->db, task, residual, SIZE * sizeof *residual);
    row.state_digest = put(f, f->db, task, "state", 5);
    const uint64_t part = put(f, f->db, task, delta, strlen(delta));
    commit(f, f->db);
    must(f->store->model_put(f->db, task, &row, &f->err));
    must(f->store->delta_add(f->db, task, version, (const uint8_t *)delta, strlen(delta), &part,
                             &f->err));
    commit(f, f->db);
    free(values);
    free(residual);
}

static fed_status note_delta(void *user, uint32_t version, const uint8_t *part, size_t len,
                             fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%u=%.*s ", version, (int)len, (const char *)part);
    return FED_OK;
}

static void expect_version(fixture *f, uint64_t task, uint32_t version, float value) {
    fedserver_model_row row;
    must(f->store->model_find(f->db, task, &row, &f->err));
    assert_int_equal(row.version, version);
    assert_int_equal(row.size, SIZE);
    assert_true(row.kept && row.values[0] == value && row.values[SIZE - 1] == value);
    assert_true(row.digest == fed_digest(row.values, SIZE) && row.residual[SIZE - 1] == -1);
    assert_true(row.state_len == 5 && memcmp(row.state, "state", 5) == 0);
    free(row.values);
    free(row.residual);
    free(row.state);
}

static void a_version_that_names_blobs_comes_back(void **state) {
    fixture *f = *state;
    char said[64] = "";
    uint32_t count = 0;
    uint64_t bytes = 0;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    reopen(f);
    must(f->store->recover(f->db, &f->err));
    expect_version(f, task, 1, 3);
    must(f->store->delta_each(f->db, task, 0, 9, note_delta, said, &f->err));
    assert_string_equal(said, "1=delta 3 ");
    must(f->store->delta_sum(f->db, task, 0, &count, &bytes, &f->err));
    assert_true(count == 1 && bytes == strlen("delta 3"));
}

static void a_version_without_residual_and_state_names_one_blob(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    float *values = values_of(2);
    fedserver_model_row row = {.version = 4, .values = values, .size = SIZE, .kept = true};
    row.digest = put(f, f->db, task, values, SIZE * sizeof *values);
    commit(f, f->db);
    must(f->store->model_put(f->db, task, &row, &f->err));
    commit(f, f->db);
    free(values);
    must(f->store->model_find(f->db, task, &row, &f->err));
    assert_true(row.version == 4 && row.residual == NULL && row.state_len == 0);
    free(row.values);
    free(row.state);
}

static void a_blob_that_no_row_names_is_swept_at_the_start(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    const uint64_t lost = put(f, f->db, task, "lost", 4);
    commit(f, f->db);
    assert_true(is_there(f, task, lost));
    reopen(f);
    must(f->store->recover(f->db, &f->err));
    assert_false(is_there(f, task, lost));
    expect_version(f, task, 1, 3);
}

static void sweep(fixture *f, uint64_t task) {
    must(f->store->blob_sweep(f->db, task, &f->err));
}

static void a_blob_goes_after_the_last_row_that_names_it(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t"), other = add_task(f, "o");
    float *values = values_of(3), *unchanged = NULL;
    const uint64_t digest = fed_digest(values, SIZE);
    const uint64_t foreign = put(f, f->db, other, "not named yet", 13);
    make_version(f, task, 1, 3);
    /* The previous version becomes a keyframe, which shares the blob. */
    const fedserver_keyframe old = {.version = 1, .digest = digest, .size = SIZE, .kept = true};
    must(f->store->keyframe_add(f->db, task, &old, &f->err));
    make_version(f, task, 2, 4);
    assert_true(is_there(f, task, digest));
    fedserver_keyframe found;
    must(f->store->keyframe_find(f->db, task, 9, &found, &unchanged, &f->err));
    assert_true(found.version == 1 && found.size == SIZE && found.kept);
    assert_memory_equal(unchanged, values, SIZE * sizeof *values);
    must(f->store->keyframe_find(f->db, task, 9, &found, NULL, &f->err));
    assert_int_equal(found.size, SIZE);

    must(f->store->keyframe_prune(f->db, task, 2, &f->err));
    commit(f, f->db);
    assert_true(is_there(f, task, digest));
    sweep(f, task);
    assert_false(is_there(f, task, digest));
    assert_true(is_there(f, task, fed_digest_bytes("delta 3", 7)));
    must(f->store->delta_prune(f->db, task, 1, &f->err));
    commit(f, f->db);
    sweep(f, task);
    assert_false(is_there(f, task, fed_digest_bytes("delta 3", 7)));
    expect_version(f, task, 2, 4);
    assert_true(is_there(f, other, foreign));
    free(values);
    free(unchanged);
}

static void a_missing_blob_that_a_row_names_is_damage(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    const fedserver_keyframe lost = {.version = 1, .digest = 77, .size = SIZE, .kept = true};
    fedserver_keyframe found;
    float *values = NULL;
    must(f->store->keyframe_add(f->db, task, &lost, &f->err));
    commit(f, f->db);
    assert_fed_status(f->store->keyframe_find(f->db, task, 1, &found, NULL, &f->err), FED_EFORMAT);
    assert_fed_says(f->err, "restore");
    assert_fed_status(f->store->keyframe_find(f->db, task, 1, &found, &values, &f->err),
                      FED_EFORMAT);
    assert_null(values);
}

static void a_row_of_the_same_transaction_may_name_a_blob(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    float *values = values_of(2), *found = NULL;
    fedserver_keyframe named = {.version = 1, .size = SIZE, .kept = true};
    named.digest = put(f, f->db, task, values, SIZE * sizeof *values);
    must(f->store->keyframe_add(f->db, task, &named, &f->err));
    commit(f, f->db);
    reopen(f);
    must(f->store->recover(f->db, &f->err));
    must(f->store->keyframe_find(f->db, task, 1, &named, &found, &f->err));
    assert_memory_equal(found, values, SIZE * sizeof *values);
    free(found);
    free(values);
}

static void a_transaction_that_is_rolled_back_deletes_no_blob(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    must(f->store->delta_prune(f->db, task, 1, &f->err));
    f->store->rollback(f->db);
    sweep(f, task);
    assert_true(is_there(f, task, fed_digest_bytes("delta 3", 7)));
    expect_version(f, task, 1, 3);
}

static void a_cancelled_tasks_blobs_are_deleted(void **state) {
    fixture *f = *state;
    uint64_t cleared = 0;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    put_state(f, task, FEDSERVER_TASK_CANCELLED, 5);
    commit(f, f->db);
    must(f->store->task_clear(f->db, &cleared, &f->err));
    f->store->rollback(f->db);
    expect_version(f, task, 1, 3);
    must(f->store->task_clear(f->db, &cleared, &f->err));
    commit(f, f->db);
    assert_int_equal(cleared, task);
    assert_false(is_there(f, task, fed_digest_bytes("state", 5)));
    assert_false(is_there(f, task, fed_digest_bytes("delta 3", 7)));
}

/* A closing round has stored a blob, `next`, that no row names yet. Clearing other tasks must not
 * delete it. */
static void clearing_many_tasks_spares_what_is_not_named_yet(void **state) {
    fixture *f = *state;
    enum { TASKS = 40 };
    uint64_t cleared = 0;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    const uint64_t next = put(f, f->db, task, "not named yet", 13);
    commit(f, f->db);
    const fedserver_model_row row = {.values = (float[]){1}, .size = 1};
    for (int k = 0; k < TASKS; k++) {
        const uint64_t cancelled = add_task(f, "c");
        must(f->store->model_put(f->db, cancelled, &row, &f->err));
        put_state(f, cancelled, FEDSERVER_TASK_CANCELLED, 5);
    }
    for (int k = 0; k < TASKS; k++) {
        must(f->store->task_clear(f->db, &cleared, &f->err));
    }
    assert_fed_status(f->store->task_clear(f->db, &cleared, &f->err), FED_ENOTFOUND);
    commit(f, f->db);
    assert_true(is_there(f, task, next));
    expect_version(f, task, 1, 3);
}

typedef struct worker {
    fixture *f;
    uint64_t task, digest;
} worker;

static void *put_beside(void *user) {
    worker *w = user;
    fed_error err = {0};
    void *db = NULL;
    float *values = values_of(9);
    assert_fed_ok_err(w->f->store->open(w->f->directory, w->f->where, &db, &err));
    w->digest = put(w->f, db, w->task, values, SIZE * sizeof *values);
    commit(w->f, db);
    w->f->store->close(db);
    free(values);
    return NULL;
}

static void another_thread_puts_blobs_while_a_transaction_is_open(void **state) {
    fixture *f = *state;
    worker w = {.f = f, .task = add_task(f, "t")};
    pthread_t thread;
    commit(f, f->db);
    fedserver_update_row row = a_lease(f);
    assert_int_equal(pthread_create(&thread, NULL, put_beside, &w), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const fedserver_keyframe named = {.version = 1, .digest = w.digest, .size = SIZE, .kept = true};
    must(f->store->keyframe_add(f->db, w.task, &named, &f->err));
    must(f->store->update_add(f->db, &row, (const uint8_t *)"u", 1, &f->err));
    commit(f, f->db);
    assert_true(is_there(f, w.task, w.digest));
}

static void a_copy_has_the_blobs(void **state) {
    fixture *f = *state;
    const uint64_t task = add_task(f, "t");
    make_version(f, task, 1, 3);
    if (f->store->copy == NULL) {
        skip();
    }
    fixture copy = {.store = f->store, .where = f->where};
    fed_test_tmpdir(copy.directory, sizeof copy.directory);
    must(f->store->copy(f->directory, copy.directory, &f->err));
    must(copy.store->open(copy.directory, copy.where, &copy.db, &f->err));
    expect_version(&copy, task, 1, 3);
    copy.store->close(copy.db);
    fed_test_rmdir(copy.directory);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        WITH(a_version_that_names_blobs_comes_back),
        WITH(a_version_without_residual_and_state_names_one_blob),
        WITH(a_missing_blob_that_a_row_names_is_damage),
        WITH(a_blob_that_no_row_names_is_swept_at_the_start),
        WITH(a_blob_goes_after_the_last_row_that_names_it),
        WITH(a_row_of_the_same_transaction_may_name_a_blob),
        WITH(a_transaction_that_is_rolled_back_deletes_no_blob),
        WITH(a_cancelled_tasks_blobs_are_deleted),
        WITH(clearing_many_tasks_spares_what_is_not_named_yet),
        WITH(another_thread_puts_blobs_while_a_transaction_is_open),
        WITH(a_copy_has_the_blobs),
    };
    return run_for_each_store(tests);
}
