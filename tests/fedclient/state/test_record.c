/* Records of the client's store: a record is read back exactly as it was stored, or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fedclient/state/record.h"

enum { LOSS_AT = 48 }; /* of the head, as docs/durability.md describes it */

static int setup(void **state) {
    fedclient_platform *store = calloc(1, sizeof *store);
    assert_non_null(store);
    assert_fed_ok(fedclient_platform_memory_open(store, NULL));
    store->memory = NULL; /* the store must not lend its values: the test damages them */
    *state = store;
    return 0;
}

static int teardown(void **state) {
    fedclient_platform_memory_close(*state);
    free(*state);
    return 0;
}

static void store_residual(const fedclient_platform *store, float loss) {
    const fedclient_residual_head head = {
        .seq = 3, .task = 7, .lease = UINT64_MAX, .round = 5, .samples = 6, .loss = loss};
    fedclient_record record;
    size_t count = 0;
    assert_fed_ok(fedclient_record_new(3 * sizeof(float), &record));
    float *values = fedclient_record_values(&record, &count);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)i - 1.5f;
    }
    assert_fed_ok(fedclient_residual_store(store, 0, &head, &record, NULL));
    fedclient_record_free(&record);
}

FED_TEST_WITH(a_residual_comes_back_as_it_was, const fedclient_platform *store) {
    fedclient_residual_head head;
    fedclient_record record;
    size_t count = 0;
    store_residual(store, 0.25f);
    assert_fed_ok(fedclient_residual_load(store, 0, &head, &record, NULL));
    assert_int_equal(head.seq, 3);
    assert_int_equal(head.task, 7);
    assert_int_equal(head.lease, UINT64_MAX);
    assert_int_equal(head.round, 5);
    assert_int_equal(head.samples, 6);
    assert_true(head.loss == 0.25f);
    const float *values = fedclient_record_values(&record, &count);
    assert_int_equal(count, 3);
    assert_true(values[0] == -1.5f && values[2] == 0.5f);
    fedclient_record_free(&record);
}

FED_TEST_WITH(a_residual_without_a_loss_comes_back_without_one, const fedclient_platform *store) {
    fedclient_residual_head head;
    fedclient_record record;
    float stored = 1;
    store_residual(store, NAN);
    assert_fed_ok(fedclient_residual_load(store, 0, &head, &record, NULL));
    assert_true(isnan(head.loss));
    memcpy(&stored, record.bytes + LOSS_AT, sizeof stored);
    assert_true(stored == 0); /* what an older release reads */
    fedclient_record_free(&record);
    store_residual(store, 0);
    assert_fed_ok(fedclient_residual_load(store, 0, &head, &record, NULL));
    assert_true(head.loss == 0);
    fedclient_record_free(&record);
}

FED_TEST_WITH(the_other_heads_come_back_as_they_were, const fedclient_platform *store) {
    fedclient_model_head model = {.task = 1, .version = 2, .digest = UINT64_MAX - 1};
    fedclient_pending_head pending = {
        .seq = 9, .fate = FEDCLIENT_FATE_REFUSED, .whole = true, .first = UINT64_C(1) << 40};
    fedclient_record record;
    assert_fed_ok(fedclient_record_new(0, &record));
    assert_fed_ok(fedclient_model_store(store, 0, &model, &record, NULL));
    assert_fed_ok(fedclient_pending_store(store, 0, &pending, &record, NULL));
    fedclient_record_free(&record);
    memset(&model, 0, sizeof model);
    memset(&pending, 0, sizeof pending);
    assert_fed_ok(fedclient_model_load(store, 0, &model, &record, NULL));
    fedclient_record_free(&record);
    assert_true(model.task == 1 && model.version == 2 && model.digest == UINT64_MAX - 1);
    assert_fed_ok(fedclient_pending_load(store, 0, &pending, &record, NULL));
    fedclient_record_free(&record);
    assert_true(pending.seq == 9 && pending.fate == FEDCLIENT_FATE_REFUSED && pending.whole);
    assert_true(pending.first == UINT64_C(1) << 40);
}

FED_TEST_WITH(nothing_stored_is_no_error, const fedclient_platform *store) {
    fedclient_residual_head head = {.seq = 1};
    fedclient_record record;
    fed_error err = {0};
    assert_fed_ok(fedclient_residual_load(store, 0, &head, &record, &err));
    assert_int_equal(head.seq, 0);
    assert_null(record.bytes);
    assert_string_equal(err.text, "");
    assert_fed_status(fedclient_record_load(store, FEDCLIENT_IDENTITY, 0, &record, &err),
                      FED_ENOTFOUND);
}

FED_TEST_WITH(every_flipped_bit_is_noticed, const fedclient_platform *store) {
    store_residual(store, 0.25f);
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(store->get(store->user, "residual", &data, &len, NULL));
    for (size_t bit = 0; bit < 8 * len; bit++) {
        fedclient_residual_head head;
        fedclient_record record;
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_fed_ok(store->put(store->user, "residual", data, len, NULL));
        fed_status status = fedclient_residual_load(store, 0, &head, &record, NULL);
        assert_true(status == FED_EFORMAT || status == FED_EVERSION);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    free(data);
}

FED_TEST_WITH(every_shorter_file_is_refused, const fedclient_platform *store) {
    store_residual(store, 0.25f);
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(store->get(store->user, "residual", &data, &len, NULL));
    for (size_t cut = 0; cut < len; cut++) {
        fedclient_residual_head head;
        fedclient_record record;
        assert_fed_ok(store->put(store->user, "residual", data, cut, NULL));
        assert_fed_status(fedclient_residual_load(store, 0, &head, &record, NULL), FED_EFORMAT);
    }
    free(data);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
