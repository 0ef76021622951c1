/* fedsim's commands: runs that can't go on, keys that hurt together, names of runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed_digits.h"
#include "fed_program.h"

static fed_program sim;

#define RUN                                                                                        \
    "run data=. model=lr clients=6 rounds=2 cohort=3 local_steps=2 batch=4 optimizer=sgd:lr=0.1 "

FED_TEST(every_command_has_help) {
    assert_runs(&sim, "run --help", 0, "usage: fedsim run");
    assert_runs(&sim, "report --help", 0, "usage: fedsim run");
    assert_runs(&sim, "keys -h", 0, "usage: fedsim run");
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
