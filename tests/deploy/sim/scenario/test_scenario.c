/* Scenario files and grids, valid and invalid. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "deploy/sim/scenario/grid.h"
#include "deploy/sim/scenario/helper_key.h"
#include "deploy/sim/scenario/task_file.h"
#include "fed_cases.h"

static const char least[] = "data = d\nmodel = lr\nrounds = 3\n";

static fed_status make(const char *lines, sim_scenario *s, fed_error *err) {
    char text[2000];
    snprintf(text, sizeof text, "%s%s", least, lines);
    *s = (sim_scenario){0};
    FED_TRY(sim_scenario_parse("s.txt", text, s, err));
    return sim_scenario_complete(s, err);
}

FED_TEST(lines_blanks_and_comments_are_understood) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_scenario_parse("s.txt",
                                         "# a comment\n\n  name =  a #1 thing   # not this\r\n"
                                         "model=input 4 | dense 2 # layers\n\tclients = 7",
                                         &s, &err));
    assert_string_equal(s.value[SIM_NAME], "a");
    assert_string_equal(s.value[SIM_MODEL], "input 4 | dense 2");
    assert_string_equal(s.value[SIM_CLIENTS], "7");
    assert_string_equal(s.origin[SIM_CLIENTS], "s.txt:5");
    sim_scenario_free(&s);
}

FED_TEST(an_unknown_key_is_refused_with_its_line_and_the_likeliest_one) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_status(sim_scenario_parse("s.txt", "\ncodec_upp = a\n", &s, &err), FED_EINVAL);
    assert_fed_says(err, "s.txt:2: key \"codec_upp\" is unknown; did you mean \"codec_up\"?");
    sim_scenario_free(&s);
}

FED_TEST(a_line_without_an_equals_sign_and_a_key_twice_are_refused) {
    sim_scenario s = {0}, t = {0};
    fed_error err = {0};
    assert_fed_status(sim_scenario_parse("s.txt", "clients 7\n", &s, &err), FED_EINVAL);
    assert_fed_says(err, "s.txt:1: \"clients 7\" is not `key = value`");
    assert_fed_status(sim_scenario_parse("s.txt", "seed = 1\nseed = 2\n", &t, &err), FED_EINVAL);
    assert_fed_says(err, "s.txt:2: key \"seed\" was given at s.txt:1 already");
    sim_scenario_free(&s);
    sim_scenario_free(&t);
}

FED_TEST(the_command_line_goes_before_the_file) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_scenario_parse("s.txt", "clients = 7\nsplit = iid\n", &s, &err));
    assert_fed_ok_err(sim_scenario_override(&s, "split=dirichlet:alpha=0.5", &err));
    assert_string_equal(s.value[SIM_SPLIT], "dirichlet:alpha=0.5");
    assert_string_equal(s.origin[SIM_SPLIT], "the command line");
    assert_string_equal(s.value[SIM_CLIENTS], "7");
    sim_scenario_free(&s);
}

FED_TEST(a_key_without_a_default_is_missed_by_name) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_scenario_parse("s.txt", "data = d\nrounds = 3\n", &s, &err));
    assert_fed_status(sim_scenario_complete(&s, &err), FED_EINVAL);
    assert_fed_says(err, "s.txt: key \"model\" is missing");
    sim_scenario_free(&s);
}

FED_TEST(cohort_and_goal_are_the_clients_that_are_there) {
    sim_scenario s;
    fed_error err = {0};
    assert_fed_ok_err(make("clients = 400\noffline = 0.1\n", &s, &err));
    assert_string_equal(s.value[SIM_COHORT], "360");
    assert_string_equal(s.value[SIM_GOAL], "360");
    sim_scenario_free(&s);
    assert_fed_ok_err(make("cohort = 10\n", &s, &err));
    assert_string_equal(s.value[SIM_GOAL], "10");
    sim_scenario_free(&s);
}

FED_TEST(iterations_make_rounds) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_scenario_parse(
        "s.txt", "data = d\nmodel = lr\niterations = 2500\nlocal_steps = 100\n", &s, &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_string_equal(s.value[SIM_ROUNDS], "25");
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_fed_ok_err(sim_scenario_override(&s, "rounds=3", &err));
    assert_fed_status(sim_scenario_complete(&s, &err), FED_EINVAL);
    assert_fed_says(
        err, "the command line: key \"rounds\" is \"3\", but iterations and local_steps make 25");
    assert_fed_ok_err(sim_scenario_override(&s, "rounds=", &err));
    assert_fed_ok_err(sim_scenario_override(&s, "local_steps=5000", &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_string_equal(s.value[SIM_ROUNDS], "1");
    assert_fed_ok_err(sim_scenario_override(&s, "iterations=0.5", &err));
    assert_fed_status(sim_scenario_complete(&s, &err), FED_EINVAL);
    assert_fed_says(err, "key \"iterations\" is \"0.5\"; it must be a whole number");
    sim_scenario_free(&s);
}

FED_TEST(a_rate_beside_an_optimizer_that_names_another_is_refused) {
    sim_scenario s = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_scenario_parse(
        "s.txt", "data = d\nmodel = lr\nrounds = 1\noptimizer = sgd:lr=0.1\n", &s, &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_string_equal(s.value[SIM_LEARNING_RATE], "");
    assert_fed_ok_err(sim_scenario_override(&s, "learning_rate=0.10", &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_fed_ok_err(sim_scenario_override(&s, "learning_rate=0.2", &err));
    assert_fed_status(sim_scenario_complete(&s, &err), FED_EINVAL);
    assert_fed_says(err, "key \"learning_rate\" is \"0.2\", but optimizer names lr=0.1");
    assert_fed_ok_err(sim_scenario_override(&s, "optimizer=sgd", &err));
    assert_fed_ok_err(sim_scenario_complete(&s, &err));
    assert_string_equal(s.value[SIM_LEARNING_RATE], "0.2");
    sim_scenario_free(&s);
}

FED_TEST(a_written_scenario_is_read_as_the_same) {
    sim_scenario s, back = {0};
    fed_error err = {0};
    fed_writer w;
    assert_fed_ok_err(make("name = a name\nphases = 2: batch=4 codec_up=sbc:p=0.1\n", &s, &err));
    fed_writer_growing(&w);
    sim_scenario_write(&s, &w);
    assert_fed_ok_err(sim_scenario_parse("back", (const char *)w.data, &back, &err));
    assert_int_equal(sim_scenario_difference(&s, &back), SIM_KEYS);
    assert_fed_ok_err(sim_scenario_override(&back, "threads=3", &err));
    assert_int_equal(sim_scenario_difference(&s, &back), SIM_KEYS);
    assert_fed_ok_err(sim_scenario_override(&back, "batch=3", &err));
    assert_int_equal(sim_scenario_difference(&s, &back), SIM_BATCH);
    fed_writer_free(&w);
    sim_scenario_free(&s);
    sim_scenario_free(&back);
}

static json_t *task_of(const char *lines) {
    sim_scenario s;
    fed_error err = {0};
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(make(lines, &s, &err));
    assert_fed_ok_err(sim_task_write(&s, &w, &err));
    json_t *task = json_loadb((const char *)w.data, w.len, 0, NULL);
    assert_non_null(task);
    fed_writer_free(&w);
    sim_scenario_free(&s);
    return task;
}

static void refused(const char *lines, const char *words) {
    sim_scenario s;
    fed_error err = {0};
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(make(lines, &s, &err));
    assert_int_not_equal(sim_task_write(&s, &w, &err), FED_OK);
    assert_fed_says(err, words);
    fed_writer_free(&w);
    sim_scenario_free(&s);
}

FED_TEST(the_task_has_numbers_texts_and_the_seed_of_the_run) {
    json_t *task = task_of("seed = 5\nlocal_steps = 20\nlearning_rate = 0.5\nname = a \"b\"\n");
    assert_int_equal(json_integer_value(json_object_get(task, "seed")), 5);
    assert_int_equal(json_integer_value(json_object_get(task, "local_steps")), 20);
    assert_true(json_number_value(json_object_get(task, "learning_rate")) == 0.5);
    assert_string_equal(json_string_value(json_object_get(task, "name")), "a \"b\"");
    assert_int_equal(json_integer_value(json_object_get(task, "cohort")), 400);
    assert_null(json_object_get(task, "initial"));
    assert_null(json_object_get(task, "clients"));
    json_decref(task);
}

FED_TEST(the_coordinators_complaints_name_the_scenarios_line) {
    refused("clients = 10\ncodec_up = nonsense\n", "s.txt:5: key \"codec_up\"");
    refused("batch = 0\n", "s.txt:4: key \"batch\" is 0; it must be an integer from 1");
    refused("batch = many\n", "s.txt:4: key \"batch\" is not an integer");
    refused("goal = 500\n", "s.txt:4: key \"goal\" is 500; it must be at most cohort");
}

FED_TEST(the_task_names_the_runs_helper) {
    json_t *task = task_of("codec_up = ring:b=5\nclip = 1\nhelper = 1\nseed = 5\n"),
           *same = task_of("codec_up = ring:b=4\nclip = 2\nhelper = 1\nseed = 5\n"),
           *other = task_of("codec_up = ring:b=5\nclip = 1\nhelper = 1\nseed = 6\n");
    char key[SIM_HELPER_HEX];
    fed_error err = {0};
    assert_fed_ok_err(sim_helper_hex(5, key, &err));
    assert_string_equal(json_string_value(json_object_get(task, "helper")), key);
    assert_true(json_equal(json_object_get(same, "helper"), json_object_get(task, "helper")));
    assert_false(json_equal(json_object_get(other, "helper"), json_object_get(task, "helper")));
    json_decref(task);
    json_decref(same);
    json_decref(other);
    refused("codec_up = sbc:p=0.1\nhelper = 1\n",
            "s.txt:5: key \"helper\": a helper opens sums of codec ring only");
    refused("helper = 2\n", "s.txt:4: key \"helper\" is \"2\"");
}

#define PROMISE "codec_up = ring:b=5\nclip = 1\nepsilon = 8\ndelta = 1e-5\nparticipations = 3\n"

FED_TEST(the_task_says_who_adds_the_noise) {
    json_t *task = task_of(PROMISE "helper = 1\nnoise = both\n");
    assert_string_equal(json_string_value(json_object_get(task, "noise")), "both");
    json_decref(task);
    refused(PROMISE "noise = helper\n",
            "s.txt:9: key \"noise\": a helper adds the noise where there "
            "is one, so noise is helper or both");
    refused(PROMISE "helper = 1\nnoise = coordinator\n", "s.txt:10: key \"noise\": a helper adds");
    refused(PROMISE "noise = someone\n", "s.txt:9: key \"noise\"");
    refused(PROMISE "helper = 1\napart = 2\nselection = round_robin\nnoise = both\n",
            "s.txt:12: key \"noise\": with apart, one of the two adds the noise");
    refused("codec_up = ring:b=5\nclip = 1\nnoise = coordinator\n",
            "s.txt:6: key \"noise\": it belongs to a promise");
}

FED_TEST(phases_are_a_list_of_rounds_and_what_changes) {
    sim_scenario s;
    fed_error err = {0};
    fed_writer w;
    assert_fed_ok_err(
        make("phases = 2: codec_up=sbc:p=0.1 local_steps=3;  3: batch=4\n", &s, &err));
    fed_writer_growing(&w);
    if (sim_task_write(&s, &w, &err) != FED_OK) {
        assert_fed_says(err, "s.txt:4: key \"phases\"");
    }
    const char *list = strstr((const char *)w.data, "\"phases\": ");
    assert_non_null(list);
    assert_non_null(strstr(list, "\"local_steps\""));
    fed_writer_free(&w);
    sim_scenario_free(&s);
    refused("phases = codec_up=sbc\n", "s.txt:4: key \"phases\" must be `ROUND: key=value");
    refused("phases = 2: codec=sbc\n",
            "s.txt:4: key \"phases\" holds \"codec=sbc\": key \"codec\"");
}

FED_TEST(numbers_of_the_run_have_limits) {
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"clients = 0\n", "s.txt:4: key \"clients\" is \"0\"; it must be a whole number from 1"},
        {"offline = 1\n", "a number from 0 to 0.99"},
        {"evaluate_every = 2.5\n",
         "s.txt:4: key \"evaluate_every\" is \"2.5\"; it must be a whole number"},
        {"transport = pigeon\n", "s.txt:4: key \"transport\" must be inproc or https"},
        {"split = thirds\n", "s.txt:4: key \"split\""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        sim_scenario s;
        sim_options o;
        fed_error err = {0};
        const bool early = k < 2;
        assert_int_equal(make(cases[k].line, &s, &err), early ? FED_EINVAL : FED_OK);
        if (!early) {
            assert_fed_status(sim_options_read(&s, 1, &o, &err), FED_EINVAL);
        }
        assert_fed_says(err, cases[k].words);
        sim_scenario_free(&s);
    }
}

FED_TEST(options_are_as_the_scenario_says) {
    sim_scenario s;
    sim_options o;
    fed_error err = {0};
    assert_fed_ok_err(make("transport = https\nclients = 12\nsplit = classes:k=3\nseed = 9\n"
                           "kill_round = 2\nbroken = 0.25\n",
                           &s, &err));
    assert_fed_ok_err(sim_options_read(&s, 6, &o, &err));
    assert_int_equal(o.transport, SIM_HTTPS);
    assert_int_equal(o.clients, 12);
    assert_int_equal(o.split.k, 3);
    assert_int_equal(o.seed, 9);
    assert_int_equal(o.kill_round, 2);
    assert_int_equal(o.threads, 12);
    assert_true(o.broken == 0.25);
    sim_scenario_free(&s);
    assert_fed_ok_err(make("clients = 12\n", &s, &err));
    assert_fed_ok_err(sim_options_read(&s, 6, &o, &err));
    assert_int_equal(o.threads, 6);
    sim_scenario_free(&s);
    assert_fed_ok_err(make("transport = https\nclients = 12\nthreads = 5\n", &s, &err));
    assert_fed_ok_err(sim_options_read(&s, 6, &o, &err));
    assert_int_equal(o.threads, 5);
    sim_scenario_free(&s);
}

static fed_status expand(const char *lines, sim_grid *grid, fed_error *err) {
    sim_scenario s = {0};
    fed_status status = sim_scenario_parse("s.txt", lines, &s, err);
    if (status == FED_OK) {
        status = sim_grid_expand(&s, grid, err);
    }
    sim_scenario_free(&s);
    return status;
}

FED_TEST(alternatives_and_ranges_make_the_product) {
    sim_grid grid = {0};
    fed_error err = {0};
    assert_fed_ok_err(
        expand("seed = 1..3\ncodec_up = sbc:p=0.1 |float32\nbatch = 4\n", &grid, &err));
    assert_int_equal(grid.count, 6);
    assert_string_equal(grid.cells[0].name, "codec_up=sbc:p=0.1,seed=1");
    assert_string_equal(grid.cells[1].name, "codec_up=sbc:p=0.1,seed=2");
    assert_string_equal(grid.cells[5].name, "codec_up=float32,seed=3");
    assert_string_equal(grid.cells[5].scenario.value[SIM_SEED], "3");
    assert_string_equal(grid.cells[5].scenario.value[SIM_BATCH], "4");
    sim_grid_free(&grid);
}

FED_TEST(keys_with_commas_between_them_vary_together) {
    static const char lines[] = "strategy, learning_rate,codec_up = fedavg,0.05, float32 | "
                                "fedadam:lr=0.03,0.01,eden:p=0.1,rotations=2\nseed = 1..2\n";
    sim_grid grid = {0};
    fed_error err = {0};
    assert_fed_ok_err(expand(lines, &grid, &err));
    assert_int_equal(grid.count, 4);
    static const char *const values[2][3] = {{"fedavg", "0.05", "float32"},
                                             {"fedadam:lr=0.03", "0.01", "eden:p=0.1,rotations=2"}};
    for (size_t k = 0; k < 4; k++) {
        const sim_scenario *s = &grid.cells[k].scenario;
        assert_string_equal(s->value[SIM_STRATEGY], values[k / 2][0]);
        assert_string_equal(s->value[SIM_LEARNING_RATE], values[k / 2][1]);
        assert_string_equal(s->value[SIM_CODEC_UP], values[k / 2][2]);
        assert_string_equal(s->value[SIM_SEED], k % 2 == 0 ? "1" : "2");
    }
    sim_grid_free(&grid);
}

FED_TEST(a_written_scenario_keeps_the_keys_that_vary_together) {
    sim_scenario s = {0}, again = {0};
    sim_grid grid = {0};
    fed_error err = {0};
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(
        sim_scenario_parse("s.txt", "strategy,learning_rate = fedavg,0.05 | krum,0.01", &s, &err));
    sim_scenario_write(&s, &w);
    fed_write_printf(&w, "%c", '\0');
    assert_fed_ok_err(sim_scenario_parse("t.txt", (const char *)w.data, &again, &err));
    assert_fed_ok_err(sim_grid_expand(&again, &grid, &err));
    assert_int_equal(grid.count, 2);
    assert_string_equal(grid.cells[1].name, "learning_rate=0.01,strategy=krum");
    sim_grid_free(&grid);
    sim_scenario_free(&s);
    sim_scenario_free(&again);
    fed_writer_free(&w);
}

FED_TEST(a_scenario_without_alternatives_is_one_cell_without_a_name) {
    sim_grid grid = {0};
    fed_error err = {0};
    assert_fed_ok_err(expand("model = input 4 | dense 2\ndata = a..b\n", &grid, &err));
    assert_int_equal(grid.count, 1);
    assert_string_equal(grid.cells[0].name, "");
    assert_string_equal(grid.cells[0].scenario.value[SIM_MODEL], "input 4 | dense 2");
    sim_grid_free(&grid);
}

FED_TEST(a_directorys_name_has_neither_slash_nor_blank) {
    sim_grid grid = {0};
    fed_error err = {0};
    assert_fed_ok_err(expand("model = @models/a b.txt | lr\n", &grid, &err));
    assert_string_equal(grid.cells[0].name, "model=@models_a_b.txt");
    assert_string_equal(grid.cells[0].scenario.value[SIM_MODEL], "@models/a b.txt");
    sim_grid_free(&grid);
    assert_fed_ok_err(expand("model = @\xc3\xa4 | @\xc3\xb6\n", &grid, &err)); /* not alike */
    assert_string_equal(grid.cells[0].name, "model=@\xc3\xa4");
    assert_string_equal(grid.cells[1].name, "model=@\xc3\xb6");
    sim_grid_free(&grid);
}

FED_TEST(senseless_grids_are_refused) {
    static const char *const cases[][2] = {
        {"batch = 1 | | 2\n", "s.txt:1: key \"batch\" has an empty alternative"},
        {"batch = 5..2\n", "a range must ascend"},
        {"batch = 1 | 1\n", "an alternative is given twice"},
        {"strategy,batch = fedavg,1 | fedadam\n", "s.txt:1: each alternative needs 2 values"},
        {"strategy,pace = fedavg,1\n", "s.txt:1: key \"pace\" is unknown"},
        {"strategy,batch = fedavg,1..2\n", "have different numbers of values"},
        {"strategy,batch = fedavg,1 | krum,2\nbatch = 3\n", "key \"batch\" was given at s.txt:1"},
        {"strategy,strategy = a,b | c,d\n", "twice"},
        {"batch = 1..100\nseed = 1..100\n", "more than 4096 runs"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        sim_grid grid = {0};
        fed_error err = {0};
        assert_fed_status(expand(cases[k][0], &grid, &err), FED_EINVAL);
        assert_fed_says(err, cases[k][1]);
        assert_null(grid.cells);
    }
}
