/* Sets up the processes of the kill matrix, and keeps them running. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_cluster.h"
#include "fed_port.h"
#include "fed_test.h"
#include "tests/support/faults/fault_disk.h"

enum { TOKEN_LIFE_S = 24 * 3600, POLL_MS = 5, PATIENCE_MS = 600000, PATH_SIZE = 400 };

/* Last parts of addresses 127.0.0.X: coordinator k is at COORDINATORS_AT + k, the lines to it at
 * LINES_AT + k and PEERS_AT + k. The ports are the same everywhere. */
enum { COORDINATORS_AT = 10, LINES_AT = 30, BALANCER_AT = 50, PEERS_AT = 70 };

void kill_break(kill_world *w, const char *format, ...) {
    if (w->broken[0] != '\0') {
        return;
    }
    va_list rest;
    va_start(rest, format);
    vsnprintf(w->broken, sizeof w->broken, format, rest);
    va_end(rest);
}

typedef struct mode {
    const char *model, *codec, *strategy;
    const char *private_keys; /* of a task with a helper, each behind a comma; NULL: it has none */
    unsigned staleness;
    unsigned minimum; /* 0: KILL_GOAL */
    uint32_t piece_bytes;
} mode;

static const mode modes[KILL_MODES] = {
    [KILL_SYNCHRONOUS] = {.model = "input 128 | dense 64 | relu | dense 10",
                          .codec = "topk:p=0.1",
                          .strategy = "fedavg"},
    [KILL_ASYNCHRONOUS] = {.model = "input 128 | dense 64 | relu | dense 10",
                           .codec = "topk:p=0.1",
                           .strategy = "fedavg",
                           .staleness = 4},
    [KILL_MEDIAN] = {.model = "input 64 | dense 16", .codec = "float32", .strategy = "median"},
    [KILL_PIECES] = {.model = "input 512 | dense 512 | relu | dense 10",
                     .codec = "topk:p=0.02",
                     .strategy = "fedavg",
                     .piece_bytes = 8192},
    [KILL_PRIVATE] = {.model = "input 64 | dense 16",
                      .codec = "ring:b=6",
                      .strategy = "fedavg",
                      .private_keys = ""},
    [KILL_GROUPS] = {.model = "input 64 | dense 16",
                     .codec = "ring:b=6",
                     .strategy = "median",
                     .private_keys = ", \"groups\": 3",
                     .minimum = 2},
    /* a device takes part in 8 of 12 rounds, and its own record counts messages that came late */
    [KILL_CLIP] = {.model = "input 64 | dense 16",
                   .codec = "ring:b=6",
                   .strategy = "fedavg",
                   .private_keys = ", \"clip_quantile\": 0.6, \"epsilon\": 100, \"delta\": 0.1,"
                                   " \"participations\": 90"},
};

bool kill_is_helped(kill_mode m) {
    return modes[m].private_keys != NULL;
}

const char *kill_model(kill_mode m) {
    return modes[m].model;
}

/* Write what the task says of its helper, and the helper's key where the helper looks for it. */
static void make_helper(kill_world *w, fedserver *home, char *keys, size_t cap) {
    const fedserver_grant grant = {.ttl_s = TOKEN_LIFE_S, .role = FEDSERVER_ROLE_HELPER};
    uint8_t key[FED_SEAL_KEY];
    char hex[2 * FED_SEAL_KEY + 1], directory[PATH_SIZE];
    fed_error err = {0};
    keys[0] = '\0';
    if (!kill_is_helped(w->setup->mode)) {
        return;
    }
    assert_fed_ok_err(
        fedserver_token_grant(home, fed_clock_unix_ms(), &grant, w->helper_token, &err));
    assert_fed_ok_err(fed_point_new(w->helper_secret, key, &err));
    snprintf(directory, sizeof directory, "%s/helper", w->run.directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    fed_hex(w->helper_secret, sizeof w->helper_secret, hex);
    fed_test_put(directory, "helper.key", hex, strlen(hex));
    fed_hex(key, sizeof key, hex);
    snprintf(keys, cap, ", \"clip\": 0.05, \"helper\": \"%s\"%s", hex,
             modes[w->setup->mode].private_keys);
}

static void make_task(kill_world *w, fedserver *home) {
    const mode *m = &modes[w->setup->mode];
    char text[1000], keys[400];
    make_helper(w, home, keys, sizeof keys);
    snprintf(text, sizeof text,
             "{ \"model\": \"%s\", \"initial\": \"zeros.safetensors\", \"strategy\": \"%s\","
             " \"codec_up\": \"%s\", \"codec_down\": \"float32\", \"rounds\": %u,"
             " \"staleness\": %u, \"cohort\": %d, \"goal\": %d, \"minimum\": %d,"
             " \"deadline_s\": 15, \"device_share\": 1%s }",
             m->model, m->strategy, m->codec, w->setup->rounds, m->staleness, KILL_COHORT,
             KILL_GOAL, m->minimum > 0 ? m->minimum : KILL_GOAL, keys);
    (void)chaos_task(w->run.directory, m->model, text, home);
}

static unsigned add_tcp(kill_world *w, unsigned from, unsigned to, unsigned port) {
    char near[CUT_ADDRESS], far[CUT_ADDRESS];
    snprintf(near, sizeof near, "127.0.0.%u:%u", from, port);
    snprintf(far, sizeof far, "127.0.0.%u:%u", to, port);
    return cut_lines_add(w->lines, near, far);
}

static void store_folder(const kill_world *w, unsigned k, unsigned server, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/store%u%u", w->run.directory, k, server);
}

static unsigned add_local(kill_world *w, unsigned k, unsigned server) {
    char folder[PATH_SIZE], near[PATH_SIZE + 20], far[PATH_SIZE];
    store_folder(w, k, server, folder, sizeof folder);
    snprintf(near, sizeof near, "%s/.s.PGSQL.5432", folder);
    snprintf(far, sizeof far, "%s/.s.PGSQL.5432", w->setup->store->server[server].directory);
    assert_int_equal(mkdir(folder, 0700), 0);
    return cut_lines_add(w->lines, near, far);
}

static void lay_lines(kill_world *w) {
    int at = 0;
    w->front = fed_port_keep();
    w->devices_port = fed_port_keep();
    w->cluster_port = fed_port_keep();
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        for (unsigned server = 0; server < KILL_SERVERS; server++) {
            w->store_line[k][server] = add_local(w, k, server);
        }
        w->device_line[k][0] = add_tcp(w, LINES_AT + k, COORDINATORS_AT + k, w->front);
        w->device_line[k][1] = add_tcp(w, LINES_AT + k, COORDINATORS_AT + k, w->devices_port);
        w->cluster_line[k] = add_tcp(w, PEERS_AT + k, COORDINATORS_AT + k, w->cluster_port);
        at += snprintf(w->servers + at, sizeof w->servers - (size_t)at, "%shttps://127.0.0.%u:%u",
                       k > 0 ? "," : "", LINES_AT + k, w->front);
    }
    w->forwarder.pid = cut_lines_start(w->lines);
}

static void place_balancer(kill_world *w) {
    const unsigned ports[2] = {w->front, w->devices_port};
    char address[20];
    snprintf(address, sizeof address, "127.0.0.%d", BALANCER_AT);
    kill_balancer_configure(w->setup->balancer, w->run.directory, address, ports, LINES_AT,
                            w->setup->coordinators);
    snprintf(w->servers, sizeof w->servers, "https://%s:%u", address, w->front);
}

void kill_world_directory(const kill_world *w, unsigned k, char *dst, size_t cap) {
    snprintf(dst, cap, k == 0 ? "%s/coordinator" : "%s/coordinator%u", w->run.directory, k);
}

void kill_world_log(const kill_world *w, unsigned k, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/coordinator%u.log", w->run.directory, k);
}

/* No answer tells in which round an update counted. So a trigger in PostgreSQL notes it in a table,
 * in the transaction that stores the update. */
static void note_updates(const kill_world *w) {
    fed_postgres_sql(
        kill_store_primary(w->setup->store)->where,
        "DROP TABLE IF EXISTS public.placed;"
        "CREATE TABLE public.placed (lease BIGINT PRIMARY KEY, round BIGINT NOT NULL);"
        "CREATE OR REPLACE FUNCTION public.place() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.placed VALUES (NEW.lease, NEW.round); RETURN NEW; END';"
        "CREATE TRIGGER place AFTER INSERT ON fedserver.updates"
        " FOR EACH ROW EXECUTE FUNCTION public.place()",
        NULL, 0);
}

/* Let other coordinators reach the leader by a line: a trigger changes the address that a leader
 * writes to the store from 127.0.0.10 (COORDINATORS_AT) to 127.0.0.70 (PEERS_AT). */
static void lead_others_to_lines(const kill_world *w) {
    fed_postgres_sql(
        kill_store_primary(w->setup->store)->where,
        "CREATE OR REPLACE FUNCTION public.detour() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN NEW.address = regexp_replace(NEW.address, '^127[.]0[.]0[.]1', '127.0.0.7');"
        " RETURN NEW; END$$;"
        "CREATE TRIGGER detour BEFORE UPDATE OF address ON fedserver.leader"
        " FOR EACH ROW EXECUTE FUNCTION public.detour()",
        NULL, 0);
}

static void name_store(const kill_world *w, unsigned k, char *dst, size_t cap) {
    char first[PATH_SIZE], second[PATH_SIZE];
    store_folder(w, k, 0, first, sizeof first);
    store_folder(w, k, 1, second, sizeof second);
    snprintf(dst, cap, "postgres:host=%s,%s user=fed dbname=postgres", first, second);
}

static void copy_coordinator(const kill_world *w, unsigned k) {
    char from[PATH_SIZE], to[PATH_SIZE], store[3 * PATH_SIZE];
    kill_world_directory(w, 0, from, sizeof from);
    kill_world_directory(w, k, to, sizeof to);
    fed_cluster_copy(from, to);
    name_store(w, k, store, sizeof store);
    fed_test_put(to, "store", store, strlen(store));
}

static void make_coordinator(kill_world *w) {
    char directory[PATH_SIZE], store[3 * PATH_SIZE];
    char hosts[2 * KILL_COORDINATORS][20], balancer[20];
    const char *names[2 * KILL_COORDINATORS + 2] = {NULL};
    fed_error err = {0};
    fedserver *home = NULL;
    for (unsigned k = 0; k < 2 * KILL_COORDINATORS; k++) {
        snprintf(hosts[k], sizeof hosts[k], "127.0.0.%u",
                 k / 2 + (k % 2 == 0 ? COORDINATORS_AT : LINES_AT));
        names[k] = hosts[k];
    }
    snprintf(balancer, sizeof balancer, "127.0.0.%d", BALANCER_AT);
    names[2 * KILL_COORDINATORS] = balancer;
    kill_world_directory(w, 0, directory, sizeof directory);
    name_store(w, 0, store, sizeof store);
    fed_postgres_clear(kill_store_primary(w->setup->store)->where);
    assert_fed_ok_err(
        fedserver_init(directory, &(fedserver_init_options){.hosts = names, .store = store}, &err));
    note_updates(w);
    if (w->setup->coordinators > 1) {
        lead_others_to_lines(w);
    }
    assert_fed_ok_err(fedserver_open(directory, NULL, &home, &err));
    for (unsigned k = 0; k < KILL_DEVICES; k++) {
        assert_fed_ok_err(
            fedserver_token_new(home, fed_clock_unix_ms(), TOKEN_LIFE_S, w->token[k], &err));
    }
    make_task(w, home);
    fedserver_close(home);
    for (unsigned k = 1; k < w->setup->coordinators; k++) {
        copy_coordinator(w, k);
    }
    chaos_read_ca(&w->run, directory);
}

static const char *program_of(const kill_world *w, unsigned k) {
    const char *program = k % 2 == 1 ? w->setup->other : w->setup->program;
    return program != NULL ? program : FED_BIN_DIR "/fedserver";
}

static _Noreturn void become_coordinator(const kill_world *w, unsigned k) {
    char directory[PATH_SIZE], log[PATH_SIZE], address[20], front[16], devices[16], cluster[40];
    const char *program = program_of(w, k);
    kill_world_directory(w, k, directory, sizeof directory);
    kill_world_log(w, k, log, sizeof log);
    snprintf(address, sizeof address, "127.0.0.%u", COORDINATORS_AT + k);
    snprintf(front, sizeof front, "%u", w->front);
    snprintf(devices, sizeof devices, "%u", w->devices_port);
    snprintf(cluster, sizeof cluster, "%s:%u", address, w->cluster_port);
    const char *words[16] = {program, "run",          "--dir", directory,        "--bind",
                             address, "--front-port", front,   "--devices-port", devices};
    size_t n = 10;
    if (w->setup->coordinators > 1) {
        words[n++] = "--cluster";
        words[n++] = cluster;
    }
    if (w->setup->balancer != KILL_NO_BALANCER) { /* the lines connect from 127.0.0.1 */
        words[n++] = "--proxy-protocol";
        words[n++] = "127.0.0.1";
    }
    if (w->setup->plant != NULL) {
        (void)setenv("FED_PLANT", w->setup->plant, 1);
    }
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    execv(program, (char *const *)(uintptr_t)words);
    _exit(127);
}

void kill_world_helper_log(const kill_world *w, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/helper.log", w->run.directory);
}

/* The helper asks the first coordinator, which passes its requests on to the leader. */
static _Noreturn void become_helper(const kill_world *w) {
    char directory[PATH_SIZE], ca[PATH_SIZE], log[PATH_SIZE], home[PATH_SIZE], server[300];
    const char *program = program_of(w, 0);
    snprintf(directory, sizeof directory, "%s/helper", w->run.directory);
    kill_world_directory(w, 0, home, sizeof home);
    snprintf(ca, sizeof ca, "%.380s/ca.pem", home);
    snprintf(server, sizeof server, "%s", w->servers);
    server[strcspn(server, ",")] = '\0';
    kill_world_helper_log(w, log, sizeof log);
    const char *words[] = {program,
                           "helper",
                           "--dir",
                           directory,
                           "--upstream",
                           server,
                           "--upstream-ca",
                           ca,
                           "--upstream-token",
                           w->helper_token,
                           "--least",
                           "2",
                           NULL};
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    execv(program, (char *const *)(uintptr_t)words);
    _exit(127);
}

static void note_helper(kill_world *w, int how) {
    if (chaos_child_note(&w->helper, how, &w->dice) != CHAOS_ENDED_KILLED &&
        WEXITSTATUS(how) != 1) { /* at its first start there may be no coordinator yet */
        kill_break(w, "the helper ended by itself: its log above says why");
    }
}

static void note_coordinator(kill_world *w, unsigned k, int how) {
    chaos_child *c = &w->coordinator[k];
    const bool killed = chaos_child_note(c, how, &w->dice) == CHAOS_ENDED_KILLED;
    for (unsigned server = 0; server < KILL_SERVERS; server++) {
        /* The process ID may soon belong to another process. */
        w->lines->line[w->store_line[k][server]].victim = 0;
    }
    w->lines->line[w->device_line[k][1]].victim = 0;
    w->ended += !killed;
    /* A coordinator may end by itself (S2 in docs/durability.md), because its store failed or
     * because it lost the lead. */
    if (!killed && !(WIFEXITED(how) && WEXITSTATUS(how) == 1)) {
        kill_break(w, "coordinator %u ended with %s %d", k, WIFEXITED(how) ? "status" : "signal",
                   WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    }
}

static void note_device(kill_world *w, unsigned k, int how) {
    if (chaos_child_note(&w->device[k], how, &w->dice) == CHAOS_ENDED_BROKEN) {
        kill_break(w, "device %u failed, and can't just start again: its output above says why", k);
    }
}

static void note_balancer(kill_world *w, int how) {
    if (chaos_child_note(&w->balancer, how, NULL) != CHAOS_ENDED_KILLED) {
        kill_break(w, "the load balancer ended by itself: its log above says why");
    }
}

static void reap(kill_world *w) {
    int how = 0;
    for (pid_t pid = waitpid(-1, &how, WNOHANG); pid > 0; pid = waitpid(-1, &how, WNOHANG)) {
        for (unsigned k = 0; k < w->setup->coordinators; k++) {
            if (w->coordinator[k].pid == pid) {
                note_coordinator(w, k, how);
            }
        }
        if (w->balancer.pid == pid) {
            note_balancer(w, how);
        }
        if (w->helper.pid == pid) {
            note_helper(w, how);
        }
        for (unsigned k = 0; k < KILL_DEVICES; k++) {
            if (w->device[k].pid == pid) {
                note_device(w, k, how);
            }
        }
    }
}

void kill_world_faulted(kill_world *w) {
    w->fault_ms = fed_clock_monotonic_ms();
    w->fault_round = w->run.board->round;
}

static void note_progress(kill_progress *p, unsigned value, int64_t now_ms) {
    if (value != p->seen) {
        const unsigned still_ms = (unsigned)(now_ms - p->since_ms);
        p->still_ms = still_ms > p->still_ms ? still_ms : p->still_ms;
        p->seen = value;
        p->since_ms = now_ms;
    }
}

void kill_world_hangs(kill_world *w) {
    w->updates.still_ms = w->rounds.still_ms = 0;
}

void kill_world_hung(kill_world *w) {
    assert_true(w->hangs < KILL_STRIKES);
    w->no_update_ms[w->hangs] = w->updates.still_ms;
    w->no_version_ms[w->hangs++] = w->rounds.still_ms;
}

static void note_version(kill_world *w, int64_t now_ms) {
    if (w->fault_ms != 0 && w->run.board->round > w->fault_round) {
        assert_true(w->versions < KILL_STRIKES);
        w->version_ms[w->versions++] = (unsigned)(now_ms - w->fault_ms);
        w->fault_ms = 0;
    }
}

unsigned kill_world_tend(kill_world *w) {
    fed_sleep_ms(POLL_MS);
    reap(w);
    const int64_t now_ms = fed_clock_monotonic_ms();
    note_version(w, now_ms);
    note_progress(&w->updates, w->run.board->acknowledged, now_ms);
    note_progress(&w->rounds, w->run.board->round, now_ms);
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        chaos_child *c = &w->coordinator[k];
        if (c->pid == 0 && now_ms >= c->starts_ms && chaos_child_is(c)) {
            become_coordinator(w, k);
        }
    }
    if (w->setup->balancer != KILL_NO_BALANCER && w->balancer.pid == 0 &&
        chaos_child_is(&w->balancer)) {
        kill_balancer_become(w->setup->balancer, w->run.directory);
    }
    if (kill_is_helped(w->setup->mode) && w->helper.pid == 0 && now_ms >= w->helper.starts_ms &&
        chaos_child_is(&w->helper)) {
        become_helper(w);
    }
    return chaos_raise(&w->run, 0, KILL_DEVICES, w->device, w->token);
}

void kill_world_stop(kill_world *w) {
    chaos_child_end(&w->balancer);
    chaos_child_end(&w->helper);
    for (unsigned k = 0; k < KILL_DEVICES; k++) {
        chaos_child_end(&w->device[k]);
    }
    for (unsigned k = 0; k < KILL_COORDINATORS; k++) {
        chaos_child_end(&w->coordinator[k]);
    }
}

void kill_world_open(kill_world *w, const kill_setup *setup) {
    *w = (kill_world){.setup = setup};
    fed_rng_init(&w->dice, setup->seed, 0, 0);
    fed_test_tmpdir(w->run.directory, sizeof w->run.directory);
    w->lines = fault_shared_new(sizeof *w->lines);
    w->run.board = fault_shared_new(sizeof *w->run.board);
    assert_true(w->lines != NULL && w->run.board != NULL);
    w->run.seed = setup->seed;
    w->run.wait_most_ms = 300;
    w->run.train_ms = setup->train_ms;
    w->run.hold_ms = setup->hold_ms;
    w->run.far = -1;
    w->run.servers = w->servers;
    w->run.piece_bytes = modes[setup->mode].piece_bytes;
    lay_lines(w);
    if (setup->balancer != KILL_NO_BALANCER) {
        place_balancer(w);
    }
    make_coordinator(w);
    const int64_t limit_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    while (w->run.board->enrolled < KILL_DEVICES && w->broken[0] == '\0') {
        (void)kill_world_tend(w);
        if (fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "D6: not all devices could enrol");
        }
    }
    w->run.board->storm = 1;
}

void kill_world_close(kill_world *w) {
    kill_world_stop(w);
    chaos_child_end(&w->forwarder);
    fault_shared_free(w->lines, sizeof *w->lines);
    fault_shared_free(w->run.board, sizeof *w->run.board);
    fed_test_rmdir(w->run.directory);
}
