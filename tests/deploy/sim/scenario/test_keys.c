/* The table of scenario keys must agree with docs/fedsim.md and with the coordinator's defaults. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/task_file.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fedserver/task/config.h"

FED_TEST(the_page_has_each_key_with_its_default_and_meaning) {
    fed_error err = {0};
    uint8_t *page = NULL;
    size_t len = 0;
    assert_fed_ok_err(fed_file_read(FED_SOURCE_DIR "/docs/fedsim.md", 1 << 20, &page, &len, &err));
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const sim_key *key = &sim_keys[id];
        const char *quote = key->preset == NULL || key->preset[0] == '\0' ? "" : "`";
        char row[600];
        snprintf(row, sizeof row, "\n| `%s` | %s%s%s | %s |\n", key->name, quote,
                 key->preset == NULL ? "needed" : key->preset, quote, key->meaning);
        if (strstr((const char *)page, row) == NULL) {
            fail_msg("docs/fedsim.md lacks this row:%s", row);
        }
    }
    free(page);
}

static void read_task(const char *text, size_t len, fedserver_config *config) {
    fed_error err = {0};
    memset(config, 0, sizeof *config); /* clears the padding, because the memory is compared */
    assert_fed_ok_err(fedserver_config_parse("task", text, len, config, &err));
}

FED_TEST(defaults_are_the_coordinators) {
    static const char least[] = "{ \"model\": \"lr\", \"rounds\": 3, \"cohort\": 400 }";
    static const char scenario[] = "data = d\nmodel = lr\nrounds = 3\n";
    fedserver_config *own = calloc(2, sizeof *own);
    sim_scenario s = {0};
    fed_error err = {0};
    fed_writer w;
    assert_non_null(own);
    assert_fed_ok_err(sim_scenario_parse("s", scenario, &s, &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    fed_writer_growing(&w);
    assert_fed_ok_err(sim_task_write(&s, &w, &err));
    read_task(least, strlen(least), &own[0]);
    read_task((const char *)w.data, w.len, &own[1]);
    assert_memory_equal(&own[0].task.wire, &own[1].task.wire, sizeof own[0].task.wire);
    assert_memory_equal(&own[0].task.rules, &own[1].task.rules, sizeof own[0].task.rules);
    assert_string_equal(own[0].task.codec_down, own[1].task.codec_down);
    assert_string_equal(own[0].task.strategy, own[1].task.strategy);
    assert_int_equal(own[0].task.selection, own[1].task.selection);
    fed_writer_free(&w);
    sim_scenario_free(&s);
    free(own);
}

FED_TEST(names_of_keys_are_unlike) {
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        sim_key_id found = SIM_KEYS;
        fed_error err = {0};
        assert_non_null(sim_keys[id].name);
        assert_fed_ok_err(sim_key_find(sim_keys[id].name, strlen(sim_keys[id].name), &found, &err));
        assert_int_equal(found, id);
    }
}

FED_TEST(each_scenario_of_the_house_is_taken) {
    static const char *const names[] = {"demo", "sbc-400", "crowd-3g"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[600];
        sim_scenario s = {0};
        sim_options o;
        fed_error err = {0};
        fed_writer w;
        snprintf(path, sizeof path, FED_SOURCE_DIR "/deploy/sim/scenarios/%s.txt", names[k]);
        fed_writer_growing(&w);
        assert_fed_ok_err(sim_scenario_read(path, &s, &err));
        assert_fed_ok_err(sim_scenario_complete(&s, &err));
        assert_fed_ok_err(sim_options_read(&s, 1, &o, &err));
        assert_fed_ok_err(sim_task_write(&s, &w, &err));
        fed_writer_free(&w);
        sim_scenario_free(&s);
    }
}
