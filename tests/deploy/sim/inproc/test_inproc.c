/* Runs in one process: the model must be that of a run over HTTPS, and must not depend on threads
 * or stops. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "deploy/sim/run.h"
#include "deploy/sim/scenario/helper_key.h"
#include "fed/bytes.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed_digits.h"
#include "fed_test.h"

typedef struct world {
    char directory[256], task[300];
} world;

static void write_task(const world *w, const char *text) {
    FILE *file = fopen(w->task, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char all_take_part[] =
    "{ \"name\": \"all\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
    "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"rounds\": 4, \"cohort\": 12, \"goal\": 12, \"deadline_s\": 20 }\n";

static const char all_diverge[] =
    "{ \"name\": \"diverges\", \"model\": \"lr\", \"codec_up\": \"eden:p=0.008\",\n"
    "  \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 10000, \"rounds\": 4, \"cohort\": 12,\n"
    "  \"goal\": 12, \"deadline_s\": 20 }\n";

static const char some_are_late[] =
    "{ \"name\": \"some\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
    "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"rounds\": 6, \"cohort\": 8, \"goal\": 6, \"minimum\": 2, \"deadline_s\": 20 }\n";

static const char slots_for_all[] =
    "{ \"name\": \"late\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
    "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"optimizer\": \"adam\", \"rounds\": 6, \"cohort\": 12, \"goal\": 7, \"minimum\": 2,\n"
    "  \"deadline_s\": 20 }\n";

/* %s: the key codec_down, or nothing */
static const char downlink[] =
    "{ \"name\": \"down\", \"model\": \"mlp\", \"codec_up\": \"sbc:p=0.05\", %s\n"
    "  \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1, \"rounds\": 4, \"cohort\": 12,\n"
    "  \"goal\": 12, \"deadline_s\": 20 }\n";

static const char few_slots[] =
    "{ \"name\": \"few\", \"model\": \"lr\", \"codec_up\": \"float32\", \"codec_down\": "
    "\"float32\",\n"
    "  \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1, \"selection\": \"weighted\",\n"
    "  \"rounds\": 7, \"cohort\": 8, \"goal\": 5, \"deadline_s\": 20, \"staleness\": %d }\n";

static const char stateless[] =
    "{ \"name\": \"forgets\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
    "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 5, \"batch\": 4, \"optimizer\": "
    "\"adam%s\",\n"
    "  \"rounds\": 3, \"cohort\": 12, \"goal\": 12, \"deadline_s\": 20 }\n";

/* %s: the key helper, or nothing */
static const char private[] =
    "{ \"name\": \"private\", \"model\": \"lr\", \"codec_up\": \"ring:b=5\", \"clip\": 1, %s\n"
    "  \"codec_down\": \"float32\", \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"rounds\": 4, \"cohort\": 12, \"goal\": 12, \"minimum\": 2, \"deadline_s\": 20 }\n";

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->task, sizeof w->task, "%s/task.json", w->directory);
    fed_digits_write(w->directory, 1200, 300);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void no_progress(void *user, const sim_progress *progress) {
    (void)user;
    (void)progress;
}

static sim_options options_of(const world *w) {
    return (sim_options){.transport = SIM_INPROC,
                         .task = w->task,
                         .data = w->directory,
                         .dataset = "mnist",
                         .fedserver = FED_BIN_DIR "/fedserver",
                         .clients = 12,
                         .threads = 2,
                         .evaluate_every = 1,
                         .seed = 1};
}

static sim_log run(const sim_options *o) {
    static const atomic_int never;
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    sim_log log = {0};
    fed_error err = {0};
    assert_fed_ok_err(sim_run(o, &watch, &log, &err));
    return log;
}

static void assert_same_number(double a, double b) {
    assert_true(a == b || (isnan(a) && isnan(b)));
}

static void assert_same_log(const sim_log *a, const sim_log *b) {
    assert_true(a->digest == b->digest);
    assert_int_equal(a->round_count, b->round_count);
    for (size_t i = 0; i < a->round_count; i++) {
        const sim_round *r = &a->rounds[i], *s = &b->rounds[i];
        assert_int_equal(r->round, s->round);
        assert_same_number(r->virtual_s, s->virtual_s);
        assert_int_equal(r->counted, s->counted);
        assert_int_equal(r->refused, s->refused);
        assert_int_equal(r->broken, s->broken);
        assert_int_equal(r->up_bytes, s->up_bytes);
        assert_int_equal(r->down_bytes, s->down_bytes);
        assert_int_equal(r->update_bytes, s->update_bytes);
        assert_int_equal(r->delta_bytes, s->delta_bytes);
        assert_same_number(r->train_loss, s->train_loss);
        assert_same_number(r->test_loss, s->test_loss);
        assert_same_number(r->accuracy, s->accuracy);
    }
    assert_int_equal(a->client_count, b->client_count);
    assert_memory_equal(a->clients, b->clients, a->client_count * sizeof *a->clients);
    assert_memory_equal(a->attended, b->attended, a->round_count * sim_log_row(a->client_count));
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->kills, b->kills);
}

static void assert_within(uint64_t value, uint64_t wanted, double part) {
    assert_true(fabs((double)value - (double)wanted) <= part * (double)wanted);
}

static void compare_transports(sim_options o) {
    sim_log here = run(&o);
    o.transport = SIM_HTTPS;
    sim_log there = run(&o);
    assert_int_equal(here.round_count, there.round_count);
    uint64_t up = 0, down = 0, real_up = 0, real_down = 0;
    for (size_t i = 0; i < here.round_count; i++) {
        assert_int_equal(here.rounds[i].counted, there.rounds[i].counted);
        assert_int_equal(here.rounds[i].update_bytes, there.rounds[i].update_bytes);
        assert_int_equal(here.rounds[i].delta_bytes, there.rounds[i].delta_bytes);
        assert_same_number(here.rounds[i].train_loss, there.rounds[i].train_loss);
        up += here.rounds[i].up_bytes, real_up += there.rounds[i].up_bytes;
        down += here.rounds[i].down_bytes, real_down += there.rounds[i].down_bytes;
    }
    assert_true(here.digest == there.digest);
    assert_within(up, real_up, 0.03);
    assert_within(down, real_down, 0.03);
    assert_memory_equal(here.attended, there.attended,
                        here.round_count * sim_log_row(here.client_count));
    sim_log_free(&here);
    sim_log_free(&there);
}

static void the_model_is_bit_for_bit_that_of_a_run_over_https(void **state) {
    const world *w = *state;
    write_task(w, all_take_part);
    compare_transports(options_of(w));
}

static void so_it_is_where_clients_are_away_and_lines_break_and_the_coordinator_dies(void **state) {
    const world *w = *state;
    write_task(w, all_take_part);
    sim_options o = options_of(w);
    o.clients = 15;
    o.offline = 0.2;
    o.hostile = 0.1;
    o.broken = 0.2;
    o.kill_round = 2;
    sim_log here = run(&o);
    o.transport = SIM_HTTPS;
    sim_log there = run(&o);
    assert_true(here.digest == there.digest);
    assert_int_equal(here.kills, 1);
    sim_log_free(&here);
    sim_log_free(&there);
}

static void a_run_does_not_depend_on_threads_nor_on_the_machine(void **state) {
    const world *w = *state;
    write_task(w, some_are_late);
    sim_options o = options_of(w);
    o.clients = 30;
    o.broken = 0.1;
    o.kill_round = 3;
    o.line = "3g:0.5+wifi:0.5";
    o.speed = "sample_s=0.05,spread=0.5";
    o.presence = "dropout:on=40,off=10";
    sim_log two = run(&o);
    o.threads = 1;
    sim_log one = run(&o);
    assert_same_log(&one, &two);
    assert_int_equal(one.kills, 1);
    assert_true(one.rounds[5].virtual_s > 6);
    o.seed = 2;
    sim_log other = run(&o);
    assert_true(one.digest != other.digest);
    sim_log_free(&one);
    sim_log_free(&two);
    sim_log_free(&other);
}

/* Let the task name the helper of runs with this seed. */
static void write_private(const world *w, bool helper, uint64_t seed) {
    char hex[SIM_HELPER_HEX], key[sizeof hex + 16] = "", task[sizeof private + sizeof key];
    fed_error err = {0};
    if (helper) {
        assert_fed_ok_err(sim_helper_hex(seed, hex, &err));
        snprintf(key, sizeof key, "\"helper\": \"%s\",", hex);
    }
    snprintf(task, sizeof task, private, key);
    write_task(w, task);
}

/* The conditions of which the counted updates do not depend. */
static sim_log run_private(const world *w, sim_options o, bool helper) {
    write_private(w, helper, o.seed);
    o.helper = helper;
    sim_log log = run(&o);
    assert_true(helper == (log.helper_cpu_s > 0));
    return log;
}

static void masked_and_plain_runs_make_the_same_bits_on_both_transports(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    sim_log plain = run_private(w, o, false), again = run_private(w, o, false),
            masked = run_private(w, o, true);
    assert_same_log(&plain, &again);
    assert_true(masked.digest == plain.digest);
    assert_true(masked.rounds[0].up_bytes > plain.rounds[0].up_bytes);
    assert_same_number(masked.rounds[3].test_loss, plain.rounds[3].test_loss);
    o.transport = SIM_HTTPS;
    sim_log there = run_private(w, o, true);
    assert_true(there.digest == plain.digest);
    o.transport = SIM_INPROC;
    o.seed = 2; /* the task's own seed stays: another split, and other bits to round with */
    sim_log other = run_private(w, o, true);
    assert_true(other.digest != plain.digest);
    sim_log_free(&plain);
    sim_log_free(&again);
    sim_log_free(&masked);
    sim_log_free(&there);
    sim_log_free(&other);
}

static void masked_runs_go_on_after_kills_and_broken_lines(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    o.clients = 15;
    o.offline = 0.2;
    o.broken = 0.2;
    o.kill_round = 2;
    sim_log plain = run_private(w, o, false), masked = run_private(w, o, true);
    assert_true(masked.digest == plain.digest);
    assert_int_equal(masked.kills, 1);
    o.transport = SIM_HTTPS;
    sim_log there = run_private(w, o, true);
    assert_true(there.digest == plain.digest);
    assert_int_equal(there.kills, 1);
    sim_log_free(&plain);
    sim_log_free(&masked);
    sim_log_free(&there);
}

static void a_task_that_names_another_helper_is_refused(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    sim_log log = {0};
    fed_error err = {0};
    const sim_watch watch = {.progress = no_progress};
    write_private(w, true, o.seed);
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, "\"helper\" is not the one of this run"));
    sim_log_free(&log);
    o.helper = true;
    write_private(w, true, o.seed + 1);
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_EINVAL);
    sim_log_free(&log);
}

static void places_share_the_memory_of_optimizers_that_forget(void **state) {
    const world *w = *state;
    char task[sizeof stateless + 32];
    snprintf(task, sizeof task, stateless, "+stateless");
    write_task(w, task);
    sim_options o = options_of(w);
    compare_transports(o);
    sim_log two = run(&o);
    o.threads = 1;
    sim_log one = run(&o);
    assert_same_log(&one, &two);
    snprintf(task, sizeof task, stateless, "");
    write_task(w, task);
    sim_log remembers = run(&o);
    assert_true(one.rounds[0].train_loss == remembers.rounds[0].train_loss);
    assert_true(one.rounds[1].train_loss != remembers.rounds[1].train_loss);
    sim_log_free(&one);
    sim_log_free(&two);
    sim_log_free(&remembers);
}

static sim_log run_down(const world *w, const char *codec_down) {
    char task[sizeof downlink + 64];
    snprintf(task, sizeof task, downlink, codec_down);
    write_task(w, task);
    const sim_options o = options_of(w);
    return run(&o);
}

static void the_preset_of_codec_down_is_3lc_in_fewer_bytes(void **state) {
    const world *w = *state;
    sim_log preset = run_down(w, ""), plain = run_down(w, "\"codec_down\": \"3lc:s=1\",");
    assert_true(preset.digest == plain.digest);
    for (size_t i = 0; i < plain.round_count; i++) {
        assert_true(preset.rounds[i].delta_bytes < plain.rounds[i].delta_bytes);
        assert_true(i == 0 || preset.rounds[i].down_bytes < plain.rounds[i].down_bytes);
    }
    sim_log_free(&preset);
    sim_log_free(&plain);
}

static void slower_lines_take_longer_for_the_same_bits(void **state) {
    const world *w = *state;
    write_task(w, all_take_part);
    sim_options o = options_of(w);
    o.speed = "sample_s=0.01";
    o.line = "wifi";
    sim_log fast = run(&o);
    o.line = "3g";
    sim_log slow = run(&o);
    assert_true(fast.digest == slow.digest);
    for (size_t i = 0; i < fast.round_count; i++) {
        assert_true(slow.rounds[i].virtual_s > fast.rounds[i].virtual_s);
        assert_true(fast.rounds[i].virtual_s >= (double)(i + 1) * (0.02 + 0.2));
        assert_true(slow.rounds[i].virtual_s >= (double)(i + 1) * (0.6 + 0.2));
    }
    sim_log_free(&fast);
    sim_log_free(&slow);
}

static void each_nth_model_is_measured_and_the_last(void **state) {
    const world *w = *state;
    write_task(w, some_are_late);
    sim_options o = options_of(w);
    sim_log all = run(&o);
    for (size_t i = 0; i < all.round_count; i++) {
        assert_true(all.rounds[i].accuracy >= 0);
    }
    sim_log_free(&all);
    o.evaluate_every = 4;
    sim_log log = run(&o);
    for (size_t i = 0; i < log.round_count; i++) {
        const bool wanted = i + 1 == 4 || i + 1 == 6;
        assert_true(wanted != (isnan(log.rounds[i].accuracy) != 0));
    }
    sim_log_free(&log);
}

static void a_run_may_multiply_in_bfloat16(void **state) {
    const world *w = *state;
    write_task(w, "{ \"name\": \"b\", \"model\": \"lenet5-caffe\", \"codec_up\": \"float32\",\n"
                  "  \"local_steps\": 5, \"batch\": 8, \"learning_rate\": 0.05, \"rounds\": 5,\n"
                  "  \"cohort\": 12, \"goal\": 12, \"deadline_s\": 20 }\n");
    sim_options o = options_of(w);
    sim_log plain = run(&o);
    o.device = "bfloat16";
    sim_log log = run(&o);
    const double before = plain.rounds[4].test_loss, after = log.rounds[4].test_loss;
    assert_true(plain.digest != log.digest);
    assert_true(fabs(before - after) < 0.05 * before);
    sim_log_free(&plain);
    sim_log_free(&log);
}

static void little_training_is_measured_four_times_where_the_scenario_leaves_it_open(void **state) {
    const world *w = *state;
    write_task(w, "{ \"name\": \"little\", \"model\": \"lr\", \"codec_up\": \"float32\",\n"
                  "  \"codec_down\": \"float32\", \"local_steps\": 1, \"batch\": 1,\n"
                  "  \"rounds\": 16, \"cohort\": 8, \"goal\": 6, \"deadline_s\": 20 }\n");
    sim_options o = options_of(w);
    o.evaluate_every = 0;
    sim_log log = run(&o);
    assert_int_equal(log.round_count, 16);
    for (size_t i = 0; i < log.round_count; i++) {
        assert_true(((i + 1) % 4 == 0) != (isnan(log.rounds[i].accuracy) != 0));
    }
    sim_log_free(&log);
}

static void a_client_without_a_model_at_the_end_is_not_present(void **state) {
    const world *w = *state;
    write_task(w, some_are_late);
    sim_options o = options_of(w);
    o.clients = 60;
    o.line = "up=2e4,down=2e4,latency=0.3";
    o.presence = "dropout:on=40,off=10";
    o.speed = "sample_s=0.05,spread=1";
    sim_log log = run(&o);
    size_t present = 0;
    for (size_t k = 0; k < log.client_count; k++) {
        present += log.clients[k].present;
        assert_true(log.clients[k].present == log.clients[k].identical);
        assert_true(log.clients[k].present || log.clients[k].counted == 0);
    }
    assert_in_range(present, 8, o.clients - 1);
    sim_log_free(&log);
}

typedef struct stopper {
    atomic_int stop;
    uint32_t round;
} stopper;

static void stop_there(void *user, const sim_progress *progress) {
    stopper *s = user;
    s->stop = s->stop != 0 || progress->round >= s->round;
}

static void resume_and_compare(sim_options o, const world *w, uint32_t round) {
    char state[300];
    fed_error err = {0};
    sim_log whole = run(&o);
    snprintf(state, sizeof state, "%s/state", w->directory);
    o.state = state;
    stopper s = {.round = round};
    const sim_watch watch = {.user = &s, .progress = stop_there, .stop = &s.stop};
    sim_log part = {0};
    assert_int_equal(sim_run(&o, &watch, &part, &err), FED_ECANCELED);
    assert_false(part.finished);
    assert_true(part.round_count < whole.round_count);
    sim_log_free(&part);
    o.resume = true;
    sim_log rest = run(&o);
    assert_same_log(&rest, &whole);
    sim_log_free(&rest);
    assert_int_not_equal(access(state, F_OK), 0);
    sim_log none = {0};
    assert_int_equal(sim_run(&o, &watch, &none, &err), FED_ENOTFOUND);
    sim_log_free(&none);
    sim_log_free(&whole);
}

static void a_run_that_was_stopped_goes_on_to_the_same_bits(void **state) {
    const world *w = *state;
    write_task(w, all_take_part);
    resume_and_compare(options_of(w), w, 2);
}

static void so_does_one_with_a_helper(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    write_private(w, true, o.seed);
    o.helper = true;
    o.line = "3g:0.5+wifi:0.5";
    o.speed = "sample_s=0.05,spread=1";
    o.broken = 0.2;
    resume_and_compare(o, w, 2);
    resume_and_compare(o, w, 4);
}

static void so_does_one_that_is_stopped_while_some_are_at_every_stage(void **state) {
    const world *w = *state;
    write_task(w, slots_for_all);
    sim_options o = options_of(w);
    o.line = "3g:0.5+wifi:0.5";
    o.speed = "sample_s=0.05,spread=1";
    o.presence = "dropout:on=40,off=10";
    o.broken = 0.2;
    resume_and_compare(o, w, 2);
    resume_and_compare(o, w, 4);
}

static void so_does_one_whose_coordinator_must_remember(void **state) {
    const world *w = *state;
    char task[sizeof few_slots + 16];
    for (int staleness = 0; staleness <= FED_TEST_TRIES(3, 0); staleness += 3) {
        snprintf(task, sizeof task, few_slots, staleness);
        write_task(w, task);
        sim_options o = options_of(w);
        o.clients = 30;
        o.line = "3g:0.5+wifi:0.5";
        o.speed = "sample_s=0.05,spread=1";
        o.presence = "dropout:on=40,off=10";
        o.broken = 0.3;
        o.evaluate_every = 2;
        resume_and_compare(o, w, 3);
        resume_and_compare(o, w, 5);
    }
}

/* keys: of the codecs. With a goal below 12 some updates are not counted. */
static void write_variates(const world *w, int goal, const char *keys) {
    char task[1000];
    snprintf(task, sizeof task,
             "{ \"model\": \"input 784 | dense 10 | scaffold\", %s,\n"
             "  \"optimizer\": \"sgd:lr=0.1+scaffold\", \"local_steps\": 5, \"batch\": 4,\n"
             "  \"rounds\": 6, \"cohort\": 12, \"goal\": %d, \"deadline_s\": 20 }\n",
             keys, goal);
    write_task(w, task);
}

/* What is owed of control variates survives, also where nothing is owed of the weights. */
static void so_does_one_whose_control_variates_have_a_codec(void **state) {
    const world *w = *state;
    static const char *const keys[] = {
        "\"codec_up\": \"eden:p=0.05\", \"codec_variates\": \"eden\"",
        "\"codec_up\": \"sbc:p=0.05\", \"codec_variates\": \"topk:p=0.1+entropy\""};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        write_variates(w, 9, keys[k]);
        sim_options o = options_of(w);
        o.broken = 0.2;
        o.offline = 0.1;
        resume_and_compare(o, w, 3);
    }
}

static void coded_control_variates_are_the_same_on_both_transports(void **state) {
    const world *w = *state;
    write_variates(w, 12, "\"codec_up\": \"eden:p=0.05\", \"codec_variates\": \"eden\"");
    sim_options o = options_of(w);
    o.broken = 0.2;
    o.kill_round = 3;
    sim_log here = run(&o);
    o.transport = SIM_HTTPS;
    sim_log there = run(&o);
    assert_true(here.digest == there.digest);
    sim_log_free(&here);
    sim_log_free(&there);
}

static void control_variates_take_the_bytes_of_their_codec(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    write_variates(w, 12, "\"codec_up\": \"float32\"");
    sim_log plain = run(&o);
    write_variates(w, 12, "\"codec_up\": \"float32\", \"codec_variates\": \"float32\"");
    sim_log exact = run(&o);
    write_variates(w, 12, "\"codec_up\": \"float32\", \"codec_variates\": \"eden\"");
    sim_log coded = run(&o);
    assert_true(plain.digest == exact.digest);
    const uint64_t less = 12 * 7850 * 30 / 8; /* a bit and a little instead of 32 bits */
    assert_true(coded.rounds[2].up_bytes + less < plain.rounds[2].up_bytes);
    assert_true(5 * coded.rounds[2].down_bytes < plain.rounds[2].down_bytes);
    assert_true(sim_log_accuracy(&coded) > sim_log_accuracy(&plain) - 0.1);
    sim_log_free(&plain);
    sim_log_free(&exact);
    sim_log_free(&coded);
}

/** Change the format number in a stopped run's file, and its digest. */
static void make_it_older(const char *state) {
    char path[400];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/run", state);
    assert_fed_ok_err(fed_file_read(path, SIZE_MAX / 2, &data, &len, &err));
    assert_memory_equal(data, "FEDSIM2", 8);
    data[6] = '1';
    fed_writer digest;
    fed_writer_fixed(&digest, data + len - 8, 8);
    fed_write_u64(&digest, fed_digest_bytes(data, len - 8));
    assert_fed_ok_err(fed_file_replace(path, data, len, 0600, &err));
    free(data);
}

static void a_stopped_run_of_an_older_format_is_refused_with_a_word(void **state) {
    const world *w = *state;
    write_task(w, all_take_part);
    sim_options o = options_of(w);
    char directory[300];
    snprintf(directory, sizeof directory, "%s/state", w->directory);
    o.state = directory;
    stopper s = {.round = 2};
    const sim_watch watch = {.user = &s, .progress = stop_there, .stop = &s.stop};
    sim_log log = {0};
    fed_error err = {0};
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_ECANCELED);
    sim_log_free(&log);
    make_it_older(directory);
    o.resume = true;
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_EVERSION);
    assert_non_null(strstr(err.text, "was written by another release of fedsim"));
    sim_log_free(&log);
}

static void who_is_never_there_ends_a_run_with_a_word(void **state) {
    const world *w = *state;
    write_task(w, some_are_late);
    char spec[300];
    snprintf(spec, sizeof spec, "trace:%s/trace.csv", w->directory);
    FILE *file = fopen(spec + 6, "w");
    assert_non_null(file);
    fputs("0,0,1000\n1,0,50\n", file);
    assert_int_equal(fclose(file), 0);
    sim_options o = options_of(w);
    o.presence = spec;
    static const atomic_int never;
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    sim_log log = {0};
    fed_error err = {0};
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_ESTATE);
    assert_non_null(strstr(err.text, "no client comes any more"));
    sim_log_free(&log);
}

/* %d: personal_steps */
static const char personal[] =
    "{ \"name\": \"own\", \"model\": \"lr\", \"codec_up\": \"float32\", \"holdout\": 0.25,\n"
    "  \"local_steps\": 5, \"batch\": 4, \"learning_rate\": 0.1, \"rounds\": 4, \"cohort\": 12,\n"
    "  \"goal\": 12, \"deadline_s\": 20, \"personal_steps\": %d }\n";

static sim_log run_personal(const world *w, int steps, uint32_t threads) {
    char task[1000];
    snprintf(task, sizeof task, personal, steps);
    write_task(w, task);
    sim_options o = options_of(w);
    o.threads = threads;
    o.swapped = 1;
    return run(&o);
}

/* All clients name two of their labels the other way round, each client another two. */
static void a_client_is_better_off_with_a_model_of_its_own(void **state) {
    const world *w = *state;
    sim_personal p;
    sim_log own = run_personal(w, 60, 2), none = run_personal(w, 0, 2),
            one = run_personal(w, 60, 1);
    assert_fed_ok(sim_log_personal(&own, &p));
    assert_int_equal(p.clients, 12);
    assert_true(p.personal > p.shared + 0.05);
    assert_true(p.personal_worst > p.shared_worst);
    for (size_t k = 0; k < own.client_count; k++) {
        assert_int_equal(own.clients[k].held, 25);
        assert_int_equal(own.clients[k].samples, 75);
    }
    assert_same_log(&own, &one);
    /* What is shared is the same to the bit: nobody else learns of the copies. */
    assert_true(own.digest == none.digest);
    assert_fed_ok(sim_log_personal(&none, &p));
    assert_int_equal(p.clients, 0);
    sim_log_free(&own);
    sim_log_free(&none);
    sim_log_free(&one);
}

/* %s: more keys */
static const char layered[] =
    "{ \"name\": \"own\", \"model\": \"input 784 | dense 8 | relu | dense 10\",\n"
    "  \"holdout\": 0.25, \"local_steps\": 60, \"batch\": 4, \"learning_rate\": 0.1,\n"
    "  \"rounds\": 4, \"cohort\": 12, \"goal\": 12, \"deadline_s\": 20, %s }\n";

static sim_log run_layered(const world *w, sim_options o, const char *keys) {
    char task[1000];
    snprintf(task, sizeof task, layered, keys);
    write_task(w, task);
    o.swapped = 1;
    return run(&o);
}

static void a_client_with_a_head_of_its_own_is_better_off_for_fewer_bytes(void **state) {
    const world *w = *state;
    sim_personal p, q;
    const sim_options o = options_of(w);
    sim_log own = run_layered(w, o, "\"codec_up\": \"float32\", \"private_layers\": \"head\"");
    sim_log one = run_layered(w, o, "\"codec_up\": \"float32\", \"personal_steps\": 1");
    assert_fed_ok(sim_log_personal(&own, &p));
    assert_fed_ok(sim_log_personal(&one, &q));
    assert_int_equal(p.clients, 12);
    assert_true(p.personal > q.shared + 0.03);
    const uint64_t bytes = 90 * sizeof(float) * 12; /* the head of each client */
    assert_true(own.rounds[1].up_bytes + bytes <= one.rounds[1].up_bytes);
    assert_true(own.rounds[1].down_bytes < one.rounds[1].down_bytes);
    assert_true(isnan(own.rounds[3].accuracy)); /* nobody else can measure it */
    sim_log_free(&own);
    sim_log_free(&one);
}

/* What is masked, clipped and summed is what travels. */
static void private_layers_go_with_private_sums_on_both_transports(void **state) {
    const world *w = *state;
    static const char promise[] = "\"codec_up\": \"ring:b=8\", \"clip\": 2, \"epsilon\": 50,"
                                  " \"delta\": 1e-5, \"participations\": 9,"
                                  " \"private_layers\": \"head\"";
    char hex[SIM_HELPER_HEX], keys[400];
    fed_error err = {0};
    sim_options o = options_of(w);
    sim_log plain =
        run_layered(w, o, "\"codec_up\": \"ring:b=8\", \"clip\": 2, \"private_layers\": \"head\"");
    sim_log noisy = run_layered(w, o, promise);
    assert_fed_ok_err(sim_helper_hex(o.seed, hex, &err));
    snprintf(keys, sizeof keys,
             "\"codec_up\": \"ring:b=8\", \"clip\": 2, \"private_layers\": \"head\","
             " \"helper\": \"%s\"",
             hex);
    o.helper = true;
    sim_log masked = run_layered(w, o, keys);
    o.transport = SIM_HTTPS;
    sim_log there = run_layered(w, o, keys);
    assert_true(masked.digest == plain.digest && there.digest == plain.digest);
    assert_true(noisy.digest != plain.digest);
    for (size_t k = 0; k < there.client_count; k++) {
        assert_true(there.clients[k].personal == plain.clients[k].personal);
    }
    sim_log_free(&plain);
    sim_log_free(&noisy);
    sim_log_free(&masked);
    sim_log_free(&there);
}

/* With such a rate no update is small enough to be counted, in any attempt of the round. */
static void a_round_whose_updates_are_all_refused_ends_the_run(void **state) {
    const world *w = *state;
    static const atomic_int never;
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    const sim_options o = options_of(w);
    sim_log log = {0};
    fed_error err = {0};
    write_task(w, all_diverge);
    assert_int_equal(sim_run(&o, &watch, &log, &err), FED_ERANGE);
    assert_non_null(strstr(err.text, "round 1 does not end"));
    assert_non_null(strstr(err.text, "learning_rate"));
    sim_log_free(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_is_bit_for_bit_that_of_a_run_over_https, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            so_it_is_where_clients_are_away_and_lines_break_and_the_coordinator_dies, setup,
            teardown),
        cmocka_unit_test_setup_teardown(masked_and_plain_runs_make_the_same_bits_on_both_transports,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(masked_runs_go_on_after_kills_and_broken_lines, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_that_names_another_helper_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_client_with_a_head_of_its_own_is_better_off_for_fewer_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(private_layers_go_with_private_sums_on_both_transports,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_one_with_a_helper, setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_one_whose_control_variates_have_a_codec, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(coded_control_variates_are_the_same_on_both_transports,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(control_variates_take_the_bytes_of_their_codec, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(places_share_the_memory_of_optimizers_that_forget, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_does_not_depend_on_threads_nor_on_the_machine, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_preset_of_codec_down_is_3lc_in_fewer_bytes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(slower_lines_take_longer_for_the_same_bits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(each_nth_model_is_measured_and_the_last, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_may_multiply_in_bfloat16, setup, teardown),
        cmocka_unit_test_setup_teardown(
            little_training_is_measured_four_times_where_the_scenario_leaves_it_open, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_client_without_a_model_at_the_end_is_not_present, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_that_was_stopped_goes_on_to_the_same_bits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(so_does_one_that_is_stopped_while_some_are_at_every_stage,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(so_does_one_whose_coordinator_must_remember, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_stopped_run_of_an_older_format_is_refused_with_a_word,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_never_there_ends_a_run_with_a_word, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_is_better_off_with_a_model_of_its_own, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_round_whose_updates_are_all_refused_ends_the_run, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
