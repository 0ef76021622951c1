/* Three coordinators with one PostgreSQL store. The leader is killed again and again in the middle
 * of rounds. The models must have the same bits as those computed from the acknowledged updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_crowd.h"
#include "fed/clock.h"
#include "fed_cases.h"
#include "fed_cluster.h"
#include "fed_curl.h"
#include "fed_drill.h"
#include "fed_postgres.h"

#define MODEL "input 128 | dense 64 | relu | dense 10"

enum { MEMBERS = 3, DEVICES = 20, GOAL = 8, ROUNDS = 12, LIMIT_MS = 240 * 1000, POLL_MS = 10 };

typedef struct world {
    chaos_run run;
    fed_postgres database;
    fed_cluster cluster;
    chaos_child device[DEVICES];
    char token[DEVICES][FEDSERVER_TOKEN];
    unsigned kills;
    unsigned acknowledged;
    int64_t limit_ms;
} world;

static void make_task(world *w) {
    char text[500], path[400];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/zeros.safetensors", w->run.directory);
    assert_fed_ok_err(fed_drill_zeros(MODEL, path, &err));
    snprintf(text, sizeof text,
             "{\"model\": \"" MODEL "\", \"initial\": \"zeros.safetensors\","
             " \"codec_up\": \"topk:p=0.1\", \"codec_down\": \"float32\", \"rounds\": %d,"
             " \"cohort\": %d, \"goal\": %d, \"minimum\": %d, \"deadline_s\": 20}",
             ROUNDS, GOAL + 4, GOAL, GOAL);
    assert_int_equal(fed_cluster_task(&w->cluster, w->run.directory, text), 1);
}

static int setup(void **state) {
    char store[400];
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->run = (chaos_run){.seed = 1, .wait_most_ms = 300, .far = -1};
    w->run.board = fault_shared_new(sizeof *w->run.board);
    assert_non_null(w->run.board);
    fed_test_tmpdir(w->run.directory, sizeof w->run.directory);
    fed_postgres_open(&w->database);
    snprintf(store, sizeof store, "postgres:%s", w->database.where);
    fed_cluster_open(&w->cluster, w->run.directory, store, MEMBERS);
    snprintf(w->run.ca, sizeof w->run.ca, "%s", w->cluster.ca);
    w->run.servers = w->cluster.servers;
    make_task(w);
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_cluster_start_ready(&w->cluster, k);
    }
    w->limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child_end(&w->device[k]);
    }
    fed_cluster_close(&w->cluster);
    fed_postgres_close(&w->database);
    fed_test_rmdir(w->run.directory);
    fault_shared_free(w->run.board, sizeof *w->run.board);
    free(w);
    return 0;
}

/* Start devices again that ended too early. Returns how many have not finished. */
static unsigned tend_devices(world *w) {
    for (unsigned k = 0; k < DEVICES; k++) {
        chaos_child *d = &w->device[k];
        int how = 0;
        if (d->pid > 0 && waitpid(d->pid, &how, WNOHANG) == d->pid) {
            assert_true(chaos_child_note(d, how, NULL) <= CHAOS_ENDED_AGAIN);
        }
    }
    return chaos_raise(&w->run, 0, DEVICES, w->device, w->token);
}

static void wait_a_little(const world *w) {
    if (fed_clock_monotonic_ms() > w->limit_ms) {
        fail_msg("D6 in docs/durability.md: the task is not over in time");
    }
    fed_sleep_ms(POLL_MS);
}

static void enrol_all(world *w) {
    for (unsigned k = 0; k < DEVICES; k++) {
        fed_cluster_token(&w->cluster, "", w->token[k]);
    }
    while (w->run.board->enrolled < DEVICES) {
        (void)tend_devices(w);
        wait_a_little(w);
    }
    w->run.board->storm = 1;
}

static unsigned await_leader(world *w, uint64_t before, uint64_t *term) {
    int leader = fed_cluster_leader(&w->cluster, term);
    while (leader < 0 || *term <= before) {
        if (w->run.board->enrolled > 0) {
            (void)tend_devices(w);
        }
        wait_a_little(w);
        leader = fed_cluster_leader(&w->cluster, term);
    }
    return (unsigned)leader;
}

static void kill_leader(world *w) {
    uint64_t term = 0;
    const unsigned leader = await_leader(w, 0, &term);
    fed_cluster_signal(&w->cluster, leader, SIGKILL);
    w->kills++;
    assert_true(await_leader(w, term, &term) != leader);
    fed_cluster_start(&w->cluster, leader);
    w->acknowledged = w->run.board->acknowledged;
}

static void check(world *w) {
    federation_result result = {0};
    federation_setup setup = {.model = MODEL, .devices = DEVICES, .tasks = 1};
    chaos_judge_all(&setup, w->run.directory, &result);
    print_message("%u leaders killed; %u updates acknowledged, %u lost, %u counted twice: %s\n",
                  w->kills, result.counted, result.lost, result.twice,
                  result.broken[0] != '\0' ? result.broken : "the same bits");
    assert_string_equal(result.broken, "");
    assert_int_equal(result.counted, GOAL * ROUNDS);
}

FED_TEST_WITH(the_model_is_exact_though_leaders_are_killed_within_rounds, world *w) {
    enrol_all(w);
    while (tend_devices(w) > 0) {
        if (w->run.board->acknowledged >= w->acknowledged + GOAL * 3 / 2) {
            kill_leader(w);
        }
        wait_a_little(w);
    }
    check(w);
    assert_true(w->kills >= 3);
}

/* Ask the front of coordinator k, which may forward the request to the leader. */
static fed_reply ask_front(const world *w, unsigned k, const char *path) {
    fed_pem ca;
    char url[200];
    snprintf(ca.text, sizeof ca.text, "%s", w->cluster.ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->cluster.front, path);
    snprintf(url, sizeof url, "https://%s:%u%s", w->cluster.member[k].bind, w->cluster.front, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    const fed_reply reply = fed_curl_ask(curl);
    curl_easy_cleanup(curl);
    return reply;
}

/* On a busy machine another coordinator may lead at any time, so the leader is looked up anew. */
FED_TEST_WITH(every_front_tells_what_the_leader_knows, world *w) {
    for (unsigned k = 0; k < MEMBERS; k++) {
        bool said = false;
        while (!said) {
            char leads[100];
            uint64_t term = 0;
            const unsigned leader = await_leader(w, 0, &term);
            snprintf(leads, sizeof leads,
                     "\"leader\":\"%s:%u\",\"term\":%u,\"followers\":2,\"since_ms\":1",
                     w->cluster.member[leader].bind, w->cluster.member[leader].link,
                     (unsigned)term);
            fed_reply r = ask_front(w, k, "/v1/status");
            said = r.status == 200 && strstr(fed_reply_text(&r.body), leads) != NULL;
            fed_reply_free(&r);
            wait_a_little(w);
        }
    }
}

/* How many coordinators' metrics have these words? */
static unsigned tell(const world *w, const char *words) {
    unsigned count = 0;
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_reply r = ask_front(w, k, "/metrics");
        count += r.status == 200 && strstr(fed_reply_text(&r.body), words) != NULL;
        fed_reply_free(&r);
    }
    return count;
}

static const struct sum {
    const char *words;
    unsigned coordinators; /* so many have the words in their metrics */
} sums[] = {{"\nfed_leads 1\n", 1},
            {"\nfed_leads 0\n", MEMBERS - 1},
            {"\nfed_updates_total{", 1},
            {"\nfed_task_info{", 1},
            {"\nfed_devices ", 1},
            {"\nfed_resident_bytes ", MEMBERS},
            {"\nfed_front_resident_bytes ", MEMBERS},
            {"\nfed_front_connections 0\n", 0}, /* the question is one */
            {"\nfed_front_connections ", MEMBERS}};
enum { SUMS = sizeof sums / sizeof sums[0] };

/* Count the sums. Returns whether one coordinator led all the time, and the others knew it. */
static bool count_sums(world *w, unsigned told[SUMS]) {
    char term_line[40];
    uint64_t term = 0, after = 0;
    (void)await_leader(w, 0, &term);
    snprintf(term_line, sizeof term_line, "\nfed_term %u\n", (unsigned)term);
    if (tell(w, "\nfed_coordinators 3\n") != 1 || tell(w, term_line) != MEMBERS) {
        return false;
    }
    for (size_t k = 0; k < SUMS; k++) {
        told[k] = tell(w, sums[k].words);
    }
    (void)await_leader(w, 0, &after);
    return after == term;
}

/* A sum over all coordinators counts each update, task and device once, and each process. */
FED_TEST_WITH(metrics_of_three_coordinators_add_up, world *w) {
    unsigned told[SUMS] = {0};
    while (!count_sums(w, told)) {
        wait_a_little(w);
    }
    for (size_t k = 0; k < SUMS; k++) {
        if (told[k] != sums[k].coordinators) {
            fail_msg("%u coordinators have%s", told[k], sums[k].words);
        }
    }
}

/* How many coordinators say these words of themselves? */
static unsigned place(const world *w, const char *words) {
    unsigned count = 0;
    for (unsigned k = 0; k < MEMBERS; k++) {
        fed_reply r = ask_front(w, k, "/v1/coordinator");
        count += r.status == 200 && strstr(fed_reply_text(&r.body), words) != NULL;
        fed_reply_free(&r);
    }
    return count;
}

FED_TEST_WITH(each_coordinator_says_of_itself_whether_it_leads, world *w) {
    uint64_t term = 0, after = 1;
    unsigned lead = 0, follow = 0;
    while (term != after) {
        (void)await_leader(w, 0, &term);
        lead = place(w, "\"leads\":true");
        follow = place(w, "\"leads\":false");
        (void)await_leader(w, 0, &after);
    }
    assert_int_equal(lead, 1);
    assert_int_equal(follow, MEMBERS - 1);
}

static void await_end(world *w, unsigned k) {
    int how = -1;
    while (!fed_cluster_ended(&w->cluster, k, &how)) {
        wait_a_little(w);
    }
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

FED_TEST_WITH(a_leader_that_is_stopped_hands_over_and_ends_well, world *w) {
    uint64_t term = 0;
    bool stopped[MEMBERS] = {false};
    for (unsigned k = 0; k < MEMBERS; k++) {
        const unsigned leader = await_leader(w, term, &term);
        assert_false(stopped[leader]);
        stopped[leader] = true;
        fed_cluster_signal(&w->cluster, leader, SIGTERM);
        await_end(w, leader);
    }
}

int main(void) {
    if (!fed_postgres_is_there()) {
        return 77;
    }
    return fed_cases_run_each(setup, teardown);
}
