/* The chaos run: a coordinator and devices, each a process, over TLS on bad lines. Processes are
 * killed, requests are lost and repeated, the clock jumps, and clients send requests byte by byte.
 * In the end the models must have the same bits as those computed from the acknowledged updates.
 *
 *     e2e.test_chaos                            three runs: 24 devices; 60 with three tasks at a
 *                                               time; 24 that have slots for three tasks each
 *     e2e.test_chaos DEVICES ROUNDS [SEED]      the first run with these numbers
 *
 * With several tasks, each has its own devices, chosen by a tag, or all tasks share the devices. D1
 * to D6 of docs/durability.md are checked for each task. With FED_TEST_STORE=postgres the
 * coordinator's store is a PostgreSQL server, which is killed, too.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_crowd.h"
#include "chaos_log.h"
#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_port.h"
#include "fed_postgres.h"

#define MODEL "input 128 | dense 64 | relu | dense 10"

enum { LORIS = 16, TOKEN_LIFE_S = 24 * 3600, LIMIT_S = 900, POLL_MS = 10 };
/* Early, so that the database is killed in the shortest run, too. */
enum { FIRST_DATABASE_KILL_MS = 1500 };

typedef struct chaos {
    chaos_run run;
    unsigned devices, rounds, tasks;
    char (*token)[FEDSERVER_TOKEN];
    chaos_child *device, coordinator, proxy, loris;
    fed_rng dice;
    unsigned device_kills, coordinator_kills, clock_jumps, again;
    unsigned acknowledged;
    int64_t kill_device_ms, kill_coordinator_ms, jump_ms;
    fed_postgres *database;            /* NULL: the store is SQLite */
    unsigned database_kills, given_up; /* given_up: the coordinator ended by itself */
    int64_t kill_database_ms;
    bool broken;
} chaos;

static unsigned small_devices, small_rounds = 8;
static uint64_t seed = 1;

static unsigned largest_power(unsigned most) {
    unsigned p = 1;
    while (2 * p <= most) {
        p *= 2;
    }
    return p;
}

/** A round has a power of two of updates, so that every mean is exact in float32. */
static void make_task(const chaos *c, unsigned number, fedserver *server) {
    static const char *const codecs[] = {"topk:p=0.1", "topk:p=0.2", "topk:p=0.03"};
    const bool shared = c->run.slots > 1;
    const unsigned devices = shared ? c->devices : c->devices / c->tasks;
    unsigned goal = largest_power(devices * 2 / 3), cohort = goal * 13 / 10;
    char text[600], tag[16];
    snprintf(tag, sizeof tag, "task%u", shared ? 0 : number);
    snprintf(text, sizeof text,
             "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\","
             " \"codec_up\": \"%s\", \"codec_down\": \"float32\", \"rounds\": %u,"
             " \"tag\": \"%s\", \"priority\": %u,"
             " \"cohort\": %u, \"goal\": %u, \"minimum\": %u, \"deadline_s\": 20 }",
             codecs[number % 3], c->rounds + 2 * number, tag, shared ? 1 : 1 + number,
             cohort < devices ? cohort : devices, goal, goal);
    (void)chaos_task(c->run.directory, MODEL, text, server);
}

static void prepare(chaos *c) {
    static const char *const hosts[] = {"127.0.0.1", CHAOS_NEAR, NULL};
    char path[400];
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_tmpdir(c->run.directory, sizeof c->run.directory);
    snprintf(path, sizeof path, "%s/coordinator", c->run.directory);
    char store[400];
    if (c->database != NULL) {
        fed_postgres_open(c->database);
        c->run.board->database_dies = 1;
        snprintf(store, sizeof store, "postgres:%s", c->database->where);
    }
    const fedserver_init_options options = {.hosts = hosts,
                                            .store = c->database != NULL ? store : NULL};
    assert_fed_ok_err(fedserver_init(path, &options, &err));
    assert_fed_ok_err(fedserver_open(path, NULL, &server, &err));
    for (unsigned k = 0; k < c->devices; k++) {
        char tag[16];
        snprintf(tag, sizeof tag, "task%u", c->run.slots > 1 ? 0 : k % c->tasks);
        const fedserver_grant grant = {.ttl_s = TOKEN_LIFE_S, .tag = tag};
        assert_fed_ok_err(
            fedserver_token_grant(server, fed_clock_unix_ms(), &grant, c->token[k], &err));
    }
    for (unsigned number = 0; number < c->tasks; number++) {
        make_task(c, number, server);
    }
    fedserver_close(server);
    chaos_read_ca(&c->run, path);
}

static void note_end(chaos *c, unsigned k, int how) {
    const chaos_end end = chaos_child_note(&c->device[k], how, &c->dice);
    c->again += end == CHAOS_ENDED_AGAIN;
    c->broken |= end == CHAOS_ENDED_BROKEN;
}

static void reap(chaos *c) {
    int how = 0;
    for (pid_t pid = waitpid(-1, &how, WNOHANG); pid > 0; pid = waitpid(-1, &how, WNOHANG)) {
        if (pid == c->coordinator.pid) {
            const chaos_end end = chaos_child_note(&c->coordinator, how, NULL);
            const bool gave_up = c->database != NULL && end == CHAOS_ENDED_AGAIN;
            c->given_up += gave_up;
            c->broken |= !gave_up && end != CHAOS_ENDED_KILLED;
        }
        for (unsigned k = 0; k < c->devices; k++) {
            if (c->device[k].pid == pid) {
                note_end(c, k, how);
            }
        }
    }
}

/** Start the coordinator and the devices that do not run. Returns how many have not finished. */
static unsigned raise_all(chaos *c) {
    if (c->coordinator.pid == 0 && chaos_child_is(&c->coordinator)) {
        chaos_coordinator(&c->run);
    }
    return chaos_raise(&c->run, 0, c->devices, c->device, c->token);
}

static void strike(chaos *c) {
    static const int64_t jumps_ms[] = {0, 30000, -30000, 600000, -600000, 1800000, -1800000};
    chaos_child *victim = &c->device[fed_rng_below(&c->dice, c->devices)];
    /* Limit the kills by the progress. Otherwise devices on a busy machine would spend all time on
     * starting. */
    const bool spared = c->device_kills >= c->devices + 2 * c->run.board->acknowledged;
    if (!spared && chaos_is_due(&c->dice, &c->kill_device_ms, 2400 / c->devices + 100) &&
        victim->pid > 0) {
        (void)kill(victim->pid, SIGKILL);
        c->device_kills++;
    }
    /* Kill the coordinator only after progress, so that the test ends on a slow machine. */
    bool got_on = c->run.board->acknowledged > c->acknowledged + c->devices / 16;
    if (got_on && c->coordinator.pid > 0 &&
        (chaos_is_due(&c->dice, &c->kill_coordinator_ms, 800 + 12 * (int64_t)c->devices) ||
         c->coordinator_kills == 0)) {
        c->acknowledged = c->run.board->acknowledged;
        (void)kill(c->coordinator.pid, SIGKILL);
        c->coordinator_kills++;
    }
    if (c->database != NULL && (chaos_is_due(&c->dice, &c->kill_database_ms, 3000) ||
                                (got_on && c->database_kills == 0))) {
        fed_postgres_kill(c->database);
        fed_postgres_start(c->database);
        c->database_kills++;
    }
    if (chaos_is_due(&c->dice, &c->jump_ms, 700 + 20 * (int64_t)c->devices)) {
        c->run.board->clock_ahead_ms =
            jumps_ms[fed_rng_below(&c->dice, sizeof jumps_ms / sizeof jumps_ms[0])];
        c->clock_jumps++;
    }
}

static void live(chaos *c) {
    const int64_t limit = fed_clock_monotonic_ms() + 1000 * (int64_t)LIMIT_S;
    if (chaos_child_is(&c->proxy)) {
        chaos_proxy(&c->run);
    }
    if (chaos_child_is(&c->coordinator)) {
        chaos_coordinator(&c->run);
    }
    while (c->run.board->front == 0 || c->run.board->proxy_devices == 0) {
        fed_sleep_ms(POLL_MS);
    }
    for (unsigned left = c->devices; left > 0 && !c->broken; left = raise_all(c)) {
        fed_sleep_ms(POLL_MS);
        reap(c);
        if (c->run.board->storm != 0) {
            strike(c);
        } else if (c->run.board->enrolled >= c->devices) {
            c->run.board->storm = 1;
            if (chaos_child_is(&c->loris)) {
                chaos_loris(&c->run, LORIS);
            }
        }
        if (fed_clock_monotonic_ms() > limit) {
            printf("D6 in docs/durability.md: %u devices are not finished after %d s\n", left,
                   LIMIT_S);
            c->broken = true;
        }
    }
    c->run.board->over = 1;
    chaos_child_end(&c->coordinator);
    chaos_child_end(&c->proxy);
    chaos_child_end(&c->loris);
    for (unsigned k = 0; k < c->devices; k++) {
        chaos_child_end(&c->device[k]);
    }
}

static unsigned far_devices(const chaos *c) {
    return (c->devices + CHAOS_FAR_EVERY - 1) / CHAOS_FAR_EVERY;
}

static void print(const chaos *c, const federation_result *r, int64_t ms) {
    const chaos_board *b = c->run.board;
    printf("%u devices, %u rounds in %.1f s: %u updates acknowledged, %u lost, %u counted twice\n"
           "  killed: coordinator %u, devices %u; started again by themselves: %u\n"
           "  lines: %u, of these broken %u, slow %u, stalled %u; slow loris %u\n"
           "  requests: repeated %u, stale %u, answers lost %u; clock jumps %u\n"
           "  final model %016llx, as computed in calm: %s\n",
           c->devices, c->rounds, 1e-3 * (double)ms, r->counted, r->lost, r->twice,
           c->coordinator_kills, c->device_kills, c->again, b->lines, b->broken_lines,
           b->slow_lines, b->stalled_lines, b->loris, b->repeated, b->stale, b->lost_answers,
           c->clock_jumps, (unsigned long long)r->digest,
           r->broken[0] == '\0' ? "the same bits" : r->broken);
    if (c->database != NULL) {
        printf(
            "  the store's server was killed %u times, and %u coordinators ended because of it\n",
            c->database_kills, c->given_up);
    }
    if (c->run.far >= 0) {
        unsigned long bytes = 0, held = chaos_net_held_back(&c->run, &bytes);
        printf("  %u devices behind a line that brought them %lu bytes: %lu packets had to wait\n",
               far_devices(c), bytes, held);
    }
    fflush(stdout);
}

static unsigned came_back(const federation *f, uint64_t task) {
    unsigned times = 0;
    for (size_t k = 1; k < f->training_count; k++) {
        bool before = false;
        const federation_training *t = f->trainings;
        const bool switches =
            t[k].task == task && t[k - 1].device == t[k].device && t[k - 1].task != task;
        for (size_t earlier = 0; switches && earlier < k; earlier++) {
            before = before || (t[earlier].device == t[k].device && t[earlier].task == task);
        }
        times += before;
    }
    return times;
}

static void check(const chaos *c, uint64_t task, federation_result *result, unsigned *returns) {
    const bool shared = c->run.slots > 1;
    federation_setup setup = {
        .model = MODEL, .devices = c->devices, .tasks = c->tasks, .shared = shared};
    federation f;
    chaos_judge(&f, &setup, c->run.directory, result);
    f.task = task;
    for (unsigned k = shared ? 0 : (unsigned)task - 1; k < c->devices; k += shared ? 1 : c->tasks) {
        chaos_log_read(c->run.directory, k, &f);
    }
    federation_check(&f);
    *returns = came_back(&f, task);
    federation_forget(&f);
}

static bool on_postgres(void) {
    const char *store = getenv("FED_TEST_STORE");
    return store != NULL && strcmp(store, "postgres") == 0;
}

static void run_chaos(unsigned devices, unsigned rounds, unsigned tasks, unsigned slots) {
    fed_postgres server;
    chaos c = {.devices = devices, .rounds = rounds, .tasks = tasks};
    c.database = on_postgres() ? &server : NULL;
    c.run.seed = seed;
    c.run.slots = slots;
    c.run.wait_most_ms = 500 + 10 * c.devices;
    c.run.board = fault_shared_new(sizeof *c.run.board);
    assert_non_null(c.run.board);
    c.token = calloc(c.devices, sizeof *c.token);
    c.device = calloc(c.devices, sizeof *c.device);
    assert_true(c.token != NULL && c.device != NULL);
    fed_rng_init(&c.dice, seed, 0, 0);
    prepare(&c);
    chaos_net_open(&c.run, far_devices(&c));
    c.run.front_port = fed_port_keep();
    c.run.devices_port = fed_port_keep();
    const int64_t begun_ms = fed_clock_monotonic_ms();
    c.kill_database_ms = begun_ms + FIRST_DATABASE_KILL_MS;
    live(&c);
    const int64_t took_ms = fed_clock_monotonic_ms() - begun_ms;
    unsigned unsound = 0;
    for (uint64_t task = 1; task <= c.tasks && !c.broken; task++) {
        federation_result result = {0};
        unsigned returns = 0;
        check(&c, task, &result, &returns);
        print(&c, &result, took_ms);
        if (slots > 1) {
            printf("  task %u: devices came back to it %u times\n", (unsigned)task, returns);
            unsound += returns == 0;
        }
        unsound += result.broken[0] != '\0';
    }
    if (c.database != NULL) {
        fed_postgres_close(c.database);
    }
    fed_test_rmdir(c.run.directory);
    free(c.token);
    free(c.device);
    fault_shared_free(c.run.board, sizeof *c.run.board);
    assert_false(c.broken);
    assert_int_equal(unsound, 0);
    assert_true(c.coordinator_kills > 0 && c.device_kills > 0);
    assert_true(c.database == NULL || c.database_kills > 0);
    unsigned long bytes = 0;
    (void)chaos_net_held_back(&c.run, &bytes);
    assert_true(c.run.far < 0 || bytes > 0);
}

FED_TEST(the_model_is_what_a_calm_computation_makes_of_the_counted_updates) {
    run_chaos(small_devices > 0 ? small_devices : FED_TEST_TRIES(24, 8), small_rounds, 1, 1);
}

FED_TEST(so_is_each_of_three_models_that_train_side_by_side) {
    run_chaos(FED_TEST_TRIES(60, 12), FED_TEST_TRIES(6, 4), 3, 1);
}

FED_TEST(so_is_each_of_three_models_of_the_same_devices) {
    run_chaos(FED_TEST_TRIES(24, 6), FED_TEST_TRIES(6, 4), 3, 3);
}

int main(int argc, char **argv) {
    if (argc >= 3) {
        small_devices = (unsigned)strtoul(argv[1], NULL, 10);
        small_rounds = (unsigned)strtoul(argv[2], NULL, 10);
        seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    }
    if (on_postgres() && !fed_postgres_is_there()) {
        return 77;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    return fed_cases_run(NULL, NULL);
}
