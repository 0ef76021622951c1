/* The open round's updates (S9 in docs/durability.md): a committed update comes back bit for
 * bit or is reported as damaged, and what a crash has left is deleted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meddle.h"

static void a_damaged_update_is_named_and_not_handed_out(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    sums seen = {0};
    const fedserver_update_row row = a_lease(f);
    assert_fed_ok_err(f->store->update_add(f->db, &row, (const uint8_t *)"ab", 2, &err));
    assert_fed_ok_err(f->store->commit(f->db, &err));
    meddle(f, "UPDATE updates SET body = x'6163'");
    assert_fed_status(f->store->update_each(f->db, 0, 0, sum_up, &seen, &err), FED_EFORMAT);
    assert_int_equal(seen.count, 0);
    assert_non_null(strstr(err.text, "device 0100000000000000 in round 7 of task 1"));
    assert_non_null(strstr(err.text, "backup"));
}

enum { LARGE = 100000 };

static const char *in_directory(const fixture *f, const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return path;
}

static long segment_size(const fixture *f) {
    struct stat info;
    return stat(in_directory(f, "updates-1-7.seg"), &info) == 0 ? (long)info.st_size : -1;
}

/* Add an update for the lease: LARGE bytes, each equal to the lease's number. */
static fed_status add_large(fixture *f, fedserver_update_row *row, uint8_t lease, fed_error *err) {
    uint8_t *body = malloc(LARGE);
    assert_non_null(body);
    memset(body, lease, LARGE);
    row->lease = lease;
    fed_status status = f->store->update_add(f->db, row, body, LARGE, err);
    free(body);
    return status;
}

static void must_add_large(fixture *f, fedserver_update_row *row, uint8_t lease) {
    fed_error err = {0};
    assert_fed_ok_err(add_large(f, row, lease, &err));
}

static void commit(fixture *f) {
    fed_error err = {0};
    assert_fed_ok_err(f->store->commit(f->db, &err));
}

static fedserver_update_row large_updates(fixture *f, uint8_t count) {
    fedserver_update_row row = a_lease(f);
    for (uint8_t k = 1; k <= count; k++) {
        must_add_large(f, &row, k);
    }
    commit(f);
    return row;
}

static void restart(fixture *f) {
    fed_error err = {0};
    reopen(f);
    assert_fed_ok_err(f->store->recover(f->db, &err));
}

static void put_file(const fixture *f, const char *name, const char *text, int flags) {
    int fd = open(in_directory(f, name), O_WRONLY | O_CREAT | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* Check that there are `count` stored updates. `sum` is the sum of the numbers of their leases,
 * because each byte of an update is that number. */
static void expect_leases(fixture *f, int count, uint64_t sum) {
    fed_error err = {0};
    sums seen = {0};
    assert_fed_ok_err(f->store->update_each(f->db, 0, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, count);
    assert_true(seen.bytes == sum * LARGE);
}

static void large_bodies_lie_in_the_rounds_file_and_come_back(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = large_updates(f, 2);
    row.lease = 3;
    assert_fed_ok_err(f->store->update_add(f->db, &row, (const uint8_t *)"small", 5, &err));
    must_add_large(f, &row, 4);
    commit(f);
    assert_int_equal(segment_size(f), 3 * LARGE);
    restart(f);
    sums seen = {0};
    assert_fed_ok_err(f->store->update_each(f->db, 0, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, 4);
    assert_true(seen.bytes == 7 * LARGE + 's' + 'm' + 'a' + 2 * 'l');
}

static void a_crash_between_append_and_commit_leaves_what_was_committed(void **state) {
    fixture *f = *state;
    fedserver_update_row row = large_updates(f, 2);
    must_add_large(f, &row, 3);
    assert_int_equal(segment_size(f), 3 * LARGE);
    restart(f);
    assert_int_equal(segment_size(f), 2 * LARGE);
    expect_leases(f, 2, 1 + 2);
    must_add_large(f, &row, 4);
    commit(f);
    restart(f);
    expect_leases(f, 3, 1 + 2 + 4);
}

static void a_torn_tail_is_cut_off(void **state) {
    fixture *f = *state;
    large_updates(f, 1);
    put_file(f, "updates-1-7.seg", "torn", O_APPEND);
    restart(f);
    assert_int_equal(segment_size(f), LARGE);
    expect_leases(f, 1, 1);
}

static void a_rounds_first_body_without_its_row_leaves_no_file(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    commit(f);
    must_add_large(f, &row, 1);
    restart(f);
    assert_int_equal(segment_size(f), -1);
}

static void a_closed_rounds_file_goes_after_the_commit_that_closes_it(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = large_updates(f, 1);
    assert_fed_ok_err(f->store->update_clear(f->db, 1, UINT32_MAX, &err));
    row.round = 8;
    must_add_large(f, &row, 2);
    assert_int_equal(segment_size(f), LARGE);
    commit(f);
    assert_int_equal(segment_size(f), -1);
    expect_leases(f, 1, 2);
    restart(f);
    expect_leases(f, 1, 2);
}

static void a_closed_rounds_file_that_a_crash_has_left_goes_at_the_next_start(void **state) {
    fixture *f = *state;
    large_updates(f, 1);
    put_file(f, "updates-1-6.seg", "of round 6", 0);
    put_file(f, "updates-1-07.seg", "somebody else's", 0);
    restart(f);
    assert_int_equal(access(in_directory(f, "updates-1-6.seg"), F_OK), -1);
    assert_int_equal(access(in_directory(f, "updates-1-07.seg"), F_OK), 0);
    expect_leases(f, 1, 1);
}

static void a_transaction_that_is_rolled_back_takes_its_bodies_along(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = large_updates(f, 1);
    must_add_large(f, &row, 2);
    assert_fed_ok_err(f->store->update_clear(f->db, 1, UINT32_MAX, &err));
    f->store->rollback(f->db);
    must_add_large(f, &row, 3);
    commit(f);
    assert_int_equal(segment_size(f), 2 * LARGE);
    expect_leases(f, 2, 1 + 3);
}

static void who_does_not_serve_touches_no_file(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    void *other;
    const uint8_t hash[FED_SHA256_SIZE] = {1};
    fedserver_update_row row = large_updates(f, 1);
    must_add_large(f, &row, 2);
    assert_fed_ok_err(f->store->open(f->directory, "", &other, &err));
    sums seen = {0};
    assert_fed_ok_err(f->store->update_each(other, 0, 0, sum_up, &seen, &err));
    assert_int_equal(seen.count, 1);
    commit(f);
    assert_fed_ok_err(
        f->store->token_add(other, hash, &(fedserver_token){.expires_ms = 1000}, &err));
    assert_fed_ok_err(f->store->commit(other, &err));
    f->store->close(other);
    assert_int_equal(segment_size(f), 2 * LARGE);
    restart(f);
    expect_leases(f, 2, 1 + 2);
}

static void expect_damage_is_named(fixture *f) {
    fed_error err = {0};
    sums seen = {0};
    restart(f);
    assert_fed_status(f->store->update_each(f->db, 0, 0, sum_up, &seen, &err), FED_EFORMAT);
    assert_int_equal(seen.count, 1);
    assert_non_null(strstr(err.text, "device 0100000000000000 in round 7 of task 1"));
    assert_non_null(strstr(err.text, "updates-1-7.seg"));
    assert_non_null(strstr(err.text, "fedserver restore"));
}

static void one_of_each(fixture *f) {
    fed_error err = {0};
    fedserver_update_row row = a_lease(f);
    assert_fed_ok_err(f->store->update_add(f->db, &row, (const uint8_t *)"s", 1, &err));
    must_add_large(f, &row, 2);
    commit(f);
}

static void a_lost_file_is_named(void **state) {
    fixture *f = *state;
    one_of_each(f);
    assert_int_equal(unlink(in_directory(f, "updates-1-7.seg")), 0);
    expect_damage_is_named(f);
}

static void a_file_that_is_cut_short_is_named(void **state) {
    fixture *f = *state;
    one_of_each(f);
    assert_int_equal(truncate(in_directory(f, "updates-1-7.seg"), LARGE - 1), 0);
    expect_damage_is_named(f);
}

static void a_damaged_byte_is_named(void **state) {
    fixture *f = *state;
    one_of_each(f);
    put_file(f, "updates-1-7.seg", "?", 0);
    expect_damage_is_named(f);
}

static void a_full_disk_is_named_and_what_was_acknowledged_is_kept(void **state) {
    fixture *f = *state;
    fed_error err = {0};
    fedserver_update_row row = large_updates(f, 1);
    row.round = 8;
    assert_int_equal(symlink("/dev/full", in_directory(f, "updates-1-8.seg")), 0);
    assert_fed_status(add_large(f, &row, 2, &err), FED_ENOSPC);
    assert_non_null(strstr(err.text, "updates-1-8.seg: the disk is full"));
    f->store->rollback(f->db);
    restart(f);
    expect_leases(f, 1, 1);
    must_add_large(f, &row, 2);
    commit(f);
    expect_leases(f, 2, 1 + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_damaged_update_is_named_and_not_handed_out),
        WITH(large_bodies_lie_in_the_rounds_file_and_come_back),
        WITH(a_crash_between_append_and_commit_leaves_what_was_committed),
        WITH(a_torn_tail_is_cut_off),
        WITH(a_rounds_first_body_without_its_row_leaves_no_file),
        WITH(a_closed_rounds_file_goes_after_the_commit_that_closes_it),
        WITH(a_closed_rounds_file_that_a_crash_has_left_goes_at_the_next_start),
        WITH(a_transaction_that_is_rolled_back_takes_its_bodies_along),
        WITH(who_does_not_serve_touches_no_file),
        WITH(a_lost_file_is_named),
        WITH(a_file_that_is_cut_short_is_named),
        WITH(a_damaged_byte_is_named),
        WITH(a_full_disk_is_named_and_what_was_acknowledged_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
