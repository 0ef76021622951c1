/* An edge aggregator dies at one of the calls that change a file, and is started again. Each update
 * that it acknowledged must be sent upstream once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/file.h"
#include "fed_cases.h"
#include "fedserver/edge.h"
#include "tests/support/faults/fault_disk.h"

enum { SIZE = 6, DEVICES = 2, ROUNDS = 3, UPDATES = DEVICES * ROUNDS, LEASE_MS = 100000 };
enum { TURNS_MOST = 100 };

/* Updates are powers of four times this, so that a sum shows how often it contains each update. */
static const float unit = 1.0f / 4096;

enum { EVERY = FED_TEST_SIZE(7, 23) };

typedef struct upstream {
    uint64_t number;
    double total; /* sum of all changes, divided by `unit` */
} upstream;

typedef struct world {
    char directory[256], state[300];
    coordinator home;
    test_device device[DEVICES];
    unsigned *acknowledged; /* a bit for each update; shared memory */
    fault_plan *plan;
} world;

static void upstream_read(const world *w, upstream *u) {
    char path[320];
    uint8_t *data = NULL;
    size_t len = 0;
    *u = (upstream){0};
    snprintf(path, sizeof path, "%s/device", w->state);
    if (fed_file_read(path, sizeof *u, &data, &len, NULL) == FED_OK) {
        assert_int_equal(len, sizeof *u);
        memcpy(u, data, len);
        free(data);
    }
}

static void upstream_write(const world *w, const upstream *u) {
    char path[320];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/device", w->state);
    assert_fed_ok_err(fed_file_replace(path, u, sizeof *u, 0600, &err));
}

static void devices_train(world *w) {
    for (unsigned k = 0; k < DEVICES; k++) {
        const fed_assignment work = device_ask_work(&w->home, &w->device[k]);
        float x[SIZE];
        if (work.action != FED_ACTION_TRAIN) {
            continue;
        }
        const unsigned which = DEVICES * (work.round - 1) + k;
        for (int i = 0; i < SIZE; i++) {
            x[i] = unit * ldexpf(1, 2 * (int)which);
        }
        coordinator_commit(&w->home);
        assert_int_equal(device_upload(&w->home, &w->device[k], &work, x, 10, NULL), 200);
        coordinator_commit(&w->home);
        *w->acknowledged |= 1U << which;
    }
}

static void turn(world *w, fedserver_edge *edge, const fedserver_edge_offer *offer,
                 fedserver_edge_change *change) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_fed_ok_err(fedserver_edge_poll(edge, offer, w->home.now_ms, change, &err));
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    coordinator_wait(&w->home, 10);
}

static void one_round(world *w, fedserver_edge *edge, upstream *u) {
    static const fed_task task = {.id = 7,
                                  .model = "input 2 | dense 2",
                                  .codec_up = "float32",
                                  .local_steps = 1,
                                  .batch = 1,
                                  .optimizer = "sgd",
                                  .learning_rate = 1};
    float values[SIZE];
    fedserver_edge_change change = {.ready = false};
    for (int i = 0; i < SIZE; i++) {
        values[i] = (float)u->number / 3 + (float)i;
    }
    const fedserver_edge_offer offer = {.task = &task,
                                        .version = (uint32_t)u->number,
                                        .values = values,
                                        .size = SIZE,
                                        .number = u->number + 1,
                                        .left_ms = LEASE_MS,
                                        .lease_ms = LEASE_MS};
    turn(w, edge, &offer, &change);
    for (int turns = 0; !change.ready; turns++) {
        assert_true(turns < TURNS_MOST);
        devices_train(w);
        turn(w, edge, &offer, &change);
    }
    u->number++;
    u->total += (double)values[0] / (double)unit * (change.samples / 10);
    upstream_write(w, u);
}

static _Noreturn void live(world *w) {
    const fedserver_edge_rules rules = {.cohort = DEVICES};
    fed_error err = {0};
    fedserver_edge *edge = NULL;
    upstream u;
    coordinator_crash(&w->home);
    assert_fed_ok_err(fedserver_edge_open(w->home.server, w->state, &rules, &edge, &err));
    for (upstream_read(w, &u); u.number < ROUNDS;) {
        one_round(w, edge, &u);
    }
    fedserver_edge_close(edge);
    fedserver_close(w->home.server);
    _exit(0);
}

/* Returns the status of waitpid. */
static int run(world *w) {
    int how = 0;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_test_die_with_parent();
        fault_disk_watch(w->directory, w->plan);
        live(w);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}

static void prepare(world *w) {
    coordinator_setup(&w->home);
    for (unsigned k = 0; k < DEVICES; k++) {
        w->device[k] = coordinator_enrol(&w->home);
    }
    coordinator_commit(&w->home);
    fedserver_close(w->home.server);
    w->home.server = NULL;
    memcpy(w->directory, w->home.directory, sizeof w->directory);
    snprintf(w->state, sizeof w->state, "%.250s/upstream", w->directory);
    assert_fed_ok(fed_dir_make(w->state, 0700, NULL));
    *w->acknowledged = 0;
}

static void report(void *user, fedserver_check_kind kind, const char *text) {
    (void)user;
    if (kind == FEDSERVER_FOUND) {
        print_message("%s\n", text);
    }
}

static void check(world *w, fault_kind kind, uint64_t at) {
    fed_error err = {0};
    fedserver *server = NULL;
    size_t findings = 0;
    upstream u;
    upstream_read(w, &u);
    const uint64_t total = (uint64_t)u.total;
    for (unsigned k = 0; k < UPDATES; k++) {
        const unsigned times = (unsigned)(total >> 2 * k & 3);
        const bool acknowledged = (*w->acknowledged >> k & 1) != 0;
        if (times > 1 || (acknowledged && times == 0)) {
            fail_msg("%s at call %llu (%s): update %u was sent upstream %u times",
                     fault_kind_name(kind), (unsigned long long)at, w->plan->what, k, times);
        }
    }
    assert_int_equal(u.number, ROUNDS);
    assert_fed_ok_err(fedserver_open(w->directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_check(server, report, NULL, &findings, &err));
    assert_int_equal(findings, 0);
    fedserver_close(server);
}

/* Run with a fault at call number `at`. Returns false if the edge aggregator made fewer calls. */
static bool dies_at(world *w, fault_kind kind, uint64_t at) {
    prepare(w);
    *w->plan = (fault_plan){.kind = kind, .at = at, .seed = at};
    const int how = run(w);
    const bool fired = w->plan->fired != 0;
    assert_true(fired ? WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL
                      : WIFEXITED(how) && WEXITSTATUS(how) == 0);
    w->plan->kind = FAULT_NONE;
    if (fired) {
        const int again = run(w);
        assert_true(WIFEXITED(again) && WEXITSTATUS(again) == 0);
    }
    check(w, kind, at);
    fed_test_rmdir(w->directory);
    return fired;
}

FED_TEST(each_update_goes_up_once_wherever_the_edge_dies) {
    static world w;
    unsigned points = 0;
    w.acknowledged = fault_shared_new(sizeof *w.acknowledged);
    w.plan = fault_shared_new(sizeof *w.plan);
    assert_true(w.acknowledged != NULL && w.plan != NULL);
    for (fault_kind kind = FAULT_KILL; kind <= FAULT_POWER_TORN; kind++) {
        for (uint64_t at = 1 + kind; dies_at(&w, kind, at); at += EVERY) {
            points++;
        }
    }
    print_message("%u deaths of the edge aggregator\n", points);
    assert_true(points > 50 / EVERY);
    fault_shared_free(w.acknowledged, sizeof *w.acknowledged);
    fault_shared_free(w.plan, sizeof *w.plan);
}

int main(void) {
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 1); /* power cuts are simulated, so memory is enough */
    }
    return fed_cases_run(NULL, NULL);
}
