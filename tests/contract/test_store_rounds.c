/* Contract of every store of stores.def for models, rounds, updates and pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_test.h"

#include "store_fixture.h"

static void a_model_and_its_residual_come_back(void **state) {
    fixture *f = *state;
    float values[3] = {1, 2, 3};
    float residual[3] = {4, 5, 6};
    fedserver_task task = {.name = "n"};
    fedserver_model_row row = {.digest = UINT64_MAX, .values = values, .size = 3};
    must(f->store->task_add(f->db, &task, &f->err));
    assert_fed_status(f->store->model_find(f->db, 1, &row, &f->err), FED_ENOTFOUND);
    must(f->store->model_put(f->db, 1, &row, &f->err));
    fedserver_model_row read;
    must(f->store->model_find(f->db, 1, &read, &f->err));
    assert_null(read.residual);
    free(read.values);
    row.version = 9;
    row.residual = residual;
    must(f->store->model_put(f->db, 1, &row, &f->err));
    must(f->store->model_find(f->db, 1, &read, &f->err));
    assert_true(read.version == 9 && read.digest == UINT64_MAX && read.size == 3);
    assert_memory_equal(read.values, values, sizeof values);
    assert_memory_equal(read.residual, residual, sizeof residual);
    free(read.values);
    free(read.residual);
}

static void a_strategys_state_comes_back_and_so_does_an_empty_model(void **state) {
    fixture *f = *state;
    float value = 1;
    uint8_t bytes[3] = {1, 2, 3};
    const uint64_t id = add_task(f, "n");
    fedserver_model_row row = {.values = &value, .size = 1, .state = bytes, .state_len = 3}, read;
    must(f->store->model_put(f->db, id, &row, &f->err));
    must(f->store->model_find(f->db, id, &read, &f->err));
    assert_int_equal(read.state_len, 3);
    assert_memory_equal(read.state, bytes, 3);
    assert_true(read.residual == NULL && read.values[0] == 1);
    free(read.values);
    free(read.state);
    row = (fedserver_model_row){.values = &value, .version = UINT32_MAX};
    must(f->store->model_put(f->db, id, &row, &f->err));
    must(f->store->model_find(f->db, id, &read, &f->err));
    assert_true(read.version == UINT32_MAX && read.size == 0 && read.state_len == 0);
    free(read.values);
}

static fed_status say_delta(void *user, uint32_t version, const uint8_t *part, size_t len,
                            fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%u=%.*s ", version, (int)len, (const char *)part);
    return FED_OK;
}

static void deltas_come_oldest_first_and_go_up_to_a_version(void **state) {
    fixture *f = *state;
    char said[200] = "";
    uint32_t count = 0;
    uint64_t bytes = 0;
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    static const uint32_t versions[] = {3, 1, 2, UINT32_MAX};
    for (size_t k = 0; k < 4; k++) {
        const char *part = &"wxyz"[k];
        must(f->store->delta_add(f->db, id, versions[k], (const uint8_t *)part, strlen(part), NULL,
                                 &f->err));
    }
    must(f->store->delta_add(f->db, other, 2, (const uint8_t *)"o", 1, NULL, &f->err));
    must(f->store->delta_each(f->db, id, 1, 3, say_delta, said, &f->err));
    assert_string_equal(said, "2=yz 3=wxyz ");
    must(f->store->delta_sum(f->db, id, 1, &count, &bytes, &f->err));
    assert_true(count == 3 && bytes == 7);
    must(f->store->delta_prune(f->db, id, 2, &f->err));
    said[0] = '\0';
    must(f->store->delta_each(f->db, id, 0, UINT32_MAX, say_delta, said, &f->err));
    assert_string_equal(said, "3=wxyz 4294967295=z ");
    must(f->store->delta_sum(f->db, other, 0, &count, &bytes, &f->err));
    assert_true(count == 1 && bytes == 1);
    assert_fed_status(f->store->delta_add(f->db, other, 2, (const uint8_t *)"o", 1, NULL, &f->err),
                      FED_EIO);
}

static void the_newest_keyframe_up_to_a_version_is_found(void **state) {
    fixture *f = *state;
    float *values = NULL;
    fedserver_keyframe read = {0};
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    for (uint32_t version = 2; version <= 6; version += 2) {
        const float x[2] = {(float)version, -1};
        const fedserver_keyframe keyframe = {
            .version = version, .digest = UINT64_MAX - version, .values = x, .size = 2};
        must(f->store->keyframe_add(f->db, id, &keyframe, &f->err));
    }
    must(f->store->keyframe_find(f->db, id, 5, &read, &values, &f->err));
    assert_true(read.version == 4 && read.digest == UINT64_MAX - 4 && read.size == 2);
    assert_true(values[0] == 4 && values[1] == -1);
    free(values);
    must(f->store->keyframe_prune(f->db, id, 4, &f->err));
    assert_fed_status(f->store->keyframe_find(f->db, id, 3, &read, NULL, &f->err), FED_ENOTFOUND);
    must(f->store->keyframe_find(f->db, id, 4, &read, NULL, &f->err));
    assert_int_equal(read.version, 4);
    assert_fed_status(f->store->keyframe_find(f->db, other, 9, &read, NULL, &f->err),
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
    fedserver_task task = {.name = "n"};
    fedserver_device device[2] = {{.fingerprint = {1}}, {.fingerprint = {2}}};
    must(f->store->task_add(f->db, &task, &f->err));
    must(f->store->device_add(f->db, &device[0], &f->err));
    must(f->store->device_add(f->db, &device[1], &f->err));
    for (uint32_t number = 1; number <= 2; number++) {
        const fedserver_round_row row = {.number = number, .attempts = 1, .samples = 5, .loss = 3};
        must(f->store->round_put(f->db, 1, &row, &f->err));
    }
    fed_metric metric = {.task = 1, .version = 1, .samples = 30, .correct = 0, .loss = 1};
    must(f->store->metric_put(f->db, device[0].id, &metric, &f->err));
    metric.correct = 30;
    must(f->store->metric_put(f->db, device[0].id, &metric, &f->err));
    metric = (fed_metric){.task = 1, .version = 1, .samples = 10, .correct = 0, .loss = 5};
    must(f->store->metric_put(f->db, device[1].id, &metric, &f->err));
    fedserver_round_row rows[3] = {{0}};
    must(f->store->round_each(f->db, 1, 10, one_round, rows, &f->err));
    assert_true(rows[1].measured && rows[1].accuracy == 0.75 && rows[1].test_loss == 2.0);
    assert_true(rows[1].samples == 5 && rows[1].loss == 3.0);
    assert_false(rows[2].measured);
    memset(rows, 0, sizeof rows);
    must(f->store->round_each(f->db, 1, 1, one_round, rows, &f->err));
    assert_int_equal(rows[1].number, 0);
    assert_int_equal(rows[2].number, 2);
}

static void a_loss_may_be_missing(void **state) {
    fixture *f = *state;
    fedserver_round_row rows[4] = {{0}};
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 1), two = add_device(f, 2);
    for (uint32_t number = 1; number <= 3; number++) {
        const fedserver_round_row row = {.number = number, .loss = number == 3 ? 0 : (double)NAN};
        must(f->store->round_put(f->db, id, &row, &f->err));
    }
    fed_metric metric = {.task = id, .version = 1, .samples = 10, .correct = 10, .loss = NAN};
    must(f->store->metric_put(f->db, one.id, &metric, &f->err));
    metric.version = 2;
    must(f->store->metric_put(f->db, one.id, &metric, &f->err));
    metric.loss = 3;
    metric.samples = 30;
    must(f->store->metric_put(f->db, two.id, &metric, &f->err));
    keep(f);
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    assert_true(isnan(rows[1].loss) && isnan(rows[2].loss) && rows[3].loss == 0);
    assert_true(rows[1].measured && rows[1].accuracy == 1 && isnan(rows[1].test_loss));
    assert_true(rows[2].measured && rows[2].accuracy == 0.5 && rows[2].test_loss == 3);
    assert_true(!rows[3].measured && rows[3].accuracy == 0 && rows[3].test_loss == 0);
}

static void an_accuracy_may_be_missing(void **state) {
    fixture *f = *state;
    fedserver_round_row rows[3] = {{0}};
    const uint64_t id = add_task(f, "n");
    const fedserver_device one = add_device(f, 1), two = add_device(f, 2);
    for (uint32_t number = 1; number <= 2; number++) {
        const fedserver_round_row row = {.number = number};
        must(f->store->round_put(f->db, id, &row, &f->err));
        const fed_metric metric = {
            .task = id, .version = number, .samples = 30, .correct = FED_NO_CORRECT, .loss = 2};
        must(f->store->metric_put(f->db, one.id, &metric, &f->err));
    }
    const fed_metric counts = {.task = id, .version = 2, .samples = 10, .correct = 5, .loss = 6};
    must(f->store->metric_put(f->db, two.id, &counts, &f->err));
    keep(f);
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    assert_true(rows[1].measured && isnan(rows[1].accuracy) && rows[1].test_loss == 2);
    assert_true(rows[2].measured && rows[2].accuracy == 0.5 && rows[2].test_loss == 3);
}

static void a_round_keeps_every_field_and_names_who_stands_out(void **state) {
    fixture *f = *state;
    const uint64_t id = add_task(f, "n");
    const fedserver_device device = add_device(f, 0xab);
    fedserver_round_row rows[2] = {{0}};
    const fedserver_round_row row = {.number = 1,
                                     .attempts = 2,
                                     .opened_ms = 3,
                                     .deadline_ms = 4,
                                     .committed_ms = 5,
                                     .updates = 6,
                                     .samples = UINT64_MAX,
                                     .loss = 0.1,
                                     .update_bytes = 7,
                                     .delta_bytes = 8,
                                     .own_dropped = 9,
                                     .heaviest = {.device = device.id, .amount = 0.3},
                                     .furthest = {.device = 0, .amount = 1e300}};
    must(f->store->round_put(f->db, id, &(fedserver_round_row){.number = 1}, &f->err));
    must(f->store->round_put(f->db, id, &row, &f->err));
    keep(f);
    must(f->store->round_each(f->db, id, 9, one_round, rows, &f->err));
    const fedserver_round_row *read = &rows[1];
    assert_true(read->attempts == 2 && read->opened_ms == 3 && read->deadline_ms == 4 &&
                read->committed_ms == 5 && read->updates == 6 && read->samples == UINT64_MAX);
    assert_true(read->loss == 0.1 && read->update_bytes == 7 && read->delta_bytes == 8 &&
                read->heaviest.device == device.id && read->heaviest.amount == 0.3 &&
                read->furthest.amount == 1e300 && read->own_dropped == 9);
    assert_string_equal(read->heaviest.name, "ab00000000000000");
    assert_string_equal(read->furthest.name, "");
}

static fed_status say_own(void *user, uint32_t version, int64_t device,
                          const fedserver_own_metric *row, fed_error *err) {
    char *said = user;
    (void)err;
    sprintf(said + strlen(said), "%u.%lld:%s=%g(%llu) ", version, (long long)device, row->name,
            row->mean, (unsigned long long)row->reports);
    return FED_OK;
}

static void own_metrics_come_by_version_device_and_name(void **state) {
    fixture *f = *state;
    char said[400] = "";
    const uint64_t id = add_task(f, "n"), other = add_task(f, "o");
    const fedserver_own_metric rows[] = {
        {.name = "acc", .reports = 1, .samples = 5, .mean = -2, .least = -2, .most = -2},
        {.name = "f1", .reports = 2, .samples = 9, .mean = 0.5, .least = 0, .most = 1}};
    must(f->store->own_put(f->db, id, 9, FEDSERVER_OWN_OF_UPDATES, rows, 2, &f->err));
    must(f->store->own_put(f->db, id, 8, 7, &rows[1], 1, &f->err));
    must(f->store->own_put(f->db, id, 8, FEDSERVER_OWN_OF_UPDATES, rows, 1, &f->err));
    must(f->store->own_put(f->db, id, 7, 3, rows, 2, &f->err));
    must(f->store->own_put(f->db, other, 8, 3, rows, 2, &f->err));
    keep(f);
    must(f->store->own_each(f->db, id, 8, say_own, said, &f->err));
    assert_string_equal(said, "8.0:acc=-2(1) 8.7:f1=0.5(2) 9.0:acc=-2(1) 9.0:f1=0.5(2) ");
}

static void a_devices_own_metrics_are_replaced_as_a_whole(void **state) {
    fixture *f = *state;
    char said[400] = "";
    const uint64_t id = add_task(f, "n");
    const fedserver_own_metric rows[] = {{.name = "a", .reports = UINT64_MAX, .mean = 1e308},
                                         {.name = "b", .reports = 1}};
    for (int64_t device = 1; device <= 3; device++) {
        must(f->store->own_put(f->db, id, 8, device, rows, 2, &f->err));
    }
    must(f->store->own_put(f->db, id, 8, 2, rows, 1, &f->err));
    must(f->store->own_put(f->db, id, 8, 3, NULL, 0, &f->err));
    must(f->store->own_put(f->db, id, 8, 4, NULL, 0, &f->err));
    must(f->store->own_each(f->db, id, 0, say_own, said, &f->err));
    assert_string_equal(said, "8.1:a=1e+308(18446744073709551615) 8.1:b=0(1) "
                              "8.2:a=1e+308(18446744073709551615) ");
}

static fed_status fail_own(void *user, uint32_t version, int64_t device,
                           const fedserver_own_metric *row, fed_error *err) {
    (void)version, (void)device, (void)row;
    ++*(int *)user;
    return fed_fail(err, FED_EBUSY, "enough");
}

static void a_failed_visit_ends_the_walk_over_own_metrics(void **state) {
    fixture *f = *state;
    int visits = 0;
    const uint64_t id = add_task(f, "n");
    const fedserver_own_metric rows[] = {{.name = "a"}, {.name = "b"}};
    must(f->store->own_put(f->db, id, 1, 0, rows, 2, &f->err));
    must(f->store->own_put(f->db, id, 2, 0, rows, 2, &f->err));
    assert_fed_status(f->store->own_each(f->db, id, 0, fail_own, &visits, &f->err), FED_EBUSY);
    assert_int_equal(visits, 1);
    must(f->store->own_put(f->db, id, 3, 0, rows, 2, &f->err));
}

static void a_device_may_report_twice_but_a_lease_once(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    must(f->store->update_add(f->db, &row, (const uint8_t *)"ab", 2, &f->err));
    row.lease = UINT64_MAX;
    must(f->store->update_add(f->db, &row, (const uint8_t *)"c", 1, &f->err));
    must(f->store->commit(f->db, &f->err));
    const fedserver_update_row next = {
        .task = row.task, .round = row.round + 1, .device = row.device, .lease = row.lease};
    fed_status again = f->store->update_add(f->db, &next, (const uint8_t *)"d", 1, &f->err);
    /* the error may come at the commit */
    again = again == FED_OK ? f->store->commit(f->db, &f->err) : again;
    assert_fed_status(again, FED_EIO);
    f->store->rollback(f->db);
    sums seen = {0};
    must(f->store->update_each(f->db, 0, 0, sum_up, &seen, &f->err));
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.bytes, 'a' + 'b' + 'c');
    assert_true(seen.last.lease == row.lease && seen.last.device == row.device);
    assert_true(seen.last.task == row.task && seen.last.round == row.round);
}

static fed_status walk_again(void *user, const fedserver_update_row *row, const uint8_t *body,
                             size_t len, fed_error *err) {
    const fixture *f = user;
    uint8_t first = body[0];
    sums inner = {0};
    assert_fed_ok(f->store->update_each(f->db, 0, 0, sum_up, &inner, err));
    assert_int_equal(inner.count, 3);
    assert_true(len == 1 && body[0] == first && row->lease == first);
    return FED_OK;
}

static void a_visit_to_an_update_may_walk_over_all_of_them(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    for (uint8_t k = 1; k <= 3; k++) {
        row.lease = k;
        must(f->store->update_add(f->db, &row, &k, 1, &f->err));
    }
    must(f->store->update_each(f->db, 0, 0, walk_again, f, &f->err));
}

static void updates_are_their_tasks(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    const uint64_t first = row.task, second = add_task(f, "o");
    uint32_t count = 0;
    sums seen = {0};
    for (uint64_t k = 1; k <= 3; k++) {
        row.lease = k;
        row.task = k == 2 ? second : first;
        must(f->store->update_add(f->db, &row, (const uint8_t *)"\1", 1, &f->err));
    }
    must(f->store->update_each(f->db, second, 0, sum_up, &seen, &f->err));
    assert_true(seen.count == 1 && seen.last.lease == 2);
    must(f->store->update_count(f->db, first, row.round, &count, &f->err));
    assert_int_equal(count, 2);
    must(f->store->update_clear(f->db, first, UINT32_MAX, &f->err));
    must(f->store->update_each(f->db, 0, 0, sum_up, &seen, &f->err));
    assert_true(seen.count == 2 && seen.last.lease == 2);
}

static void updates_are_their_rounds(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    uint32_t count = 0;
    sums seen = {0};
    for (uint32_t k = 1; k <= 5; k++) {
        row.lease = k;
        row.round = 6 + k % 3;
        must(f->store->update_add(f->db, &row, (const uint8_t *)"\1", 1, &f->err));
    }
    must(f->store->update_each(f->db, row.task, 7, sum_up, &seen, &f->err));
    assert_true(seen.count == 2 && seen.last.lease == 4);
    must(f->store->update_count(f->db, row.task, 8, &count, &f->err));
    assert_int_equal(count, 2);
    must(f->store->update_clear(f->db, row.task, 7, &f->err));
    seen = (sums){0};
    must(f->store->update_each(f->db, row.task, 0, sum_up, &seen, &f->err));
    assert_true(seen.count == 2 && seen.last.lease == 5 && seen.last.round == 8);
}

static void a_single_update_is_removed(void **state) {
    fixture *f = *state;
    enum { LEN = 100000 };
    fedserver_update_row row = a_lease(f);
    uint8_t *body = malloc(LEN);
    sums seen = {0};
    assert_non_null(body);
    for (uint8_t k = 1; k <= 4; k++) { /* two short bodies, two long ones */
        memset(body, k, LEN);
        row.lease = k;
        must(f->store->update_add(f->db, &row, body, k <= 2 ? 1 : LEN, &f->err));
    }
    keep(f);
    must(f->store->update_remove(f->db, row.task + 1, 1, &f->err)); /* it is not that task's */
    must(f->store->update_remove(f->db, row.task, 9, &f->err));
    must(f->store->update_remove(f->db, row.task, 4, &f->err));
    f->store->rollback(f->db);
    must(f->store->update_each(f->db, row.task, row.round, sum_up, &seen, &f->err));
    assert_true(seen.count == 4 && seen.bytes == 1 + 2 + LEN * 7);
    must(f->store->update_remove(f->db, row.task, 1, &f->err));
    must(f->store->update_remove(f->db, row.task, 4, &f->err));
    keep(f);
    row.lease = 5;
    memset(body, 5, LEN);
    must(f->store->update_add(f->db, &row, body, LEN, &f->err));
    free(body);
    keep(f);
    seen = (sums){0};
    must(f->store->update_each(f->db, row.task, row.round, sum_up, &seen, &f->err));
    assert_true(seen.count == 3 && seen.last.lease == 5 && seen.bytes == 2 + LEN * 8);
}

static void expect_refusal(fixture *f, uint64_t task, uint32_t round, const char *wanted) {
    char said[20];
    must(f->store->opening_refused(f->db, task, round, said, sizeof said, &f->err));
    assert_string_equal(said, wanted);
}

static void expect_masks(fixture *f, uint64_t task, uint32_t round, bool wanted) {
    char masks[4] = "";
    bool found = !wanted;
    must(f->store->opening_find(f->db, task, round, NULL, 0, &found, &f->err));
    assert_int_equal(found, wanted);
    must(f->store->opening_find(f->db, task, round, masks, 3, &found, &f->err));
    assert_int_equal(found, wanted);
    assert_string_equal(masks, wanted ? "abc" : "");
}

static void a_round_has_masks_or_a_refusal(void **state) {
    fixture *f = *state;
    const uint64_t task = a_lease(f).task;
    expect_refusal(f, task, 1, "");
    expect_masks(f, task, 1, false);
    must(f->store->opening_refuse(f->db, task, 1, "no", &f->err));
    must(f->store->opening_refuse(f->db, task, 1, "not a sum of two \xc3\xa4 and more", &f->err));
    must(f->store->opening_put(f->db, task, 2, "abc", 3, &f->err));
    keep(f);
    expect_refusal(f, task, 1, "not a sum of two \xc3\xa4");
    expect_masks(f, task, 1, false);
    expect_refusal(f, task, 2, "");
    expect_masks(f, task, 2, true);
    must(f->store->opening_put(f->db, task, 1, "abc", 3, &f->err));
    must(f->store->opening_refuse(f->db, task, 3, "no", &f->err));
    must(f->store->opening_refuse(f->db, task, 3, "", &f->err));
    must(f->store->opening_refuse(f->db, task, 2, "", &f->err));
    keep(f);
    expect_refusal(f, task, 1, "");
    expect_masks(f, task, 1, true);
    expect_refusal(f, task, 3, "");
    expect_masks(f, task, 3, false);
    must(f->store->opening_clear(f->db, task, 1, &f->err));
    expect_masks(f, task, 1, false);
    expect_masks(f, task, 2, true);
}

static void large_bodies_of_two_rounds_come_back(void **state) {
    fixture *f = *state;
    enum { LEN = 100000 };
    fedserver_update_row row = a_lease(f);
    uint8_t *body = malloc(LEN);
    assert_non_null(body);
    for (uint8_t k = 1; k <= 4; k++) {
        memset(body, k, LEN);
        row.lease = k;
        row.round = 7 + k % 2;
        must(f->store->update_add(f->db, &row, body, LEN, &f->err));
    }
    free(body);
    keep(f);
    must(f->store->recover(f->db, &f->err));
    for (uint32_t round = 7; round <= 8; round++) {
        sums seen = {0};
        must(f->store->update_each(f->db, row.task, round, sum_up, &seen, &f->err));
        assert_int_equal(seen.count, 2);
        assert_int_equal(seen.bytes, round == 7 ? 6 * LEN : 4 * LEN);
    }
}

/* Sizes at which a store may change how it keeps bodies. */
static void bodies_of_any_size_come_back(void **state) {
    fixture *f = *state;
    static const size_t sizes[] = {0, 1, 4095, 16384, 65535, 65536, 65537, 1 << 20, 5000001};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    fedserver_update_row row = a_lease(f);
    uint64_t bytes = 0;
    for (size_t k = 0; k < SIZES; k++) {
        uint8_t *body = malloc(sizes[k] + 1);
        assert_non_null(body);
        memset(body, (int)k + 1, sizes[k] + 1);
        row.lease = k + 1;
        must(f->store->update_add(f->db, &row, body, sizes[k], &f->err));
        bytes += sizes[k] * (k + 1);
        free(body);
    }
    keep(f);
    must(f->store->recover(f->db, &f->err));
    sums seen = {0};
    must(f->store->update_each(f->db, row.task, 0, sum_up, &seen, &f->err));
    assert_int_equal(seen.count, SIZES);
    assert_true(seen.bytes == bytes);
}

static fedserver_device piece_devices[2];

static void two_devices(fixture *f) {
    piece_devices[0] = add_device(f, 1);
    piece_devices[1] = add_device(f, 2);
}

static void add_piece(fixture *f, size_t device, uint64_t offset, const char *bytes) {
    const fed_piece piece = {
        .lease = UINT64_MAX, .digest = UINT64_MAX - 1, .total = 10, .offset = offset};
    must(f->store->piece_add(f->db, piece_devices[device].id, &piece, (const uint8_t *)bytes,
                             strlen(bytes), &f->err));
}

/* Return the end of the last piece as an offset; 0: there is none. */
static uint64_t end_of(fixture *f, size_t device) {
    fed_piece piece;
    uint64_t end = 0;
    fed_status status =
        f->store->piece_find(f->db, piece_devices[device].id, &piece, &end, &f->err);
    assert_true(status == FED_OK || status == FED_ENOTFOUND);
    if (status == FED_OK) {
        assert_true(piece.lease == UINT64_MAX && piece.digest == UINT64_MAX - 1);
        assert_int_equal(piece.total, 10);
    }
    return end;
}

static fed_status join(fixture *f, size_t device, size_t cap, char *text) {
    uint8_t bytes[20];
    size_t len = 0;
    FED_TRY(f->store->piece_join(f->db, piece_devices[device].id, bytes, cap, &len, &f->err));
    memcpy(text, bytes, len);
    text[len] = '\0';
    return FED_OK;
}

static void pieces_are_put_together_in_their_order(void **state) {
    fixture *f = *state;
    two_devices(f);
    char text[20];
    assert_int_equal(end_of(f, 0), 0);
    add_piece(f, 0, 0, "abc");
    add_piece(f, 1, 0, "other");
    add_piece(f, 0, 3, "d");
    add_piece(f, 0, 4, "ef");
    assert_int_equal(end_of(f, 0), 6);
    assert_fed_ok(f->store->commit(f->db, &f->err));
    reopen(f);
    assert_int_equal(end_of(f, 0), 6);
    assert_fed_ok(join(f, 0, 6, text));
    assert_string_equal(text, "abcdef");
    assert_fed_status(join(f, 0, 5, text), FED_EFORMAT);
}

static void a_gap_is_refused(void **state) {
    fixture *f = *state;
    two_devices(f);
    char text[20];
    add_piece(f, 0, 0, "abc");
    add_piece(f, 0, 4, "ef");
    assert_fed_status(join(f, 0, 20, text), FED_EFORMAT);
}

static void a_devices_pieces_are_forgotten_together(void **state) {
    fixture *f = *state;
    two_devices(f);
    add_piece(f, 0, 0, "abc");
    add_piece(f, 0, 3, "def");
    add_piece(f, 1, 0, "other");
    must(f->store->piece_clear(f->db, piece_devices[0].id, &f->err));
    assert_int_equal(end_of(f, 0), 0);
    assert_int_equal(end_of(f, 1), 5);
}

static void pieces_of_leases_that_are_over_are_forgotten(void **state) {
    fixture *f = *state;
    two_devices(f);
    for (size_t k = 0; k < 2; k++) {
        piece_devices[k].lease_task = 1;
        piece_devices[k].lease_round = (uint32_t)k + 5;
        must(f->store->device_put(f->db, &piece_devices[k], &f->err));
        add_piece(f, k, 0, "abc");
    }
    must(f->store->lease_prune(f->db, 1, 5, &f->err));
    assert_int_equal(end_of(f, 0), 3);
    must(f->store->lease_prune(f->db, 1, 6, &f->err));
    assert_int_equal(end_of(f, 0), 0);
    assert_int_equal(end_of(f, 1), 3);
    must(f->store->lease_prune(f->db, 2, UINT32_MAX, &f->err));
    assert_int_equal(end_of(f, 1), 3);
    must(f->store->lease_prune(f->db, 1, UINT32_MAX, &f->err));
    assert_int_equal(end_of(f, 1), 0);
}

/* Add a model, a keyframe, a delta, a decline and two rounds. The second round is open. */
static void fill_task(fixture *f, uint64_t task, int64_t device) {
    float value = 1;
    const fedserver_model_row model = {.values = &value, .size = 1};
    const fedserver_keyframe keyframe = {.version = 1, .values = &value, .size = 1};
    must(f->store->model_put(f->db, task, &model, &f->err));
    must(f->store->keyframe_add(f->db, task, &keyframe, &f->err));
    must(f->store->delta_add(f->db, task, 1, (uint8_t *)"d", 1, NULL, &f->err));
    must(f->store->decline_put(f->db, task, device, "no", 1, &f->err));
    for (uint32_t number = 1; number <= 2; number++) {
        const fedserver_round_row round = {.number = number, .committed_ms = number == 1};
        must(f->store->round_put(f->db, task, &round, &f->err));
    }
}

/* all: all rows exist; otherwise only the committed round. */
static void expect_task(fixture *f, uint64_t task, bool all) {
    fedserver_model_row model = {.values = NULL};
    fedserver_keyframe keyframe;
    fedserver_round_row rounds[3] = {{0}};
    uint32_t deltas = 9;
    uint64_t bytes = 0;
    char said[100] = "";
    const fed_status wanted = all ? FED_OK : FED_ENOTFOUND;
    assert_fed_status(f->store->model_find(f->db, task, &model, &f->err), wanted);
    free(model.values);
    assert_fed_status(f->store->keyframe_find(f->db, task, 9, &keyframe, NULL, &f->err), wanted);
    must(f->store->delta_sum(f->db, task, 0, &deltas, &bytes, &f->err));
    assert_int_equal(deltas, all ? 1 : 0);
    must(f->store->decline_each(f->db, task, 0, say_decline, said, &f->err));
    assert_int_equal(said[0] != '\0', all);
    must(f->store->round_each(f->db, task, 9, one_round, rounds, &f->err));
    assert_true(rounds[1].number == 1 && rounds[2].number == (all ? 2 : 0));
}

static void a_cancelled_task_leaves_its_row_and_its_committed_rounds(void **state) {
    fixture *f = *state;
    fedserver_update_row row = a_lease(f);
    const uint64_t id = row.task, kept = add_task(f, "kept");
    fedserver_device device = {.id = row.device, .lease = 5, .lease_task = id};
    fed_piece piece = {.lease = 5, .total = 3};
    uint64_t cleared = 0, end = 0;
    uint32_t updates = 9;
    bool left = true;
    must(f->store->device_put(f->db, &device, &f->err));
    must(f->store->piece_add(f->db, row.device, &piece, (uint8_t *)"abc", 3, &f->err));
    must(f->store->update_add(f->db, &row, (uint8_t *)"b", 1, &f->err));
    fill_task(f, id, row.device);
    fill_task(f, kept, row.device);
    assert_fed_status(f->store->task_clear(f->db, &cleared, &f->err), FED_ENOTFOUND);
    put_state(f, id, FEDSERVER_TASK_CANCELLED, 1);
    must(f->store->task_clear(f->db, &cleared, &f->err));
    assert_int_equal(cleared, id);
    assert_fed_status(f->store->task_clear(f->db, &cleared, &f->err), FED_ENOTFOUND);
    expect_task(f, id, false);
    expect_task(f, kept, true);
    assert_fed_status(f->store->piece_find(f->db, row.device, &piece, &end, &f->err),
                      FED_ENOTFOUND);
    must(f->store->update_count(f->db, id, row.round, &updates, &f->err));
    assert_int_equal(updates, 0);
    for (int k = 0; left && k < 1000; k++) {
        must(f->store->shrink(f->db, &left, &f->err));
        must(f->store->commit(f->db, &f->err));
    }
    assert_false(left);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(a_model_and_its_residual_come_back),
        WITH(a_strategys_state_comes_back_and_so_does_an_empty_model),
        WITH(deltas_come_oldest_first_and_go_up_to_a_version),
        WITH(the_newest_keyframe_up_to_a_version_is_found),
        WITH(a_loss_may_be_missing),
        WITH(an_accuracy_may_be_missing),
        WITH(a_rounds_quality_is_the_sum_of_its_evaluators),
        WITH(a_round_keeps_every_field_and_names_who_stands_out),
        WITH(own_metrics_come_by_version_device_and_name),
        WITH(a_devices_own_metrics_are_replaced_as_a_whole),
        WITH(a_failed_visit_ends_the_walk_over_own_metrics),
        WITH(a_device_may_report_twice_but_a_lease_once),
        WITH(a_visit_to_an_update_may_walk_over_all_of_them),
        WITH(updates_are_their_tasks),
        WITH(updates_are_their_rounds),
        WITH(a_single_update_is_removed),
        WITH(a_round_has_masks_or_a_refusal),
        WITH(large_bodies_of_two_rounds_come_back),
        WITH(bodies_of_any_size_come_back),
        WITH(pieces_are_put_together_in_their_order),
        WITH(a_gap_is_refused),
        WITH(a_devices_pieces_are_forgotten_together),
        WITH(pieces_of_leases_that_are_over_are_forgotten),
        WITH(a_cancelled_task_leaves_its_row_and_its_committed_rounds),
    };
    return run_for_each_store(tests);
}
