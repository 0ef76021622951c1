/* Another program holds the database of a `fedserver run` that serves. Neither of its two processes
 * ends: both answer 503 until the database is free. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sqlite3.h>

#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fed_cases.h"
#include "fed_curl.h"

enum { TOKENS = 4, LIMIT_MS = 120000, PAUSE_MS = 20 };

typedef struct world {
    char directory[300], task[400];
    sim_coordinator coordinator;
    char token[TOKENS][FEDSERVER_TOKEN];
    fed_identity device;
    sqlite3 *other; /* the other program's connection to the database */
} world;

static int setup(void **state) {
    static world w;
    static const char task[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1}";
    char path[600];
    fed_error err = {0};
    w = (world){.other = NULL};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.task, sizeof w.task, "%s/task.json", w.directory);
    fed_test_put(w.directory, "task.json", task, strlen(task));
    const sim_options options = {
        .transport = SIM_HTTPS, .task = w.task, .fedserver = FED_BIN_DIR "/fedserver"};
    assert_fed_ok_err(sim_coordinator_prepare(&w.coordinator, &options, TOKENS, w.token, &err));
    assert_fed_ok_err(sim_coordinator_start(&w.coordinator, &err));
    snprintf(path, sizeof path, "%s/server.db", w.coordinator.directory);
    assert_int_equal(sqlite3_open(path, &w.other), SQLITE_OK);
    sqlite3_busy_timeout(w.other, LIMIT_MS);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_error err = {0};
    sqlite3_close(w->other);
    const fed_status ended = sim_coordinator_stop(&w->coordinator, SIGTERM, &err);
    sim_coordinator_clean(&w->coordinator);
    fed_test_rmdir(w->directory);
    return ended == FED_OK ? 0 : 1;
}

static void tell_other(const world *w, const char *sql) {
    assert_int_equal(sqlite3_exec(w->other, sql, NULL, NULL, NULL), SQLITE_OK);
}

static long enrol(world *w, unsigned k) {
    fed_identity who;
    const long status =
        fed_curl_enrol(&w->coordinator.ca, w->coordinator.front_port, w->token[k], &who);
    w->device = status == 200 ? who : w->device;
    return status;
}

/* Check in. Returns the HTTP status of the answer. */
static long check_in(const world *w) {
    uint8_t message[128];
    fed_writer writer;
    const fed_checkin checkin = {.protocol = FED_PROTOCOL_OLDEST, .samples = 1};
    fed_writer_fixed(&writer, message, sizeof message);
    fed_checkin_write(&writer, &checkin);
    CURL *curl =
        fed_curl_new(&w->coordinator.ca, &w->device, w->coordinator.devices_port, "/v1/checkin");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)writer.len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, message);
    fed_reply r = fed_curl_ask(curl);
    const long status = r.status;
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    return status;
}

static long health(const world *w) {
    CURL *curl = fed_curl_new(&w->coordinator.ca, NULL, w->coordinator.front_port, "/healthz");
    fed_reply r = fed_curl_ask(curl);
    const long status = r.status;
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    return status;
}

static void await_check_in(const world *w, long status) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    for (long got = 0; got != status; got = check_in(w)) {
        assert_true(fed_clock_monotonic_ms() < limit_ms);
        fed_sleep_ms(PAUSE_MS);
    }
}

/* The process of the rounds may just hold the database, too. */
static void await_enrolment(world *w, unsigned k) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    for (long got = 503; got != 200; got = enrol(w, k)) {
        assert_true(got == 503 && fed_clock_monotonic_ms() < limit_ms);
        fed_sleep_ms(PAUSE_MS);
    }
}

FED_TEST_WITH(a_held_database_ends_neither_rounds_nor_front, world *w) {
    fed_error err = {0};
    assert_int_equal(enrol(w, 0), 200);
    const pid_t front = fed_test_child(w->coordinator.pid);
    tell_other(w, "BEGIN EXCLUSIVE");
    await_check_in(w, 503);
    assert_int_equal(enrol(w, 1), 503); /* after five seconds */
    assert_int_equal(check_in(w), 503);
    assert_int_equal(health(w), 200); /* or a supervisor would end the coordinator */
    tell_other(w, "COMMIT");
    await_check_in(w, 200);
    await_enrolment(w, 1); /* the token is as good as before */
    assert_fed_ok_err(sim_coordinator_alive(&w->coordinator, &err));
    assert_int_equal(fed_test_child(w->coordinator.pid), front);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
