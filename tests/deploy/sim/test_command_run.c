/* fedsim's commands: runs that can't go on, keys that hurt together, names of runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed_digits.h"
#include "fed_program.h"

static fed_program sim;

#define RUN                                                                                        \
    "run data=. model=lr clients=6 rounds=2 cohort=3 local_steps=2 batch=4 optimizer=sgd:lr=0.1 "

FED_TEST(every_command_has_help) {
    assert_runs(&sim, "run --help", 0, "usage: fedsim run");
    assert_says(&sim, "--resume    go on with what was stopped");
    assert_runs(&sim, "report --help", 0, "usage: fedsim report");
    assert_runs(&sim, "keys -h", 0, "usage: fedsim keys");
    assert_runs(&sim, "--help", 0, "fedsim COMMAND --help says more");
    assert_runs(&sim, "help", 0, "usage: fedsim COMMAND");
}

FED_TEST(runs_of_two_grids_are_named_by_all_keys_that_differ) {
    assert_runs(&sim, RUN "'codec_up=float32 | sbc:p=0.1' --out one", 0, "codec_up=sbc:p=0.1");
    assert_runs(&sim, RUN "'codec_up=float32 | sbc:p=0.1' strategy=fedavgm --out two", 0, "");
    assert_runs(&sim, "report one two --out page.html", 0, "codec_up=sbc:p=0.1,strategy=fedavg");
    assert_non_null(strstr(sim.out, "codec_up=sbc:p=0.1,strategy=fedavgm"));
    assert_non_null(strstr(sim.out, "codec_up=float32,strategy=fedavgm"));
}

FED_TEST(keys_that_hurt_together_are_warned_of) {
    assert_runs(&sim, RUN "strategy=fedadam:lr=0.1 codec_up=sbc:p=0.1 --out warned", 0,
                "warning: strategy=fedadam");
    assert_runs(&sim, RUN "strategy=fedadam:lr=0.1 codec_up=float32 --out silent", 0, "");
    assert_null(strstr(sim.out, "warning"));
    assert_runs(&sim,
                RUN "'model=input 784 | dense 10 | scaffold' optimizer=sgd:lr=0.1+scaffold "
                    "codec_up=sbc:p=0.1 --out variates",
                0, "warning: scaffold's control variates travel as float32");
}

/* A run over https that was stopped has a summary that says so. */
FED_TEST(a_stopped_run_over_https_is_not_begun_again_over_its_results) {
    assert_runs(&sim, RUN "--out stopped", 0, "");
    char command[600];
    snprintf(command, sizeof command,
             "cd %s/stopped && sed -i 's/\"finished\": *true/\"finished\": false/' summary.json && "
             "sed -i 's/^transport = inproc/transport = https/' scenario.txt",
             sim.directory);
    assert_int_equal(system(command), 0);
    assert_runs(&sim, RUN "transport=https --out stopped --resume", 1, "can't go on");
}

static void read_results(const char *name, char *text, size_t cap) {
    char path[600];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", sim.directory, name);
    assert_fed_ok_err(fed_file_read(path, cap - 1, &data, &len, &err));
    memcpy(text, data, len + 1);
    free(data);
}

static bool shows_worst_tenth(const char *run) {
    char command[600];
    snprintf(command, sizeof command,
             "grep -q 'Accuracy of the worst tenth of the clients' %s/%s/report.html",
             sim.directory, run);
    return system(command) == 0;
}

/* What a client measures when it makes a personal model is another path to the same figures. */
FED_TEST(models_are_measured_on_what_each_client_holds_back) {
    char theirs[2000], ours[2000], summary[4000];
    assert_runs(&sim, RUN "holdout=0.3 cohort=6 personal_steps=2 --out own", 0, "worst tenth");
    assert_runs(&sim, RUN "evaluate=clients holdout=0.3 cohort=6 personal_steps=2 --out both", 0,
                "worst tenth");
    read_results("own/personal.csv", theirs, sizeof theirs);
    read_results("both/personal.csv", ours, sizeof ours);
    assert_string_equal(theirs, ours);
    assert_runs(&sim, RUN "evaluate=clients holdout=0.3 cohort=6 --out shared", 0, "worst tenth");
    assert_null(strstr(sim.out, "personal models"));
    read_results("shared/personal.csv", ours, sizeof ours);
    double correct = 0, samples = 0;
    const char *a = strchr(theirs, '\n') + 1, *b = strchr(ours, '\n') + 1;
    for (size_t k = 0; k < 6; k++) {
        double client[2], held[2], shared[2];
        assert_int_equal(sscanf(a, "%lf,%lf,%lf,", &client[0], &held[0], &shared[0]), 3);
        assert_int_equal(sscanf(b, "%lf,%lf,%lf,\n", &client[1], &held[1], &shared[1]), 3);
        assert_true(client[0] == client[1] && held[0] == held[1] && shared[0] == shared[1]);
        correct += held[1] * shared[1];
        samples += held[1];
        a = strchr(a, '\n') + 1;
        b = strchr(b, '\n') + 1;
    }
    read_results("shared/summary.json", summary, sizeof summary);
    const char *accuracy = strstr(summary, "\"test_accuracy\": ");
    assert_non_null(accuracy);
    assert_true(fabs(strtod(accuracy + 17, NULL) - correct / samples) < 1e-6);
    assert_non_null(strstr(summary, "\"shared_variance\": "));
    read_results("shared/rounds.csv", theirs, sizeof theirs);
    const char *worst = strstr(summary, "\"shared_worst_tenth\": ");
    assert_non_null(worst); /* the last cell of the table is that of the last model */
    assert_true(fabs(strtod(worst + 22, NULL) - strtod(strrchr(theirs, ',') + 1, NULL)) < 1e-8);
    assert_true(shows_worst_tenth("shared"));
    assert_false(shows_worst_tenth("own"));
    assert_non_null(strstr(summary, "\"personal_accuracy\": null"));
    assert_runs(&sim, "report own shared", 0, "worst tenth");
    assert_runs(&sim, "report stopped one", 0, "");
    assert_null(strstr(sim.out, "worst tenth"));
}

FED_TEST(runs_of_a_build_that_lacked_a_key_are_those_of_its_default) {
    char command[600];
    assert_runs(&sim, RUN "--out old/run", 0, "");
    assert_runs(&sim, RUN "strategy=fedavgm --out new/run", 0, "");
    snprintf(command, sizeof command,
             "cd %s/old/run && grep -q '^evaluate = test' scenario.txt && "
             "sed -i '/^evaluate =/d' scenario.txt",
             sim.directory);
    assert_int_equal(system(command), 0);
    assert_runs(&sim, RUN "--out old/run --resume", 0, "");
    assert_runs(&sim, "report old/run new/run", 0, "strategy=fedavgm");
    assert_null(strstr(sim.out, "evaluate"));
}

FED_TEST(to_measure_on_nothing_is_refused) {
    assert_runs(&sim, RUN "evaluate=clients --out none", 2, "give holdout, such as holdout=0.2");
    assert_runs(&sim, RUN "evaluate=elsewhere --out none", 2, "it must be test or clients");
}

static int set_up(void **state) {
    (void)state;
    fed_program_open(&sim, "fedsim");
    fed_digits_write(sim.directory, 120, 40);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fed_program_close(&sim);
    return 0;
}

int main(void) {
    return fed_cases_run(set_up, tear_down);
}
