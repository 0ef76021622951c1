/* Task files: what their keys mean, and the errors for wrong files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fedserver/task/config.h"
#include "fedserver/task/phases.h"

static fed_status parse(const char *text, fedserver_config *config, fed_error *err) {
    return fedserver_config_parse("conf/t.json", text, strlen(text), config, err);
}

FED_TEST(what_is_left_out_has_its_default) {
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(parse("{\"model\": \"lr\", \"rounds\": 100, \"cohort\": 10}", &config, &err));
    const fedserver_task *task = &config.task;
    assert_string_equal(task->name, "t.json");
    assert_string_equal(task->wire.model, "input 784 | dense 10");
    assert_string_equal(task->wire.codec_up, "sbc:p=0.01");
    assert_string_equal(task->codec_down, "3lc:s=1+entropy");
    assert_string_equal(task->wire.optimizer, "sgd");
    assert_string_equal(task->strategy, "fedavg");
    assert_int_equal(task->wire.small_tensor, 1024);
    assert_int_equal(task->wire.local_steps, 10);
    assert_int_equal(task->wire.batch, 8);
    assert_int_equal(task->wire.seed, 1);
    assert_true(task->wire.learning_rate == 0.01f);
    assert_int_equal(task->rules.rounds, 100);
    assert_int_equal(task->rules.cohort, 10);
    assert_int_equal(task->rules.goal, 10);
    assert_int_equal(task->rules.minimum, 1);
    assert_int_equal(task->rules.deadline_ms, 600000);
    assert_int_equal(task->rules.staleness, 0);
    assert_int_equal(task->selection, FEDSERVER_SELECT_UNIFORM);
    assert_string_equal(task->tag, "");
    assert_string_equal(config.initial, "");
}

FED_TEST(goal_and_cohort_say_each_other) {
    static const struct {
        const char *keys;
        uint32_t cohort, goal;
    } cases[] = {{"\"cohort\": 10", 10, 10},
                 {"\"goal\": 10", 13, 10}, /* 130 % of the goal, rounded up */
                 {"\"goal\": 1", 2, 1},
                 {"\"goal\": 100", 130, 100},
                 {"\"goal\": 1000000", 1300000, 1000000},
                 {"\"goal\": 4, \"cohort\": 9", 9, 4},
                 {"\"goal\": 9, \"cohort\": 4, \"staleness\": 1", 4, 9}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fedserver_config config;
        fed_error err = {0};
        char text[200];
        snprintf(text, sizeof text, "{\"model\": \"lr\", \"rounds\": 1, %s}", cases[k].keys);
        assert_fed_ok_err(parse(text, &config, &err));
        assert_int_equal(config.task.rules.cohort, cases[k].cohort);
        assert_int_equal(config.task.rules.goal, cases[k].goal);
    }
}

FED_TEST(every_key_is_taken) {
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(
        parse("{\"name\": \"n\", \"model\": \"input 2|dense 3\", \"initial\": \"a/b\","
              "\"seed\": 7, \"codec_up\": \"float32\", \"codec_down\": \"sbc\","
              "\"small_tensor\": 0, \"local_steps\": 3, \"batch\": 4,"
              "\"optimizer\": \"adam\", \"learning_rate\": 1, \"rounds\": 5,"
              "\"cohort\": 9, \"goal\": 8, \"minimum\": 7, \"deadline_s\": 0.25,"
              "\"staleness\": 6, \"selection\": \"round_robin\", \"tag\": \"lab\"}",
              &config, &err));
    const fedserver_task *task = &config.task;
    assert_string_equal(task->name, "n");
    assert_string_equal(task->wire.model, "input 2 | dense 3");
    assert_string_equal(config.initial, "conf/a/b");
    assert_int_equal(task->wire.seed, 7);
    assert_string_equal(task->wire.codec_up, "float32");
    assert_string_equal(task->codec_down, "sbc:p=0.01");
    assert_int_equal(task->wire.small_tensor, 0);
    assert_int_equal(task->wire.local_steps, 3);
    assert_int_equal(task->wire.batch, 4);
    assert_string_equal(task->wire.optimizer, "adam");
    assert_true(task->wire.learning_rate == 1.0f);
    assert_int_equal(task->rules.rounds, 5);
    assert_int_equal(task->rules.cohort, 9);
    assert_int_equal(task->rules.goal, 8);
    assert_int_equal(task->rules.minimum, 7);
    assert_int_equal(task->rules.deadline_ms, 250);
    assert_int_equal(task->rules.staleness, 6);
    assert_int_equal(task->selection, FEDSERVER_SELECT_ROUND_ROBIN);
    assert_string_equal(task->tag, "lab");
}

/* The optimizer's text goes to the devices unchanged. The rate in this text is the learning
 * rate. */
FED_TEST(an_optimizer_is_a_spec) {
    static const char spec[] = "momentum:lr=0.5,m=0.8+cosine:steps=100+clip:norm=1";
    char text[256];
    snprintf(text, sizeof text,
             "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1, \"learning_rate\": 0.5,"
             " \"optimizer\": \"%s\"}",
             spec);
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(parse(text, &config, &err));
    assert_string_equal(config.task.wire.optimizer, spec);
    assert_true(config.task.wire.learning_rate == 0.5f);
}

FED_TEST(a_phase_changes_what_it_names_and_keeps_the_rest) {
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(
        parse("{\"model\": \"lr\", \"rounds\": 100, \"cohort\": 10, \"optimizer\": \"momentum\","
              "\"codec_up\": \"dgc:p=0.25\", \"batch\": 3, \"phases\": ["
              "{\"round\": 2, \"codec_up\": \"dgc:p=0.0625\", \"local_steps\": 7},"
              "{\"round\": 50, \"codec_down\": \"sbc\", \"learning_rate\": 0.5},"
              "{\"round\": 100, \"optimizer\": \"momentum:lr=2,m=0.5\", \"batch\": 9}]}",
              &config, &err));
    static const fedserver_phase wanted[] = {
        {1, "dgc:p=0.25", "", "3lc:s=1+entropy", 10, 3, "momentum", 0.01f},
        {2, "dgc:p=0.0625", "", "3lc:s=1+entropy", 7, 3, "momentum", 0.01f},
        {50, "dgc:p=0.0625", "", "sbc:p=0.01", 7, 3, "momentum", 0.5f},
        {100, "dgc:p=0.0625", "", "sbc:p=0.01", 7, 9, "momentum:lr=2,m=0.5", 2.0f}};
    static const uint32_t last[] = {1, 49, 99, 101};
    const fedserver_task *task = &config.task;
    assert_int_equal(task->phase_count, 3);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t round = wanted[k].round; round <= last[k]; round++) {
            assert_int_equal(fedserver_phase_number(task, round), k);
        }
        const fedserver_phase found = fedserver_phase_of(task, last[k]);
        assert_int_equal(found.round, wanted[k].round);
        assert_string_equal(found.codec_up, wanted[k].codec_up);
        assert_string_equal(found.codec_down, wanted[k].codec_down);
        assert_int_equal(found.local_steps, wanted[k].local_steps);
        assert_int_equal(found.batch, wanted[k].batch);
        assert_string_equal(found.optimizer, wanted[k].optimizer);
        assert_true(found.learning_rate == wanted[k].learning_rate);
        fed_task wire = {.id = 5, .seed = 6};
        fedserver_phase_apply(&found, &wire);
        assert_true(wire.id == 5 && wire.seed == 6 && wire.local_steps == found.local_steps);
        assert_true(wire.batch == found.batch && wire.learning_rate == found.learning_rate);
        assert_string_equal(wire.codec_up, found.codec_up);
        assert_string_equal(wire.optimizer, found.optimizer);
    }
}

FED_TEST(a_phase_may_change_numbers_of_the_optimizer_only) {
    static const struct {
        const char *first, *later;
        bool good;
    } cases[] = {{"momentum", "momentum:m=0.5,nesterov=1,decay=1e-4+clip:norm=1", true},
                 {"momentum", "momentum+mask", true},
                 {"momentum+warmup:steps=5", "momentum+warmup:steps=9", true},
                 {"adam", "adamw", false},
                 {"sgd", "momentum", false},
                 {"momentum", "momentum+warmup:steps=1", false},
                 {"sgd+step:every=9", "sgd+cosine:steps=9", false},
                 {"sgd", "sgd+step:every=1", false},
                 {"sgd+cosine:steps=1", "sgd", false},
                 {"sgd", "sgd+stall:window=1", false},
                 {"sgd+prox:mu=0.5", "sgd", false},
                 {"sgd", "sgd+scaffold", false},
                 {"sgd+scaffold", "sgd", false},
                 {"momentum+warmup:steps=1", "momentum", false},
                 {"sgd+step:every=1", "sgd", false},
                 {"sgd", "sgd+cosine:steps=1", false},
                 {"sgd+stall:window=1", "sgd", false},
                 {"sgd", "sgd+prox:mu=0.5", false}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fedserver_config config;
        fed_error err = {0};
        char text[400];
        snprintf(text, sizeof text,
                 "{\"model\": \"%s\", \"rounds\": 5, \"goal\": 1, \"optimizer\": \"%s\","
                 " \"phases\": [{\"round\": 2},\n{\"round\": 3, \"optimizer\": \"%s\"}]}",
                 strstr(cases[k].first, "scaffold") || strstr(cases[k].later, "scaffold")
                     ? "input 2 | dense 2 | scaffold"
                     : "lr",
                 cases[k].first, cases[k].later);
        assert_fed_status(parse(text, &config, &err), cases[k].good ? FED_OK : FED_EINVAL);
        if (!cases[k].good) {
            assert_fed_says(
                err, "conf/t.json:2: key \"phases[1].optimizer\": devices keep the state of");
        }
    }
}

#define PHASED(phases)                                                                             \
    "{\"model\": \"lr\", \"rounds\": 9, \"goal\": 1,\n\"phases\": [" phases "], \"batch\": 1}"

#define DOWNLOADS(url)                                                                             \
    {                                                                                              \
        "{\"model\": \"lr\", \"rounds\": 1, \"goal\": 1,\n\"downloads\": \"" url "\"}", {          \
            ":2: key \"downloads\"", "ends with '/'"                                               \
        }                                                                                          \
    }

static const struct {
    const char *text;
    const char *words[3];
} mistakes[] = {
    {"", {"conf/t.json:1:"}},
    {"[]", {"conf/t.json:1:", "JSON object"}},
    {"{\"rounds\": 1,\n\"rounds\": 2}", {"conf/t.json:2:"}},
    {"{\n\"rounds\": 1\n\"cohort\": 2}", {"conf/t.json:3:"}},
    {"{\n\n\"lr\": 1}", {"conf/t.json:3:", "\"lr\"", "unknown"}},
    {"{\"name\": \"x \\\"lr\\\": 1\",\n\"lr\": 1}", {"conf/t.json:2:", "\"lr\""}},
    {"{\"rounds\": 1, \"cohort\": 1}", {"\"model\" is missing"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1, \"name\": \"a\\u001b[2J\"}",
     {"\"name\"", "invisible character"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1, \"tag\": \"nor\\u200bth\"}",
     {"\"tag\"", "invisible character"}},
    {"{\"model\": \"lr\", \"cohort\": 1}", {"\"rounds\" is missing", "1 to 1000000"}},
    {"{\"model\": \"lr\",\n\"rounds\": 0, \"cohort\": 1}", {":2: key \"rounds\" is 0"}},
    {"{\"model\": \"lr\",\n\"rounds\": 1.5, \"cohort\": 1}", {":2:", "not an integer"}},
    {"{\"model\": \"lr\",\n\"rounds\": \"1\", \"cohort\": 1}", {":2:", "not an integer"}},
    {"{\"model\": 5, \"rounds\": 1, \"cohort\": 1}", {"\"model\" is not a text"}},
    {"{\"model\": \"\", \"rounds\": 1, \"cohort\": 1}", {"\"model\" is empty"}},
    {"{\"model\": \"lr\\u0000\", \"rounds\": 1, \"cohort\": 1}", {":1:"}},
    {"{\n\"model\": \"nonesuch\", \"rounds\": 1, \"cohort\": 1}", {":2: key \"model\":", "lenet"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"codec_up\": \"zip\"}",
     {":2: key \"codec_up\":", "sbc"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"codec_down\": \"sbc:p=9\"}",
     {":2: key \"codec_down\":"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"optimizer\": \"lion\"}",
     {":2: key \"optimizer\"", "momentum"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"optimizer\": \"sgd:m=1\"}",
     {":2: key \"optimizer\"", "\"m\"", "lr, decay"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"optimizer\": \"sgd+scaffold\"}",
     {":2: key \"optimizer\"", "ends with \"| scaffold\""}},
    {"{\"model\": \"lr\", \"rounds\": 1,\n\"cohort\": 10, \"goal\": 11}",
     {":2: key \"goal\" is 11", "cohort", "10"}},
    {"{\"model\": \"lr\", \"rounds\": 1}", {"conf/t.json: key \"goal\" is missing", "\"cohort\""}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"goal\": 1,\n\"selection\": \"best\"}",
     {":2: key \"selection\"", "round_robin"}},
    DOWNLOADS("cdn.example.org/fed/"),
    DOWNLOADS("https://cdn.example.org/fed"),
    DOWNLOADS("ftp://cdn.example.org/"),
    DOWNLOADS("https:///"),
    DOWNLOADS("https://user:password@cdn.example.org/"),
    DOWNLOADS("https://a/?b/"),
    DOWNLOADS("https://a/#/"),
    DOWNLOADS("https://a/ b/"),
    DOWNLOADS("https://a/\\n/"),
    {"{\"model\": \"lr\", \"rounds\": 1, \"goal\": 1,\n\"staleness\": 1001}",
     {":2: key \"staleness\" is 1001"}},
    {"{\"model\": \"lr\", \"rounds\": 1,\n\"cohort\": 10, \"minimum\": 11}",
     {":2: key \"minimum\" is 11", "goal", "10"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"learning_rate\": 0}",
     {":2: key \"learning_rate\" is 0", "a number from 1e-30 to 1e30"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"learning_rate\": 1e38}",
     {":2: key \"learning_rate\" is 1e+38", "a number from 1e-30 to 1e30"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"deadline_s\": 604801}",
     {":2: key \"deadline_s\""}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,\n\"seed\": -1}", {":2: key \"seed\""}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"goal\": 1,\n\"phases\": {\"round\": 2}}",
     {":2: key \"phases\" is not a list"}},
    {"{\"model\": \"lr\", \"rounds\": 1, \"goal\": 1,\n\"round\": 2}",
     {":2: key \"round\" is unknown"}},
    {PHASED("3"), {":2: key \"phases\" is a list of something else"}},
    {PHASED("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},"
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"),
     {":2: key \"phases\" is too long; it must be a list of at most 32"}},
    {PHASED("{\"batch\": 2}"), {"key \"phases[0].round\" is missing"}},
    {PHASED("{\"round\": 1}"), {"key \"phases[0].round\" is 1; it must be an integer from 2"}},
    {PHASED("{\"round\": 10}"), {"key \"phases[0].round\" is 10; "}},
    {PHASED("{\"round\": 4},\n{\"round\": 4}"), {":3: key \"phases[1].round\" is 4; "}},
    {PHASED("{\"round\": 2},\n{\"round\": 3,\n\"rounds\": 4}"),
     {":4: key \"phases[1].rounds\" is unknown"}},
    {PHASED("{\"round\": 2, \"batch\": 2},\n{\"round\": 3, \"batch\": 0}"),
     {":3: key \"phases[1].batch\" is 0"}},
    {PHASED("{\"round\": 2,\n \"codec_up\": \"zip\"}"), {":3: key \"phases[0].codec_up\":", "sbc"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 1, \"phases\": [{\"round\": 2,"
     "\"batch\": 1}],\n\"batch\": 0}",
     {":2: key \"batch\" is 0"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 1, \"optimizer\": \"sgd:lr=1\","
     "\"phases\":\n[{\"round\": 2, \"learning_rate\": 0.5}]}",
     {":2: key \"phases[0].learning_rate\"", "the optimizer names lr itself"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 1, \"optimizer\": \"sgd:lr=0.1\","
     "\n\"learning_rate\": 0.2}",
     {":2: key \"learning_rate\"", "the optimizer names lr itself"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 3,\n\"optimizer\": \"adam+mask\","
     "\"codec_up\": \"int8\"}",
     {":2: key \"optimizer\": +mask sets", "no momentum would be left"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 3, \"optimizer\": \"adam+mask\","
     "\"phases\":\n[{\"round\": 2, \"codec_up\": \"float32\"}]}",
     {":2: key \"phases[0].optimizer\": +mask sets"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 3,\n\"optimizer\": \"sgd+mask\"}",
     {":2: key \"optimizer\"", "sgd has no momentum"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 3,\n\"private_layers\": \"head\"}",
     {":2: key \"private_layers\": no trained layer is left to travel"}},
    {"{\"model\": \"input 2 | dense 3 | dense 2\", \"rounds\": 9, \"goal\": 3,"
     "\n\"private_layers\": \"1,3\"}",
     {":2: key \"private_layers\": there is no layer 3"}},
    {"{\"model\": \"input 2 | dense 2 | scaffold\", \"rounds\": 9, \"goal\": 3,"
     "\n\"codec_variates\": \"eden\"}",
     {":2: key \"codec_variates\": only an optimizer with +scaffold"}},
    {"{\"model\": \"input 2 | dense 2 | scaffold\", \"rounds\": 9, \"goal\": 3,"
     "\"optimizer\": \"sgd+scaffold\",\n\"codec_variates\": \"ring\"}",
     {":2: key \"codec_variates\": ring is for"}},
    {"{\"model\": \"input 2 | dense 2 | scaffold\", \"rounds\": 9, \"goal\": 3, \"codec_up\":"
     "\"int8\", \"strategy\": \"median\", \"optimizer\": \"sgd+scaffold\","
     "\n\"codec_variates\": \"sbc\"}",
     {":2: key \"codec_variates\": strategy median combines each value separately"}},
    {"{\"model\": \"input 2 | dense 3 | dense 2\", \"rounds\": 9, \"goal\": 3,"
     "\n\"private_layers\": \"tail\"}",
     {":2: key \"private_layers\": \"tail\" must be head, bn, a layer's number"}},
    {"{\"model\": \"input 2 | dense 3 | dense 2 | scaffold\", \"rounds\": 9, \"goal\": 3,"
     "\n\"private_layers\": \"head\", \"optimizer\": \"sgd+scaffold\"}",
     {":2: key \"private_layers\"", "control variates"}},
    {"{\"model\": \"lr\", \"rounds\": 9, \"goal\": 3, \"strategy\": \"median\", \"codec_up\":"
     "\"int8\", \"phases\":\n[{\"round\": 2, \"codec_up\": \"sbc\"}]}",
     {":2: key \"phases[0].codec_up\": strategy median combines each value separately"}},
};

FED_TEST(mistakes_are_named_with_file_line_and_key) {
    for (size_t k = 0; k < sizeof mistakes / sizeof mistakes[0]; k++) {
        fedserver_config config;
        fed_error err = {0};
        assert_true(parse(mistakes[k].text, &config, &err) != FED_OK);
        for (size_t w = 0; w < 3 && mistakes[k].words[w] != NULL; w++) {
            if (strstr(err.text, mistakes[k].words[w]) == NULL) {
                fail_msg("case %zu: \"%s\" is not in: %s", k, mistakes[k].words[w], err.text);
            }
        }
    }
}

/* Each of these keys is wrong by itself. */
FED_TEST(the_other_keys_that_are_wrong_are_named_with_the_first) {
    fedserver_config config;
    fed_error err = {0};
    assert_fed_status(parse("{\"model\": 7, \"rounds\": 0, \"cohort\": 2, \"cohor\": 3,"
                            " \"batch\": -1}",
                            &config, &err),
                      FED_EINVAL);
    assert_non_null(strstr(err.text, "key \"cohor\" is unknown"));
    assert_non_null(strstr(err.text, "; also wrong: model, batch, rounds"));
    err = (fed_error){0};
    assert_fed_status(parse("{\"model\": \"input 2 | dens 2\", \"rounds\": 1, \"goal\": 3,"
                            " \"cohort\": 2, \"codec_up\": \"sb\", \"optimizer\": \"adm\","
                            " \"downloads\": \"ftp://x\"}",
                            &config, &err),
                      FED_EINVAL);
    assert_non_null(strstr(err.text, "key \"model\":"));
    assert_non_null(strstr(err.text, "; also wrong: codec_up, optimizer, cohort, downloads"));
}

static void write_initial(const char *directory, uint32_t out, char *path, size_t cap) {
    fed_error err = {0};
    char model[300];
    float values[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    fed_layout layout;
    fed_layout_init(&layout);
    /* The tensors are not in the model's order, as in files of other programs. */
    assert_fed_ok(fed_layout_add(&layout, "dense1.bias", 1, (uint32_t[]){out}));
    assert_fed_ok(fed_layout_add(&layout, "dense1.weight", 2, (uint32_t[]){out, 2}));
    snprintf(model, sizeof model, "%s/w.safetensors", directory);
    assert_fed_ok_err(fed_checkpoint_save(model, &layout, values, NULL, &err));
    fed_layout_free(&layout);
    snprintf(path, cap, "%s/task.json", directory);
    static const char text[] = "{\"model\": \"input 2 | dense 2\", \"rounds\": 1, \"cohort\": 1,"
                               " \"initial\": \"w.safetensors\"}";
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
}

static fed_status read_task(const char *path, float **values, size_t *size, fed_error *err) {
    fedserver_config config;
    FED_TRY(fedserver_config_read(path, &config, err));
    return fedserver_config_values(&config, values, size, err);
}

FED_TEST(the_initial_model_lies_beside_the_task_file_and_must_fit) {
    char directory[256];
    char path[300];
    fed_error err = {0};
    float *values = NULL;
    size_t size = 0;
    fed_test_tmpdir(directory, sizeof directory);
    write_initial(directory, 2, path, sizeof path);
    assert_fed_ok_err(read_task(path, &values, &size, &err));
    assert_int_equal(size, 6);
    assert_true(values[0] == 3.0f && values[4] == 1.0f && values[5] == 2.0f);
    free(values);
    write_initial(directory, 3, path, sizeof path);
    assert_fed_fails(read_task(path, &values, &size, &err), FED_EFORMAT, "w.safetensors");
    fed_test_rmdir(directory);
}

static const char layered[] = "{\"model\": \"input 2 | a: dense 3 | b: dense 2\", \"rounds\": 1,"
                              " \"cohort\": 1, %s \"seed\": 5}";

/* Make the values of the task with these private layers, and compare them with those of the same
 * tensors in a model of which nothing stays. */
static void check_shared(const char *path, const char *layers, const char *initial, size_t from,
                         size_t count) {
    char text[300], more[120];
    float *all = NULL, *shared = NULL;
    size_t size = 0;
    fed_error err = {0};
    snprintf(text, sizeof text, layered, initial);
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
    assert_fed_ok_err(read_task(path, &all, &size, &err));
    assert_int_equal(size, 17);
    snprintf(more, sizeof more, "\"private_layers\": \"%s\", %s", layers, initial);
    snprintf(text, sizeof text, layered, more);
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
    assert_fed_ok_err(read_task(path, &shared, &size, &err));
    assert_int_equal(size, count);
    assert_memory_equal(shared, all + from, count * sizeof *all);
    free(all);
    free(shared);
}

static void write_layers(const char *path, const char *model) {
    static const float values[17] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    fed_error err = {0};
    fed_arch arch;
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    assert_fed_ok_err(fed_checkpoint_save(path, &arch.layout, values, NULL, &err));
    fed_arch_free(&arch);
}

FED_TEST(a_coordinator_has_the_values_of_what_travels) {
    char directory[256], path[300], weights[300];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/t.json", directory);
    snprintf(weights, sizeof weights, "%s/w.safetensors", directory);
    check_shared(path, "head", "", 0, 9);
    check_shared(path, "1", "", 9, 8);
    write_layers(weights, "input 2 | a: dense 3 | b: dense 2");
    check_shared(path, "1", "\"initial\": \"w.safetensors\",", 9, 8);
    fed_test_rmdir(directory);
}

/* The exported model of such a task has what travelled, and may be where the next one starts. */
FED_TEST(an_initial_file_may_lack_what_stays) {
    char directory[256], path[300], weights[300], text[300];
    float *values = NULL;
    size_t size = 0;
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/t.json", directory);
    snprintf(weights, sizeof weights, "%s/w.safetensors", directory);
    write_layers(weights, "input 2 | a: dense 3");
    snprintf(text, sizeof text, layered,
             "\"private_layers\": \"head\", \"initial\": \"w.safetensors\",");
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
    assert_fed_ok_err(read_task(path, &values, &size, &err));
    assert_int_equal(size, 9);
    assert_true(values[0] == 1 && values[8] == 9);
    free(values);
    snprintf(text, sizeof text, layered,
             "\"private_layers\": \"1\", \"initial\": \"w.safetensors\",");
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
    assert_fed_fails(read_task(path, &values, &size, &err), FED_EFORMAT, "w.safetensors");
    fed_test_rmdir(directory);
}

FED_TEST(the_seed_decides_the_random_weights) {
    char directory[256];
    char path[300];
    fed_error err = {0};
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/t.json", directory);
    float first[3];
    for (int k = 0; k < 3; k++) {
        char text[200];
        float *values = NULL;
        size_t size = 0;
        snprintf(text, sizeof text,
                 "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1, \"seed\": %d}", k / 2);
        assert_fed_ok_err(fed_file_replace(path, text, strlen(text), 0600, &err));
        assert_fed_ok_err(read_task(path, &values, &size, &err));
        assert_int_equal(size, 7850);
        first[k] = values[0];
        free(values);
    }
    assert_true(first[0] == first[1]);
    assert_true(first[0] != first[2]);
    fed_test_rmdir(directory);
}

FED_TEST(a_helpers_key_may_lie_beside_the_task_file) {
    /* some point of P-256 */
    static const char key[] = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                              "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    static const char text[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 2, \"clip\": 1,\n"
                               "\"codec_up\": \"ring:b=5\", \"helper\": \"their/helper.pem\"}";
    char directory[200], path[300];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/their", directory);
    fed_error err = {0};
    fedserver_config config;
    assert_fed_ok_err(fed_dir_make(path, 0700, &err));
    snprintf(path, sizeof path, "%s/task.json", directory);
    assert_fed_fails(
        fedserver_config_parse(path, text, strlen(text), &config, &err), FED_EINVAL,
        "task.json:2: key \"helper\": it is neither a helper's seal key, 130 hex digits,"
        " nor the path of a file with one");
    fed_test_put(directory, "their/helper.pem", "04abcd", 6);
    assert_fed_fails(fedserver_config_parse(path, text, strlen(text), &config, &err), FED_EINVAL,
                     "their/helper.pem has no helper's key");
    fed_test_put(directory, "their/helper.pem", key, strlen(key));
    assert_fed_ok_err(fedserver_config_parse(path, text, strlen(text), &config, &err));
    assert_string_equal(config.task.helper, key);
    fedserver_config_free(&config);
    /* with a spare key: the same point, mirrored */
    static const char spare[] =
        "\n046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "b01cbd1c01e58065711814b583f061e9d431cca994cea1313449bf97c840ae0a\n";
    char both[2 * sizeof key + 10];
    snprintf(both, sizeof both, "%s%s", key, spare);
    fed_test_put(directory, "their/helper.pem", both, strlen(both));
    assert_fed_ok_err(fedserver_config_parse(path, text, strlen(text), &config, &err));
    assert_int_equal(strlen(config.task.helper), 2 * (sizeof key - 1) + 1);
    assert_memory_equal(config.task.helper, key, sizeof key - 1);
    assert_memory_equal(config.task.helper + sizeof key, spare + 1, sizeof key - 1);
    fedserver_config_free(&config);
    fed_test_rmdir(directory);
}

FED_TEST(a_model_file_lies_beside_the_task_file) {
    char directory[200], path[300];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/task.json", directory);
    static const char net[] = "# mine\ninput 2\n | dense 3\n", wrong[] = "input 2\n | danse 3\n";
    static const char task[] = "{\"model\": \"@my.net\", \"rounds\": 1, \"cohort\": 1}";
    fed_test_put(directory, "my.net", net, strlen(net));
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_config_parse(path, task, strlen(task), &config, &err));
    assert_string_equal(config.task.wire.model, "input 2 | dense 3");
    fed_test_put(directory, "my.net", wrong, strlen(wrong));
    assert_fed_fails(fedserver_config_parse(path, task, strlen(task), &config, &err), FED_EINVAL,
                     "task.json:1: key \"model\": ");
    assert_fed_says(err, "/my.net: model: line 2, column 4, \"danse\"");
    fed_test_rmdir(directory);
}
