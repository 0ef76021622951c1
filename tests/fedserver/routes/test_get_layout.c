/* A task whose model is too long for it: the layout is stored beside the task, and devices get it
 * by the name that the task has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/bytes.h"
#include "fed/checkpoint.h"
#include "fed/layout_reference.h"
#include "fed_cases.h"
#include "fedserver/stores/task_model.h"
#include "long_text.h"

enum { TENSORS = 3000, VALUES = TENSORS / 2 * 3 };

static const char *json_of(const char *model) {
    static char json[41 * TENSORS];
    snprintf(json, sizeof json,
             "{\"model\": \"%s\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": 2, \"cohort\": 1}",
             model);
    return json;
}

static answer get(coordinator *c, const test_device *d, const char *query) {
    return coordinator_ask(c, d, "GET", "/v1/layout", query, NULL, 0);
}

static void is_served(coordinator *c, const test_device *d, const fed_task *task,
                      const char *text) {
    char query[40];
    fed_arch arch;
    fed_error err = {0};
    snprintf(query, sizeof query, "task=%llu", (unsigned long long)task->id);
    answer a = get(c, d, query);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.len, strlen(text));
    assert_memory_equal(a.body, text, a.len);
    assert_fed_ok_err(fed_layout_resolve(task->model, a.body, a.len, &arch, &err));
    assert_int_equal(arch.layout.count, TENSORS);
    assert_int_equal(arch.layout.size, VALUES);
    fed_arch_free(&arch);
    answer_free(&a);
}

static void check_and_restart(coordinator *c) {
    coordinator_commit(c);
    fedserver_close(c->server);
    coordinator_check(c->directory);
    coordinator_open(c);
}

FED_TEST_WITH(a_device_gets_the_layout_that_its_task_names, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    const char *text = long_text("net", TENSORS);
    (void)coordinator_task(c, json_of(text));
    const fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(strncmp(work.task.model, "layout 3000 tensors 4500 values sha256 ", 39), 0);
    is_served(c, &d, &work.task, text);
    check_and_restart(c);
    is_served(c, &d, &work.task, text);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *task = json_object_get(status, "task");
    assert_string_equal(json_string_value(json_object_get(task, "model")), work.task.model);
    assert_int_equal(json_integer_value(json_object_get(task, "parameters")), VALUES);
    json_decref(status);
}

FED_TEST_WITH(an_evaluator_gets_it_too, coordinator *c) {
    const test_device judge = coordinator_enrol_evaluator(c);
    const char *text = long_text("net", TENSORS);
    (void)coordinator_task(c, json_of(text));
    const fed_assignment work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
    is_served(c, &judge, &work.task, text);
}

FED_TEST_WITH(what_is_no_layout_is_refused, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    (void)coordinator_task(c, json_of("tensors a 3"));
    answer a = get(c, &d, "task=1");
    answer_expect(&a, 404, "layout_gone");
    a = get(c, &d, "task=99");
    answer_expect(&a, 404, "layout_gone");
    a = get(c, &d, "task=x");
    answer_expect(&a, 400, "bad_request");
    a = get(c, &d, "");
    answer_expect(&a, 400, "bad_request");
}

FED_TEST_WITH(a_long_name_makes_a_short_text_a_layout, coordinator *c) {
    char model[120];
    const test_device d = coordinator_enrol(c);
    snprintf(model, sizeof model, "tensors %064d 3", 0);
    (void)coordinator_task(c, json_of(model));
    const fed_assignment work = device_ask_work(c, &d);
    assert_true(fed_layout_is_reference(work.task.model));
    answer a = get(c, &d, "task=1");
    assert_string_equal((const char *)a.body, model);
    answer_free(&a);
}

/* A release without FED_CAN_LAYOUT gets no lease. */
FED_TEST_WITH(an_older_device_is_declined_with_the_reason, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    (void)coordinator_task(c, json_of(long_text("net", TENSORS)));
    const fed_checkin older = {.role = FED_ROLE_TRAIN,
                               .capabilities = FED_CAN_APP | FED_CAN_STAGES | FED_CAN_LONG |
                                               FED_CAN_EDEN | FED_CAN_DECLINE};
    const fed_assignment told = device_say(c, &d, &older);
    assert_int_equal(told.action, FED_ACTION_WAIT);
    assert_int_equal(told.reason, FED_WAIT_DECLINED);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *declined =
        json_object_get(json_array_get(json_object_get(status, "tasks"), 0), "declined");
    assert_int_equal(json_integer_value(json_object_get(declined, "count")), 1);
    const json_t *reason = json_array_get(json_object_get(declined, "reasons"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(reason, "reason")),
                           "does not know \"layout\" in the task's model"));
    json_decref(status);
    assert_int_equal(device_ask_work(c, &d).action, FED_ACTION_TRAIN); /* it was updated */
}

static void export_has_names(coordinator *c, const char *text) {
    char path[320];
    fed_model model;
    fed_arch arch;
    fed_error err = {0};
    fed_checkpoint *file = NULL;
    snprintf(path, sizeof path, "%s/out.safetensors", c->directory);
    assert_fed_ok_err(fedserver_model_export(c->server, 0, path, &err));
    assert_fed_ok_err(fed_arch_parse(text, &arch, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_fed_ok_err(fed_layout_match(&arch.layout, &model.layout, &err));
    fed_model_free(&model);
    fed_arch_free(&arch);
    assert_fed_ok_err(fed_checkpoint_open(path, &file, &err));
    assert_string_equal(fed_checkpoint_note(file, "model"), text);
    fed_checkpoint_close(file);
}

FED_TEST_WITH(a_checkpoint_keeps_the_names, coordinator *c) {
    const char *text = long_text("net", TENSORS);
    (void)coordinator_task(c, json_of(text));
    export_has_names(c, text);
}

static fed_status damage(const coordinator *c, uint64_t id, fed_error *err) {
    fed_arch arch;
    fedserver_task task;
    const fedserver_store *store = c->server->store;
    FED_TRY(store->task_find(c->server->db, FEDSERVER_PICK_ID, id, &task, err));
    task.wire.model[strlen(task.wire.model) - 1] ^= 1;
    return fedserver_task_model(store, c->server->db, &task, &arch, err);
}

FED_TEST_WITH(a_damaged_layout_is_found, coordinator *c) {
    fed_error err = {0};
    const uint64_t id = coordinator_task(c, json_of(long_text("net", TENSORS)));
    assert_fed_fails(damage(c, id, &err), FED_EFORMAT, "do not have the digest");
}

FED_TEST_WITH(a_cancelled_task_stays_readable, coordinator *c) {
    fed_error err = {0};
    fedserver *person = NULL;
    const uint64_t id = coordinator_task(c, json_of(long_text("net", TENSORS)));
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &person, &err));
    assert_fed_ok_err(fedserver_task_change(person, c->now_ms, id, FEDSERVER_CANCEL, &err));
    fedserver_close(person);
    coordinator_commit(c);
    coordinator_wait(c, 1);
    check_and_restart(c);
}

FED_TEST_WITH(a_task_file_says_what_is_wrong_in_a_long_text, coordinator *c) {
    fed_error err = {0};
    char *text = strdup(long_text("net", TENSORS));
    const char *wrong = strstr(text, "net.2999.weight");
    assert_non_null(wrong);
    memcpy(text + (wrong - text), "net.2998.weight", 15);
    const char *json = json_of(text);
    free(text);
    assert_fed_fails(fedserver_task_check("t.json", json, strlen(json), &err), FED_EINVAL,
                     "two tensors have this one");
    json = json_of("layout 1 tensors 1 values sha256 00");
    assert_fed_fails(fedserver_task_check("t.json", json, strlen(json), &err), FED_EINVAL,
                     "this only names one");
    (void)c;
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
