/* Contract of every store of stores.def for the devices in the worst groups of private rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "store_fixture.h"

static fed_status say_row(void *user, const fedserver_outlier_row *row, fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%lld/%.2s:%u of %u, %.3f, @%u%s ", (long long)row->device,
            row->fingerprint, row->worst, row->rounds, row->expected, row->last_worst,
            row->revoked ? " revoked" : "");
    return FED_OK;
}

static void expect_outliers(fixture *f, uint64_t task, uint32_t least, const char *wanted) {
    char said[600] = "";
    must(f->store->outliers_each(f->db, task, least, say_row, said, &f->err));
    assert_string_equal(said, wanted);
}

static void put_update(fixture *f, uint64_t task, uint32_t round, int64_t device, uint64_t lease) {
    const fedserver_update_row row = {
        .task = task, .round = round, .device = device, .lease = lease};
    must(f->store->update_add(f->db, &row, (const uint8_t *)"u", 1, &f->err));
}

static void rounds_are_counted_for_those_who_took_part(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    const fedserver_device one = add_device(f, 0x1a), two = add_device(f, 0x2b);
    const fedserver_device three = add_device(f, 0x3c);
    expect_outliers(f, id, 0, "");
    put_update(f, id, 1, one.id, 1);
    put_update(f, id, 1, two.id, 2);
    put_update(f, other, 1, three.id, 3);
    must(f->store->outliers_count(f->db, id, 1, 0.5, &f->err));
    must(f->store->outlier_add(f->db, id, 1, two.id, &f->err));
    must(f->store->update_clear(f->db, id, 1, &f->err));
    put_update(f, id, 2, two.id, 4);
    put_update(f, id, 2, three.id, 5);
    must(f->store->outliers_count(f->db, id, 2, 0.25, &f->err));
    must(f->store->outlier_add(f->db, id, 2, two.id, &f->err));
    keep(f);
    expect_outliers(f, id, 0,
                    "2/2b:2 of 2, 0.750, @2 1/1a:0 of 1, 0.500, @0 3/3c:0 of 1, 0.250, @0 ");
    expect_outliers(f, id, 1, "2/2b:2 of 2, 0.750, @2 ");
    expect_outliers(f, id, 3, "");
    expect_outliers(f, other, 0, "");
}

static void what_is_rolled_back_is_not_counted(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 0x1a);
    put_update(f, id, 1, one.id, 1);
    must(f->store->commit(f->db, &f->err));
    must(f->store->outliers_count(f->db, id, 1, 1, &f->err));
    must(f->store->outlier_add(f->db, id, 1, one.id, &f->err));
    f->store->rollback(f->db);
    expect_outliers(f, id, 0, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(rounds_are_counted_for_those_who_took_part),
        WITH(what_is_rolled_back_is_not_counted),
    };
    return run_for_each_store(tests);
}
