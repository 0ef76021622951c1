/* A private task with its helper, all as programs, of which some are killed, lost or restored. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed_digits.h"
#include "fed_operator.h"
#include "fed_program.h"

enum {
    LIMIT_MS = 240 * 1000,
    DEVICES = 3,
    SIXFOLD = 6,
    ROUNDS = 40,
    FEW = 12,
    MOST = 4 << 20,
    WORDS = 20
};

typedef struct world {
    fed_program p;
    char home[300], ca[320], out[300], log[300], helper_log[300], url[64];
    const char *helper; /* its folder */
    const char *pin;    /* file with the keys of the helper that devices trust; NULL: any helper */
    unsigned rounds, cohort, fleet;
    unsigned front, devices; /* ports; 0: not known yet */
    char helper_token[FEDSERVER_TOKEN], next_token[FEDSERVER_TOKEN],
        token[SIXFOLD][FEDSERVER_TOKEN];
} world;

static int setup(void **state) {
    static world w;
    w = (world){.helper = "h", .rounds = ROUNDS, .cohort = DEVICES, .fleet = DEVICES};
    fed_program_open(&w.p, "fedserver");
    snprintf(w.home, sizeof w.home, "%s/c", w.p.directory);
    snprintf(w.ca, sizeof w.ca, "%s/ca.pem", w.home);
    snprintf(w.out, sizeof w.out, "%s/out", w.p.directory);
    snprintf(w.log, sizeof w.log, "%s/log", w.p.directory);
    snprintf(w.helper_log, sizeof w.helper_log, "%s/helper.log", w.p.directory);
    fed_digits_write(w.p.directory, 300, 20);
    assert_runs(&w.p, "init --dir c --host 127.0.0.1", 0, "");
    const fedserver_grant device = {.ttl_s = 3600, .role = FEDSERVER_ROLE_DEVICE};
    const fedserver_grant helper = {.ttl_s = 3600, .role = FEDSERVER_ROLE_HELPER};
    for (size_t k = 0; k < SIXFOLD; k++) {
        fed_operator_token(w.home, &device, w.token[k]);
    }
    fed_operator_token(w.home, &helper, w.helper_token);
    fed_operator_token(w.home, &helper, w.next_token);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_program_close(&w->p);
    return 0;
}

static pid_t spawn(const char *const *args, const char *out, const char *log) {
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
        alarm(300);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

static void kill_it(pid_t pid) {
    int how = 0;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
}

/* Return the contents of a file as a text; "": there is no file yet. The caller frees it. */
static char *text_of(const char *path) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (fed_file_read(path, MOST, &bytes, &len, NULL) != FED_OK) {
        bytes = calloc(1, 1);
    }
    assert_non_null(bytes);
    return (char *)bytes;
}

/* Return the number in the last line with these words, as in "round 7: closes with"; 0: none. */
static unsigned last_round(const char *log, const char *words) {
    char *text = text_of(log);
    unsigned round = 0;
    for (char *at = text; (at = strstr(at, "round ")) != NULL; at++) {
        char *end = NULL;
        const unsigned number = (unsigned)strtoul(at + 6, &end, 10);
        if (strncmp(end, words, strlen(words)) == 0) {
            round = number;
        }
    }
    free(text);
    return round;
}

/* The number that follows the last of these words; 0: there is none. */
static unsigned last_after(const char *log, const char *words) {
    char *text = text_of(log);
    unsigned number = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL;) {
        at += strlen(words);
        number = (unsigned)strtoul(at, NULL, 10);
    }
    free(text);
    return number;
}

static size_t count(const char *log, const char *words) {
    char *text = text_of(log);
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        found++;
    }
    free(text);
    return found;
}

static void pause_until(int64_t until_ms) {
    assert_true(fed_clock_monotonic_ms() < until_ms);
    fed_sleep_ms(10);
}

static void await(const char *log, const char *words) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (count(log, words) == 0) {
        pause_until(until_ms);
    }
}

static pid_t start_coordinator(world *w) {
    char front[12], devices[12];
    snprintf(front, sizeof front, "%u", w->front);
    snprintf(devices, sizeof devices, "%u", w->devices);
    const char *const args[] = {
        FED_BIN_DIR "/fedserver", "run",   "--dir", w->home, "--front-port", front,
        "--devices-port",         devices, NULL};
    (void)unlink(w->out);
    const pid_t pid = spawn(args, w->out, w->log);
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    for (bool ready = false; !ready;) {
        char *text = text_of(w->out);
        ready = sscanf(text, "front https://127.0.0.1:%u/ devices https://127.0.0.1:%u", &w->front,
                       &w->devices) == 2;
        free(text);
        if (!ready) {
            pause_until(until_ms);
        }
    }
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->front);
    return pid;
}

/* token: NULL: the helper is enrolled already. */
static pid_t start_helper(const world *w, const char *token) {
    char directory[300], out[300];
    snprintf(directory, sizeof directory, "%s/%s", w->p.directory, w->helper);
    snprintf(out, sizeof out, "%s/helper.out", w->p.directory);
    const char *const args[WORDS] = {FED_BIN_DIR "/fedserver",
                                     "helper",
                                     "--dir",
                                     directory,
                                     "--upstream",
                                     w->url,
                                     "--upstream-ca",
                                     w->ca,
                                     "--least",
                                     "2",
                                     token != NULL ? "--upstream-token" : NULL,
                                     token,
                                     NULL};
    return spawn(args, out, w->helper_log);
}

/* Wait for the helper's key. */
static void await_key(const world *w, char path[320]) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    snprintf(path, 320, "%s/%s/helper.pem", w->p.directory, w->helper);
    while (access(path, R_OK) != 0) {
        pause_until(until_ms);
    }
}

/* Queue a task that names the helper. rest: further keys. */
static void queue_task(world *w, const char *rest) {
    char path[320], json[800];
    await_key(w, path);
    char *key = text_of(path);
    snprintf(json, sizeof json,
             "{\"model\": \"lr\", \"rounds\": %u, \"cohort\": %u, \"minimum\": %u,\n"
             " \"deadline_s\": 600, \"local_steps\": 2, \"codec_up\": \"ring:b=5\", \"clip\": 1,\n"
             " \"codec_down\": \"float32\", \"helper\": \"%s\"%s}\n",
             w->rounds, w->cohort, w->cohort, key, rest);
    free(key);
    fed_test_put(w->p.directory, "task.json", json, strlen(json));
    assert_runs(&w->p, "task --dir c task.json", 0, "task 1 is queued");
}

static pid_t start_device(const world *w, unsigned k) {
    char state[320], shard[16], out[320], log[320];
    snprintf(state, sizeof state, "%s/device%u", w->p.directory, k);
    snprintf(out, sizeof out, "%s/device%u.out", w->p.directory, k);
    snprintf(log, sizeof log, "%s/device%u.log", w->p.directory, k);
    snprintf(shard, sizeof shard, "%u/%u", k, w->fleet);
    const char *const args[] = {FED_BIN_DIR "/fedclientd",
                                "--server",
                                w->url,
                                "--ca",
                                w->ca,
                                "--state",
                                state,
                                "--data",
                                w->p.directory,
                                "--shard",
                                shard,
                                "--token",
                                w->token[k],
                                "--until-finished",
                                w->pin != NULL ? "--helper" : NULL,
                                w->pin,
                                NULL};
    return spawn(args, out, log);
}

/* Kill the helper, and wait until a round closes that nobody opens. The coordinator dies first, so
 * that no reply of the helper is on its way. It may die between a commit and the commit's line in
 * the log, so the round is the one that its next start goes on with. */
static unsigned orphan_a_round(world *w, pid_t *coordinator, pid_t helper) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    kill_it(*coordinator);
    kill_it(helper);
    *coordinator = start_coordinator(w);
    const unsigned open = last_after(w->log, "goes on with round ");
    assert_true(open > 0);
    while (last_round(w->log, ": closes with") < open) {
        pause_until(until_ms);
    }
    return open;
}

/* Each of these rounds is in the model once. A coordinator that dies may have committed a round
 * without a line in the log. */
static void expect_committed_once(world *w, unsigned rounds) {
    char words[80];
    snprintf(words, sizeof words, "%u of %u rounds", rounds, rounds);
    assert_runs(&w->p, "tasks --dir c", 0, words);
    for (unsigned k = 1; k <= rounds; k++) {
        snprintf(words, sizeof words, " round %u: committed with %u updates", k, w->cohort);
        assert_in_range(count(w->log, words), 0, 1);
    }
    assert_true(last_round(w->log, ": committed with") <= rounds);
}

/* Each device ends when the task is finished. */
static void await_devices(const pid_t *device, unsigned devices) {
    for (unsigned k = 0; k < devices; k++) {
        int how = 0;
        assert_int_equal(waitpid(device[k], &how, 0), device[k]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
}

FED_TEST_WITH(helper_and_coordinator_are_killed_and_each_round_commits_once, world *w) {
    pid_t device[DEVICES];
    pid_t coordinator = start_coordinator(w), helper = start_helper(w, w->helper_token);
    queue_task(w, "");
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    const unsigned closed = orphan_a_round(w, &coordinator, helper);
    kill_it(coordinator);
    coordinator = start_coordinator(w);
    assert_true(last_round(w->log, ": committed with") < closed);
    char key[320];
    snprintf(key, sizeof key, "%s/h/helper.pem", w->p.directory);
    assert_int_equal(unlink(key), 0); /* as if the first start had ended before it was written */
    helper = start_helper(w, NULL);
    await_devices(device, DEVICES);
    expect_committed_once(w, ROUNDS);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    assert_true(count(w->helper_log, "a sum of 3 devices") >= ROUNDS);
    assert_int_equal(access(key, R_OK), 0);
    kill_it(helper);
    kill_it(coordinator);
}

/* As docs/operate.md says: another helper, with a key of its own, and the round is voided. */
FED_TEST_WITH(a_helper_whose_disk_is_lost_is_replaced, world *w) {
    pid_t device[DEVICES];
    char key[320], command[400];
    w->rounds = FEW;
    pid_t coordinator = start_coordinator(w);
    pid_t helper = start_helper(w, w->helper_token);
    queue_task(w, "");
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    const unsigned closed = orphan_a_round(w, &coordinator, helper);
    w->helper = "h2"; /* nothing of the first one's disk is left */
    helper = start_helper(w, w->next_token);
    await_key(w, key);
    snprintf(command, sizeof command, "round %u of task 1 has 3 updates", closed);
    assert_runs(&w->p, "reopen --dir c --helper h2/helper.pem 1", 1, command);
    assert_int_equal(last_round(w->log, ": closes with"), closed);
    snprintf(command, sizeof command, "round %u is open again, and 3 updates are lost", closed);
    assert_runs(&w->p, "reopen --dir c --helper h2/helper.pem --force 1", 0, command);
    await_devices(device, DEVICES);
    snprintf(command, sizeof command, "round=%u updates=3", closed);
    assert_runs(&w->p, "audit --dir c", 0, command);
    expect_committed_once(w, FEW);
    assert_int_equal(count(w->log, "is void, and 3 updates are lost"), 1);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    kill_it(coordinator);
}

/* The file that a person kept elsewhere becomes the key of a new directory. */
static void put_spare(const world *w, const char *folder) {
    char path[320];
    snprintf(path, sizeof path, "%s/stick", w->p.directory);
    char *secret = text_of(path);
    snprintf(path, sizeof path, "%s/%s", w->p.directory, folder);
    assert_int_equal(mkdir(path, 0700), 0);
    fed_test_put(path, "helper.key", secret, strlen(secret));
    free(secret);
}

/* As docs/operate.md says, with a spare key: no device needs another file. */
FED_TEST_WITH(a_helper_whose_disk_is_lost_is_started_with_its_spare_key, world *w) {
    pid_t device[DEVICES];
    char pin[320], words[400];
    w->rounds = FEW;
    assert_runs(&w->p, "helper --dir h --make-spare stick", 0, "names the spare key now");
    assert_runs(&w->p, "helper --dir h --make-spare stick", 0, "names the spare key now");
    assert_runs(&w->p, "helper --dir h --make-spare other", 1, "helper.pem names another spare");
    pid_t coordinator = start_coordinator(w);
    pid_t helper = start_helper(w, w->helper_token);
    queue_task(w, "");
    snprintf(pin, sizeof pin, "%s/h/helper.pem", w->p.directory);
    w->pin = pin;
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    const unsigned closed = orphan_a_round(w, &coordinator, helper);
    w->helper = "h2";
    put_spare(w, "h2");
    helper = start_helper(w, w->next_token);
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (count(w->helper_log, "enrolled as device") < 2) {
        pause_until(until_ms);
    }
    snprintf(words, sizeof words, "round %u of task 1 has 3 updates", closed);
    assert_runs(&w->p, "status --dir c", 0, "`fedserver reopen --spare 1` lets it go on");
    assert_runs(&w->p, "reopen --dir c --spare 1", 1, words);
    snprintf(words, sizeof words, "round %u is open again, and 3 updates are lost", closed);
    assert_runs(&w->p, "reopen --dir c --spare --force 1", 0, words);
    await_devices(device, DEVICES);
    expect_committed_once(w, FEW);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    kill_it(coordinator);
}

static void move_away(const world *w, const char *from, const char *to) {
    char old[320], new[320];
    snprintf(old, sizeof old, "%s/%s", w->p.directory, from);
    snprintf(new, sizeof new, "%s/%s", w->p.directory, to);
    assert_int_equal(rename(old, new), 0);
}

/* Devices and helper are ahead of the backup. The helper opens the lost rounds anew. */
FED_TEST_WITH(a_restored_coordinator_goes_on_with_its_helper, world *w) {
    pid_t device[DEVICES];
    char words[100];
    w->rounds = FEW;
    pid_t coordinator = start_coordinator(w);
    const pid_t helper = start_helper(w, w->helper_token);
    queue_task(w, "");
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    assert_runs(&w->p, "backup --dir c b", 0, "is a backup");
    await(w->helper_log, "opened round 6,");
    kill_it(coordinator);
    const unsigned reached = last_round(w->log, ": committed with");
    move_away(w, "c", "lost");
    move_away(w, "log", "log-of-the-first");
    assert_runs(&w->p, "restore --dir c b", 0, "is restored");
    coordinator = start_coordinator(w);
    await_devices(device, DEVICES);
    snprintf(words, sizeof words, "round %u: committed with 3 updates", reached);
    assert_int_equal(count(w->log, words), 1); /* once more */
    assert_int_equal(last_round(w->log, ": committed with"), FEW);
    assert_int_equal(count(w->helper_log, "its coordinator was restored"), 1);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    kill_it(coordinator);
}

/* How many rounds does the helper's store have? */
static unsigned rounds_opened(const world *w) {
    char path[320];
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    snprintf(path, sizeof path, "%s/h/helper.db", w->p.directory);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM openings", -1, &row, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    const unsigned rounds = (unsigned)sqlite3_column_int(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return rounds;
}

/* The helper dies again and again, wherever it is. A round that the coordinator has was charged at
 * the helper before, and no charge is taken twice: the last round needs the last one. */
FED_TEST_WITH(a_helper_that_adds_noise_is_killed_often_and_charges_each_round_once, world *w) {
    enum { KILLS = 12 };
    char rest[200];
    pid_t device[DEVICES];
    pid_t coordinator = start_coordinator(w), helper = start_helper(w, w->helper_token);
    snprintf(rest, sizeof rest, ", \"epsilon\": 50, \"delta\": 1e-5, \"participations\": %d",
             ROUNDS);
    queue_task(w, rest);
    for (unsigned k = 0; k < DEVICES; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    for (unsigned k = 0; k < KILLS; k++) {
        const size_t opened = count(w->helper_log, "a sum of 3 devices");
        const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
        while (count(w->helper_log, "a sum of 3 devices") == opened && opened < ROUNDS) {
            pause_until(until_ms);
        }
        fed_sleep_ms(17 * k); /* before the answer leaves, while it does, and after it */
        kill_it(helper);
        const unsigned committed = last_round(w->log, ": committed with");
        assert_true(rounds_opened(w) >= committed);
        helper = start_helper(w, NULL);
    }
    await_devices(device, DEVICES);
    expect_committed_once(w, ROUNDS);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    assert_int_equal(rounds_opened(w), ROUNDS);
    kill_it(coordinator);
}

/* The noise that the helper keeps of its last rounds stays what it was when it was drawn: later
 * rounds take it off. seen: SHA-256 of each round's; *count: how many are known. */
static void expect_same_noise(const world *w, uint8_t seen[ROUNDS + 1][FED_SHA256_SIZE],
                              unsigned *known) {
    static const uint8_t none[FED_SHA256_SIZE];
    char path[320];
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    snprintf(path, sizeof path, "%s/h/helper.db", w->p.directory);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT round, noise FROM correlated", -1, &row, NULL),
                     SQLITE_OK);
    unsigned rows = 0;
    for (; sqlite3_step(row) == SQLITE_ROW; rows++) {
        uint8_t digest[FED_SHA256_SIZE];
        const int round = sqlite3_column_int(row, 0);
        assert_in_range(round, 1, ROUNDS);
        fed_sha256(sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1), digest);
        if (memcmp(seen[round], none, sizeof none) == 0) {
            memcpy(seen[round], digest, sizeof digest);
            ++*known;
        }
        assert_memory_equal(seen[round], digest, sizeof digest);
    }
    assert_in_range(rows, 1, 2); /* with `apart` 3 */
    sqlite3_finalize(row);
    sqlite3_close(db);
}

/* With `apart` a round's noise takes that of rounds before off. Helper and coordinator die in turn,
 * and both at once, in rounds and between them. */
FED_TEST_WITH(noise_that_later_rounds_take_off_survives_both_parties_deaths, world *w) {
    enum { KILLS = 12 };
    static uint8_t seen[ROUNDS + 1][FED_SHA256_SIZE];
    unsigned known = 0;
    char rest[200];
    pid_t device[SIXFOLD];
    w->cohort = 2;
    w->fleet = SIXFOLD;
    memset(seen, 0, sizeof seen);
    pid_t coordinator = start_coordinator(w), helper = start_helper(w, w->helper_token);
    snprintf(rest, sizeof rest,
             ", \"epsilon\": 50, \"delta\": 1e-5, \"participations\": %d, \"apart\": 3,"
             " \"selection\": \"round_robin\"",
             ROUNDS);
    queue_task(w, rest);
    for (unsigned k = 0; k < SIXFOLD; k++) {
        device[k] = start_device(w, k);
    }
    await(w->helper_log, "opened round 2,");
    for (unsigned k = 0; k < KILLS; k++) {
        const size_t opened = count(w->helper_log, "a sum of 2 devices");
        const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
        while (count(w->helper_log, "a sum of 2 devices") == opened && opened < ROUNDS) {
            pause_until(until_ms);
        }
        fed_sleep_ms(17 * k);
        if (k % 3 != 0) {
            kill_it(coordinator);
            coordinator = k % 3 == 1 ? start_coordinator(w) : 0;
        }
        if (k % 3 != 1) {
            kill_it(helper);
            assert_true(rounds_opened(w) >= last_round(w->log, ": committed with"));
            expect_same_noise(w, seen, &known);
            helper = start_helper(w, NULL);
        }
        coordinator = coordinator != 0 ? coordinator : start_coordinator(w);
    }
    await_devices(device, SIXFOLD);
    expect_committed_once(w, ROUNDS);
    assert_int_equal(count(w->helper_log, "is not opened"), 0);
    kill_it(helper);
    expect_same_noise(w, seen, &known);
    assert_true(known > 2);
    assert_int_equal(rounds_opened(w), ROUNDS);
    kill_it(coordinator);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
