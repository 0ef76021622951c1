/* Hostile clients of private runs: they ignore the clip behind masks, and groups withstand it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/clip_ignored.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "deploy/sim/run.h"
#include "deploy/sim/scenario/helper_key.h"
#include "fed_cases.h"
#include "fed_digits.h"
#include "fed_test.h"

enum { CLIENTS = 15 };

/* %s: the key helper, or nothing; then groups and strategy, or nothing */
static const char task[] =
    "{ \"name\": \"private\", \"model\": \"lr\", \"codec_up\": \"ring:b=5\", \"clip\": 1, %s %s\n"
    "  \"codec_down\": \"float32\", \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"rounds\": 4, \"cohort\": 15, \"goal\": 15, \"minimum\": 3, \"deadline_s\": 20 }\n";

#define GROUPS "\"groups\": 5, \"strategy\": \"median\","

static void no_progress(void *user, const sim_progress *progress) {
    (void)user;
    (void)progress;
}

static sim_log run_over(sim_transport transport, bool helper, const char *groups, double hostile) {
    static const atomic_int never;
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    char hex[SIM_HELPER_HEX], key[sizeof hex + 16] = "", path[300], crowd[300];
    fed_error err = {0};
    sim_log log = {0};
    snprintf(path, sizeof path, "%.200s/task.json", fed_test_dir);
    snprintf(crowd, sizeof crowd, "%.200s/crowd", fed_test_dir);
    if (helper) {
        assert_fed_ok_err(sim_helper_hex(1, hex, &err));
        snprintf(key, sizeof key, "\"helper\": \"%s\",", hex);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, task, key, groups);
    assert_int_equal(fclose(file), 0);
    const sim_options o = {.transport = transport,
                           .fedserver = FED_BIN_DIR "/fedserver",
                           .task = path,
                           .data = fed_test_dir,
                           .dataset = "mnist",
                           .clients = CLIENTS,
                           .threads = 2,
                           .evaluate_every = 1,
                           .hostile = hostile,
                           .helper = helper,
                           .crowd = transport == SIM_INPROC ? crowd : NULL,
                           .seed = 1};
    assert_fed_ok_err(sim_run(&o, &watch, &log, &err));
    return log;
}

static sim_log run(bool helper, const char *groups, double hostile) {
    return run_over(SIM_INPROC, helper, groups, hostile);
}

static double last_loss(const sim_log *log) {
    return log->rounds[log->round_count - 1].test_loss;
}

/* Clients keep their keys, so all runs have the same groups. */
FED_TEST(masked_and_plain_runs_of_groups_make_the_same_bits) {
    sim_log plain = run(false, GROUPS, 0), masked = run(true, GROUPS, 0), mean = run(true, "", 0);
    assert_true(plain.digest == masked.digest);
    assert_true(plain.digest != mean.digest);
    assert_true(fabs(last_loss(&masked) - last_loss(&mean)) < 0.1 * last_loss(&mean));
    sim_log_free(&plain);
    sim_log_free(&masked);
    sim_log_free(&mean);
}

/* Coordinator and helper as programs of their own, over HTTPS. Clients have other keys there, and
 * so fall into other groups. */
FED_TEST(a_helpers_program_opens_the_sums_of_groups) {
    sim_log here = run(true, GROUPS, 0), there = run_over(SIM_HTTPS, true, GROUPS, 0);
    assert_int_equal(there.round_count, here.round_count);
    assert_int_equal(there.rounds[0].counted, CLIENTS);
    assert_true(fabs(last_loss(&there) - last_loss(&here)) < 0.1 * last_loss(&here));
    sim_log_free(&here);
    sim_log_free(&there);
}

/* One of fifteen: the mean is led astray, and the median of five groups is not. */
FED_TEST(groups_withstand_a_client_that_ignores_the_clip) {
    const double one = 1.01 / CLIENTS;
    sim_log honest = run(true, "", 0), mean = run(true, "", one), median = run(true, GROUPS, one);
    const double far = last_loss(&mean) - last_loss(&honest);
    const double near = last_loss(&median) - last_loss(&honest);
    print_message("loss: honest %.3f, mean %.3f, median of groups %.3f\n", last_loss(&honest),
                  last_loss(&mean), last_loss(&median));
    assert_true(far > 0 && near < 0.5 * far);
    sim_log_free(&honest);
    sim_log_free(&mean);
    sim_log_free(&median);
}

/* An update with a count has one field more. A hostile client that forgets it writes past its
 * buffer, as AddressSanitizer sees. */
FED_TEST(a_hostile_client_takes_the_count_along) {
    sim_log log = run(true,
                      "\"epsilon\": 50, \"delta\": 1e-5, \"participations\": 4,"
                      " \"clip_quantile\": 0.5,",
                      1.01 / CLIENTS);
    assert_int_equal(log.round_count, 4);
    assert_int_equal(log.rounds[3].counted, CLIENTS);
    assert_true(log.rounds[3].clip > 0 && log.rounds[3].clip != log.rounds[0].clip);
    sim_log_free(&log);
}

static int make_digits(void **state) {
    if (fed_test_dir_make(state) != 0) {
        return -1;
    }
    fed_digits_write(fed_test_dir, 1200, 300);
    return 0;
}

int main(void) {
    return fed_cases_run(make_digits, fed_test_dir_remove);
}
