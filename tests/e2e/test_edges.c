/* Three edge aggregators, each with twenty devices on lines that repeat and lose messages.
 * Processes are killed at random. In the end the models must have the same bits as those computed
 * from all acknowledged updates.
 *
 *     e2e.test_edges [ROUNDS [SEED]]
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_crowd.h"
#include "chaos_log.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed_cases.h"
#include "fed_port.h"

#define MODEL "input 64 | dense 16"

enum { EDGE = 3, EACH = 20, DEVICES = EDGE * EACH };
enum { UPSTREAM = EDGE, SERVERS = EDGE + 1 };
enum { LIMIT_S = 400, POLL_MS = 10, TOKEN_LIFE_S = 24 * 3600 };

/* Updates of a round at each edge aggregator. These numbers and their sum are powers of two, so
 * that every mean is exact in float32. */
static const unsigned goal[EDGE] = {8, 8, 16};

static unsigned rounds;
static uint64_t seed = 1;

typedef struct server {
    chaos_child child;
    char directory[340], log[340];
    unsigned front, devices; /* ports */
    bool listened;
    unsigned kills;
    int64_t strike_ms;
} server;

typedef struct world {
    const char *directory;
    server server[SERVERS];
    char upstream_token[EDGE][FEDSERVER_TOKEN];
    chaos_run run[EDGE];
    chaos_child device[DEVICES];
    char token[DEVICES][FEDSERVER_TOKEN];
    fed_rng dice;
    unsigned device_kills, acknowledged;
    int64_t strike_ms;
    bool broken;
} world;

static void make_task(const world *w, fedserver *home) {
    char text[500];
    snprintf(text, sizeof text,
             "{\"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\","
             " \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"rounds\": %u,"
             " \"cohort\": %d, \"goal\": %d, \"minimum\": %d, \"deadline_s\": 12,"
             " \"device_share\": 1}",
             rounds, EDGE, EDGE, EDGE);
    (void)chaos_task(w->directory, MODEL, text, home);
}

static void grant(fedserver *home, char token[FEDSERVER_TOKEN]) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_token_new(home, fed_clock_unix_ms(), TOKEN_LIFE_S, token, &err));
}

static void make_server(world *w, unsigned k) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    server *s = &w->server[k];
    fed_error err = {0};
    fedserver *home = NULL;
    if (k == UPSTREAM) {
        snprintf(s->directory, sizeof s->directory, "%s/coordinator", w->directory);
    } else {
        snprintf(s->directory, sizeof s->directory, "%s/site%u", w->directory, k);
    }
    snprintf(s->log, sizeof s->log, "%s/server%u.log", w->directory, k);
    s->front = fed_port_keep();
    s->devices = fed_port_keep();
    assert_fed_ok_err(
        fedserver_init(s->directory, &(fedserver_init_options){.hosts = hosts}, &err));
    assert_fed_ok_err(fedserver_open(s->directory, NULL, &home, &err));
    for (unsigned d = 0; d < EACH && k != UPSTREAM; d++) {
        grant(home, w->token[k * EACH + d]);
    }
    for (unsigned d = 0; d < EDGE && k == UPSTREAM; d++) {
        grant(home, w->upstream_token[d]);
    }
    if (k == UPSTREAM) {
        make_task(w, home);
    }
    fedserver_close(home);
}

static void make_run(world *w, unsigned k) {
    chaos_run *run = &w->run[k];
    snprintf(run->directory, sizeof run->directory, "%s", w->directory);
    run->board = fault_shared_new(sizeof *run->board);
    assert_non_null(run->board);
    run->seed = seed;
    run->wait_most_ms = 300;
    run->far = -1;
    chaos_read_ca(run, w->server[k].directory);
}

static _Noreturn void become_server(const world *w, unsigned k) {
    const server *s = &w->server[k];
    char front[16], devices[16], up[64], ca[400], slots[16];
    snprintf(front, sizeof front, "%u", s->front);
    snprintf(devices, sizeof devices, "%u", s->devices);
    snprintf(up, sizeof up, "https://127.0.0.1:%u", w->server[UPSTREAM].front);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->server[UPSTREAM].directory);
    const char *words[] = {"fedserver",
                           "run",
                           "--dir",
                           s->directory,
                           "--front-port",
                           front,
                           "--devices-port",
                           devices,
                           "--upstream",
                           up,
                           "--upstream-ca",
                           ca,
                           "--edge-cohort",
                           slots,
                           "--edge-minimum",
                           slots,
                           "--upstream-token",
                           NULL,
                           NULL};
    enum { WITHOUT_EDGE = 8, COHORT = 12, MINIMUM = 14, TOKEN = 17 };
    if (k == UPSTREAM) {
        words[WITHOUT_EDGE] = NULL;
    } else {
        snprintf(slots, sizeof slots, "%u", goal[k]);
        if (k % 2 == 0) {
            words[COHORT] = "--site-cohort";
            words[MINIMUM] = "--site-minimum";
        }
        words[TOKEN] = w->upstream_token[k];
    }
    const int log = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(FED_BIN_DIR "/fedserver", (char *const *)(uintptr_t)words);
    _exit(127);
}

static bool says_ports(server *s) {
    uint8_t *text = NULL;
    size_t len = 0;
    if (fed_file_read(s->log, 1 << 24, &text, &len, NULL) != FED_OK) {
        return false;
    }
    const char *line = strstr((const char *)text, "front https://127.0.0.1:");
    s->listened = line != NULL && strchr(line, '\n') != NULL;
    free(text);
    return s->listened;
}

static void start_server(world *w, unsigned k) {
    server *s = &w->server[k];
    if (chaos_child_is(&s->child)) {
        become_server(w, k);
    }
    const int64_t limit_ms = fed_clock_monotonic_ms() + 60000;
    while (!s->listened && !says_ports(s)) {
        assert_true(fed_clock_monotonic_ms() < limit_ms);
        fed_sleep_ms(POLL_MS);
    }
}

static void note_end(world *w, pid_t pid, int how) {
    for (unsigned k = 0; k < SERVERS; k++) {
        if (w->server[k].child.pid == pid) {
            w->broken |= chaos_child_note(&w->server[k].child, how, NULL) != CHAOS_ENDED_KILLED;
        }
    }
    for (unsigned k = 0; k < DEVICES; k++) {
        if (w->device[k].pid == pid) {
            w->broken |= chaos_child_note(&w->device[k], how, &w->dice) == CHAOS_ENDED_BROKEN;
        }
    }
}

/* Start coordinators and devices that do not run. Returns how many devices have not finished. */
static unsigned raise_all(world *w) {
    unsigned left = 0;
    for (unsigned k = 0; k < SERVERS; k++) {
        if (w->server[k].child.pid == 0) {
            start_server(w, k);
        }
    }
    for (unsigned k = 0; k < EDGE; k++) {
        left += chaos_raise(&w->run[k], k * EACH, EACH, w->device, w->token);
    }
    return left;
}

static unsigned acknowledged(const world *w) {
    unsigned all = 0;
    for (unsigned k = 0; k < EDGE; k++) {
        all += w->run[k].board->acknowledged;
    }
    return all;
}

/* Kill devices and coordinators at random. A coordinator is killed again only after progress, so
 * that the test ends on a slow machine. */
static void strike(world *w) {
    chaos_child *d = &w->device[fed_rng_below(&w->dice, DEVICES)];
    /* Limit the kills by the progress. Otherwise devices on a busy machine would spend all time on
     * starting. */
    const bool spared = w->device_kills >= DEVICES + 2 * acknowledged(w);
    if (!spared && chaos_is_due(&w->dice, &w->strike_ms, 150) && d->pid > 0) {
        (void)kill(d->pid, SIGKILL);
        w->device_kills++;
    }
    for (unsigned k = SERVERS; k-- > 0;) {
        server *s = &w->server[k];
        if (acknowledged(w) > w->acknowledged + 4 && s->child.pid > 0 &&
            (chaos_is_due(&w->dice, &s->strike_ms, k == UPSTREAM ? 1500 : 1200) || s->kills == 0)) {
            w->acknowledged = acknowledged(w);
            (void)kill(s->child.pid, SIGKILL);
            s->kills++;
        }
    }
}

static bool all_enrolled(const world *w) {
    bool all = true;
    for (unsigned k = 0; k < EDGE; k++) {
        all = all && w->run[k].board->enrolled >= EACH;
    }
    return all;
}

static void begin(world *w) {
    make_server(w, UPSTREAM);
    start_server(w, UPSTREAM);
    for (unsigned k = 0; k < EDGE; k++) {
        make_server(w, k);
        make_run(w, k);
        start_server(w, k);
        chaos_board *board = w->run[k].board;
        board->front = board->proxy_front = w->server[k].front;
        board->devices = board->proxy_devices = w->server[k].devices;
    }
}

static void live(world *w) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + 1000 * (int64_t)LIMIT_S;
    bool storm = false;
    for (unsigned left = DEVICES; left > 0 && !w->broken; left = raise_all(w)) {
        int how = 0;
        fed_sleep_ms(POLL_MS);
        for (pid_t pid = waitpid(-1, &how, WNOHANG); pid > 0; pid = waitpid(-1, &how, WNOHANG)) {
            note_end(w, pid, how);
        }
        if (storm) {
            strike(w);
        } else if (all_enrolled(w)) {
            for (unsigned k = 0; k < EDGE; k++) {
                w->run[k].board->storm = 1;
            }
            storm = true;
        }
        if (fed_clock_monotonic_ms() > limit_ms) {
            printf("D6 in docs/durability.md: %u devices are not finished after %d s\n", left,
                   LIMIT_S);
            w->broken = true;
        }
    }
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child_end(&w->device[k]);
    }
    for (unsigned k = 0; k < SERVERS; k++) {
        chaos_child_end(&w->server[k].child);
    }
}

typedef struct edge_count {
    const fed_ledger *ledger;
    unsigned edge;
    federation *f;
    fed_history *history;
} edge_count;

/* D1 and D2 of docs/durability.md: a committed round counts as many updates as its edge aggregator
 * acknowledged. */
static fed_status check_round(void *user, const fedserver_round_entry *row, fed_error *err) {
    const edge_count *c = user;
    unsigned said = 0;
    (void)err;
    fed_history_stored(c->history, row->number, row->updates);
    for (size_t k = 0; k < c->ledger->count; k++) {
        const fed_ledger_entry *e = &c->ledger->entries[k];
        said += e->client / EACH == c->edge && e->round == row->number;
    }
    if (said != row->updates) {
        federation_break(
            c->f, "%s: round %u of edge aggregator %u counted %u updates, %u were acknowledged",
            said > row->updates ? "D1" : "D2", row->number, c->edge, row->updates, said);
    }
    return FED_OK;
}

static void check_edge(const world *w, federation *f, unsigned k, fed_history *history) {
    char path[400], why[300] = "";
    fed_error err = {0};
    fed_model last = {0};
    fedserver *home = NULL;
    edge_count count = {.ledger = &f->ledger, .edge = k, .f = f, .history = history};
    snprintf(path, sizeof path, "%s/site%u.safetensors", w->directory, k);
    assert_fed_ok_err(fedserver_open(w->server[k].directory, NULL, &home, &err));
    assert_fed_ok_err(fedserver_round_each(home, 0, UINT32_MAX, check_round, &count, &err));
    assert_fed_ok_err(fedserver_model_export(home, 0, path, &err));
    assert_fed_ok_err(fed_checkpoint_load(path, &last, &err));
    if (fed_digest(last.values, last.layout.size) != f->result->digest) {
        federation_break(
            f, "D5 in docs/durability.md: edge aggregator %u ends with another model than upstream",
            k);
    }
    assert_true(fed_history_read_log(history, w->server[k].log));
    if (!fed_history_holds(history, why, sizeof why)) {
        federation_break(f, "edge aggregator %u: %s", k, why);
    }
    fed_model_free(&last);
    fedserver_close(home);
}

static void check(const world *w, federation_result *result) {
    federation_setup setup = {.model = MODEL, .devices = DEVICES, .sums_of_edges = true};
    federation f;
    fed_history *history[EDGE];
    chaos_judge(&f, &setup, w->directory, result);
    fed_history_free(f.history);
    for (unsigned k = 0; k < DEVICES; k++) {
        history[k / EACH] = k % EACH == 0 ? fed_history_new() : history[k / EACH];
        f.history = history[k / EACH];
        chaos_log_read(w->directory, k, &f);
    }
    federation_check(&f);
    for (unsigned k = 0; k < EDGE; k++) {
        if (result->broken[0] == '\0') {
            check_edge(w, &f, k, history[k]);
        }
        fed_history_free(history[k]);
    }
    f.history = NULL;
    federation_forget(&f);
}

static void print_logs(const world *w) {
    for (unsigned k = 0; k < SERVERS; k++) {
        uint8_t *text = NULL;
        size_t len = 0;
        if (fed_file_read(w->server[k].log, 1 << 24, &text, &len, NULL) == FED_OK) {
            printf("---- %s\n%s", w->server[k].log, (const char *)text);
        }
        free(text);
    }
    fflush(stdout);
}

FED_TEST(three_edges_make_the_model_of_the_flat_run) {
    world *w = calloc(1, sizeof *w);
    char directory[300];
    federation_result result = {0};
    assert_non_null(w);
    fed_rng_init(&w->dice, seed, 0, 0);
    fed_test_tmpdir(directory, sizeof directory);
    w->directory = directory;
    const int64_t begun_ms = fed_clock_monotonic_ms();
    begin(w);
    live(w);
    if (!w->broken) {
        check(w, &result);
    }
    unsigned edges = 0;
    for (unsigned k = 0; k < EDGE; k++) {
        edges += w->server[k].kills;
    }
    printf("%d edge aggregators of %d devices, %u rounds in %.1f s: %u updates acknowledged\n"
           "  killed: upstream %u, edge aggregators %u, devices %u\n"
           "  final model %016llx, as the flat run computes it: %s\n",
           EDGE, EACH, rounds, 1e-3 * (double)(fed_clock_monotonic_ms() - begun_ms), result.counted,
           w->server[UPSTREAM].kills, edges, w->device_kills, (unsigned long long)result.digest,
           result.broken[0] == '\0' ? "the same bits" : result.broken);
    if (w->broken || result.broken[0] != '\0' || getenv("FED_CHAOS_VERBOSE") != NULL) {
        print_logs(w);
    }
    fed_test_rmdir(w->directory);
    for (unsigned k = 0; k < EDGE; k++) {
        fault_shared_free(w->run[k].board, sizeof *w->run[k].board);
    }
    assert_false(w->broken);
    assert_string_equal(result.broken, "");
    assert_true(w->server[UPSTREAM].kills > 0 && edges > 0 && w->device_kills > 0);
    free(w);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : FED_TEST_TRIES(8, 4);
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : seed;
    return fed_cases_run(NULL, NULL);
}
