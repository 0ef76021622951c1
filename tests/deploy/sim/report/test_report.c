/* Reports and plots must be well-formed, self-contained, and without NaN. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>

#include "deploy/sim/report/chart.h"
#include "deploy/sim/report/curves.h"
#include "deploy/sim/report/report.h"
#include "deploy/sim/report/run_table.h"
#include "deploy/sim/report/seeds.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_made_up.h"

enum { DEEPEST = 32 };

/** Skip a tag's attributes. Returns NULL if one is malformed. */
static const char *skip_attributes(const char *at) {
    while (isspace((unsigned char)*at)) {
        at += strspn(at, " \n");
        const size_t name = strcspn(at, "= />");
        if (name == 0) {
            break;
        }
        at += name;
        if (at[0] != '=' || at[1] != '"') {
            return NULL;
        }
        at += 2;
        at += strcspn(at, "\"<");
        if (*at++ != '"') {
            return NULL;
        }
    }
    return at;
}

/** Check that tags are closed, attributes quoted, and each & begins an entity. */
static void assert_well_formed(const char *xml) {
    const char *open[DEEPEST];
    size_t len[DEEPEST], depth = 0;
    for (const char *at = xml; *at != '\0';) {
        if (*at == '&') {
            const size_t name = strcspn(at, "; \n<");
            assert_int_equal(at[name], ';');
            at += name;
        } else if (strncmp(at, "<!DOCTYPE", 9) == 0) {
            at = strchr(at, '>') + 1;
        } else if (strncmp(at, "<style>", 7) == 0) {
            at = strstr(at, "</style>") + 8;
        } else if (at[0] == '<' && at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strncmp(at + 2, open[depth], len[depth]), 0);
            at += 2 + len[depth];
            assert_int_equal(*at++, '>');
        } else if (*at == '<') {
            assert_true(depth < DEEPEST);
            open[depth] = ++at;
            len[depth] = strcspn(at, " />\n");
            at = skip_attributes(at + len[depth]);
            assert_non_null(at);
            depth += *at == '>';
            assert_true(*at == '>' || (at[0] == '/' && at[1] == '>'));
            at += *at == '/' ? 2 : 1;
        } else {
            at++;
        }
    }
    assert_int_equal(depth, 0);
}

FED_TEST(the_check_of_pages_notices_an_attribute_without_quotes) {
    assert_well_formed("<a b=\"c\"><d/>&amp;</a>");
    assert_null(skip_attributes(" b=c>"));
    assert_null(skip_attributes(" b=\"c<\">"));
}

static void make_up_run(sim_result *run, const char *codec, size_t clients, size_t rounds,
                        double rate) {
    fed_error err = {0};
    char text[400];
    *run = (sim_result){0};
    snprintf(run->name, sizeof run->name, "codec_up=%s", codec);
    snprintf(text, sizeof text,
             "name = <b> & \"c\"\ndata = d\nmodel = lr\nrounds = %zu\ncodec_up = %s\n"
             "local_steps = %d\n",
             rounds, codec, rate > 1 ? 100 : 10);
    assert_fed_ok_err(sim_scenario_parse("t", text, &run->scenario, &err));
    assert_fed_ok_err(sim_scenario_complete(&run->scenario, &err));
    fed_made_up_log(&run->log, clients, rounds, rate);
    sim_version_text(run->version, sizeof run->version);
}

/** Write the page of these runs, and return its text. If FED_REPORT_DIR is set, the page stays in
 * that folder. */
static char *page_of(const sim_result *runs, size_t count, const char *name) {
    char directory[256], path[700];
    fed_error err = {0};
    uint8_t *page = NULL;
    size_t len = 0;
    const char *keep = getenv("FED_REPORT_DIR");
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/%s.html", keep != NULL ? keep : directory, name);
    assert_fed_ok_err(sim_report_write(path, NULL, runs, count, &err));
    assert_fed_ok_err(fed_file_read(path, 1 << 26, &page, &len, &err));
    fed_test_rmdir(directory);
    return (char *)page;
}

static void assert_plain(const char *page) {
    assert_well_formed(page);
    assert_null(strstr(page, "nan"));
    assert_null(strstr(page, "inf,"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "href="));
    assert_null(strstr(page, "src="));
}

FED_TEST(the_page_of_a_run_is_well_formed_and_needs_nothing_else) {
    sim_result run;
    make_up_run(&run, "sbc:p=0.01", 100, 75, 1);
    char *page = page_of(&run, 1, "one");
    assert_plain(page);
    assert_non_null(strstr(page, "&lt;b&gt; &amp; &quot;c&quot;"));
    assert_non_null(strstr(page, "Who took part"));
    free(page);
    sim_result_free(&run);
}

FED_TEST(the_page_of_a_run_in_which_nothing_was_measured_is_well_formed) {
    sim_result run;
    make_up_run(&run, "sbc:p=0.01", 3, 4, 1);
    for (size_t k = 0; k < run.log.round_count; k++) {
        sim_round *r = &run.log.rounds[k];
        r->accuracy = r->test_loss = r->train_loss = (double)NAN;
        r->counted = 0;
        r->update_bytes = 0;
    }
    run.log.rounds[1].train_loss = (double)INFINITY;
    char *page = page_of(&run, 1, "gaps");
    assert_plain(page);
    assert_non_null(strstr(page, "nothing was measured"));
    free(page);
    sim_result_free(&run);
}

FED_TEST(a_long_run_of_many_clients_makes_a_page_of_bounded_size) {
    sim_result run;
    make_up_run(&run, "sbc:p=0.01", 3000, 1500, 0.05);
    char *page = page_of(&run, 1, "long");
    assert_plain(page);
    assert_true(strlen(page) < 1000000);
    free(page);
    sim_result_free(&run);
}

FED_TEST(runs_stand_side_by_side_with_what_differs) {
    static const char *const codecs[] = {"sbc:p=0.001", "sbc:p=0.01", "float32"};
    sim_result runs[3];
    for (size_t k = 0; k < 3; k++) {
        make_up_run(&runs[k], codecs[k], 40, 60, 0.3 + 0.4 * (double)k);
    }
    for (size_t r = 0; r < 60; r++) {
        runs[2].log.rounds[r].up_bytes *= 90;
    }
    char *page = page_of(runs, 3, "three");
    assert_plain(page);
    assert_non_null(strstr(page, "<th>codec_up</th>"));
    assert_non_null(strstr(page, "What all scenarios have in common"));
    free(page);
    for (size_t k = 0; k < 3; k++) {
        sim_result_free(&runs[k]);
    }
}

FED_TEST(two_swept_keys_make_a_table_of_colours) {
    static const char *const codecs[] = {"sbc:p=0.001", "sbc:p=0.01", "sbc:p=0.1"};
    static const char *const steps[] = {"1", "10", "30", "100"};
    sim_result runs[12];
    fed_error err = {0};
    for (size_t k = 0; k < 12; k++) {
        make_up_run(&runs[k], codecs[k / 4], 20, 30, 0.2 + 0.06 * (double)k);
        assert_fed_ok_err(
            sim_scenario_set(&runs[k].scenario, SIM_LOCAL_STEPS, steps[k % 4], "t", &err));
        snprintf(runs[k].name, sizeof runs[k].name, "codec_up=%s,local_steps=%s", codecs[k / 4],
                 steps[k % 4]);
    }
    char *page = page_of(runs, 12, "grid");
    assert_plain(page);
    assert_non_null(strstr(page, "Final test accuracy"));
    free(page);
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(sim_grid_draw(runs, 4, &w));
    assert_int_equal(w.len, 0);
    fed_writer_free(&w);
    for (size_t k = 0; k < 12; k++) {
        sim_result_free(&runs[k]);
    }
}

FED_TEST(the_text_table_has_a_line_for_each_run) {
    sim_result runs[2];
    fed_writer w;
    make_up_run(&runs[0], "sbc:p=0.01", 10, 10, 1);
    make_up_run(&runs[1], "float32", 10, 10, 1);
    fed_writer_growing(&w);
    sim_table_text(runs, 2, &w);
    assert_non_null(strstr((char *)w.data, "\ncodec_up=sbc:p=0.01"));
    assert_non_null(strstr((char *)w.data, "\ncodec_up=float32"));
    fed_writer_free(&w);
    sim_result_free(&runs[0]);
    sim_result_free(&runs[1]);
}

FED_TEST(runs_that_differ_by_their_seed_have_a_mean_and_a_deviation) {
    static const double accuracies[] = {0.9, 0.92, 0.94, 0.5};
    sim_result runs[4];
    sim_seeds seeds;
    fed_error err = {0};
    for (size_t k = 0; k < 4; k++) {
        const char seed[] = {(char)('1' + k), '\0'};
        make_up_run(&runs[k], k < 3 ? "sbc:p=0.01" : "float32", 4, 2, 1);
        assert_fed_ok_err(sim_scenario_set(&runs[k].scenario, SIM_SEED, seed, "t", &err));
        runs[k].log.rounds[1].accuracy = accuracies[k];
    }
    assert_true(sim_seeds_of(runs, 4, 0, &seeds));
    assert_int_equal(seeds.count, 3);
    assert_true(fabs(seeds.mean - 0.92) < 1e-12 && fabs(seeds.deviation - 0.02) < 1e-12);
    snprintf(runs[2].version, sizeof runs[2].version, "another build");
    assert_true(sim_seeds_of(runs, 4, 0, &seeds));
    assert_int_equal(seeds.count, 2);
    memcpy(runs[2].version, runs[0].version, sizeof runs[2].version);
    assert_false(sim_seeds_of(runs, 4, 1, &seeds));
    assert_false(sim_seeds_of(runs, 4, 3, &seeds));
    assert_int_equal(sim_seeds_group(runs, 2), 0);
    assert_int_equal(sim_seeds_group(runs, 3), 1);
    for (size_t k = 0; k < 4; k++) {
        sim_result_free(&runs[k]);
    }
}

static void make_up_seeds(sim_result runs[3]) {
    static const char *const seeds[] = {"1", "2", "3"};
    fed_error err = {0};
    for (size_t k = 0; k < 3; k++) {
        make_up_run(&runs[k], "sbc:p=0.01", 4, 2, 1);
        assert_fed_ok_err(sim_scenario_set(&runs[k].scenario, SIM_SEED, seeds[k], "t", &err));
        for (size_t r = 0; r < 2; r++) {
            runs[k].log.rounds[r].accuracy = 0.5 + 0.2 * (double)r + 0.1 * (double)k;
        }
    }
}

static size_t count_of(const char *text, const char *what) {
    size_t found = 0;
    for (; (text = strstr(text, what)) != NULL; text++) {
        found++;
    }
    return found;
}

/* Accuracies .5 .6 .7 and .7 .8 .9: a band from .5 to .7, and from .7 to .9. The axis goes from 0
 * or less room below to above; equal differences of values are equal distances. */
FED_TEST(runs_that_differ_by_their_seed_are_a_line_in_a_band) {
    static const sim_measure accuracy[] = {SIM_ACCURACY};
    sim_result runs[3];
    fed_writer w;
    double x[4], y[4], first = 0, last = 0, from = 0, to = 0;
    make_up_seeds(runs);
    fed_writer_growing(&w);
    assert_fed_ok(sim_curves_draw(runs, 3, SIM_ROUND, accuracy, 1, &w));
    fed_write_bytes(&w, "", 1);
    const char *text = (const char *)w.data, *band = strstr(text, "<path class=\"band c0\" d=\"");
    assert_non_null(band);
    assert_int_equal(sscanf(band, "<path class=\"band c0\" d=\"M%lf %lfL%lf %lfL%lf %lfL%lf %lfZ",
                            &x[0], &y[0], &x[1], &y[1], &x[2], &y[2], &x[3], &y[3]),
                     8);
    const char *drawn = strstr(text, "<path class=\"line c0 d0\" d=\"");
    assert_non_null(drawn);
    assert_int_equal(
        sscanf(drawn, "<path class=\"line c0 d0\" d=\"M%lf %lfL%lf %lf", &from, &first, &to, &last),
        4);
    assert_true(x[0] == x[3] && x[1] == x[2] && from == x[0] && to == x[1]);
    assert_true(fabs((y[3] - y[0]) - 2 * (first - y[0])) < 0.3);
    assert_true(fabs((first - last) - (y[3] - y[0])) < 0.3);
    assert_int_equal(count_of(text, "class=\"line"), 1);
    assert_non_null(strstr(text, ">A x3</text>"));
    fed_writer_free(&w);
    runs[0].log.rounds[0].accuracy = (double)NAN;
    char *page = page_of(runs, 3, "seeds");
    assert_plain(page);
    free(page);
    for (size_t k = 0; k < 3; k++) {
        sim_result_free(&runs[k]);
    }
}

FED_TEST(a_key_that_says_nothing_of_its_own_names_no_run) {
    static const char *const rates[] = {"0.1", "0.2"};
    sim_key_id keys[SIM_KEYS];
    sim_result runs[2];
    sim_seeds seeds;
    fed_error err = {0};
    for (size_t k = 0; k < 2; k++) {
        sim_scenario *s = &runs[k].scenario;
        make_up_run(&runs[k], "float32", 4, 2, 1);
        assert_fed_ok_err(sim_scenario_set(s, SIM_LEARNING_RATE, rates[k], "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_OPTIMIZER, "adam:lr=0.001", "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_DELTA, rates[k], "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_CLIENTS, k > 0 ? "8" : "4", "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_COHORT, k > 0 ? "8" : "4", "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_GOAL, k > 0 ? "8" : "4", "t", &err));
    }
    assert_int_equal(sim_runs_differ(runs, 2, keys), 1);
    assert_int_equal(keys[0], SIM_CLIENTS);
    assert_fed_ok_err(sim_scenario_set(&runs[1].scenario, SIM_COHORT, "2", "t", &err));
    assert_int_equal(sim_runs_differ(runs, 2, keys), 3);
    for (size_t k = 0; k < 2; k++) {
        sim_scenario *s = &runs[k].scenario;
        assert_fed_ok_err(sim_scenario_set(s, SIM_CLIENTS, "4", "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_COHORT, "4", "t", &err));
        assert_fed_ok_err(sim_scenario_set(s, SIM_GOAL, "4", "t", &err));
    }
    assert_true(sim_seeds_of(runs, 2, 0, &seeds));
    assert_fed_ok_err(sim_scenario_set(&runs[0].scenario, SIM_OPTIMIZER, "adam", "t", &err));
    assert_fed_ok_err(sim_scenario_set(&runs[1].scenario, SIM_OPTIMIZER, "adam", "t", &err));
    assert_false(sim_seeds_of(runs, 2, 0, &seeds));
    assert_int_equal(sim_runs_differ(runs, 2, keys), 1);
    assert_int_equal(keys[0], SIM_LEARNING_RATE);
    sim_result_free(&runs[0]);
    sim_result_free(&runs[1]);
}

FED_TEST(a_short_logarithmic_axis_has_ticks) {
    sim_axis axis;
    sim_axis_fit(&axis, SIM_PERCENT, 0.743, 0.84, true);
    assert_true(axis.log && axis.tick_count >= 2);
    for (size_t k = 0; k < axis.tick_count; k++) {
        assert_true(axis.tick[k] >= axis.low && axis.tick[k] <= axis.high);
    }
}

FED_TEST(ticks_are_round_and_within_the_axis) {
    sim_axis axis;
    char text[24];
    sim_axis_fit(&axis, SIM_PERCENT, 0.113, 0.974, false);
    assert_true(axis.tick_count >= 4 && axis.tick_count <= 7);
    assert_string_equal(sim_axis_text(&axis, axis.tick[1], text), "20");
    sim_axis_fit(&axis, SIM_BYTES, 3e3, 5e6, true);
    assert_true(axis.log);
    assert_string_equal(axis.word, "MB");
    assert_string_equal(sim_axis_text(&axis, axis.tick[0], text), "0.01");
    sim_axis_fit(&axis, SIM_SECONDS, 0, 7200, false);
    assert_string_equal(axis.word, "h");
    sim_axis_fit(&axis, SIM_PLAIN, 5, 5, false);
    assert_true(axis.low < 5 && axis.high > 5 && axis.tick_count > 0);
    sim_axis_fit(&axis, SIM_PLAIN, 0, 10, true);
    assert_false(axis.log);
}
