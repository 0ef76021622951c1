/* Tests of what only the SQLite store does. The tests for all stores are in
 * tests/contract/test_stores.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed_first_release.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/task/task_text.h"
#include "meddle.h"

static fed_status last_device(void *user, const fedserver_device *device, fed_error *err) {
    (void)err;
    *(fedserver_device *)user = *device;
    return FED_OK;
}

static void a_full_disk_is_named_and_loses_nothing_committed(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = {.fingerprint = {1}};
    fedserver_task task = {.name = "n"};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    sqlite3 *handle = ((fedserver_database *)f->db)->handle;
    assert_int_equal(sqlite3_exec(handle, "PRAGMA max_page_count = 1", NULL, NULL, NULL),
                     SQLITE_OK); /* SQLite raises the limit to the present size of the file */
    uint8_t *large = calloc(1, 65536);
    const fedserver_update_row row = {.task = 1, .device = device.id, .lease = 1};
    assert_fed_status(f->store->update_add(f->db, &row, large, 65536, &err), FED_ENOSPC);
    assert_non_null(strstr(err.text, "disk is full"));
    assert_non_null(strstr(err.text, "server.db"));
    free(large);
    f->store->rollback(f->db);
    reopen(f);
    fedserver_device read = {0};
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_int_equal(read.id, device.id);
}

static void an_older_database_is_brought_up_to_date_with_all_it_holds(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = {.enrolled_ms = 5, .expires_ms = 6, .fingerprint = {1}}, read = {0};
    fedserver_task task = {.name = "n"};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    device.lease_task = task.wire.id;
    device.lease_round = 3;
    device.lease = device.counted_lease = 99;
    assert_fed_ok_err(f->store->device_put(f->db, &device, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    meddle(f, FED_LAYOUT_8);
    meddle(f, FED_LAYOUT_7);
    meddle(f, FED_FIRST_RELEASE);
    meddle(f, "INSERT INTO updates VALUES (4, 1, x'0102')");
    reopen_upgraded(f);
    assert_fed_ok_err(f->store->device_revoke(f->db, device.id, 7, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    reopen(f);
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_int_equal(read.id, device.id);
    assert_int_equal(read.enrolled_ms, 5);
    assert_int_equal(read.revoked_ms, 7);
    assert_true(read.name[0] == '\0' && read.software[0] == '\0' && read.computes_on[0] == '\0' &&
                read.seen_ms == 0 && read.counted == 0 && read.late == 0 && read.refused == 0);
    sums seen = {0};
    assert_fed_ok_err(f->store->update_each(f->db, 0, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, 1);
    assert_true(seen.last.task == 1 && seen.last.round == 3 && seen.last.device == device.id &&
                seen.last.lease == 99);
    assert_int_equal(seen.bytes, 3);
}

/* A database of a layout before 8 has an update in the open round. */
static void the_guards_of_the_open_round_become_the_digests_of_what_is_counted(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = {.fingerprint = {1}}, read = {0};
    fedserver_task task = {.name = "n"};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    device.counted_lease = 99;
    assert_fed_ok_err(f->store->device_put(f->db, &device, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    meddle(f, FED_LAYOUT_8);
    meddle(f, FED_LAYOUT_7);
    meddle(f, "INSERT INTO updates (task, round, device, lease, len, guard, body)"
              " VALUES (1, 1, 1, 99, 2, -77, x'0102')");
    reopen_upgraded(f);
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_true(read.counted_digest == (uint64_t)-77);
}

static void add_two_tasks(fixture *f) {
    fed_error err = {0};
    fedserver_task task = {.wire = {.model = "input 2 | dense 2",
                                    .codec_up = "sbc:p=0.01",
                                    .small_tensor = 7,
                                    .local_steps = 3,
                                    .batch = 5,
                                    .optimizer = "momentum:m=0.9",
                                    .learning_rate = 0.1f,
                                    .seed = UINT64_MAX},
                           .name = "\"quoted\" \\ \xc3\xa9 \x01",
                           .codec_down = "3lc:s=1",
                           .phase_count = 2,
                           .strategy = "fedadam:lr=0.01",
                           .selection = FEDSERVER_SELECT_ROUND_ROBIN,
                           .tag = "lab",
                           .priority = 5,
                           .device_share = 0.25,
                           .rules = {.rounds = 40,
                                     .cohort = 8,
                                     .goal = 7,
                                     .minimum = 6,
                                     .deadline_ms = 250,
                                     .staleness = 3},
                           .queued_ms = 10};
    task.phases[0] = (fedserver_phase){2, "float32", "", "sbc:p=0.1", 1, 2, "momentum:m=0.5", 0.3f};
    task.phases[1] =
        (fedserver_phase){30, "float16", "", "float32", 9, 8, "momentum:m=0.7", 1e-30f};
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    fedserver_task least = {
        .name = "n", .wire.model = "m", .wire.learning_rate = 16777217.0f, .priority = 5};
    assert_fed_ok_err(f->store->task_add(f->db, &least, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
}

static void read_text(fixture *f, uint64_t id, char dst[2000]) {
    fed_error err = {0};
    fedserver_task task;
    fed_writer w;
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_ID, id, &task, &err));
    fed_writer_fixed(&w, dst, 2000);
    fedserver_task_text_write(&task, &w);
    assert_fed_ok(w.status);
}

static void the_columns_of_a_task_become_its_text(void **state) {
    fixture *f = *state;
    char before[2][2000], after[2][2000], layout_7[2000];
    add_two_tasks(f);
    read_text(f, 1, before[0]);
    read_text(f, 2, before[1]);
    meddle(f, FED_LAYOUT_8);
    reopen_upgraded(f);
    read_text(f, 1, after[0]);
    read_text(f, 2, after[1]);
    assert_string_equal(after[0], before[0]);
    assert_string_equal(after[1], before[1]);
    meddle(f, FED_LAYOUT_8);
    meddle(f, FED_LAYOUT_7); /* layout 7 had no device_share, so its tasks have no such limit */
    reopen_upgraded(f);
    read_text(f, 1, layout_7);
    char *share = strstr(before[0], "\"device_share\":0.25");
    assert_non_null(share);
    memmove(share + strlen("\"device_share\":1"), share + strlen("\"device_share\":0.25"),
            strlen(share + strlen("\"device_share\":0.25")) + 1);
    memcpy(share, "\"device_share\":1", strlen("\"device_share\":1"));
    assert_string_equal(layout_7, before[0]);
}

static void a_task_with_a_key_of_a_newer_release_is_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_task task;
    add_two_tasks(f);
    meddle(f, "UPDATE tasks SET text = json_set(text, '$.of_tomorrow', 1) WHERE id = 1");
    reopen(f);
    assert_fed_status(f->store->task_find(f->db, FEDSERVER_PICK_ID, 1, &task, &err), FED_EVERSION);
    assert_fed_says(err, "of_tomorrow");
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_ID, 2, &task, &err));
    meddle(f, "UPDATE tasks SET text = '{' WHERE id = 2");
    assert_fed_status(f->store->task_find(f->db, FEDSERVER_PICK_ID, 2, &task, &err), FED_EFORMAT);
}

static void foreign_and_newer_databases_are_refused(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *db;
    meddle(f, "PRAGMA user_version = 99");
    assert_fed_status(f->store->open(f->directory, "", &db, &err), FED_EVERSION);
    meddle(f, "PRAGMA user_version = 2; PRAGMA application_id = 0");
    assert_fed_status(f->store->open(f->directory, "", &db, &err), FED_EFORMAT);
    char other[256];
    char path[300];
    fed_test_tmpdir(other, sizeof other);
    assert_fed_status(f->store->open(other, "", &db, &err), FED_ENOTFOUND);
    snprintf(path, sizeof path, "%s/server.db", other);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int k = 0; k < 1000; k++) {
        fputs("this is no database\n", file);
    }
    fclose(file);
    assert_fed_status(f->store->open(other, "", &db, &err), FED_EFORMAT);
    fed_test_rmdir(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_full_disk_is_named_and_loses_nothing_committed),
        WITH(an_older_database_is_brought_up_to_date_with_all_it_holds),
        WITH(the_guards_of_the_open_round_become_the_digests_of_what_is_counted),
        WITH(the_columns_of_a_task_become_its_text),
        WITH(a_task_with_a_key_of_a_newer_release_is_refused),
        WITH(foreign_and_newer_databases_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
