/* The record file of an edge aggregator: it is read as it was written, and damage is found. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fed/file.h"
#include "fedserver/operator/edge_record.h"

static const fedserver_edge_record some = {.upstream = UINT64_C(1) << 60,
                                           .task = 3,
                                           .open_round = 12,
                                           .open_version = 40,
                                           .closed_round = 11,
                                           .closed_version = 39,
                                           .closed_number = UINT64_C(1) << 40,
                                           .closed_updates = 16,
                                           .closed_samples = UINT32_MAX,
                                           .closed_loss = 0.25f};

static int setup(void **state) {
    static char folder[256];
    fed_test_tmpdir(folder, sizeof folder);
    *state = folder;
    return 0;
}

static int teardown(void **state) {
    fed_test_rmdir(*state);
    return 0;
}

static void assert_same(const fedserver_edge_record *a, const fedserver_edge_record *b) {
    assert_int_equal(a->upstream, b->upstream);
    assert_int_equal(a->task, b->task);
    assert_int_equal(a->open_round, b->open_round);
    assert_int_equal(a->open_version, b->open_version);
    assert_int_equal(a->closed_round, b->closed_round);
    assert_int_equal(a->closed_version, b->closed_version);
    assert_int_equal(a->closed_number, b->closed_number);
    assert_int_equal(a->closed_updates, b->closed_updates);
    assert_int_equal(a->closed_samples, b->closed_samples);
    assert_true(a->closed_loss == b->closed_loss);
}

static void what_was_written_comes_back(void **state) {
    fed_error err = {0};
    fedserver_edge_record read = {.task = 9};
    assert_fed_ok_err(fedserver_edge_record_read(*state, &read, &err));
    assert_same(&read, &(fedserver_edge_record){0});
    assert_fed_ok_err(fedserver_edge_record_write(*state, &some, &err));
    assert_fed_ok_err(fedserver_edge_record_read(*state, &read, &err));
    assert_same(&read, &some);
}

static void each_changed_bit_and_each_cut_is_noticed(void **state) {
    char path[300];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    fedserver_edge_record read;
    assert_fed_ok_err(fedserver_edge_record_write(*state, &some, &err));
    snprintf(path, sizeof path, "%s/site", (const char *)*state);
    assert_fed_ok_err(fed_file_read(path, 4096, &data, &len, &err));
    for (size_t bit = 0; bit < 8 * len; bit++) {
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        fed_test_put(*state, "site", data, len);
        assert_fed_status(fedserver_edge_record_read(*state, &read, &err), FED_EFORMAT);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++) {
        fed_test_put(*state, "site", data, cut);
        assert_fed_status(fedserver_edge_record_read(*state, &read, &err), FED_EFORMAT);
    }
    assert_non_null(strstr(err.text, path));
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(each_changed_bit_and_each_cut_is_noticed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
