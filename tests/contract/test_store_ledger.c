/* Contract of every store of stores.def for the ledgers of private tasks, and for noise keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "store_fixture.h"

static fed_status say_row(void *user, const fedserver_ledger_row *row, fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%lld:%u@%u%s%.2s ", (long long)row->device, row->taken,
            row->last_round, row->fingerprint[0] != '\0' ? "/" : "", row->fingerprint);
    return FED_OK;
}

static void expect_ledger(fixture *f, uint64_t task, const char *wanted) {
    char said[400] = "";
    must(f->store->ledger_each(f->db, task, say_row, said, &f->err));
    assert_string_equal(said, wanted);
}

static void put_round(fixture *f, uint64_t task, uint32_t number, int64_t committed_ms,
                      uint8_t key) {
    fedserver_round_row row = {.number = number, .committed_ms = committed_ms};
    memset(row.noise_key, key, sizeof row.noise_key);
    must(f->store->round_put(f->db, task, &row, &f->err));
}

static void put_update(fixture *f, uint64_t task, uint32_t round, int64_t device, uint64_t lease) {
    const fedserver_update_row row = {
        .task = task, .round = round, .device = device, .lease = lease};
    must(f->store->update_add(f->db, &row, (const uint8_t *)"u", 1, &f->err));
}

static void a_round_is_charged_to_those_who_count_in_it(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    const fedserver_device one = add_device(f, 0x1a), two = add_device(f, 0x2b);
    expect_ledger(f, id, "");
    put_update(f, id, 1, one.id, 1);
    put_update(f, other, 1, two.id, 2);
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    must(f->store->update_clear(f->db, id, 1, &f->err));
    put_update(f, id, 5, one.id, 3);
    put_update(f, id, 5, two.id, 4);
    must(f->store->ledger_charge(f->db, id, 5, &f->err));
    keep(f);
    expect_ledger(f, id, "1:2@5/1a 2:1@5/2b ");
    must(f->store->ledger_charge(f->db, id, 5, &f->err)); /* a round is charged once */
    expect_ledger(f, id, "1:2@5/1a 2:1@5/2b ");
    expect_ledger(f, other, "");
    must(f->store->ledger_charge(f->db, id, 6, &f->err)); /* nobody counts in it */
    expect_ledger(f, id, "1:2@5/1a 2:1@5/2b ");
}

static void a_charge_that_is_rolled_back_is_none(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 0x1a);
    put_update(f, id, 1, one.id, 1);
    must(f->store->commit(f->db, &f->err));
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    f->store->rollback(f->db);
    expect_ledger(f, id, "");
}

static uint64_t left(fixture *f, uint64_t task, const char *tag, uint32_t most) {
    uint64_t count = 99;
    must(f->store->ledger_left(f->db, task, tag, most, 0, 0, &count, &f->err));
    return count;
}

static void those_who_have_participations_left_are_counted(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    fedserver_device evaluator = {.fingerprint = {9}, .role = FEDSERVER_ROLE_EVALUATOR};
    fedserver_device tagged = {.fingerprint = {8}, .tag = "t"};
    const fedserver_device one = add_device(f, 1), two = add_device(f, 2), gone = add_device(f, 3);
    must(f->store->device_add(f->db, &evaluator, &f->err));
    must(f->store->device_add(f->db, &tagged, &f->err));
    must(f->store->device_revoke(f->db, gone.id, 5, &f->err));
    assert_int_equal(left(f, id, "", 1), 3);
    assert_int_equal(left(f, id, "t", 1), 1);
    put_update(f, id, 1, one.id, 1);
    put_update(f, id, 1, two.id, 2);
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    assert_int_equal(left(f, id, "", 1), 1);
    assert_int_equal(left(f, id, "", 2), 3);
    assert_int_equal(left(f, other, "", 1), 3);
}

static fed_status one_round(void *user, const fedserver_round_row *row, fed_error *err) {
    fedserver_round_row *rows = user;
    (void)err;
    rows[row->number] = *row;
    return FED_OK;
}

static uint64_t free_in(fixture *f, uint64_t task, uint32_t most, uint32_t round, uint32_t apart) {
    uint64_t count = 99;
    must(f->store->ledger_left(f->db, task, "", most, round, apart, &count, &f->err));
    return count;
}

static void those_who_rest_may_not_take_part(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 1), two = add_device(f, 2);
    add_device(f, 3);
    put_update(f, id, 4, one.id, 1);
    must(f->store->ledger_charge(f->db, id, 4, &f->err));
    put_update(f, id, 5, two.id, 2);
    must(f->store->ledger_charge(f->db, id, 5, &f->err));
    assert_int_equal(free_in(f, id, 9, 6, 1), 3);
    assert_int_equal(free_in(f, id, 9, 6, 2), 2);
    assert_int_equal(free_in(f, id, 9, 6, 3), 1);
    assert_int_equal(free_in(f, id, 9, 6, 7), 1); /* the first rounds */
    assert_int_equal(free_in(f, id, 1, 6, 1), 1);
    assert_int_equal(free_in(f, id, 1, 5, 3), 2); /* one is charged for round 5 already */
}

static void an_open_round_is_dropped(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    fedserver_round_row rows[4] = {{0}};
    fedserver_round_row row = {.number = 1, .attempts = 1, .opened_ms = 5, .committed_ms = 6};
    must(f->store->round_put(f->db, id, &row, &f->err));
    row = (fedserver_round_row){.number = 2, .attempts = 1, .opened_ms = 7};
    must(f->store->round_put(f->db, id, &row, &f->err));
    must(f->store->round_drop(f->db, id, &f->err));
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    assert_int_equal(rows[1].committed_ms, 6);
    assert_int_equal(rows[2].number, 0);
}

static void a_round_keeps_what_it_promises_until_its_key_is_forgotten(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const uint8_t none[32] = {0};
    fedserver_round_row rows[5] = {{0}};
    fedserver_round_row row = {.number = 1, .clip = 0.5, .sigma2 = 1e9, .rho = 0.1};
    memset(row.set_digest, 0xab, sizeof row.set_digest);
    memset(row.noise_key, 0xcd, sizeof row.noise_key);
    must(f->store->round_put(f->db, id, &row, &f->err));
    for (uint32_t number = 2; number <= 4; number++) {
        put_round(f, id, number, 1, 0xee);
    }
    must(f->store->noise_forget(f->db, id, 1, 3, &f->err));
    keep(f);
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    assert_true(rows[1].clip == 0.5 && rows[1].sigma2 == 1e9 && rows[1].rho == 0.1);
    assert_memory_equal(rows[1].set_digest, row.set_digest, 32);
    assert_memory_equal(rows[1].noise_key, row.noise_key, 32);
    assert_memory_equal(rows[2].noise_key, none, 32);
    assert_memory_equal(rows[3].noise_key, none, 32);
    assert_true(rows[4].noise_key[31] == 0xee && rows[4].clip == 0);
}

static void what_a_copy_cannot_know_is_charged_to_everybody(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 0x1a), two = add_device(f, 0x2b);
    const uint8_t none[32] = {0};
    uint64_t lost = 99;
    uint32_t count = 99;
    fedserver_round_row rows[3] = {{0}};
    put_update(f, id, 1, one.id, 1);
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    must(f->store->update_clear(f->db, id, 1, &f->err));
    put_round(f, id, 1, 1, 0xee);
    put_round(f, id, 2, 0, 0xee);
    put_update(f, id, 2, one.id, 2);
    put_update(f, id, 2, two.id, 3);
    must(f->store->ledger_lose(f->db, id, 3, 4, &lost, &f->err));
    keep(f);
    expect_ledger(f, id, "1:4@1/1a 2:3@0/2b ");
    assert_int_equal(lost, 1);
    must(f->store->update_count(f->db, id, 2, &count, &f->err));
    assert_int_equal(count, 1);
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    assert_memory_equal(rows[1].noise_key, none, 32);
    assert_true(rows[2].noise_key[0] == 0xee);
}

static void a_closing_round_keeps_its_set(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 0x1a);
    uint64_t lost = 99;
    const fedserver_round_row row = {.number = 1, .closing_ms = 5};
    must(f->store->round_put(f->db, id, &row, &f->err));
    put_update(f, id, 1, one.id, 1);
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    must(f->store->ledger_lose(f->db, id, 1, 1, &lost, &f->err));
    assert_int_equal(lost, 0);
}

static void the_ledger_of_a_copy_says_so(void **state) {
    fixture *f = *state;
    fixture copy = *f;
    uint64_t lost;
    if (f->store->copy == NULL) {
        return;
    }
    const uint64_t id = add_task(f, "n"), over = add_task(f, "o");
    const fedserver_device one = add_device(f, 0x1a);
    put_state(f, over, FEDSERVER_TASK_FINISHED, 5);
    put_update(f, id, 1, one.id, 1);
    must(f->store->ledger_charge(f->db, id, 1, &f->err));
    must(f->store->commit(f->db, &f->err));
    fed_test_tmpdir(copy.directory, sizeof copy.directory);
    must(f->store->copy(f->directory, copy.directory, &f->err));
    expect_ledger(f, id, "1:1@1/1a ");
    must(f->store->open(copy.directory, f->where, &copy.db, &f->err));
    expect_ledger(&copy, id, "0:0@0 1:1@1/1a ");
    expect_ledger(&copy, over, "");
    must(f->store->ledger_lose(copy.db, id, 2, 9, &lost, &f->err));
    expect_ledger(&copy, id, "1:3@1/1a ");
    copy.store->close(copy.db);
    fed_test_rmdir(copy.directory);
}

static uint64_t generation_of(fixture *f, uint64_t id) {
    fedserver_task task;
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, id, &task, &f->err));
    return task.generation;
}

static void a_task_has_another_generation_once_it_is_renewed_or_copied(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    const uint64_t first = generation_of(f, id), others = generation_of(f, other);
    fedserver_task task;
    assert_true(first != others);
    must(f->store->task_find(f->db, FEDSERVER_PICK_ID, id, &task, &f->err));
    must(f->store->task_renew(f->db, &task, &f->err));
    keep(f);
    const uint64_t second = generation_of(f, id);
    assert_true(second != first && second == task.generation);
    assert_true(generation_of(f, other) == others);
    put_state(f, other, FEDSERVER_TASK_FINISHED, 5);
    must(f->store->copied(f->db, &f->err));
    keep(f);
    must(f->store->copied(f->db, &f->err)); /* a copy of a copy */
    assert_true(generation_of(f, id) != second && generation_of(f, other) != others);
    expect_ledger(f, id, "0:0@0 ");
    expect_ledger(f, other, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_round_is_charged_to_those_who_count_in_it),
        WITH(a_charge_that_is_rolled_back_is_none),
        WITH(those_who_have_participations_left_are_counted),
        WITH(those_who_rest_may_not_take_part),
        WITH(an_open_round_is_dropped),
        WITH(a_round_keeps_what_it_promises_until_its_key_is_forgotten),
        WITH(what_a_copy_cannot_know_is_charged_to_everybody),
        WITH(a_closing_round_keeps_its_set),
        WITH(the_ledger_of_a_copy_says_so),
        WITH(a_task_has_another_generation_once_it_is_renewed_or_copied),
    };
    return run_for_each_store(tests);
}
