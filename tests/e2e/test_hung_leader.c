/* The leader of two coordinators hangs: its connections stay open. Its devices must go on at the
 * other one, since they know several addresses, or since HAProxy with deploy/conf/haproxy.cfg moves
 * them. When it wakes, it must end. A leader that waits for its store must not pass for one that
 * hangs. */
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
#include "fed_curl.h"
#include "fed_drill.h"
#include "fed_haproxy.h"
#include "fed_postgres.h"

#define MODEL "input 16 | dense 4"

/* The third member never runs. It lends its address, 127.0.0.3, which the certificate names, to
 * HAProxy. */
enum { MEMBERS = 2, DEVICES = 4, ROUNDS = 60, LIMIT_MS = 240 * 1000, POLL_MS = 10 };
/* The devices' transports wait longer for the hung leader than the test does. HAProxy closes a
 * silent connection after 120 s. */
enum { PATIENCE_MS = 2 * LIMIT_MS, MOVED_MS = 100 * 1000 };

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

static const char *haproxy_log(const world *w) {
    uint8_t *text = NULL;
    size_t len = 0;
    return fed_file_read(w->log, 1 << 20, &text, &len, NULL) == FED_OK ? (char *)text : "no log";
}

static void configure(world *w) {
    char ca[400];
    snprintf(ca, sizeof ca, "%s/ca.pem", w->cluster.member[0].directory);
    const fed_haproxy h = {.address = "127.0.0.3",
                           .ca = ca,
                           .front = w->cluster.front,
                           .devices = w->cluster.devices,
                           .first = 1,
                           .count = MEMBERS};
    fed_haproxy_configure(&h, w->run.directory, "haproxy.cfg");
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
        execl(FED_HAPROXY, FED_HAPROXY, "-db", "-f", w->conf, (char *)NULL);
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
                 w->haproxy > 0 ? haproxy_log(w) : "nothing");
    }
    fed_sleep_ms(POLL_MS);
}

static void await_round(world *w, unsigned round) {
    while (w->run.board->round < round) {
        tend(w, "a round");
    }
}

static void enrol_all(world *w) {
    for (unsigned k = 0; k < DEVICES; k++) {
        fed_cluster_token(&w->cluster, "", w->token[k]);
    }
    while (w->run.board->enrolled < DEVICES) {
        tend(w, "all devices' enrolment");
    }
    w->run.board->storm = 1;
}

static void start_members(world *w, const char *servers, const char *proxy) {
    w->run.servers = servers;
    w->cluster.proxy = proxy;
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_cluster_start_ready(&w->cluster, k);
    }
}

/* A leader that wakes ends with a sentence, and what it had not answered counts nowhere. Then it
 * follows. */
static void let_it_wake(world *w, unsigned k) {
    int how = 0;
    w->limit_ms = fed_clock_monotonic_ms() + MOVED_MS;
    const unsigned said = fed_cluster_says(&w->cluster, k, "another coordinator ");
    fed_cluster_signal(&w->cluster, k, SIGCONT);
    while (!fed_cluster_ended(&w->cluster, k, &how)) {
        tend(w, "the end of a leader that woke");
    }
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 1);
    assert_true(fed_cluster_says(&w->cluster, k, "another coordinator ") > said);
    fed_cluster_start_ready(&w->cluster, k);
    await_round(w, w->run.board->round + 2);
    assert_int_not_equal(fed_cluster_leader(&w->cluster, NULL), (int)k);
}

/* Each round needs all devices, so it can end only if the hung leader's devices go on elsewhere. */
static void let_the_leader_hang(world *w) {
    uint64_t term = 0;
    enrol_all(w);
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
    let_it_wake(w, (unsigned)leader);
}

FED_TEST_WITH(devices_that_know_several_addresses_leave_a_hung_leader, world *w) {
    start_members(w, w->cluster.servers, NULL);
    let_the_leader_hang(w);
}

FED_TEST_WITH(haproxy_moves_the_devices_of_a_hung_leader, world *w) {
    if (!fed_haproxy_is_there()) {
        print_message("skipped: HAProxy is not installed: deploy/setup.sh --proxies\n");
        skip();
    }
    snprintf(w->servers, sizeof w->servers, "https://127.0.0.3:%u", w->cluster.front);
    start_members(w, w->servers, "127.0.0.1");
    configure(w);
    start_haproxy(w);
    let_the_leader_hang(w);
}

/* The trigger holds up the leader's statement until the table `go` has a row. */
static const char waits[] =
    "CREATE TABLE public.go (there INT);"
    "CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN WHILE NOT EXISTS (SELECT FROM public.go) LOOP PERFORM pg_sleep(.02); END LOOP;"
    " RETURN NEW; END';"
    "CREATE TRIGGER wait AFTER INSERT ON fedserver.updates"
    " FOR EACH ROW EXECUTE FUNCTION public.wait()";

static bool leader_waits(const world *w) {
    char count[20] = "";
    fed_postgres_sql(w->database.where,
                     "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", count,
                     sizeof count);
    return strcmp(count, "0") != 0;
}

static void assert_well(const world *w, unsigned k) {
    char url[100];
    fed_pem ca;
    snprintf(ca.text, sizeof ca.text, "%s", w->cluster.ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->cluster.front, "/healthz");
    snprintf(url, sizeof url, "https://%s:%u/healthz", w->cluster.member[k].bind, w->cluster.front);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    fed_curl_expect(curl, 200, "ok\n");
    fed_curl_close(curl);
}

FED_TEST_WITH(a_leader_that_waits_for_its_store_is_well, world *w) {
    enum { TIMES = 3 };
    uint64_t term = 0, later = 0;
    start_members(w, w->cluster.servers, NULL);
    enrol_all(w);
    await_round(w, 2);
    const int leader = fed_cluster_leader(&w->cluster, &term);
    fed_postgres_sql(w->database.where, waits, NULL, 0);
    while (!leader_waits(w)) {
        tend(w, "a statement that waits");
    }
    for (unsigned k = 0; k < TIMES * MEMBERS; k++) {
        assert_well(w, k % MEMBERS);
    }
    assert_true(leader_waits(w));
    const unsigned before = w->run.board->round;
    fed_postgres_sql(w->database.where, "INSERT INTO public.go VALUES (1)", NULL, 0);
    await_round(w, before + 2);
    assert_int_equal(fed_cluster_leader(&w->cluster, &later), leader);
    assert_int_equal(later, term);
}

int main(void) {
    if (!fed_postgres_is_there()) {
        return 77; /* ctest: skipped */
    }
    return fed_cases_run_each(setup, teardown);
}
