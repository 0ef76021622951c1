/* A task with private layers: its coordinator has what travels, and says what else there is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <stdio.h>

#include "fed/checkpoint.h"
#include "fed_cases.h"
#include "fedserver/stores/task_model.h"
#include "long_text.h"

/* %s: more keys */
static const char task_text[] =
    "{\"name\": \"t\", \"model\": \"input 1x8x8 | conv 2 3 | bn | relu | fc: dense 3\","
    " \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1%s}";

static void begin(coordinator *c, const char *layers) {
    char json[400], key[80] = "";
    if (layers != NULL) {
        snprintf(key, sizeof key, ", \"private_layers\": \"%s\"", layers);
    }
    snprintf(json, sizeof json, task_text, key);
    (void)coordinator_task(c, json);
}

FED_TEST_WITH(devices_are_told_which_layers_stay_and_get_the_others, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    float values[100];
    size_t len = 0;
    begin(c, "bn,head");
    coordinator_commit(c);
    fedserver_close(c->server);
    coordinator_check(c->directory);
    coordinator_open(c);
    const fed_assignment work = device_ask_work(c, &d);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_string_equal(work.task.private_layers, "bn,head");
    assert_string_equal(work.task.model, "input 1x8x8 | conv 2 3 | bn | relu | fc: dense 3");
    fed_task shared = work.task;
    snprintf(shared.model, sizeof shared.model, "tensors conv1.weight 2x1x3x3 | conv1.bias 2");
    assert_int_equal(device_download(c, &d, &shared, -1, 0, values, &len), 200);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *task = json_object_get(status, "task");
    assert_string_equal(json_string_value(json_object_get(task, "private_layers")), "bn,head");
    assert_int_equal(json_integer_value(json_object_get(task, "parameters")), 20);
    json_decref(status);
}

FED_TEST_WITH(the_export_has_what_travels_and_names_the_others, coordinator *c) {
    fed_error err = {0};
    fed_model model;
    fed_checkpoint *file = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/out.safetensors", c->directory);
    begin(c, "2,head");
    assert_fed_ok_err(fedserver_model_export(c->server, 1, path, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.count, 2);
    assert_string_equal(model.layout.tensors[0].name, "conv1.weight");
    assert_string_equal(model.layout.tensors[1].name, "conv1.bias");
    fed_model_free(&model);
    assert_fed_ok_err(fed_checkpoint_open(path, &file, &err));
    assert_string_equal(fed_checkpoint_note(file, "private_tensors"),
                        "bn1.weight bn1.bias fc.weight fc.bias bn1.running_mean bn1.running_var");
    assert_string_equal(fed_checkpoint_note(file, "model"),
                        "input 1x8x8 | conv 2 3 | bn | relu | fc: dense 3");
    fed_checkpoint_close(file);
}

FED_TEST_WITH(without_private_layers_the_export_names_none, coordinator *c) {
    fed_error err = {0};
    fed_checkpoint *file = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/out.safetensors", c->directory);
    begin(c, NULL);
    assert_fed_ok_err(fedserver_model_export(c->server, 1, path, &err));
    assert_fed_ok_err(fed_checkpoint_open(path, &file, &err));
    assert_null(fed_checkpoint_note(file, "private_tensors"));
    assert_non_null(fed_checkpoint_find(file, "fc.weight"));
    fed_checkpoint_close(file);
}

/* A layout that the task only names lies whole in the store, for the devices. */
FED_TEST_WITH(a_long_model_may_have_private_layers, coordinator *c) {
    static char json[200000];
    fed_error err = {0};
    fed_model model;
    char path[300];
    snprintf(path, sizeof path, "%s/out.safetensors", c->directory);
    snprintf(json, sizeof json,
             "{\"model\": \"%s\", \"rounds\": 1, \"cohort\": 1, \"private_layers\": \"head\"}",
             long_text("net", 3000));
    (void)coordinator_task(c, json);
    assert_fed_ok_err(fedserver_model_export(c->server, 1, path, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_int_equal(model.layout.count, 2999);
    fed_model_free(&model);
}

FED_TEST_WITH(nobody_else_is_asked_to_measure_the_model, coordinator *c) {
    const test_device judge = coordinator_enrol_evaluator(c);
    begin(c, "head");
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0).action, FED_ACTION_WAIT);
    begin(c, NULL);
    const fed_assignment work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
    assert_int_equal(work.action, FED_ACTION_EVALUATE);
    assert_int_equal(work.task.id, 2);
}

/* The device of a release before private layers gets another task, and the reason is shown. */
FED_TEST_WITH(an_older_device_gets_no_such_task, coordinator *c) {
    const test_device d = coordinator_enrol(c);
    const fed_checkin older = {.role = FED_ROLE_TRAIN,
                               .capabilities = FED_CAN_APP | FED_CAN_STAGES | FED_CAN_LONG |
                                               FED_CAN_EDEN | FED_CAN_LAYOUT | FED_CAN_PRIVATE |
                                               FED_CAN_PERSONAL | FED_CAN_DECLINE};
    begin(c, "head");
    assert_int_equal(device_say(c, &d, &older).reason, FED_WAIT_DECLINED);
    json_t *status = coordinator_json(c, "/v1/status", "");
    const json_t *declined =
        json_object_get(json_array_get(json_object_get(status, "tasks"), 0), "declined");
    const json_t *reason = json_array_get(json_object_get(declined, "reasons"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(reason, "reason")),
                           "does not know \"private_layers\" in the task's keys"));
    json_decref(status);
    begin(c, NULL);
    assert_int_equal(device_say(c, &d, &older).task.id, 2);
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
