/* The leader of two coordinators hangs: its connections stay open. Its devices must go on at the
 * other one, since they know several addresses, or since HAProxy with deploy/conf/haproxy.cfg moves
 * them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_crowd.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_cluster.h"
#include "fed_drill.h"
#include "fed_postgres.h"

#define MODEL "input 16 | dense 4"

/* The third member never runs. It lends its address, 127.0.0.3, which the certificate names, to
 * HAProxy. */
enum { MEMBERS = 2, DEVICES = 4, ROUNDS = 60, LIMIT_MS = 240 * 1000, POLL_MS = 10 };
/* The devices' transports wait longer for the hung leader than the test does. HAProxy closes a
 * silent connection after 120 s. */
enum { PATIENCE_MS = 2 * LIMIT_MS, MOVED_MS = 100 * 1000 };

static const char haproxy[] = "/usr/sbin/haproxy";

typedef struct world {
    chaos_run run;
    fed_postgres database;
    fed_cluster cluster;
    char servers[64];
    chaos_child device[DEVICES];
    char token[DEVICES][FEDSERVER_TOKEN];
    char conf[400], log[400]; /* HAProxy's */
    pid_t haproxy;
    int64_t limit_ms;
} world;

static char *read_text(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    return (char *)text;
}

/* Replace `old` in *text wherever it is. It must be there. */
static void replace(char **text, const char *old, const char *fresh) {
    fed_writer w;
    fed_writer_growing(&w);
    const char *at = *text;
    const char *found = strstr(at, old);
    assert_non_null(found);
    for (; found != NULL; found = strstr(at, old)) {
        fed_write_printf(&w, "%.*s%s", (int)(found - at), at, fresh);
        at = found + strlen(old);
    }
    fed_write_printf(&w, "%s", at);
    fed_write_u8(&w, 0);
    assert_fed_ok(w.status);
    free(*text);
    *text = (char *)w.data;
}

static void replace_port(char **text, const char *port, unsigned fresh) {
    char old[40], line[60];
    for (unsigned k = 1; k <= MEMBERS; k++) {
        snprintf(old, sizeof old, "192.0.2.%u:%s", k, port);
        snprintf(line, sizeof line, "127.0.0.%u:%u", k, fresh);
        replace(text, old, line);
    }
    snprintf(old, sizeof old, "    server three 192.0.2.3:%s\n", port);
    replace(text, old, "");
    snprintf(old, sizeof old, "bind :%s", port);
    snprintf(line, sizeof line, "bind 127.0.0.3:%u", fresh);
    replace(text, old, line);
}

/* Write deploy/conf/haproxy.cfg with the addresses of this test. */
static void configure(world *w) {
    char *text = read_text(FED_SOURCE_DIR "/deploy/conf/haproxy.cfg");
    char line[500];
    replace_port(&text, "8443", w->cluster.front);
    replace_port(&text, "8444", w->cluster.devices);
    snprintf(line, sizeof line, " port %u ", w->cluster.front);
    replace(&text, " port 8443 ", line);
    snprintf(line, sizeof line, "%s/ca.pem", w->cluster.member[0].directory);
    replace(&text, "/etc/haproxy/ca.pem", line);
    replace(&text, "maxconn 65536", "maxconn 100");
    fed_test_put(w->run.directory, "haproxy.cfg", text, strlen(text));
    free(text);
    snprintf(w->conf, sizeof w->conf, "%s/haproxy.cfg", w->run.directory);
    snprintf(w->log, sizeof w->log, "%s/haproxy.log", w->run.directory);
}

static void start_haproxy(world *w) {
    fflush(NULL);
    w->haproxy = fork();
    assert_true(w->haproxy >= 0);
    if (w->haproxy == 0) {
        fed_test_die_with_parent();
        const int fd = open(w->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
        execl(haproxy, haproxy, "-db", "-f", w->conf, (char *)NULL);
        _exit(127);
    }
}

static void make_task(world *w) {
    char text[500], path[400];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/zeros.safetensors", w->run.directory);
    assert_fed_ok_err(fed_drill_zeros(MODEL, path, &err));
    snprintf(text, sizeof text,
             "{\"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\","
             " \"codec_up\": \"topk:p=0.1\", \"codec_down\": \"float32\", \"rounds\": %d,"
             " \"cohort\": %d, \"goal\": %d, \"minimum\": %d, \"deadline_s\": 600}",
             ROUNDS, DEVICES, DEVICES, DEVICES);
    assert_int_equal(fed_cluster_task(&w->cluster, w->run.directory, text), 1);
}

static int setup(void **state) {
    char store[400];
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->run = (chaos_run){.seed = 1, .wait_most_ms = 300, .patience_ms = PATIENCE_MS, .far = -1};
    w->run.board = fault_shared_new(sizeof *w->run.board);
    assert_non_null(w->run.board);
    fed_test_tmpdir(w->run.directory, sizeof w->run.directory);
    fed_postgres_open(&w->database);
    snprintf(store, sizeof store, "postgres:%s", w->database.where);
    fed_cluster_open(&w->cluster, w->run.directory, store, MEMBERS + 1);
    snprintf(w->run.ca, sizeof w->run.ca, "%s", w->cluster.ca);
    make_task(w);
    w->limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child_end(&w->device[k]);
    }
    if (w->haproxy > 0) {
        assert_int_equal(kill(w->haproxy, SIGKILL), 0);
        assert_int_equal(waitpid(w->haproxy, NULL, 0), w->haproxy);
    }
    fed_cluster_close(&w->cluster);
    fed_postgres_close(&w->database);
    fed_test_rmdir(w->run.directory);
    fault_shared_free(w->run.board, sizeof *w->run.board);
    free(w);
    return 0;
}

/* Start devices that are due, and wait a little. */
static void tend(world *w, const char *what) {
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child *d = &w->device[k];
        int how = 0;
        if (d->pid > 0 && waitpid(d->pid, &how, WNOHANG) == d->pid) {
            assert_true(chaos_child_note(d, how, NULL) <= CHAOS_ENDED_AGAIN);
        }
    }
    (void)chaos_raise(&w->run, 0, DEVICES, w->device, w->token);
    if (fed_clock_monotonic_ms() > w->limit_ms) {
        fail_msg("not in time: %s. HAProxy says: %s", what,
                 w->haproxy > 0 ? read_text(w->log) : "nothing");
    }
    fed_sleep_ms(POLL_MS);
}

static void await_round(world *w, unsigned round) {
    while (w->run.board->round < round) {
        tend(w, "a round");
    }
}

static void start_members(world *w, const char *servers, const char *proxy) {
    w->run.servers = servers;
    w->cluster.proxy = proxy;
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_cluster_start_ready(&w->cluster, k);
    }
}

/* Each round needs all devices, so it can end only if the hung leader's devices go on elsewhere. */
static void let_the_leader_hang(world *w) {
    uint64_t term = 0;
    for (unsigned k = 0; k < DEVICES; k++) {
        fed_cluster_token(&w->cluster, "", w->token[k]);
    }
    while (w->run.board->enrolled < DEVICES) {
        tend(w, "all devices' enrolment");
    }
    w->run.board->storm = 1;
    await_round(w, 3);
    const int leader = fed_cluster_leader(&w->cluster, &term);
    assert_in_range(leader, 0, MEMBERS - 1);
    fed_cluster_signal(&w->cluster, (unsigned)leader, SIGSTOP);
    const int64_t hung_ms = fed_clock_monotonic_ms();
    const unsigned before = w->run.board->round;
    w->limit_ms = hung_ms + MOVED_MS;
    await_round(w, before + 2);
    print_message("two rounds were over %.1f s after the leader hung\n",
                  1e-3 * (double)(fed_clock_monotonic_ms() - hung_ms));
    assert_int_not_equal(fed_cluster_leader(&w->cluster, NULL), leader);
}

FED_TEST_WITH(devices_that_know_several_addresses_leave_a_hung_leader, world *w) {
    start_members(w, w->cluster.servers, NULL);
    let_the_leader_hang(w);
}

FED_TEST_WITH(haproxy_moves_the_devices_of_a_hung_leader, world *w) {
    if (access(haproxy, X_OK) != 0) {
        print_message("skipped: HAProxy is not installed: deploy/setup.sh --proxies\n");
        skip();
    }
    snprintf(w->servers, sizeof w->servers, "https://127.0.0.3:%u", w->cluster.front);
    start_members(w, w->servers, "127.0.0.1");
    configure(w);
    start_haproxy(w);
    let_the_leader_hang(w);
}

int main(void) {
    if (!fed_postgres_is_there()) {
        return 77; /* ctest: skipped */
    }
    return fed_cases_run_each(setup, teardown);
}
