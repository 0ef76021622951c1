/* The client as apps use it: texts are copied, callbacks get the program's pointer, and any thread
 * can end it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>

#include "fed/clock.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fedclient/app.h"

enum { VALUES = 5 };

typedef struct world {
    char directory[256];
    fed_coordinator home;
    fedclient_app *app;
    unsigned trained, asked, progress, rooms;
    float room[64 + VALUES]; /* memory for a record: its head, then VALUES values */
    atomic_bool in_step, stopped;
} world;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    world *w = user;
    assert_int_equal(round->arch->layout.size, VALUES);
    fedclient_round_progress(round, 1, 1);
    FED_TRY(fedclient_round_wanted(round, err));
    round->values[0] += 1;
    round->samples = 1;
    w->trained++;
    return FED_OK;
}

static fed_status may_train(void *user, fed_error *err) {
    (void)err;
    ((world *)user)->asked++;
    return FED_OK;
}

static bool stopped(void *user) {
    return atomic_load(&((world *)user)->stopped);
}

static void progress(void *user, const fedclient_round *round, uint32_t done, uint32_t total) {
    (void)round;
    ((world *)user)->progress += done == 1 && total == 1;
}

static void *room(void *user, size_t len) {
    world *w = user;
    w->rooms++;
    assert_true(len <= sizeof w->room);
    return w->room;
}

static fed_status open_app(world *w, const char *server, fed_error *err) {
    char address[64], name[] = "a name", state[300], ca[65536];
    snprintf(address, sizeof address, "%s", server);
    snprintf(state, sizeof state, "%s/device", w->directory);
    snprintf(ca, sizeof ca, "%s", w->home.ca);
    fed_log log = {.level = FED_LOG_ERROR};
    const fedclient_options options = {.server = address,
                                       .name = name,
                                       .log = &log,
                                       .hold_ms = 20000,
                                       .train = train,
                                       .may_train = may_train,
                                       .stopped = stopped,
                                       .progress = progress,
                                       .room = room,
                                       .user = w};
    const fed_status status = fedclient_app_open(&options, ca, state, &w->app, err);
    memset(address, 'x', sizeof address); /* the options were copied: no effect */
    memset(name, 'x', sizeof name);
    memset(ca, 'x', sizeof ca);
    memset(&log, 0xff, sizeof log);
    return status;
}

static void enrol(world *w) {
    char token[FEDSERVER_TOKEN], url[64];
    fed_error err = {0};
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->home.front);
    assert_fed_ok_err(open_app(w, url, &err));
    fed_coordinator_token(&w->home, token);
    assert_fed_ok_err(fedclient_enrol(fedclient_app_client(w->app), token, &err));
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->home, w->directory, "home");
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedclient_app_close(w->app);
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void add_task(const world *w) {
    static const char json[] = "{\"model\": \"vector 5\", \"rounds\": 1, \"cohort\": 1}";
    char path[320];
    uint64_t id = 0;
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_put(w->directory, "task.json", json, sizeof json - 1);
    snprintf(path, sizeof path, "%s/task.json", w->directory);
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    fedserver_close(server);
}

FED_TEST_WITH(every_callback_gets_the_programs_user, world *w) {
    fed_error err = {0};
    fedclient_event event = {0};
    add_task(w);
    enrol(w);
    while (event.outcome != FEDCLIENT_FINISHED) {
        assert_fed_ok_err(fedclient_step(fedclient_app_client(w->app), &event, &err));
    }
    assert_int_equal(w->trained, 1);
    assert_int_equal(w->progress, 1);
    assert_int_equal(w->rooms, 1);
    assert_true(w->asked > 1);
}

static void *stop_a_waiting_step(void *user) {
    world *w = user;
    while (!atomic_load(&w->in_step)) {
        fed_sleep_ms(1);
    }
    fed_sleep_ms(100); /* until the thread waits for its answer */
    fedclient_app_stop(w->app);
    return NULL;
}

FED_TEST_WITH(another_thread_ends_a_step_that_waits, world *w) {
    fed_error err = {0};
    fedclient_event event = {0};
    pthread_t thread;
    enrol(w); /* enrolled, but there is no task */
    assert_int_equal(pthread_create(&thread, NULL, stop_a_waiting_step, w), 0);
    atomic_store(&w->in_step, true);
    fed_status status = FED_OK;
    while (status == FED_OK) {
        status = fedclient_step(fedclient_app_client(w->app), &event, &err);
    }
    pthread_join(thread, NULL);
    assert_fed_status(status, FED_ECANCELED);
    assert_true(fedclient_app_stopped(w->app));
    assert_fed_status(fedclient_step(fedclient_app_client(w->app), &event, &err), FED_ECANCELED);
}

FED_TEST_WITH(a_run_trains_until_the_end, world *w) {
    fed_error err = {0};
    add_task(w);
    enrol(w);
    assert_fed_ok_err(fedclient_app_run(w->app, NULL, &err));
    assert_int_equal(w->trained, 1);
}

static void *interrupt_a_waiting_run(void *user) {
    world *w = user;
    fed_sleep_ms(100); /* until the thread most likely waits for its answer */
    atomic_store(&w->stopped, true);
    return NULL;
}

/* A signal, or an interrupt of a thread in Java, ends what goes on, and not the client. */
FED_TEST_WITH(a_run_that_waits_is_interrupted_and_the_next_one_goes_on, world *w) {
    fed_error err = {0};
    pthread_t thread;
    enrol(w); /* enrolled, but there is no task */
    assert_int_equal(pthread_create(&thread, NULL, interrupt_a_waiting_run, w), 0);
    assert_fed_status(fedclient_app_run(w->app, NULL, &err), FED_ECANCELED);
    pthread_join(thread, NULL);
    assert_false(fedclient_app_stopped(w->app));
    atomic_store(&w->stopped, false);
    add_task(w);
    assert_fed_ok_err(fedclient_app_run(w->app, NULL, &err));
    assert_int_equal(w->trained, 1);
}

FED_TEST_WITH(a_failed_open_leaves_nothing, world *w) {
    fed_error err = {0};
    assert_fed_status(open_app(w, "http://nowhere", &err), FED_EINVAL);
    assert_fed_says(err, "http://nowhere");
    assert_null(w->app);
    enrol(w); /* succeeds, because the folder's lock is free */
    fedclient_platform platform;
    const fedclient_options options = {.platform = &platform, .train = train};
    fedclient_app *second = NULL;
    assert_fed_status(fedclient_app_open(&options, w->home.ca, w->directory, &second, &err),
                      FED_EINVAL);
    assert_fed_says(err, "fedclient_open");
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
