/* Results of a run must be read as they were written, also where some rounds were not measured. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "deploy/sim/report/report.h"
#include "deploy/sim/report/results.h"
#include "fed/file.h"
#include "fed/version.h"
#include "fed_made_up.h"
#include "fed_test.h"

typedef struct world {
    char directory[256];
    sim_scenario scenario;
    sim_log log;
} world;

static const char text[] = "name = <made up> & \"quoted\"\ndata = data\nmodel = lr\nrounds = 40\n"
                           "clients = 30\n";

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    fed_error err = {0};
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    assert_fed_ok_err(sim_scenario_parse("made-up.txt", text, &w->scenario, &err));
    assert_fed_ok_err(sim_scenario_complete(&w->scenario, &err));
    fed_made_up_log(&w->log, 30, 40, 1);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    sim_scenario_free(&w->scenario);
    sim_log_free(&w->log);
    free(w);
    return 0;
}

static void write_and_read(world *w, sim_result *back) {
    fed_error err = {0};
    assert_fed_ok_err(sim_result_begin(w->directory, &w->scenario, &err));
    assert_fed_ok_err(sim_result_write(w->directory, &w->log, &err));
    assert_fed_ok_err(sim_result_read(w->directory, back, &err));
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-6 * fabs(a);
}

static void a_result_names_the_build_and_the_machine(void **state) {
    world *w = *state;
    sim_result back = {0};
    char build[64];
    write_and_read(w, &back);
    snprintf(build, sizeof build, "(%s), protocol", fed_build_id());
    assert_non_null(strstr(back.version, build));
    assert_non_null(strstr(back.machine, " processors"));
    sim_result_free(&back);
}

static void compression_is_told_against_every_step_and_against_every_round(void) {
    sim_log log;
    fed_made_up_log(&log, 1, 1, 1);
    log.parameters = 100;
    log.steps = 10;
    log.rounds[0].counted = 1;
    log.clients[0].up_bytes = 200;
    const sim_totals t = sim_log_totals(&log);
    assert_true(t.compression == 4.0 * 100 * 10 / 200);
    assert_true(t.compression_round == 4.0 * 100 * 1 / 200);
    sim_log_free(&log);
}

static void rounds_and_clients_come_back_as_they_were(void **state) {
    world *w = *state;
    sim_result back = {0};
    write_and_read(w, &back);
    assert_int_equal(back.log.round_count, 40);
    assert_int_equal(back.log.client_count, 30);
    for (size_t k = 0; k < 40; k++) {
        const sim_round *a = &w->log.rounds[k], *b = &back.log.rounds[k];
        assert_int_equal(a->round, b->round);
        assert_int_equal(a->counted, b->counted);
        assert_int_equal(a->refused, b->refused);
        assert_int_equal(a->up_bytes, b->up_bytes);
        assert_int_equal(a->down_bytes, b->down_bytes);
        assert_int_equal(a->update_bytes, b->update_bytes);
        assert_int_equal(a->delta_bytes, b->delta_bytes);
        assert_true(same(a->accuracy, b->accuracy) && same(a->test_loss, b->test_loss) &&
                    same(a->train_loss, b->train_loss) && same(a->worst_tenth, b->worst_tenth));
        for (size_t c = 0; c < 30; c++) {
            assert_int_equal(sim_log_attended(&w->log, k, c), sim_log_attended(&back.log, k, c));
        }
    }
    for (size_t c = 0; c < 30; c++) {
        assert_int_equal(w->log.clients[c].up_bytes, back.log.clients[c].up_bytes);
        assert_int_equal(w->log.clients[c].samples, back.log.clients[c].samples);
        assert_int_equal(back.log.clients[c].identical, 1);
    }
    sim_result_free(&back);
}

static void what_models_are_to_each_client_comes_back(void **state) {
    world *w = *state;
    sim_result back = {0};
    sim_personal p;
    for (size_t k = 1; k < 12; k++) { /* 11 of 30 clients; the worst tenth are two of them */
        w->log.clients[k].held = 40 + k;
        w->log.clients[k].shared = 0.05 * (double)k;
        w->log.clients[k].personal = 1 - 0.05 * (double)k;
    }
    write_and_read(w, &back);
    assert_fed_ok(sim_log_personal(&back.log, &p));
    assert_int_equal(p.clients, 11);
    assert_true(same(p.shared, 0.05 * 6) && same(p.shared_worst, 0.05 * 1.5));
    assert_true(same(p.personal, 1 - 0.05 * 6) && same(p.personal_worst, 1 - 0.05 * 10.5));
    assert_int_equal(back.log.clients[0].held, 0);
    assert_int_equal(back.log.clients[3].held, 43);
    sim_result_free(&back);
}

static void the_whole_run_comes_back_as_it_was(void **state) {
    world *w = *state;
    sim_result back = {0};
    write_and_read(w, &back);
    assert_true(back.log.finished);
    assert_int_equal(back.log.digest, w->log.digest);
    assert_int_equal(back.log.steps, w->log.steps);
    assert_int_equal(back.log.parameters, w->log.parameters);
    assert_true(same(back.log.wall_s, w->log.wall_s));
    assert_int_equal(sim_scenario_difference(&back.scenario, &w->scenario), SIM_KEYS);
    sim_result_free(&back);
}

static void the_scenario_that_is_written_has_every_key(void **state) {
    world *w = *state;
    sim_result back = {0};
    write_and_read(w, &back);
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        assert_non_null(back.scenario.value[id]);
    }
    sim_result_free(&back);
}

static void a_run_that_was_stopped_before_its_first_round_leaves_a_directory_that_reads(void **s) {
    world *w = *s;
    sim_result back = {0};
    fed_error err = {0};
    char page[300];
    bool finished = true;
    sim_log_free(&w->log);
    w->log.clients = calloc(30, sizeof *w->log.clients);
    w->log.client_count = 30;
    write_and_read(w, &back);
    assert_int_equal(back.log.round_count, 0);
    assert_fed_ok_err(sim_result_finished(w->directory, &finished, &err));
    assert_false(finished);
    snprintf(page, sizeof page, "%s/report.html", w->directory);
    assert_fed_ok_err(sim_report_write(page, NULL, &back, 1, &err));
    sim_result_free(&back);
}

static void a_damaged_line_is_named(void **state) {
    world *w = *state;
    sim_result back = {0};
    fed_error err = {0};
    char rounds[600];
    write_and_read(w, &back);
    sim_result_free(&back);
    back = (sim_result){0};
    const int len = snprintf(rounds, sizeof rounds, "%s1,2,3,4\n", sim_rounds_header);
    fed_test_put(w->directory, "rounds.csv", rounds, (size_t)len);
    assert_fed_status(sim_result_read(w->directory, &back, &err), FED_EFORMAT);
    assert_fed_says(err, "rounds.csv:2:");
    sim_result_free(&back);
}

/* What a build wrote that did not know the last columns: so many of them. */
static void read_without(world *w, unsigned columns) {
    sim_result back = {0};
    fed_error err = {0};
    char path[300], before[8192];
    uint8_t *file = NULL;
    size_t len = 0, kept = 0;
    write_and_read(w, &back);
    const size_t rounds = back.log.round_count;
    sim_result_free(&back);
    back = (sim_result){0};
    snprintf(path, sizeof path, "%s/rounds.csv", w->directory);
    assert_fed_ok_err(fed_file_read(path, sizeof before, &file, &len, &err));
    for (char *line = strtok((char *)file, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        for (unsigned k = 0; k < columns; k++) {
            *strrchr(line, ',') = '\0';
        }
        kept += (size_t)snprintf(before + kept, sizeof before - kept, "%s\n", line);
    }
    free(file);
    fed_test_put(w->directory, "rounds.csv", before, kept);
    assert_fed_ok_err(sim_result_read(w->directory, &back, &err));
    assert_int_equal(back.log.round_count, rounds);
    assert_int_equal(back.log.rounds[0].counted, w->log.rounds[0].counted);
    assert_true(back.log.rounds[0].clip == 0);
    for (size_t k = 0; k < rounds; k++) {
        assert_true(isnan(back.log.rounds[k].worst_tenth));
    }
    sim_result_free(&back);
}

/* Release 0.1.0 wrote neither clip nor worst_tenth, builds after it no worst_tenth. */
static void rounds_of_a_build_that_knew_fewer_columns_are_read(void **state) {
    read_without(*state, 1);
    read_without(*state, 2);
}

static void totals_count_bits_and_compression(void) {
    sim_account clients[2] = {{.up_bytes = 500, .down_bytes = 1500}, {.up_bytes = 500}};
    sim_round rounds[2] = {{.counted = 1, .update_bytes = 100, .delta_bytes = 50, .virtual_s = 1},
                           {.counted = 1, .update_bytes = 300, .delta_bytes = 50, .virtual_s = 2}};
    const sim_log log = {.rounds = rounds,
                         .round_count = 2,
                         .clients = clients,
                         .client_count = 2,
                         .parameters = 100,
                         .steps = 20};
    const sim_totals t = sim_log_totals(&log);
    assert_true(same(t.up_bits, 8 * 400.0 / 200));
    assert_true(same(t.down_bits, 8 * 100.0 / 200));
    assert_true(same(t.compression, 4.0 * 100 * 20 / 1000));
    assert_true(same(t.compression_both, 8.0 * 100 * 20 / 2500));
    assert_true(same(t.virtual_s, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_result_names_the_build_and_the_machine, setup, teardown),
        fed_unit_test(compression_is_told_against_every_step_and_against_every_round),
        cmocka_unit_test_setup_teardown(rounds_and_clients_come_back_as_they_were, setup, teardown),
        cmocka_unit_test_setup_teardown(what_models_are_to_each_client_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_whole_run_comes_back_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(the_scenario_that_is_written_has_every_key, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_run_that_was_stopped_before_its_first_round_leaves_a_directory_that_reads, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_damaged_line_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(rounds_of_a_build_that_knew_fewer_columns_are_read, setup,
                                        teardown),
        fed_unit_test(totals_count_bits_and_compression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
