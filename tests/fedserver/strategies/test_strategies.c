/* Strategy specs: what they mean, the errors for wrong specs, and the strategies' stored state. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed_cases.h"
#include "fedserver/task/config.h"

FED_TEST(a_spec_names_either_half_or_both) {
    fed_error err = {0};
    fedserver_strategy s;
    assert_fed_ok_err(fedserver_strategy_parse("fedadam:lr=0.5,tau=1e-2", &s, &err));
    assert_null(s.combine.vtable);
    assert_string_equal(s.step.vtable->name, "fedadam");
    assert_true(s.step.param[0] == 0.5 && s.step.param[2] == 1e-2 && s.step.param[3] == 0.99);
    assert_int_equal(s.addition_count, 0);
    assert_fed_ok_err(fedserver_strategy_parse("clip:norm=2+krum:f=3+fedavgm", &s, &err));
    assert_string_equal(s.combine.vtable->name, "krum");
    assert_string_equal(s.step.vtable->name, "fedavgm");
    assert_true(s.combine.param[0] == 3);
    assert_int_equal(s.addition_count, 1);
    assert_string_equal(s.additions[0].vtable->name, "clip");
    assert_true(s.additions[0].param[0] == 2);
    assert_true(fedserver_strategy_needs_all(&s));
}

static fed_status parse_task(const char *strategy, const char *more, fedserver_config *config,
                             fed_error *err) {
    char text[512];
    snprintf(text, sizeof text,
             "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 9,\n\"strategy\": \"%s\"%s}", strategy,
             more);
    return fedserver_config_parse("t.json", text, strlen(text), config, err);
}

FED_TEST(a_task_keeps_its_strategy_as_it_is_written) {
    static const char *const specs[] = {"fedavg", "fedadam:lr=0.03", "fedavgm:m=0.5+clip:norm=3",
                                        "multikrum:f=2,m=5", "median"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fed_error err = {0};
        fedserver_config config;
        assert_fed_ok_err(parse_task(
            specs[k],
            ", \"minimum\": 9, \"codec_up\": \"int8\", \"optimizer\": \"sgd+prox:mu=0.1\"", &config,
            &err));
        assert_string_equal(config.task.strategy, specs[k]);
    }
}

FED_TEST(mistakes_are_explained) {
    static const struct {
        const char *strategy, *more, *words[3];
    } cases[] = {
        {"fedsgd", "", {"t.json:2: key \"strategy\"", "\"fedsgd\"", "fedyogi"}},
        {"", "", {"t.json:2: key \"strategy\" is empty"}},
        {"fedavg+", "", {"unknown strategy \"fedavg+\""}},
        {"fedavg:lr=1", "", {"fedavg takes no parameters"}},
        {"fedadam:mu=1", "", {"\"mu\"", "lr, b1, tau, b2"}},
        {"fedadam:tau=0", "", {"tau=0 is out of range"}},
        {"fedadam+fedyogi", "", {"fedadam and fedyogi both make the change"}},
        {"median+fedavg", "", {"median and fedavg both make one vector"}},
        {"fedavg+clip", "", {"clip needs norm"}},
        {"fedavg+clip:norm=1+clip:norm=2", "", {"clip is given twice"}},
        {"krum:f=2", ", \"minimum\": 6", {"needs 7 updates", "minimum is 6"}},
        {"multikrum:f=1,m=7", ", \"minimum\": 7", {"needs 8 updates"}},
        {"krum:f=0.5", ", \"minimum\": 9", {"whole number"}},
        {"median", "", {"median combines each value", "codec_up", "int8"}},
        {"trimmed", ", \"codec_up\": \"3lc:s=1\"", {"trimmed combines each value"}},
        {"median", ", \"codec_up\": \"threshold:t=0.001\"", {"median combines each value"}},
        {"median", ", \"codec_up\": \"topk:p=0.2,values=int8\"", {"median combines each value"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_error err = {0};
        fedserver_config config;
        assert_fed_status(parse_task(cases[k].strategy, cases[k].more, &config, &err), FED_EINVAL);
        for (size_t w = 0; w < 3 && cases[k].words[w] != NULL; w++) {
            assert_fed_says(err, cases[k].words[w]);
        }
    }
}

FED_TEST(krum_takes_as_many_updates_as_it_has_memory_for) {
    fed_error err = {0};
    fedcodec codec;
    fedserver_strategy s;
    assert_fed_ok_err(fedcodec_parse("float32", &codec, &err));
    assert_fed_ok_err(fedserver_strategy_parse("krum", &s, &err));
    assert_fed_ok_err(fedserver_strategy_check(&s, 5, 1024, &codec, &err));
    assert_fed_status(fedserver_strategy_check(&s, 5, 1025, &codec, &err), FED_EINVAL);
    assert_fed_says(err, "at most 1024 updates");
}

static void note(void *user, fed_log_level level, const char *line) {
    (void)level;
    snprintf(user, 500, "%s", line);
}

FED_TEST(a_state_of_the_wrong_size_is_not_started_with) {
    char said[500] = "";
    const fed_log log = {.write = note, .user = said, .level = FED_LOG_ERROR};
    fed_error err = {0};
    coordinator c;
    coordinator_setup(&c);
    coordinator_task(&c, "{\"model\": \"input 2 | dense 2\", \"strategy\": \"fedadam\","
                         " \"rounds\": 1, \"cohort\": 1}");
    const fedserver_training *t = fedserver_rounds_front(&c.server->rounds);
    fedserver_model_row row = {.version = 1,
                               .digest = t->versions.digest,
                               .values = t->versions.values,
                               .size = t->arch.layout.size,
                               .state = (void *)t->state,
                               .state_len = 7 * sizeof *t->state};
    assert_fed_ok_err(c.server->store->model_put(c.server->db, t->task.wire.id, &row, &err));
    coordinator_commit(&c);
    fedserver_close(c.server);
    assert_fed_ok_err(fedserver_open(c.directory, &log, &c.server, &err));
    assert_fed_ok_err(fedserver_begin(c.server, &err));
    assert_non_null(strstr(said, "is paused"));
    assert_non_null(strstr(said, "the stored state of strategy fedadam has 28 bytes, not 48"));
    coordinator_teardown(&c);
}
