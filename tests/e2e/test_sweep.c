/* The crash sweep: every process of a little federation dies at each of its calls that change a
 * file, one run after the other, and its disk fails there in every way; D1 to D6 must hold each
 * time.
 *
 *     e2e.test_sweep          every k-th call, a bounded time: what ctest runs
 *     e2e.test_sweep whole    every call, and many storms; behind it, which tests: whole '*large*'
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "federation.h"

#define MODEL "input 8 | dense 3"

/* Two of three devices make a round: one is always late, so its update is refused, and what is owed
 * of it comes with the next. Every sum is exact, so each version can be computed plainly. */
static const char late_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 2, \"minimum\": 2,"
    " \"deadline_s\": 60, \"small_tensor\": 0 }";

/* Everybody counts in every round, so each run must end with the calm run's bits, through lossy
 * codecs both ways. */
static const char lossy_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"deadline_s\": 60, \"small_tensor\": 0 }";

/* Updates of more than 64 KB. */
#define LARGE_MODEL "input 128 | dense 136"
static const char large_task[] =
    "{ \"model\": \"" LARGE_MODEL "\", \"initial\": \"zeros.safetensors\","
    " \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 3,"
    " \"goal\": 2, \"minimum\": 2, \"deadline_s\": 60 }";

/* A strategy with a state of its own, and one that wants every update at once. */
static const char adam_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"strategy\": \"fedadam:lr=0.01\", \"deadline_s\": 60, \"small_tensor\": 0 }";
static const char median_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"float32\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"strategy\": \"median\", \"deadline_s\": 60, \"small_tensor\": 0 }";

/* Asynchronous: an update counts in whichever round is open. */
static const char stale_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 4, \"cohort\": 3, \"goal\": 2, \"minimum\": 2,"
    " \"staleness\": 3, \"deadline_s\": 60, \"small_tensor\": 0 }";

/* The first turns of a device's life. */
static const char first_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"float32\","
    " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 2, \"goal\": 2, \"minimum\": 2,"
    " \"deadline_s\": 60 }";

static bool whole;

#ifdef FED_SANITIZED
enum { FEWER = 5 };
#else
enum { FEWER = 1 };
#endif

typedef struct tally {
    const char *name;
    unsigned runs, points, kills, counted, lost, twice, broken;
    uint64_t digest; /* that every run must end with; 0: they may differ */
    bool quiet;
} tally;

static bool try(const federation_setup *setup, const federation_fault *fault, tally *t) {
    federation_result r;
    federation_run(setup, fault, &r);
    if (t->digest != 0 && r.broken[0] == '\0' && r.digest != t->digest) {
        snprintf(r.broken, sizeof r.broken, "D3: the final model is not the calm run's");
    }
    t->runs++;
    t->points += r.fired ? 1U : 0U;
    t->kills += r.broken[0] == '\0' ? r.kills : 0;
    t->counted += r.counted;
    t->lost += r.lost;
    t->twice += r.twice;
    t->broken += r.broken[0] != '\0' ? 1U : 0U;
    if (r.broken[0] != '\0' && !t->quiet) {
        printf("  %s: process %u, %s, call %llu (%s): %s\n", t->name, fault->process,
               fault_kind_name(fault->kind), (unsigned long long)fault->at[0], r.what, r.broken);
    }
    return r.fired;
}

static void print(const tally *t) {
    printf("%-26s %5u points, %5u kills survived, %6u updates acknowledged, %u lost, %u twice\n",
           t->name, t->points, t->kills, t->counted, t->lost, t->twice);
    fflush(stdout);
}

/** One kind of fault at every stride-th call of every process. */
static void sweep(const federation_setup *setup, const federation_result *calm, fault_kind kind,
                  unsigned stride, tally *t) {
    for (unsigned who = 0; who <= setup->devices; who++) {
        for (uint64_t at = 1 + kind % stride; at <= calm->calls[who]; at += stride) {
            const federation_fault fault = {.process = who, .kind = kind, .at = {at}};
            (void)try(setup, &fault, t);
        }
    }
}

/** All kinds, one line each; every stride-th call, and in the whole sweep every whole_stride-th. */
static void sweep_kinds(federation_setup *setup, const char *name, unsigned stride,
                        unsigned whole_stride, bool same_digest) {
    federation_result calm;
    const federation_fault none = {0};
    federation_prepare(setup);
    federation_run(setup, &none, &calm);
    assert_string_equal(calm.broken, "");
    assert_true(!setup->one_is_late || setup->counts_any_round || calm.refused > 0);
    unsigned broken = 0;
    for (fault_kind kind = FAULT_KILL; kind < FAULT_KINDS; kind++) {
        char title[60];
        snprintf(title, sizeof title, "%s: %s", name, fault_kind_name(kind));
        tally t = {.name = title, .digest = same_digest ? calm.digest : 0};
        sweep(setup, &calm, kind, whole ? whole_stride : stride * FEWER, &t);
        print(&t);
        broken += t.broken;
    }
    federation_clear(setup);
    assert_int_equal(broken, 0);
}

static void nothing_is_lost_where_one_device_is_late(void **state) {
    (void)state;
    federation_setup setup = {
        .task = late_task, .model = MODEL, .devices = 3, .enrolled = true, .one_is_late = true};
    sweep_kinds(&setup, "late", 23, 1, false);
}

static void the_model_is_the_calm_runs_through_lossy_codecs(void **state) {
    (void)state;
    federation_setup setup = {.task = lossy_task, .model = MODEL, .devices = 3, .enrolled = true};
    sweep_kinds(&setup, "lossy", 41, 1, true);
}

static void a_strategys_state_is_the_calm_runs(void **state) {
    (void)state;
    federation_setup setup = {.task = adam_task, .model = MODEL, .devices = 3, .enrolled = true};
    sweep_kinds(&setup, "fedadam", 61, 1, true);
}

static void a_median_is_the_calm_runs(void **state) {
    (void)state;
    federation_setup setup = {.task = median_task, .model = MODEL, .devices = 3, .enrolled = true};
    sweep_kinds(&setup, "median", 61, 1, true);
}

static void nothing_is_lost_where_updates_are_stale(void **state) {
    (void)state;
    federation_setup setup = {.task = stale_task,
                              .model = MODEL,
                              .devices = 3,
                              .enrolled = true,
                              .counts_any_round = true,
                              .one_is_late = true};
    sweep_kinds(&setup, "stale", 31, 1, false);
}

static void nothing_is_lost_where_updates_are_large(void **state) {
    (void)state;
    federation_setup setup = {.task = large_task,
                              .model = LARGE_MODEL,
                              .devices = 3,
                              .enrolled = true,
                              .one_is_late = true};
    sweep_kinds(&setup, "large", 61, 5, false);
}

/** With its first token. */
static void a_device_enrols_whatever_dies(void **state) {
    (void)state;
    federation_setup setup = {.task = first_task, .model = MODEL, .devices = 2};
    sweep_kinds(&setup, "enrol", 17, 1, false);
}

/** A second death while the process takes up its work again. */
static void nothing_is_lost_where_a_process_dies_again_while_it_recovers(void **state) {
    (void)state;
    federation_setup setup = {
        .task = late_task, .model = MODEL, .devices = 3, .enrolled = true, .one_is_late = true};
    federation_result calm;
    const federation_fault none = {0};
    federation_prepare(&setup);
    federation_run(&setup, &none, &calm);
    tally t = {.name = "late: died again"};
    unsigned stride = whole ? 1 : 19 * FEWER;
    for (unsigned who = 0; who <= setup.devices; who++) {
        for (uint64_t at = 1; at <= calm.calls[who]; at += stride) {
            const federation_fault fault = {.process = who,
                                            .kind =
                                                (fault_kind)(FAULT_KILL + at % FAULT_POWER_TORN),
                                            .at = {at, 1 + at * 7 % 23}};
            (void)try(&setup, &fault, &t);
        }
    }
    print(&t);
    federation_clear(&setup);
    assert_int_equal(t.broken, 0);
}

/** All processes, again and again. */
static void nothing_is_lost_in_a_storm(void **state) {
    (void)state;
    federation_setup setup = {
        .task = late_task, .model = MODEL, .devices = 3, .enrolled = true, .one_is_late = true};
    federation_prepare(&setup);
    tally t = {.name = "late: storms"};
    for (uint64_t seed = 1; seed <= (whole ? 300 : 6 / FEWER); seed++) {
        const federation_fault fault = {.storm = seed};
        (void)try(&setup, &fault, &t);
    }
    print(&t);
    federation_clear(&setup);
    assert_int_equal(t.broken, 0);
}

/** The sweep itself must be able to find something. */
static void a_coordinator_that_answers_before_it_commits_is_found_out(void **state) {
    (void)state;
    federation_setup setup = {.task = late_task,
                              .model = MODEL,
                              .devices = 3,
                              .enrolled = true,
                              .one_is_late = true,
                              .acks_early = true};
    federation_prepare(&setup);
    tally t = {.name = "planted: answers too early", .quiet = true};
    for (uint64_t at = 1; at <= 120 && t.broken == 0; at++) {
        const federation_fault fault = {.kind = FAULT_KILL, .at = {at}};
        (void)try(&setup, &fault, &t);
    }
    federation_clear(&setup);
    assert_true(t.broken > 0);
}

/** At a power cut such a disk loses what was promised: of the coordinator's, and of a device's. */
static void find_lie(fault_lie lie, unsigned who) {
    federation_setup setup = {
        .task = late_task, .model = MODEL, .devices = 3, .enrolled = true, .one_is_late = true};
    federation_prepare(&setup);
    tally t = {.name = "planted: a lie", .quiet = true};
    for (uint64_t at = 1; at <= 120 && t.broken == 0; at++) {
        const federation_fault fault = {
            .process = who, .kind = FAULT_POWER, .at = {at}, .lie = lie};
        (void)try(&setup, &fault, &t);
    }
    federation_clear(&setup);
    assert_true(t.broken > 0);
}

static void a_disk_that_lies_about_fsync_is_found_out(void **state) {
    (void)state;
    find_lie(FAULT_LIES_ON_ALL, FEDERATION_COORDINATOR);
    find_lie(FAULT_LIES_ON_ALL, 1);
}

static void a_directory_that_is_not_synced_is_found_out(void **state) {
    (void)state;
    find_lie(FAULT_LIES_ON_NAMES, FEDERATION_COORDINATOR);
    find_lie(FAULT_LIES_ON_NAMES, 1);
}

/** init again and again: a coordinator is complete or it is not there. */
static void a_coordinator_is_complete_or_not_there(void **state) {
    (void)state;
    unsigned points = 0;
    for (fault_kind kind = FAULT_KILL; kind < FAULT_KINDS; kind++) {
        uint64_t at = 1 + kind % 3;
        while (federation_init_dies(kind, at)) {
            at += whole ? 1 : 5;
            points++;
        }
    }
    printf("%-26s %5u points\n", "init", points);
}

int main(int argc, char **argv) {
    whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm",
               1); /* what a cut leaves is ours to say: no disk is waited for */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_that_answers_before_it_commits_is_found_out),
        cmocka_unit_test(a_disk_that_lies_about_fsync_is_found_out),
        cmocka_unit_test(a_directory_that_is_not_synced_is_found_out),
        cmocka_unit_test(a_coordinator_is_complete_or_not_there),
        cmocka_unit_test(nothing_is_lost_where_one_device_is_late),
        cmocka_unit_test(the_model_is_the_calm_runs_through_lossy_codecs),
        cmocka_unit_test(nothing_is_lost_where_a_process_dies_again_while_it_recovers),
        cmocka_unit_test(nothing_is_lost_in_a_storm),
        cmocka_unit_test(nothing_is_lost_where_updates_are_large),
        cmocka_unit_test(a_strategys_state_is_the_calm_runs),
        cmocka_unit_test(a_median_is_the_calm_runs),
        cmocka_unit_test(nothing_is_lost_where_updates_are_stale),
        cmocka_unit_test(a_device_enrols_whatever_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
