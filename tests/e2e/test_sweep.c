/* The crash sweep: in each run, one process of a small federation dies, or its disk fails, at one
 * of the calls that change a file. D1 to D6 of docs/durability.md must hold.
 *
 *     e2e.test_sweep          at every k-th call; ctest runs this
 *     e2e.test_sweep whole    at every call, and many storms; a pattern may follow that
 *                             chooses tests: whole '*large*'
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_test.h"
#include "federation.h"

#define MODEL "input 8 | dense 3"

/* One of three devices is usually late: its update is refused, and its values are sent with its
 * next update. Every sum is exact in float32. */
static const char late_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 2, \"minimum\": 2,"
    " \"deadline_s\": 60, \"small_tensor\": 0 }";

static const char phases_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 2, \"minimum\": 2,"
    " \"deadline_s\": 60, \"small_tensor\": 0, \"learning_rate\": 0.1,"
    " \"phases\": [{ \"round\": 2, \"batch\": 3 }, { \"round\": 3, \"learning_rate\": 0.3 }] }";

/* All three updates count in every round, so each run must end with the same bits. */
static const char lossy_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"deadline_s\": 60, \"small_tensor\": 0 }";

/* SCAFFOLD: half of the values are a control variate, with a codec of its own both ways. All three
 * updates count in every round. */
#define VARIATES_MODEL MODEL " | scaffold"
static const char variates_task[] =
    "{ \"model\": \"" VARIATES_MODEL "\", \"initial\": \"zeros.safetensors\","
    " \"codec_up\": \"topk:p=0.4\", \"codec_variates\": \"topk:p=0.3\","
    " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"optimizer\": \"sgd:lr=0.1+scaffold\", \"deadline_s\": 60, \"small_tensor\": 0 }";

/* Updates of this task are kept in a segment file. */
#define LARGE_MODEL "input 128 | dense 136"
static const char large_task[] =
    "{ \"model\": \"" LARGE_MODEL "\", \"initial\": \"zeros.safetensors\","
    " \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 3,"
    " \"goal\": 2, \"minimum\": 2, \"deadline_s\": 60 }";

static const char adam_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"strategy\": \"fedadam:lr=0.01\", \"deadline_s\": 60, \"small_tensor\": 0 }";
static const char median_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"float32\","
    " \"codec_down\": \"3lc:s=1.5\", \"rounds\": 3, \"cohort\": 3, \"goal\": 3, \"minimum\": 3,"
    " \"strategy\": \"median\", \"deadline_s\": 60, \"small_tensor\": 0 }";

static const char stale_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"topk:p=0.4\","
    " \"codec_down\": \"float32\", \"rounds\": 4, \"cohort\": 3, \"goal\": 2, \"minimum\": 2,"
    " \"staleness\": 3, \"deadline_s\": 60, \"small_tensor\": 0 }";

/* Of three devices two count in a round, so a round may have another set after a death. */
static const char private_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"ring:b=6\","
    " \"clip\": 0.05, \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 2,"
    " \"minimum\": 2, \"deadline_s\": 60, \"small_tensor\": 0, \"helper\": \"HELPER\" }";

/* Of four devices two take part in each second round, and the noise of a round takes off some of
 * the noise before. Each death may cost a device a participation by its own record (C12). */
#define NOISY_TASK(helper)                                                                         \
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"ring:b=6\","  \
    " \"clip\": 0.05, \"codec_down\": \"float32\", \"rounds\": 4, \"cohort\": 2, \"goal\": 2,"     \
    " \"minimum\": 2, \"deadline_s\": 600, \"small_tensor\": 0, \"epsilon\": 50, \"delta\": 1e-5," \
    " \"participations\": 4, \"apart\": 2, \"selection\": \"round_robin\"" helper " }"
static const char noisy_task[] = NOISY_TASK("");
static const char noisy_private_task[] = NOISY_TASK(", \"helper\": \"HELPER\"");

/* Of three devices two count in a round. The clip of the next one follows from what they say. */
#define CLIP_TASK(helper)                                                                          \
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"ring:b=6\","  \
    " \"clip\": 0.05, \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 2,"     \
    " \"minimum\": 2, \"deadline_s\": 60, \"small_tensor\": 0, \"epsilon\": 100,"                  \
    " \"delta\": 0.1,"                                                                             \
    " \"participations\": 5, \"clip_quantile\": 0.6" helper " }"
static const char clip_task[] = CLIP_TASK("");
static const char clip_private_task[] = CLIP_TASK(", \"helper\": \"HELPER\"");

/* The median of three sums, of two devices each. */
static const char groups_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"ring:b=6\","
    " \"clip\": 0.05, \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 6, \"goal\": 6,"
    " \"minimum\": 2, \"groups\": 3, \"strategy\": \"median\", \"deadline_s\": 60,"
    " \"small_tensor\": 0, \"helper\": \"HELPER\" }";

static const char first_task[] =
    "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\", \"codec_up\": \"float32\","
    " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 2, \"goal\": 2, \"minimum\": 2,"
    " \"deadline_s\": 60 }";

static bool whole;

enum { FEWER = FED_TEST_SIZE(1, 5), DRAWS_MOST = 20 };

typedef struct tally {
    const char *name;
    unsigned runs, points, kills, counted, lost, twice, broken;
    unsigned histories, opened;
    uint64_t digest; /* digest of each run's last model; 0: not checked */
    bool quiet;
} tally;

static bool try(const federation_setup *setup, const federation_fault *fault, tally *t) {
    federation_result r;
    federation_run(setup, fault, &r);
    if (t->digest != 0 && r.broken[0] == '\0' && r.digest != t->digest) {
        snprintf(r.broken, sizeof r.broken,
                 "D3: the final model is not that of the run without a fault");
    }
    t->runs++;
    t->points += r.fired ? 1U : 0U;
    t->kills += r.broken[0] == '\0' ? r.kills : 0;
    t->counted += r.counted;
    t->lost += r.lost;
    t->twice += r.twice;
    t->broken += r.broken[0] != '\0' ? 1U : 0U;
    t->histories += r.history_broken ? 1U : 0U;
    t->opened += r.opened;
    if (r.broken[0] != '\0' && !t->quiet) {
        printf("  %s: process %u, %s, call %llu (%s): %s\n", t->name, fault->process,
               fault_kind_name(fault->kind), (unsigned long long)fault->at[0], r.what, r.broken);
    }
    return r.fired;
}

typedef struct fault_list {
    federation_fault *at;
    size_t count;
} fault_list;

static void add_fault(fault_list *list, federation_fault fault) {
    list->at = realloc(list->at, (list->count + 1) * sizeof *list->at);
    assert_non_null(list->at);
    list->at[list->count++] = fault;
}

static void add_tally(tally *all, const tally *part) {
    all->runs += part->runs;
    all->points += part->points;
    all->kills += part->kills;
    all->counted += part->counted;
    all->lost += part->lost;
    all->twice += part->twice;
    all->broken += part->broken;
    all->histories += part->histories;
    all->opened += part->opened;
}

static pid_t start_worker(const federation_setup *setup, const fault_list *list, size_t first,
                          size_t step, tally *t) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    fed_test_die_with_parent();
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    for (size_t k = first; k < list->count; k += step) {
        (void)try(setup, &list->at[k], t);
    }
    fflush(NULL);
    _exit(0);
}

static void try_all(const federation_setup *setup, fault_list *list, tally *t) {
    enum { WORKERS = 64 };
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t workers = cores < 1 ? 1 : cores > WORKERS ? WORKERS : (size_t)cores;
    pid_t pid[WORKERS];
    tally *part = fault_shared_new(WORKERS * sizeof *part);
    assert_non_null(part);
    for (size_t k = 0; k < workers; k++) {
        part[k] = *t;
        pid[k] = start_worker(setup, list, k, workers, &part[k]);
    }
    for (size_t k = 0; k < workers; k++) {
        int how = 0;
        assert_int_equal(waitpid(pid[k], &how, 0), pid[k]);
        assert_int_equal(how, 0);
        add_tally(t, &part[k]);
    }
    fault_shared_free(part, WORKERS * sizeof *part);
    assert_int_equal(t->runs, list->count);
    free(list->at);
    *list = (fault_list){0};
}

static void print(const tally *t) {
    printf("%-26s %5u points, %5u kills survived, %6u updates acknowledged, %u lost, %u twice\n",
           t->name, t->points, t->kills, t->counted, t->lost, t->twice);
    if (t->opened > 0) {
        printf("%26s %5u rounds opened once, %u runs broken\n", "", t->opened, t->broken);
    }
    fflush(stdout);
}

/** Try one kind of fault at every stride-th call of each process. */
static void sweep(const federation_setup *setup, const federation_result *calm, fault_kind kind,
                  unsigned stride, tally *t) {
    fault_list list = {0};
    bool job = setup->job != FEDERATION_NO_JOB;
    /* The simulated disk of a process does not know what other processes have synced. So a power
     * cut of the coordinator would undo the operator's command. */
    const bool cut = kind == FAULT_POWER || kind == FAULT_POWER_TORN;
    bool all = !job || (setup->job == FEDERATION_QUEUE && !cut);
    unsigned first = all ? FEDERATION_COORDINATOR : FEDERATION_OPERATOR;
    unsigned last = job ? FEDERATION_OPERATOR : setup->helped ? FEDERATION_HELPER : setup->devices;
    for (unsigned who = first; who <= last; who++) {
        for (uint64_t at = 1 + kind % stride; at <= calm->calls[who] + job; at += stride) {
            add_fault(&list, (federation_fault){.process = who, .kind = kind, .at = {at}});
        }
    }
    try_all(setup, &list, t);
}

/** Do a run without a fault. Random keys decide how long devices wait. If no update is late that
 * should be, try other keys. */
static void run_calm(federation_setup *setup, federation_result *calm) {
    const federation_fault none = {0};
    bool late = false;
    for (unsigned draws = 0; !late && draws < DRAWS_MOST; draws++) {
        if (draws > 0) {
            federation_clear(setup);
        }
        federation_prepare(setup);
        federation_run(setup, &none, calm);
        assert_string_equal(calm->broken, "");
        late = !setup->one_is_late || setup->counts_any_round || calm->refused > 0;
    }
    assert_true(late);
}

static void sweep_kinds(federation_setup *setup, const char *name, unsigned stride,
                        bool same_digest) {
    federation_result calm;
    run_calm(setup, &calm);
    assert_true(setup->job == FEDERATION_NO_JOB || calm.calls[FEDERATION_OPERATOR] > 0);
    unsigned broken = 0;
    for (fault_kind kind = FAULT_KILL; kind < FAULT_KINDS; kind++) {
        char title[60];
        snprintf(title, sizeof title, "%s: %s", name, fault_kind_name(kind));
        tally t = {.name = title, .digest = same_digest ? calm.digest : 0};
        sweep(setup, &calm, kind, whole ? 1 : stride * FEWER, &t);
        print(&t);
        broken += t.broken;
    }
    federation_clear(setup);
    assert_int_equal(broken, 0);
}

#define THREE(text, net) .task = (text), .model = (net), .devices = 3, .enrolled = true

#define SIX(text)  .task = (text), .model = MODEL, .devices = 6, .enrolled = true
#define FOUR(text) .task = (text), .model = MODEL, .devices = 4, .enrolled = true

/* An entry whose `test` is NULL belongs to the test above. */
static const struct sweep_case {
    const char *test;
    const char *name;
    federation_setup setup;
    unsigned stride;
    bool same_digest;
} cases[] = {
    {"nothing is lost where one device is late",
     "late",
     {THREE(late_task, MODEL), .one_is_late = true},
     23,
     false},
    {"the model is the calm run's through lossy codecs",
     "lossy",
     {THREE(lossy_task, MODEL)},
     41,
     true},
    {"nothing is lost of control variates",
     "variates",
     {THREE(variates_task, VARIATES_MODEL), .variates = true},
     61,
     true},
    {"nothing is lost where updates are large",
     "large",
     {THREE(large_task, LARGE_MODEL), .one_is_late = true},
     61,
     false},
    {"nothing is lost where a round closes in a thread",
     "apart late",
     {THREE(late_task, MODEL), .one_is_late = true, .apart = true},
     29,
     false},
    {NULL, "apart fedadam", {THREE(adam_task, MODEL), .apart = true}, 61, true},
    {NULL, "apart median", {THREE(median_task, MODEL), .apart = true}, 97, true},
    {NULL, "apart large", {THREE(large_task, LARGE_MODEL), .apart = true}, 97, false},
    {"nothing is lost where updates are stale and a round closes",
     "apart stale",
     {THREE(stale_task, MODEL), .counts_any_round = true, .one_is_late = true, .apart = true},
     47,
     false},
    {"a backup has the files of its models",
     "apart backup",
     {THREE(large_task, LARGE_MODEL), .apart = true, .job = FEDERATION_BACKUP, .job_after = 3},
     29,
     false},
    {NULL,
     "apart restore",
     {THREE(large_task, LARGE_MODEL), .apart = true, .job = FEDERATION_RESTORE, .job_after = 3},
     29,
     false},
    {"a strategy's state is the calm run's", "fedadam", {THREE(adam_task, MODEL)}, 61, true},
    {"a median is the calm run's", "median", {THREE(median_task, MODEL)}, 61, true},
    {"nothing is lost where updates are stale",
     "stale",
     {THREE(stale_task, MODEL), .counts_any_round = true, .one_is_late = true},
     31,
     false},
    {"no round is opened twice, nor an update of it lost",
     "private",
     {THREE(private_task, MODEL), .one_is_late = true, .helped = true},
     13,
     false},
    {NULL,
     "apart private",
     {THREE(private_task, MODEL), .one_is_late = true, .helped = true, .apart = true},
     61,
     false},
    {"a round's noise is one, and later rounds take it off",
     "noisy private",
     {FOUR(noisy_private_task), .helped = true, .noisy = true},
     61,
     false},
    {NULL,
     "apart noisy private",
     {FOUR(noisy_private_task), .helped = true, .noisy = true, .apart = true},
     97,
     false},
    {NULL, "noisy", {FOUR(noisy_task), .noisy = true}, 97, false},
    {NULL, "apart noisy", {FOUR(noisy_task), .noisy = true, .apart = true}, 97, false},
    {"a round has one clip, and the next one's follows from it",
     "clip private",
     {THREE(clip_private_task, MODEL), .one_is_late = true, .helped = true, .noisy = true,
      .adapts = true},
     61,
     false},
    {NULL,
     "apart clip private",
     {THREE(clip_private_task, MODEL), .one_is_late = true, .helped = true, .noisy = true,
      .adapts = true, .apart = true},
     97,
     false},
    {NULL,
     "clip",
     {THREE(clip_task, MODEL), .one_is_late = true, .noisy = true, .adapts = true},
     97,
     false},
    {"the groups of a round are those of its set",
     "groups",
     {SIX(groups_task), .helped = true, .groups = 3},
     397,
     false},
    {NULL,
     "apart groups",
     {SIX(groups_task), .helped = true, .groups = 3, .apart = true},
     509,
     false},
    {"a device enrols whatever dies",
     "enrol",
     {.task = first_task, .model = MODEL, .devices = 2},
     17,
     false},
    {"a backup is whole or not there",
     "backup",
     {THREE(large_task, LARGE_MODEL), .job = FEDERATION_BACKUP, .job_after = 3},
     17,
     false},
    {"a restored coordinator is whole or not there",
     "restore",
     {THREE(large_task, LARGE_MODEL), .job = FEDERATION_RESTORE, .job_after = 3},
     17,
     false},
    {"a half migrated database goes on",
     "migrate from 1",
     {THREE(late_task, MODEL), .job = FEDERATION_MIGRATE, .job_after = 3, .layout = 1},
     11,
     false},
    {NULL,
     "migrate from 7",
     {THREE(phases_task, MODEL), .job = FEDERATION_MIGRATE, .job_after = 3, .layout = 7},
     11,
     false},
    {NULL,
     "migrate from 8",
     {THREE(phases_task, MODEL), .job = FEDERATION_MIGRATE, .job_after = 3, .layout = 8},
     7,
     false},
    {"nothing is lost where tasks are paused and cancelled",
     "queue",
     {THREE(late_task, MODEL), .one_is_late = true, .job = FEDERATION_QUEUE, .job_after = 3},
     7,
     false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void sweep_case(void **state) {
    const struct sweep_case *c = *state;
    do {
        federation_setup setup = c->setup;
        sweep_kinds(&setup, c->name, c->stride, c->same_digest);
        c++;
    } while (c < cases + CASES && c->test == NULL);
}

static void nothing_is_lost_where_a_process_dies_again_while_it_recovers(void) {
    federation_setup setup = {THREE(late_task, MODEL), .one_is_late = true};
    federation_result calm;
    const federation_fault none = {0};
    federation_prepare(&setup);
    federation_run(&setup, &none, &calm);
    tally t = {.name = "late: died again"};
    fault_list list = {0};
    unsigned stride = whole ? 1 : 19 * FEWER;
    for (unsigned who = 0; who <= setup.devices; who++) {
        for (uint64_t at = 1; at <= calm.calls[who]; at += stride) {
            const fault_kind kind = (fault_kind)(FAULT_KILL + at % FAULT_POWER_TORN);
            add_fault(&list, (federation_fault){
                                 .process = who, .kind = kind, .at = {at, 1 + at * 7 % 23}});
        }
    }
    try_all(&setup, &list, &t);
    print(&t);
    federation_clear(&setup);
    assert_int_equal(t.broken, 0);
}

static void storm(federation_setup *setup, const char *name, uint64_t seeds) {
    federation_prepare(setup);
    tally t = {.name = name};
    fault_list list = {0};
    for (uint64_t seed = 1; seed <= (whole ? seeds : 6 / FEWER); seed++) {
        add_fault(&list, (federation_fault){.storm = seed});
    }
    try_all(setup, &list, &t);
    print(&t);
    federation_clear(setup);
    assert_int_equal(t.broken, 0);
}

static void nothing_is_lost_in_a_storm(void) {
    federation_setup late = {THREE(late_task, MODEL), .one_is_late = true};
    federation_setup private_ = {THREE(private_task, MODEL), .one_is_late = true, .helped = true};
    federation_setup noisy = {FOUR(noisy_private_task), .helped = true, .noisy = true};
    storm(&late, "late: storms", 300);
    storm(&private_, "private: storms", 100);
    storm(&noisy, "noisy private: storms", 60);
}

static void a_coordinator_that_answers_before_it_commits_is_found_out(void) {
    federation_setup setup = {THREE(late_task, MODEL), .one_is_late = true, .acks_early = true};
    federation_prepare(&setup);
    tally t = {.name = "planted: answers too early", .quiet = true};
    for (uint64_t at = 1; at <= 120 && t.histories == 0; at++) {
        const federation_fault fault = {.kind = FAULT_KILL, .at = {at}};
        (void)try(&setup, &fault, &t);
    }
    federation_clear(&setup);
    assert_true(t.broken > 0 && t.histories > 0);
}

static void a_helper_that_opens_a_round_twice_is_found_out(void) {
    federation_setup setup = {THREE(private_task, MODEL), .one_is_late = true, .helped = true,
                              .helper_errs = true};
    federation_prepare(&setup);
    tally t = {.name = "planted: two replies", .quiet = true};
    bool found = false;
    for (uint64_t at = 1; at <= 400 && !found; at += 3) {
        const federation_fault fault = {.kind = FAULT_KILL, .at = {at}};
        federation_result r;
        federation_run(&setup, &fault, &r);
        found = strncmp(r.broken, "S20", 3) == 0;
        t.runs++;
    }
    federation_clear(&setup);
    assert_true(found);
}

/** With a disk that loses synced data, the sweep must find a loss. */
static void find_lie(fault_lie lie, unsigned who, bool apart) {
    federation_setup setup = {THREE(late_task, MODEL), .one_is_late = true, .apart = apart};
    federation_prepare(&setup);
    tally t = {.name = "planted: a disk that loses synced data", .quiet = true};
    for (uint64_t at = 1; at <= 120 && t.broken == 0; at++) {
        const federation_fault fault = {
            .process = who, .kind = FAULT_POWER, .at = {at}, .lie = lie};
        (void)try(&setup, &fault, &t);
    }
    federation_clear(&setup);
    assert_true(t.broken > 0);
}

static void a_disk_that_lies_about_fsync_is_found_out(void) {
    find_lie(FAULT_LIES_ON_ALL, FEDERATION_COORDINATOR, false);
    find_lie(FAULT_LIES_ON_ALL, FEDERATION_COORDINATOR, true);
    find_lie(FAULT_LIES_ON_ALL, 1, false);
}

static void a_directory_that_is_not_synced_is_found_out(void) {
    find_lie(FAULT_LIES_ON_NAMES, FEDERATION_COORDINATOR, false);
    find_lie(FAULT_LIES_ON_NAMES, FEDERATION_COORDINATOR, true);
    find_lie(FAULT_LIES_ON_NAMES, 1, false);
}

static void a_coordinator_is_complete_or_not_there(void) {
    unsigned points = 0;
    for (fault_kind kind = FAULT_KILL; kind < FAULT_KINDS; kind++) {
        uint64_t at = 1 + kind % 3;
        while (federation_init_dies(kind, at)) {
            at += whole ? 1 : 5 * FEWER;
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
        setenv("TMPDIR", "/dev/shm", 1); /* power cuts are simulated, so memory is enough */
    }
    struct CMUnitTest tests[CASES + 7] = {
        fed_unit_test(a_coordinator_that_answers_before_it_commits_is_found_out),
        fed_unit_test(a_disk_that_lies_about_fsync_is_found_out),
        fed_unit_test(a_directory_that_is_not_synced_is_found_out),
        fed_unit_test(a_coordinator_is_complete_or_not_there),
        fed_unit_test(nothing_is_lost_where_a_process_dies_again_while_it_recovers),
        fed_unit_test(nothing_is_lost_in_a_storm),
        fed_unit_test(a_helper_that_opens_a_round_twice_is_found_out),
    };
    size_t count = 7;
    for (size_t k = 0; k < CASES; k++) {
        if (cases[k].test != NULL) {
            tests[count++] = (struct CMUnitTest){.name = cases[k].test,
                                                 .test_func = sweep_case,
                                                 .initial_state = (void *)(uintptr_t)&cases[k]};
        }
    }
    return _cmocka_run_group_tests("sweep", tests, count, NULL, NULL);
}
