/* The SQLite store: what is committed is there, what is not is not, and errors are sentences. */
#include "fed_test.h"

#include "fed_first_release.h"
#include "fedserver/task/task_text.h"
#include "store_fixture.h"

static void what_was_committed_is_there_after_a_crash_and_nothing_else(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_token token;
    const uint8_t a[FED_SHA256_SIZE] = {1};
    const uint8_t b[FED_SHA256_SIZE] = {2};
    assert_fed_ok_err(f->store->token_add(f->db, a, &(fedserver_token){.expires_ms = 1000}, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    assert_fed_ok_err(f->store->token_add(f->db, b, &(fedserver_token){.expires_ms = 1000}, &err));
    assert_fed_ok_err(f->store->token_find(f->db, b, &token, &err)); /* it sees its own writes */
    reopen(f);
    assert_fed_ok_err(f->store->token_find(f->db, a, &token, &err));
    assert_int_equal(token.expires_ms, 1000);
    assert_fed_status(f->store->token_find(f->db, b, &token, &err), FED_ENOTFOUND);
}

static void a_token_is_used_once(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    assert_fed_ok_err(
        f->store->token_add(f->db, hash, &(fedserver_token){.expires_ms = 1000}, &err));
    assert_fed_ok_err(f->store->token_use(f->db, hash, 5, &err));
    assert_fed_status(f->store->token_use(f->db, hash, 6, &err), FED_ENOTFOUND);
}

static fed_status last_device(void *user, const fedserver_device *device, fed_error *err) {
    (void)err;
    *(fedserver_device *)user = *device;
    return FED_OK;
}

static void a_device_keeps_every_field_and_64_bit_leases(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = {.fingerprint = {7}, .enrolled_ms = 1, .expires_ms = 2};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    device.lease = UINT64_MAX;
    device.lease_task = 3;
    device.lease_round = 4;
    device.lease_attempt = 5;
    device.counted_lease = UINT64_MAX - 1;
    device.counted_digest = UINT64_MAX - 2;
    device.cloned_ms = 7;
    device.authority = UINT64_MAX - 3;
    device.evaluated_task = 6;
    device.evaluated_version = UINT32_MAX;
    device.seen_ms = 7, device.counted = 8, device.late = 9, device.refused = 10;
    strcpy(device.software, "fedclientd/1");
    assert_fed_ok_err(f->store->device_rename(f->db, device.id, "pump 3", &err));
    assert_fed_ok_err(f->store->device_put(f->db, &device, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    reopen(f);
    fedserver_device read;
    memset(&read, 0, sizeof read);
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_true(read.id == device.id && read.lease == device.lease && read.lease_task == 3 &&
                read.lease_round == 4 && read.lease_attempt == 5 &&
                read.counted_lease == device.counted_lease && read.evaluated_task == 6 &&
                read.evaluated_version == UINT32_MAX && read.enrolled_ms == 1 &&
                read.expires_ms == 2 && read.counted_digest == UINT64_MAX - 2 &&
                read.cloned_ms == 7 && read.authority == UINT64_MAX - 3);
    assert_true(read.seen_ms == 7 && read.counted == 8 && read.late == 9 && read.refused == 10);
    assert_string_equal(read.software, "fedclientd/1");
    assert_string_equal(read.name, "pump 3");
    assert_memory_equal(read.fingerprint, device.fingerprint, FED_SHA256_SIZE);
}

static void a_task_keeps_its_phases(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_task found, task = {.wire = {.model = "m"}, .name = "n", .phase_count = 2};
    task.phases[0] = (fedserver_phase){.round = 2,
                                       .codec_up = "u",
                                       .codec_down = "d",
                                       .local_steps = 3,
                                       .batch = 4,
                                       .optimizer = "adam",
                                       .learning_rate = 0.1f};
    task.phases[1] = task.phases[0];
    task.phases[1].round = 1000000;
    task.phases[1].learning_rate = 1e-30f;
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    task.phase_count = 0;
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    reopen(f);
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_ID, 1, &found, &err));
    assert_int_equal(found.phase_count, 2);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(found.phases[k].round, task.phases[k].round);
        assert_string_equal(found.phases[k].codec_up, "u");
        assert_string_equal(found.phases[k].codec_down, "d");
        assert_int_equal(found.phases[k].local_steps, 3);
        assert_int_equal(found.phases[k].batch, 4);
        assert_string_equal(found.phases[k].optimizer, "adam");
        assert_true(found.phases[k].learning_rate == task.phases[k].learning_rate);
    }
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_ID, 2, &found, &err));
    assert_int_equal(found.phase_count, 0);
}

static void a_task_keeps_every_field_and_is_found_by_state(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_task found;
    fedserver_task task = {
        .wire = {.model = "m",
                 .codec_up = "u",
                 .small_tensor = 1,
                 .local_steps = 2,
                 .batch = 3,
                 .optimizer = "adam",
                 .learning_rate = 0.1f,
                 .seed = 4},
        .name = "n",
        .codec_down = "d",
        .rules = {.rounds = 5, .cohort = 8, .goal = 7, .minimum = 6, .deadline_ms = 9},
        .queued_ms = 10};
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_int_equal(task.wire.id, 1);
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_QUEUED, 0, &found, &err));
    assert_string_equal(found.name, "n");
    assert_string_equal(found.wire.model, "m");
    assert_string_equal(found.wire.codec_up, "u");
    assert_string_equal(found.codec_down, "d");
    assert_string_equal(found.wire.optimizer, "adam");
    assert_true(found.wire.learning_rate == 0.1f && found.wire.seed == 4);
    assert_memory_equal(&found.rules, &task.rules, offsetof(fedserver_round_rules, deadline_ms));
    assert_true(found.rules.deadline_ms == task.rules.deadline_ms);
    assert_int_equal(found.rules.staleness, task.rules.staleness);
    for (int k = 2; k <= 4; k++) {
        assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    }
    fedserver_task changed = found;
    for (uint64_t id = 1; id <= 2; id++) {
        changed.wire.id = id;
        changed.state = FEDSERVER_TASK_FINISHED;
        changed.finished_ms = 50; /* at the same instant: the later one is the last */
        assert_fed_ok_err(f->store->task_put(f->db, &changed, ~0U, &err));
    }
    changed.wire.id = 4;
    changed.state = FEDSERVER_TASK_RUNNING;
    assert_fed_ok_err(f->store->task_put(f->db, &changed, ~0U, &err));
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_FINISHED, 0, &found, &err));
    assert_int_equal(found.wire.id, 2);
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_QUEUED, 0, &found, &err));
    assert_int_equal(found.wire.id, 3);
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_RUNNING, 0, &found, &err));
    assert_int_equal(found.wire.id, 4);
    assert_fed_ok_err(f->store->task_find(f->db, FEDSERVER_PICK_ID, 1, &found, &err));
    assert_int_equal(found.state, FEDSERVER_TASK_FINISHED);
    assert_fed_status(f->store->task_find(f->db, FEDSERVER_PICK_ID, 5, &found, &err),
                      FED_ENOTFOUND);
}

static fed_status one_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    fedserver_round_row *rows = user;
    rows[row->number] = *row;
    return FED_OK;
}

static void a_rounds_quality_is_the_sum_of_its_evaluators(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_task task = {.name = "n"};
    fedserver_device device[2] = {{.fingerprint = {1}}, {.fingerprint = {2}}};
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_fed_ok_err(f->store->device_add(f->db, &device[0], &err));
    assert_fed_ok_err(f->store->device_add(f->db, &device[1], &err));
    for (uint32_t number = 1; number <= 2; number++) {
        const fedserver_round_row row = {.number = number, .attempts = 1, .samples = 5, .loss = 3};
        assert_fed_ok_err(f->store->round_put(f->db, 1, &row, &err));
    }
    fed_metric metric = {.task = 1, .version = 1, .samples = 30, .correct = 0, .loss = 1};
    assert_fed_ok_err(f->store->metric_put(f->db, device[0].id, &metric, &err));
    metric.correct = 30; /* again: it replaces */
    assert_fed_ok_err(f->store->metric_put(f->db, device[0].id, &metric, &err));
    metric = (fed_metric){.task = 1, .version = 1, .samples = 10, .correct = 0, .loss = 5};
    assert_fed_ok_err(f->store->metric_put(f->db, device[1].id, &metric, &err));
    fedserver_round_row rows[3] = {{0}};
    assert_fed_ok_err(f->store->round_each(f->db, 1, 10, one_round, rows, &err));
    assert_true(rows[1].measured && rows[1].accuracy == 0.75 && rows[1].test_loss == 2.0);
    assert_true(rows[1].samples == 5 && rows[1].loss == 3.0);
    assert_false(rows[2].measured);
    memset(rows, 0, sizeof rows);
    assert_fed_ok_err(f->store->round_each(f->db, 1, 1, one_round, rows, &err));
    assert_int_equal(rows[1].number, 0); /* the newest comes first */
    assert_int_equal(rows[2].number, 2);
}

static void a_model_and_its_residual_come_back(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    float values[3] = {1, 2, 3};
    float residual[3] = {4, 5, 6};
    fedserver_task task = {.name = "n"};
    fedserver_model_row row = {.digest = UINT64_MAX, .values = values, .size = 3};
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_fed_status(f->store->model_find(f->db, 1, &row, &err), FED_ENOTFOUND);
    assert_fed_ok_err(f->store->model_put(f->db, 1, &row, &err));
    fedserver_model_row read;
    assert_fed_ok_err(f->store->model_find(f->db, 1, &read, &err));
    assert_null(read.residual);
    free(read.values);
    row.version = 9;
    row.residual = residual;
    assert_fed_ok_err(f->store->model_put(f->db, 1, &row, &err));
    assert_fed_ok_err(f->store->model_find(f->db, 1, &read, &err));
    assert_true(read.version == 9 && read.digest == UINT64_MAX && read.size == 3);
    assert_memory_equal(read.values, values, sizeof values);
    assert_memory_equal(read.residual, residual, sizeof residual);
    free(read.values);
    free(read.residual);
}

static void a_pass_is_known_until_it_ends(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    const uint8_t hash[2][FED_SHA256_SIZE] = {{1}, {2}};
    fedserver_pass pass;
    for (int k = 0; k < 2; k++) {
        pass = (fedserver_pass){.kind = FEDSERVER_PASS_LINK, .expires_ms = 1000 + k};
        assert_fed_ok_err(f->store->pass_add(f->db, hash[k], &pass, &err));
    }
    assert_fed_ok_err(f->store->pass_use(f->db, hash[1], 5, &err));
    assert_fed_ok_err(f->store->pass_end(f->db, 1000, &err));
    assert_fed_status(f->store->pass_find(f->db, hash[0], &pass, &err), FED_ENOTFOUND);
    assert_fed_ok_err(f->store->pass_find(f->db, hash[1], &pass, &err));
    assert_int_equal(pass.kind, FEDSERVER_PASS_LINK);
    assert_int_equal(pass.expires_ms, 1001);
    assert_int_equal(pass.used_ms, 5);
}

static void another_processs_writes_are_noticed_once(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    bool changed;
    assert_fed_ok_err(f->store->changed(f->db, &changed, &err));
    assert_fed_ok_err(f->store->changed(f->db, &changed, &err));
    assert_false(changed);
    meddle(f, "INSERT INTO tokens (hash, expires_ms) VALUES (x'00', 1)");
    assert_fed_ok_err(f->store->changed(f->db, &changed, &err));
    assert_true(changed);
    assert_fed_ok_err(f->store->changed(f->db, &changed, &err));
    assert_false(changed);
}

static void a_full_disk_is_named_and_loses_nothing_committed(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_device device = {.fingerprint = {1}};
    fedserver_task task = {.name = "n"};
    assert_fed_ok_err(f->store->device_add(f->db, &device, &err));
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    sqlite3 *handle = *(sqlite3 **)f->db; /* its first member */
    assert_int_equal(sqlite3_exec(handle, "PRAGMA max_page_count = 1", NULL, NULL, NULL),
                     SQLITE_OK); /* SQLite raises it to what the file has */
    uint8_t *large = calloc(1, 65536);
    const fedserver_update_row row = {.task = 1, .device = device.id, .lease = 1};
    assert_fed_status(f->store->update_add(f->db, &row, large, 65536, &err), FED_ENOSPC);
    assert_non_null(strstr(err.text, "disk is full"));
    assert_non_null(strstr(err.text, f->path));
    free(large);
    f->store->rollback(f->db);
    reopen(f);
    fedserver_device read = {0};
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_int_equal(read.id, device.id);
}

/* As the first release left it. */
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
    reopen(f);
    assert_fed_ok_err(f->store->device_revoke(f->db, device.id, 7, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    reopen(f);
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_int_equal(read.id, device.id);
    assert_int_equal(read.enrolled_ms, 5);
    assert_int_equal(read.revoked_ms, 7);
    assert_true(read.name[0] == '\0' && read.software[0] == '\0' && read.seen_ms == 0 &&
                read.counted == 0 && read.late == 0 && read.refused == 0);
    sums seen = {0};
    assert_fed_ok_err(f->store->update_each(f->db, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, 1);
    assert_true(seen.last.task == 1 && seen.last.round == 3 && seen.last.device == device.id &&
                seen.last.lease == 99);
    assert_int_equal(seen.bytes, 3);
}

/* As the release before layout 8 left it, with an update in the open round. */
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
    reopen(f);
    assert_fed_ok_err(f->store->device_each(f->db, last_device, &read, &err));
    assert_true(read.counted_digest == (uint64_t)-77);
}

/* A task that says everything, and one that says as little as it can. */
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
                           .device_share = 0.25,
                           .rules = {40, 8, 7, 6, 250, 3},
                           .queued_ms = 10};
    task.phases[0] = (fedserver_phase){2, "float32", "sbc:p=0.1", 1, 2, "momentum:m=0.5", 0.3f};
    task.phases[1] = (fedserver_phase){30, "float16", "float32", 9, 8, "momentum:m=0.7", 1e-30f};
    assert_fed_ok_err(f->store->task_add(f->db, &task, &err));
    fedserver_task least = {.name = "n", .wire.model = "m", .wire.learning_rate = 16777217.0f};
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
    reopen(f);
    read_text(f, 1, after[0]);
    read_text(f, 2, after[1]);
    assert_string_equal(after[0], before[0]);
    assert_string_equal(after[1], before[1]);
    meddle(f, FED_LAYOUT_8);
    meddle(f, FED_LAYOUT_7); /* which knew no device_share: tasks of that time have no limit */
    reopen(f);
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
        WITH(what_was_committed_is_there_after_a_crash_and_nothing_else),
        WITH(a_token_is_used_once),
        WITH(a_pass_is_known_until_it_ends),
        WITH(a_device_keeps_every_field_and_64_bit_leases),
        WITH(a_task_keeps_its_phases),
        WITH(a_task_keeps_every_field_and_is_found_by_state),
        WITH(a_rounds_quality_is_the_sum_of_its_evaluators),
        WITH(a_model_and_its_residual_come_back),
        WITH(another_processs_writes_are_noticed_once),
        WITH(a_full_disk_is_named_and_loses_nothing_committed),
        WITH(an_older_database_is_brought_up_to_date_with_all_it_holds),
        WITH(the_guards_of_the_open_round_become_the_digests_of_what_is_counted),
        WITH(the_columns_of_a_task_become_its_text),
        WITH(a_task_with_a_key_of_a_newer_release_is_refused),
        WITH(foreign_and_newer_databases_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
