/* The store's disk fills up and is freed again, while devices train over TLS. Nothing acknowledged
 * may be lost or counted twice (docs/durability.md). Skipped if the test may not mount a file
 * system. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: unshare */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_crowd.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_port.h"
#include "fed_postgres.h"
#include "tests/support/faults/fault_disk.h"

#define MODEL "input 256 | dense 128 | relu | dense 10"

enum { SKIPPED = 77, DEVICES = 8, LIMIT_S = 600, POLL_MS = 5, TOKEN_LIFE_S = 24 * 3600 };
enum { BETWEEN = 4 };

/* A round has a power of two of updates, so that every mean is exact in float32. */
static const char task[] = "{ \"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\","
                           " \"codec_up\": \"topk:p=0.5\", \"codec_down\": \"float32\","
                           " \"rounds\": 16, \"cohort\": 6, \"goal\": 4, \"minimum\": 4,"
                           " \"deadline_s\": 20 }";

typedef struct world {
    chaos_run run;
    char url[64], small[400], log[400], out[400];
    fed_postgres *database; /* NULL: the store is SQLite */
    chaos_child device[DEVICES], coordinator;
    char token[DEVICES][FEDSERVER_TOKEN];
    unsigned fills, fills_most;
    bool full;
    unsigned ends;
    bool held;
    unsigned acknowledged;
} world;

static void mount_small(world *w, const char *name, const char *size) {
    char options[64];
    snprintf(w->small, sizeof w->small, "%s/%s", w->run.directory, name);
    snprintf(options, sizeof options, "size=%s,mode=0755", size);
    assert_int_equal(mkdir(w->small, 0755), 0);
    assert_int_equal(mount("tmpfs", w->small, "tmpfs", 0, options), 0);
}

static void name_ballast(const world *w, char path[500]) {
    snprintf(path, 500, "%s/ballast", w->small);
}

static void fill(world *w) {
    char path[500];
    off_t at = 0;
    name_ballast(w, path);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    for (off_t piece = 1 << 20; piece >= 4096; piece /= 2) {
        while (posix_fallocate(file, at, piece) == 0) {
            at += piece;
        }
    }
    close(file);
    w->full = true;
    w->ends = 0;
    w->fills++;
}

static void make_room(world *w) {
    char path[500];
    name_ballast(w, path);
    assert_int_equal(unlink(path), 0);
    w->full = false;
    w->acknowledged = w->run.board->acknowledged;
    if (w->database != NULL) {
        fed_postgres_start(w->database);
    }
}

static void start_database(world *w) {
    const char *before = getenv("TMPDIR");
    char kept[400] = "";
    snprintf(kept, sizeof kept, "%s", before != NULL ? before : "");
    assert_int_equal(chmod(w->run.directory, 0711), 0);
    mount_small(w, "pg", "96m");
    assert_int_equal(setenv("TMPDIR", w->small, 1), 0);
    fed_postgres_open(w->database);
    (void)(before != NULL ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"));
    assert_int_equal(strncmp(w->database->directory, w->small, strlen(w->small)), 0);
}

static void prepare(world *w) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    char path[400], store[400];
    fed_error err = {0};
    fedserver *server = NULL;
    if (w->database != NULL) {
        start_database(w);
        snprintf(store, sizeof store, "postgres:%s", w->database->where);
    } else {
        mount_small(w, "coordinator", "24m");
    }
    const fedserver_init_options options = {.hosts = hosts,
                                            .store = w->database != NULL ? store : NULL};
    snprintf(path, sizeof path, "%s/coordinator", w->run.directory);
    assert_fed_ok_err(fedserver_init(path, &options, &err));
    assert_fed_ok_err(fedserver_open(path, NULL, &server, &err));
    for (unsigned k = 0; k < DEVICES; k++) {
        assert_fed_ok_err(
            fedserver_token_new(server, fed_clock_unix_ms(), TOKEN_LIFE_S, w->token[k], &err));
    }
    assert_int_equal(chaos_task(w->run.directory, MODEL, task, server), 1);
    fedserver_close(server);
    chaos_read_ca(&w->run, path);
}

static void open_world(world *w, bool postgres) {
    static fed_postgres server;
    *w = (world){.database = postgres ? &server : NULL};
    w->run.board = fault_shared_new(sizeof *w->run.board);
    assert_non_null(w->run.board);
    w->fills_most = FED_TEST_TRIES(5, 2);
    w->run.seed = 1;
    w->run.slots = 1;
    w->run.far = -1;
    w->run.wait_most_ms = 200;
    w->run.front_port = fed_port_keep();
    w->run.devices_port = fed_port_keep();
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", (unsigned)w->run.front_port);
    w->run.servers = w->url;
    fed_test_tmpdir(w->run.directory, sizeof w->run.directory);
    snprintf(w->log, sizeof w->log, "%s/log", w->run.directory);
    snprintf(w->out, sizeof w->out, "%s/out", w->run.directory);
    prepare(w);
}

static void close_world(world *w) {
    if (w->database != NULL) {
        fed_postgres_close(w->database);
    }
    assert_int_equal(umount2(w->small, MNT_DETACH), 0);
    fed_test_rmdir(w->run.directory);
    fault_shared_free(w->run.board, sizeof *w->run.board);
}

static void become_coordinator(const world *w) {
    char directory[400], front[16], devices[16];
    snprintf(directory, sizeof directory, "%s/coordinator", w->run.directory);
    snprintf(front, sizeof front, "%u", (unsigned)w->run.front_port);
    snprintf(devices, sizeof devices, "%u", (unsigned)w->run.devices_port);
    const int log = open(w->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const int out = open(w->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log < 0 || out < 0 || dup2(out, 1) < 0 || dup2(log, 2) < 0) {
        _exit(126);
    }
    execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", directory, "--front-port", front,
          "--devices-port", devices, "--quiet", (char *)NULL);
    _exit(127);
}

static void start_coordinator(world *w) {
    (void)unlink(w->out);
    if (chaos_child_is(&w->coordinator)) {
        become_coordinator(w);
    }
}

static void print_log(const world *w) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error none = {0};
    if (fed_file_read(w->log, 1 << 24, &text, &len, &none) == FED_OK) {
        printf("%s", (const char *)text);
    }
    free(text);
}

/* Note that the coordinator has ended, which it may do only with exit status 1 while its disk is
 * full. */
static void note_coordinator(world *w, int how) {
    w->coordinator.pid = 0;
    if (!w->full || !WIFEXITED(how) || WEXITSTATUS(how) != 1) {
        print_log(w);
        fail_msg("the coordinator ended with wait status %d while its disk was %s", how,
                 w->full ? "full" : "not full");
    }
}

static void reap(world *w) {
    int how = 0;
    const pid_t coordinator = w->coordinator.pid;
    if (coordinator > 0 && waitpid(coordinator, &how, WNOHANG) == coordinator) {
        note_coordinator(w, how);
    }
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child *d = &w->device[k];
        if (d->pid > 0 && waitpid(d->pid, &how, WNOHANG) == d->pid) {
            if (chaos_child_note(d, how, NULL) > CHAOS_ENDED_AGAIN) {
                print_log(w);
                fail_msg("device %u ended with wait status %d", k, how);
            }
        }
    }
}

static void signal_devices(const world *w, int number) {
    for (unsigned k = 0; k < DEVICES; k++) {
        if (w->device[k].pid > 0) {
            assert_int_equal(kill(w->device[k].pid, number), 0);
        }
    }
}

/* Start the coordinator again. The first time, the disk stays full, and the devices are stopped
 * until let_go_when_ready. */
static void raise_coordinator(world *w) {
    w->held = w->ends++ == 0;
    if (w->held) {
        signal_devices(w, SIGSTOP);
    } else {
        make_room(w);
    }
    start_coordinator(w);
}

/* Continue the stopped devices when the coordinator is ready (has printed a line) or has ended. */
static void let_go_when_ready(world *w) {
    struct stat file;
    const bool ready = stat(w->out, &file) == 0 && file.st_size > 0;
    if (w->held && (ready || w->coordinator.pid == 0)) {
        signal_devices(w, SIGCONT);
        w->held = false;
    }
}

static void live(world *w) {
    const int64_t end_ms = fed_clock_monotonic_ms() + 1000 * (int64_t)LIMIT_S;
    start_coordinator(w);
    for (unsigned left = DEVICES; left > 0;
         left = chaos_raise(&w->run, 0, DEVICES, w->device, w->token)) {
        chaos_board *board = w->run.board;
        reap(w);
        let_go_when_ready(w);
        board->storm = board->enrolled >= DEVICES;
        if (w->coordinator.pid == 0) {
            raise_coordinator(w);
        } else if (!w->full && w->fills < w->fills_most &&
                   board->acknowledged >= w->acknowledged + BETWEEN) {
            fill(w);
        }
        if (fed_clock_monotonic_ms() > end_ms) {
            print_log(w);
            fail_msg("D6 in docs/durability.md: %u devices are not finished after %d s", left,
                     LIMIT_S);
        }
        fed_sleep_ms(POLL_MS);
    }
}

/* The coordinator may fail only while the disk is full. */
static void stop_coordinator(world *w) {
    int how = 0;
    assert_int_equal(kill(w->coordinator.pid, SIGTERM), 0);
    assert_int_equal(waitpid(w->coordinator.pid, &how, 0), w->coordinator.pid);
    assert_true(WIFEXITED(how) && (WEXITSTATUS(how) == 0 || (w->full && WEXITSTATUS(how) == 1)));
    if (w->full) {
        make_room(w);
    }
}

static bool log_says(const world *w, const char *words) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(w->log, 1 << 24, &text, &len, &err));
    const bool says = strstr((const char *)text, words) != NULL;
    free(text);
    return says;
}

static void check(const world *w) {
    federation_result result = {0};
    const federation_setup setup = {.model = MODEL, .devices = DEVICES, .tasks = 1};
    chaos_judge_all(&setup, w->run.directory, &result);
    printf("%u updates acknowledged, %u lost, %u counted twice; the disk was full %u times; "
           "coordinators: %u\n",
           result.counted, result.lost, result.twice, w->fills, w->coordinator.lives);
    assert_string_equal(result.broken, "");
}

static void run_on(bool postgres) {
    static world w;
    open_world(&w, postgres);
    live(&w);
    stop_coordinator(&w);
    check(&w);
    assert_true(w.fills > 0 && w.coordinator.lives > 1);
    assert_true(log_says(&w, "disk is full"));
    close_world(&w);
}

FED_TEST(nothing_acknowledged_is_lost_on_a_full_disk_with_sqlite) {
    run_on(false);
}

FED_TEST(nothing_acknowledged_is_lost_on_a_full_disk_with_postgresql) {
    if (!fed_postgres_is_there()) {
        skip();
    }
    run_on(true);
}

static bool may_mount(void) {
    char place[300];
    fed_test_tmpdir(place, sizeof place);
    const bool may = unshare(CLONE_NEWNS) == 0 &&
                     mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                     mount("tmpfs", place, "tmpfs", 0, "size=1m") == 0 && umount(place) == 0;
    (void)rmdir(place);
    return may;
}

int main(void) {
    if (!may_mount()) {
        fputs("skipped: the system lets this test mount no small disk\n", stderr);
        return SKIPPED;
    }
    return fed_cases_run(NULL, NULL);
}
