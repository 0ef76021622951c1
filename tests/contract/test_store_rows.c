/* Contract of every store for tokens, devices, tasks and the audit log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "store_fixture.h"

#include "fedserver/stores/stores.h"

static void a_token_is_used_once(void **state) {
    fixture *f = *state;
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    must(f->store->token_add(f->db, hash, &(fedserver_token){.expires_ms = 1000}, &f->err));
    must(f->store->token_use(f->db, hash, 5, &f->err));
    assert_fed_status(f->store->token_use(f->db, hash, 6, &f->err), FED_ENOTFOUND);
}

typedef struct token_list {
    uint8_t first[8];
    int count;
} token_list;

static fed_status list_token(void *user, const uint8_t *hash, const fedserver_token *token,
                             fed_error *err) {
    (void)err, (void)token;
    token_list *list = user;
    list->first[list->count++] = hash[0];
    return FED_OK;
}

static void tokens_are_listed_in_the_order_in_which_they_were_made(void **state) {
    fixture *f = *state;
    token_list list = {.count = 0};
    static const struct {
        uint8_t hash;
        int64_t made_ms;
    } made[] = {{9, 5}, {1, 7}, {4, 6}, {3, 6}};
    for (size_t k = 0; k < sizeof made / sizeof made[0]; k++) {
        const uint8_t hash[FED_SHA256_SIZE] = {made[k].hash};
        const fedserver_token token = {.made_ms = made[k].made_ms, .expires_ms = 1000};
        must(f->store->token_add(f->db, hash, &token, &f->err));
    }
    must(f->store->token_each(f->db, list_token, &list, &f->err));
    assert_int_equal(list.count, 4);
    assert_memory_equal(list.first, ((uint8_t[]){9, 3, 4, 1}), 4);
}

static void a_token_keeps_every_field_and_is_withdrawn_for_good(void **state) {
    fixture *f = *state;
    uint8_t hash[FED_SHA256_SIZE];
    memset(hash, 0xfe, sizeof hash);
    const fedserver_token token = {.made_ms = 1,
                                   .expires_ms = INT64_MAX,
                                   .role = FEDSERVER_ROLE_EVALUATOR,
                                   .tag = "fleet",
                                   .name = "pump"};
    fedserver_token read;
    must(f->store->token_add(f->db, hash, &token, &f->err));
    must(f->store->token_withdraw(f->db, hash, 8, &f->err));
    assert_fed_status(f->store->token_use(f->db, hash, 9, &f->err), FED_ENOTFOUND);
    assert_fed_status(f->store->token_withdraw(f->db, hash, 9, &f->err), FED_ENOTFOUND);
    keep(f);
    must(f->store->token_find(f->db, hash, &read, &f->err));
    assert_true(read.made_ms == 1 && read.expires_ms == INT64_MAX && read.used_ms == 0 &&
                read.withdrawn_ms == 8 && read.role == FEDSERVER_ROLE_EVALUATOR);
    assert_string_equal(read.tag, "fleet");
    assert_string_equal(read.name, "pump");
}

static void a_pass_is_known_until_it_ends(void **state) {
    fixture *f = *state;
    const uint8_t hash[2][FED_SHA256_SIZE] = {{1}, {2}};
    fedserver_pass pass;
    for (int k = 0; k < 2; k++) {
        pass = (fedserver_pass){.kind = FEDSERVER_PASS_LINK, .expires_ms = 1000 + k};
        must(f->store->pass_add(f->db, hash[k], &pass, &f->err));
    }
    must(f->store->pass_use(f->db, hash[1], 5, &f->err));
    must(f->store->pass_end(f->db, 1000, &f->err));
    assert_fed_status(f->store->pass_find(f->db, hash[0], &pass, &f->err), FED_ENOTFOUND);
    must(f->store->pass_find(f->db, hash[1], &pass, &f->err));
    assert_int_equal(pass.kind, FEDSERVER_PASS_LINK);
    assert_int_equal(pass.expires_ms, 1001);
    assert_int_equal(pass.used_ms, 5);
}

static fed_status last_device(void *user, const fedserver_device *device, fed_error *err) {
    (void)err;
    *(fedserver_device *)user = *device;
    return FED_OK;
}

static void a_device_keeps_every_field_and_64_bit_leases(void **state) {
    fixture *f = *state;
    fedserver_device device = {.fingerprint = {7}, .enrolled_ms = 1, .expires_ms = 2};
    must(f->store->device_add(f->db, &device, &f->err));
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
    strcpy(device.computes_on, "cuda:0 H100");
    must(f->store->device_rename(f->db, device.id, "pump 3", &f->err));
    must(f->store->device_put(f->db, &device, &f->err));
    keep(f);
    fedserver_device read;
    memset(&read, 0, sizeof read);
    must(f->store->device_each(f->db, last_device, &read, &f->err));
    assert_true(read.id == device.id && read.lease == device.lease && read.lease_task == 3 &&
                read.lease_round == 4 && read.lease_attempt == 5 &&
                read.counted_lease == device.counted_lease && read.evaluated_task == 6 &&
                read.evaluated_version == UINT32_MAX && read.enrolled_ms == 1 &&
                read.expires_ms == 2 && read.counted_digest == UINT64_MAX - 2 &&
                read.cloned_ms == 7 && read.authority == UINT64_MAX - 3);
    assert_true(read.seen_ms == 7 && read.counted == 8 && read.late == 9 && read.refused == 10);
    assert_string_equal(read.software, "fedclientd/1");
    assert_string_equal(read.computes_on, "cuda:0 H100");
    assert_string_equal(read.name, "pump 3");
    assert_memory_equal(read.fingerprint, device.fingerprint, FED_SHA256_SIZE);
}

static void a_fingerprint_is_one_devices(void **state) {
    fixture *f = *state;
    fedserver_device second = add_device(f, 1);
    assert_fed_status(f->store->device_add(f->db, &second, &f->err), FED_EIO);
    assert_true(f->err.text[0] != '\0');
}

/* Two processes have copies of a row. A write of one must not undo a write of the other. */
static void a_devices_state_leaves_its_identity_alone(void **state) {
    fixture *f = *state;
    fedserver_device device = add_device(f, 1), read;
    const uint8_t renamed[FED_SHA256_SIZE] = {2};
    must(f->store->device_revoke(f->db, device.id, 5, &f->err));
    must(f->store->device_revoke(f->db, device.id, 6, &f->err));
    must(f->store->device_renew(f->db, device.id, 2000, &f->err));
    must(f->store->device_rename(f->db, device.id, "pump 3", &f->err));
    must(f->store->device_name(f->db, device.id, renamed, &f->err));
    device.lease = 7;
    strcpy(device.name, "an older name");
    must(f->store->device_put(f->db, &device, &f->err));
    assert_fed_status(f->store->device_find(f->db, device.fingerprint, &read, &f->err),
                      FED_ENOTFOUND);
    must(f->store->device_find(f->db, renamed, &read, &f->err));
    assert_true(read.id == device.id && read.lease == 7 && read.revoked_ms == 5 &&
                read.expires_ms == 2000 && read.enrolled_ms == 1);
    assert_string_equal(read.name, "pump 3");
}

typedef struct device_list {
    fedserver_device items[8];
    size_t count, most;
} device_list;

static fed_status list_device(void *user, const fedserver_device *device, fed_error *err) {
    device_list *list = user;
    if (list->count == list->most) {
        return fed_fail(err, FED_ECANCELED, "enough");
    }
    list->items[list->count++] = *device;
    return FED_OK;
}

static void a_devices_change_is_found_among_others(void **state) {
    fixture *f = *state;
    const uint8_t renamed[FED_SHA256_SIZE] = {99};
    fedserver_device devices[4];
    for (uint8_t k = 0; k < 4; k++) {
        devices[k] = add_device(f, (uint8_t)(k + 1));
    }
    int64_t newest = -1;
    device_list all = {.most = 8};
    must(f->store->device_changes(f->db, 0, list_device, &all, &f->err));
    assert_int_equal(all.count, 4);
    const int64_t seen = all.items[3].change;
    must(f->store->device_newest(f->db, &newest, &f->err));
    assert_int_equal(newest, seen);
    assert_true(all.items[3].id == devices[3].id && all.items[2].change < seen);

    must(f->store->device_rename(f->db, devices[2].id, "pump 3", &f->err));
    must(f->store->device_revoke(f->db, devices[0].id, 5, &f->err));
    must(f->store->device_name(f->db, devices[1].id, renamed, &f->err));
    devices[3].lease = 7; /* device_changes must not report a change of the state */
    must(f->store->device_put(f->db, &devices[3], &f->err));
    device_list changed = {.most = 8};
    must(f->store->device_changes(f->db, seen, list_device, &changed, &f->err));
    assert_int_equal(changed.count, 3);
    assert_true(changed.items[0].id == devices[2].id && changed.items[1].id == devices[0].id &&
                changed.items[2].id == devices[1].id);
    assert_string_equal(changed.items[0].name, "pump 3");
    assert_true(changed.items[1].revoked_ms == 5);

    must(f->store->device_renew(f->db, devices[2].id, 2000, &f->err));
    device_list last = {.most = 8};
    must(f->store->device_changes(f->db, changed.items[2].change, list_device, &last, &f->err));
    assert_true(last.count == 1 && last.items[0].expires_ms == 2000);
    must(f->store->device_newest(f->db, &newest, &f->err));
    assert_int_equal(newest, last.items[0].change);
    device_list none = {.most = 0};
    assert_fed_status(f->store->device_changes(f->db, 0, list_device, &none, &f->err),
                      FED_ECANCELED);
}

static void without_devices_there_is_no_change(void **state) {
    fixture *f = *state;
    int64_t newest = -1;
    must(f->store->device_newest(f->db, &newest, &f->err));
    assert_int_equal(newest, 0);
}

static void lease(fixture *f, fedserver_device *device, uint64_t name, uint64_t task,
                  uint32_t round) {
    device->lease = name;
    device->lease_task = task;
    device->lease_round = round;
    must(f->store->device_lease(f->db, device, &f->err));
}

/* Check that only these devices have a lease for this round of task 1 or a later one. */
static void assert_leased(fixture *f, uint32_t round, const fedserver_device *const *devices,
                          size_t count) {
    device_list found = {.most = 8};
    must(f->store->device_leased(f->db, 1, round, list_device, &found, &f->err));
    assert_int_equal(found.count, count);
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(found.items[k].id, devices[k]->id);
        assert_int_equal(found.items[k].lease, devices[k]->lease);
    }
}

static void who_has_a_lease_is_found_until_it_is_over(void **state) {
    fixture *f = *state;
    fedserver_device d[4];
    for (uint8_t k = 0; k < 4; k++) {
        d[k] = add_device(f, (uint8_t)(k + 1));
    }
    lease(f, &d[2], 12, 1, 5);
    lease(f, &d[1], 11, 1, 6);
    lease(f, &d[0], 10, 2, 6);
    keep(f);
    assert_leased(f, 5, (const fedserver_device *[]){&d[1], &d[2]}, 2);
    assert_leased(f, 6, (const fedserver_device *[]){&d[1]}, 1);
    lease(f, &d[2], 12, 1, 7);
    assert_leased(f, 7, (const fedserver_device *[]){&d[2]}, 1);
    lease(f, &d[0], 13, 1, 7);
    assert_leased(f, 0, (const fedserver_device *[]){&d[0], &d[1], &d[2]}, 3);
    d[1].counted_lease = d[1].lease;
    must(f->store->device_put(f->db, &d[1], &f->err));
    assert_leased(f, 0, (const fedserver_device *[]){&d[0], &d[2]}, 2);
    must(f->store->lease_prune(f->db, 1, 7, &f->err));
    assert_leased(f, 7, (const fedserver_device *[]){&d[0], &d[2]}, 2);
    d[0].lease_task = 0;
    must(f->store->device_put(f->db, &d[0], &f->err));
    assert_leased(f, 7, (const fedserver_device *[]){&d[2]}, 1);
    device_list none = {.most = 0};
    assert_fed_status(f->store->device_leased(f->db, 1, 7, list_device, &none, &f->err),
                      FED_ECANCELED);
}

static void a_device_is_found_by_its_id(void **state) {
    fixture *f = *state;
    fedserver_device read = {.id = -1};
    const fedserver_device a = add_device(f, 1), b = add_device(f, 2);
    must(fedserver_store_device(f->store, f->db, b.id, &read, &f->err));
    assert_memory_equal(read.fingerprint, b.fingerprint, sizeof b.fingerprint);
    assert_fed_status(fedserver_store_device(f->store, f->db, a.id - 1, &read, &f->err),
                      FED_ENOTFOUND);
    assert_fed_status(fedserver_store_device(f->store, f->db, b.id + 1, &read, &f->err),
                      FED_ENOTFOUND);
    assert_int_equal(read.id, b.id);
}

static void devices_come_in_pages_and_say_whether_they_declined(void **state) {
    fixture *f = *state;
    fedserver_task task = {.name = "n"};
    fedserver_device devices[4];
    uint64_t count = 0;
    must(f->store->task_add(f->db, &task, &f->err));
    for (uint8_t k = 0; k < 4; k++) {
        devices[k] = add_device(f, (uint8_t)(9 - k));
    }
    const uint64_t id = task.wire.id;
    must(f->store->decline_put(f->db, id, devices[2].id, "no", 1, &f->err));
    device_list page = {.most = 8};
    must(f->store->device_page(f->db, id, devices[0].id, 2, list_device, &page, &f->err));
    assert_int_equal(page.count, 2);
    assert_true(page.items[0].id == devices[1].id && page.items[0].declined_ms == 0);
    assert_true(page.items[1].id == devices[2].id && page.items[1].declined_ms == 1);
    device_list all = {.most = 3};
    assert_fed_status(f->store->device_each(f->db, list_device, &all, &f->err), FED_ECANCELED);
    assert_string_equal(f->err.text, "enough");
    assert_int_equal(all.count, 3);
    must(f->store->device_count(f->db, &count, &f->err));
    assert_int_equal(count, 4);
}

static void a_task_keeps_its_phases(void **state) {
    fixture *f = *state;
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
    must(f->store->task_add(f->db, &task, &f->err));
    task.phase_count = 0;
    must(f->store->task_add(f->db, &task, &f->err));
    keep(f);
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, 1, &found, &f->err));
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
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, 2, &found, &f->err));
    assert_int_equal(found.phase_count, 0);
}

static void a_task_keeps_every_field_and_is_found_by_state(void **state) {
    fixture *f = *state;
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
    must(f->store->task_add(f->db, &task, &f->err));
    assert_int_equal(task.wire.id, 1);
    must(f->store->task_find(f->db, FEDSERVER_PICK_QUEUED, 0, &found, &f->err));
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
        must(f->store->task_add(f->db, &task, &f->err));
    }
    fedserver_task changed = found;
    for (uint64_t id = 1; id <= 2; id++) {
        changed.wire.id = id;
        changed.state = FEDSERVER_TASK_FINISHED;
        /* finished at the same time: the larger id counts as the last */
        changed.finished_ms = 50;
        must(f->store->task_put(f->db, &changed, ~0U, &f->err));
    }
    changed.wire.id = 4;
    changed.state = FEDSERVER_TASK_RUNNING;
    must(f->store->task_put(f->db, &changed, ~0U, &f->err));
    must(f->store->task_find(f->db, FEDSERVER_PICK_FINISHED, 0, &found, &f->err));
    assert_int_equal(found.wire.id, 2);
    must(f->store->task_find(f->db, FEDSERVER_PICK_QUEUED, 0, &found, &f->err));
    assert_int_equal(found.wire.id, 3);
    must(f->store->task_find(f->db, FEDSERVER_PICK_RUNNING, 0, &found, &f->err));
    assert_int_equal(found.wire.id, 4);
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, 1, &found, &f->err));
    assert_int_equal(found.state, FEDSERVER_TASK_FINISHED);
    assert_fed_status(f->store->task_find(f->db, FEDSERVER_PICK_ID, 5, &found, &f->err),
                      FED_ENOTFOUND);
}

static fed_status say_task(void *user, const fedserver_task_entry *entry, fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%s%u%u ", entry->name, entry->position, entry->version);
    return FED_OK;
}

static void tasks_numbers_have_no_gap(void **state) {
    fixture *f = *state;
    fedserver_task task = {.name = "n"};
    for (int k = 0; k < 2; k++) {
        must(f->store->task_add(f->db, &task, &f->err));
        assert_int_equal(task.wire.id, 1);
        f->store->rollback(f->db);
    }
    for (uint64_t id = 1; id <= 2; id++) {
        must(f->store->task_add(f->db, &task, &f->err));
        assert_true(task.wire.id == id);
    }
}

static void tasks_are_listed_as_they_run_wait_and_ended(void **state) {
    fixture *f = *state;
    char said[200] = "";
    static const char names[] = "abcdefgh";
    uint64_t id[8];
    for (size_t k = 0; k < 8; k++) {
        id[k] = add_task(f, (char[]){names[k], '\0'});
    }
    put_state(f, id[0], FEDSERVER_TASK_FINISHED, 50);
    put_state(f, id[1], FEDSERVER_TASK_CANCELLED, 60);
    /* finished at the same time as the first task, later in the queue */
    put_state(f, id[2], FEDSERVER_TASK_FINISHED, 50);
    put_state(f, id[3], FEDSERVER_TASK_PAUSED, 0);
    put_state(f, id[5], FEDSERVER_TASK_RUNNING, 0);
    must(f->store->task_place(f->db, id[7], 0, &f->err));
    for (uint32_t k = 1; k <= 3; k++) {
        const fedserver_round_row row = {.number = k, .committed_ms = k < 3};
        must(f->store->round_put(f->db, id[5], &row, &f->err));
    }
    must(f->store->task_each(f->db, 0, say_task, said, &f->err));
    assert_string_equal(said, "f02 h10 e20 g30 d00 b00 c00 a00 ");
}

static void a_task_changes_only_from_a_state_that_was_expected(void **state) {
    fixture *f = *state;
    fedserver_task task;
    const uint64_t id = add_task(f, "n");
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, id, &task, &f->err));
    task.state = FEDSERVER_TASK_RUNNING;
    task.started_ms = 20;
    assert_fed_status(f->store->task_put(f->db, &task, 1U << FEDSERVER_TASK_PAUSED, &f->err),
                      FED_ENOTFOUND);
    must(f->store->task_put(f->db, &task, 1U << FEDSERVER_TASK_QUEUED, &f->err));
    must(f->store->task_find(f->db, FEDSERVER_PICK_RUNNING, 0, &task, &f->err));
    assert_true(task.wire.id == id && task.started_ms == 20 && task.queued_ms == 10);
}

static fed_status keep_entry(void *user, const fedserver_task_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_task_entry *)user = *entry;
    return FED_OK;
}

static void declines_are_counted_by_their_reasons(void **state) {
    fixture *f = *state;
    char said[300] = "";
    fedserver_task_entry entry;
    static const char *const reasons[] = {"old", "x", "b", "a", "x", "d", "c", "x", "a"};
    const uint64_t id = add_task(f, "n");
    fedserver_device last = {0};
    for (uint8_t k = 0; k < 9; k++) {
        const fedserver_device device = add_device(f, (uint8_t)(k + 1));
        last = device;
        must(f->store->decline_put(f->db, id, device.id, reasons[k], 100 + k, &f->err));
        if (k == 2) {
            must(f->store->decline_put(f->db, id, device.id, "b2", 200, &f->err));
        }
    }
    must(f->store->task_each(f->db, 100, keep_entry, &entry, &f->err));
    assert_int_equal(entry.declined, 8);
    assert_int_equal(entry.declined_ms, 101);
    static const char *const most[FEDSERVER_TASK_REASONS] = {"x", "a", "b2", "c"};
    static const uint32_t devices[FEDSERVER_TASK_REASONS] = {3, 2, 1, 1};
    for (size_t k = 0; k < FEDSERVER_TASK_REASONS; k++) {
        assert_string_equal(entry.reasons[k].text, most[k]);
        assert_int_equal(entry.reasons[k].devices, devices[k]);
    }
    must(f->store->decline_each(f->db, id, 106, say_decline, said, &f->err));
    assert_string_equal(said, "3:b2@200 8:x@107 9:a@108 ");
    must(f->store->device_revoke(f->db, last.id, 5, &f->err));
    said[0] = '\0';
    must(f->store->decline_each(f->db, id, 107, say_decline, said, &f->err));
    assert_string_equal(said, "3:b2@200 9:a@108 revoked ");
    must(f->store->decline_forget(f->db, id, &f->err));
    said[0] = '\0';
    must(f->store->decline_each(f->db, id, 0, say_decline, said, &f->err));
    assert_string_equal(said, "");
}

typedef struct line_count {
    size_t lines;
    fedserver_audit_entry first, last;
} line_count;

static fed_status count_line(void *user, const fedserver_audit_entry *entry, fed_error *err) {
    line_count *count = user;
    (void)err;
    count->first = count->lines == 0 ? *entry : count->first;
    count->last = *entry;
    count->lines++;
    return FED_OK;
}

static void the_audit_log_keeps_its_newest_lines(void **state) {
    fixture *f = *state;
    enum { MORE = 3 };
    for (int64_t k = 1; k <= FEDSERVER_AUDIT_LINES + MORE; k++) {
        fedserver_audit_entry entry = {.at_ms = k, .event = "enrolled"};
        snprintf(entry.detail, sizeof entry.detail, "line=%d", (int)k);
        must(f->store->audit_add(f->db, &entry, &f->err));
    }
    line_count all = {0}, late = {0};
    must(f->store->audit_each(f->db, 0, count_line, &all, &f->err));
    assert_int_equal(all.lines, FEDSERVER_AUDIT_LINES);
    assert_int_equal(all.first.at_ms, MORE + 1);
    assert_string_equal(all.last.event, "enrolled");
    assert_string_equal(all.last.detail, "line=100003");
    must(f->store->audit_each(f->db, FEDSERVER_AUDIT_LINES, count_line, &late, &f->err));
    assert_int_equal(late.lines, MORE + 1);
}

static void lines_about_tasks_are_read_once(void **state) {
    fixture *f = *state;
    static const char *const events[] = {"task_paused", "enrolled", "task_resumed", "tasks"};
    line_count lines = {0};
    int64_t read = 0;
    for (int64_t k = 0; k < 4; k++) {
        fedserver_audit_entry entry = {.at_ms = 10 - k};
        snprintf(entry.event, sizeof entry.event, "%s", events[k]);
        must(f->store->audit_add(f->db, &entry, &f->err));
    }
    keep(f);
    must(f->store->audit_tasks(f->db, &read, count_line, &lines, &f->err));
    assert_int_equal(lines.lines, 3);
    assert_string_equal(lines.first.event, "task_paused");
    assert_int_equal(lines.last.at_ms, 7);
    must(f->store->audit_tasks(f->db, &read, count_line, &lines, &f->err));
    assert_int_equal(lines.lines, 3);
    must(f->store->audit_add(f->db, &lines.first, &f->err));
    must(f->store->audit_tasks(f->db, &read, count_line, &lines, &f->err));
    assert_int_equal(lines.lines, 4);
}

/* Store a layout of `len` bytes that are not all text, and find it again. */
static void keep_layout(fixture *f, size_t len) {
    size_t found_len = 0;
    void *found = NULL;
    const uint64_t id = add_task(f, "n");
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t k = 0; k < len; k++) {
        bytes[k] = (uint8_t)(k * 7 + k / 256);
    }
    must(f->store->layout_put(f->db, id, bytes, len, &f->err));
    keep(f);
    must(f->store->layout_find(f->db, id, &found, &found_len, &f->err));
    assert_int_equal(found_len, len);
    assert_memory_equal(found, bytes, len);
    free(found);
    free(bytes);
}

static void a_layout_is_kept_with_its_task(void **state) {
    fixture *f = *state;
    void *found = NULL;
    size_t len = 0;
    uint64_t cleared = 0;
    const uint64_t without = add_task(f, "n");
    keep_layout(f, 1);
    keep_layout(f, 100000);
    keep_layout(f, 11 << 20);
    assert_fed_status(f->store->layout_find(f->db, without, &found, &len, &f->err), FED_ENOTFOUND);
    const fedserver_model_row row = {.values = (float[]){1}, .size = 1};
    must(f->store->model_put(f->db, without + 1, &row, &f->err));
    put_state(f, without + 1, FEDSERVER_TASK_CANCELLED, 5);
    must(f->store->task_clear(f->db, &cleared, &f->err));
    assert_int_equal(cleared, without + 1);
    must(f->store->layout_find(f->db, without + 1, &found, &len, &f->err));
    assert_int_equal(len, 1);
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_token_is_used_once),
        WITH(tokens_are_listed_in_the_order_in_which_they_were_made),
        WITH(a_token_keeps_every_field_and_is_withdrawn_for_good),
        WITH(a_pass_is_known_until_it_ends),
        WITH(a_device_keeps_every_field_and_64_bit_leases),
        WITH(a_fingerprint_is_one_devices),
        WITH(a_devices_state_leaves_its_identity_alone),
        WITH(a_devices_change_is_found_among_others),
        WITH(without_devices_there_is_no_change),
        WITH(who_has_a_lease_is_found_until_it_is_over),
        WITH(a_device_is_found_by_its_id),
        WITH(devices_come_in_pages_and_say_whether_they_declined),
        WITH(a_task_keeps_its_phases),
        WITH(a_task_keeps_every_field_and_is_found_by_state),
        WITH(tasks_numbers_have_no_gap),
        WITH(a_layout_is_kept_with_its_task),
        WITH(tasks_are_listed_as_they_run_wait_and_ended),
        WITH(a_task_changes_only_from_a_state_that_was_expected),
        WITH(declines_are_counted_by_their_reasons),
        WITH(the_audit_log_keeps_its_newest_lines),
        WITH(lines_about_tasks_are_read_once),
    };
    return run_for_each_store(tests);
}
