/* The table of pieces: what is put together, what is forgotten, and when. */
#include "fed_test.h"

#include "fedserver/stores/stores.h"

typedef struct world {
    const fedserver_store *store;
    char directory[256];
    void *db;
    fedserver_device devices[2];
} world;

static int setup(void **state) {
    static world w;
    fed_error err = {0};
    w = (world){.store = fedserver_store_at(0)};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    assert_fed_ok_err(w.store->create(w.directory, "", &err));
    assert_fed_ok_err(w.store->open(w.directory, "", &w.db, &err));
    for (uint8_t k = 0; k < 2; k++) {
        w.devices[k].fingerprint[0] = k;
        assert_fed_ok_err(w.store->device_add(w.db, &w.devices[k], &err));
    }
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    w->store->close(w->db);
    fed_test_rmdir(w->directory);
    return 0;
}

static void add(world *w, size_t device, uint64_t offset, const char *bytes) {
    fed_error err = {0};
    const fed_piece piece = {
        .lease = UINT64_MAX, .digest = UINT64_MAX - 1, .total = 10, .offset = offset};
    assert_fed_ok_err(w->store->piece_add(w->db, w->devices[device].id, &piece,
                                          (const uint8_t *)bytes, strlen(bytes), &err));
}

/* Where the last piece ends; 0: there is none. */
static uint64_t end_of(world *w, size_t device) {
    fed_error err = {0};
    fed_piece piece;
    uint64_t end = 0;
    fed_status status = w->store->piece_find(w->db, w->devices[device].id, &piece, &end, &err);
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    if (status == FED_OK) {
        assert_true(piece.lease == UINT64_MAX && piece.digest == UINT64_MAX - 1);
        assert_int_equal(piece.total, 10);
    }
    return end;
}

static fed_status join(world *w, size_t device, size_t cap, char *text) {
    fed_error err = {0};
    uint8_t bytes[20];
    size_t len = 0;
    FED_TRY(w->store->piece_join(w->db, w->devices[device].id, bytes, cap, &len, &err));
    memcpy(text, bytes, len);
    text[len] = '\0';
    return FED_OK;
}

static void pieces_are_put_together_in_their_order(void **state) {
    world *w = *state;
    fed_error err = {0};
    char text[20];
    assert_int_equal(end_of(w, 0), 0);
    add(w, 0, 0, "abc");
    add(w, 1, 0, "other");
    add(w, 0, 3, "d");
    add(w, 0, 4, "ef");
    assert_int_equal(end_of(w, 0), 6);
    assert_fed_ok(w->store->commit(w->db, &err));
    w->store->close(w->db);
    assert_fed_ok_err(w->store->open(w->directory, "", &w->db, &err));
    assert_int_equal(end_of(w, 0), 6);
    assert_fed_ok(join(w, 0, 6, text));
    assert_string_equal(text, "abcdef");
    assert_fed_status(join(w, 0, 5, text), FED_EFORMAT);
}

static void a_gap_is_refused(void **state) {
    world *w = *state;
    char text[20];
    add(w, 0, 0, "abc");
    add(w, 0, 4, "ef");
    assert_fed_status(join(w, 0, 20, text), FED_EFORMAT);
}

static void a_devices_pieces_are_forgotten_together(void **state) {
    world *w = *state;
    fed_error err = {0};
    add(w, 0, 0, "abc");
    add(w, 0, 3, "def");
    add(w, 1, 0, "other");
    assert_fed_ok_err(w->store->piece_clear(w->db, w->devices[0].id, &err));
    assert_int_equal(end_of(w, 0), 0);
    assert_int_equal(end_of(w, 1), 5);
}

static void pieces_of_leases_that_are_over_are_forgotten(void **state) {
    world *w = *state;
    fed_error err = {0};
    for (size_t k = 0; k < 2; k++) {
        w->devices[k].lease_task = 1;
        w->devices[k].lease_round = (uint32_t)k + 5;
        assert_fed_ok_err(w->store->device_put(w->db, &w->devices[k], &err));
        add(w, k, 0, "abc");
    }
    assert_fed_ok_err(w->store->piece_prune(w->db, 1, 5, &err));
    assert_int_equal(end_of(w, 0), 3);
    assert_fed_ok_err(w->store->piece_prune(w->db, 1, 6, &err));
    assert_int_equal(end_of(w, 0), 0);
    assert_int_equal(end_of(w, 1), 3);
    assert_fed_ok_err(w->store->piece_prune(w->db, 2, 1, &err));
    assert_int_equal(end_of(w, 1), 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(pieces_are_put_together_in_their_order),
        test(a_gap_is_refused),
        test(a_devices_pieces_are_forgotten_together),
        test(pieces_of_leases_that_are_over_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
