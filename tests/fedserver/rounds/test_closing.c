/* A round that is closed by a thread: what devices are told meanwhile, in which round updates
 * count, what a restart finds, and that the model has the same bits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "fed_postgres.h"
#include "fedserver/open.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/rounds/turns.h"
#include "fedserver/stores/stores.h"

enum { PARAMETERS = 6 };

#define TASK(more)                                                                                 \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"3lc:s=1\","   \
    " \"small_tensor\": 0, \"rounds\": 3, \"cohort\": 3, \"goal\": 2, \"deadline_s\": 10" more "}"

static const float ones[PARAMETERS] = {1, 1, 1, 1, 1, 1};
static const float some[PARAMETERS] = {0.5f, -2, 3, 0.25f, -1, 4};

static fedserver_store_choice real; /* the coordinator's store */
static fedserver_store gated; /* `real`, but while `shut` is set, a blob's write waits at `gate` */
static sem_t gate;
static atomic_bool shut, fails;
static atomic_int kept;
/* Blob files that were written: by which handle, and whether that handle has committed. */
static struct kept_file {
    void *db;
    uint64_t digest;
    bool committed;
} files[400];
static size_t file_count, rows_checked;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_file(void *db, uint64_t digest) {
    pthread_mutex_lock(&files_lock);
    if (file_count < sizeof files / sizeof files[0]) {
        files[file_count++] = (struct kept_file){.db = db, .digest = digest};
    }
    pthread_mutex_unlock(&files_lock);
}

static fed_status gated_commit(void *db, fed_error *err) {
    const fed_status status = real.store->commit(db, err);
    pthread_mutex_lock(&files_lock);
    for (size_t k = 0; k < file_count && status == FED_OK; k++) {
        files[k].committed = files[k].committed || files[k].db == db;
    }
    pthread_mutex_unlock(&files_lock);
    return status;
}

/* Check that the handle that wrote this file has committed, because a row names the file. */
static void assert_committed(uint64_t digest) {
    bool found = false;
    pthread_mutex_lock(&files_lock);
    for (size_t k = 0; k < file_count; k++) {
        found = found || (files[k].digest == digest && files[k].committed);
    }
    rows_checked++;
    pthread_mutex_unlock(&files_lock);
    assert_true(found);
}

static fed_status gated_model_put(void *db, uint64_t task, const fedserver_model_row *row,
                                  fed_error *err) {
    if (row->kept) {
        assert_committed(row->digest);
        assert_committed(row->residual_digest);
    }
    if (row->kept && row->state_len > 0) {
        assert_committed(row->state_digest);
    }
    return real.store->model_put(db, task, row, err);
}

static fed_status gated_delta_add(void *db, uint64_t task, uint32_t version, const uint8_t *part,
                                  size_t len, const uint64_t *digest, fed_error *err) {
    if (digest != NULL) {
        assert_committed(*digest);
    }
    return real.store->delta_add(db, task, version, part, len, digest, err);
}

static fed_status gated_keyframe_add(void *db, uint64_t task, const fedserver_keyframe *keyframe,
                                     fed_error *err) {
    if (keyframe->kept) {
        assert_committed(keyframe->digest);
    }
    return real.store->keyframe_add(db, task, keyframe, err);
}

static fed_status gated_put(void *db, uint64_t task, uint64_t digest, const void *bytes, size_t len,
                            fed_error *err) {
    atomic_fetch_add(&kept, 1);
    if (atomic_load(&shut)) {
        while (sem_wait(&gate) != 0) {
        }
    }
    if (atomic_load(&fails)) {
        return fed_fail(err, FED_EIO, "a planted fault");
    }
    const fed_status status = real.store->blob_put(db, task, digest, bytes, len, err);
    if (status == FED_OK) {
        note_file(db, digest);
    }
    return status;
}

static void open_gate(void) {
    atomic_store(&shut, false);
    sem_post(&gate);
}

static void open_apart(coordinator *c, size_t apart_values) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_store_read(c->directory, &real, &err));
    gated = *real.store;
    gated.blob_put = gated_put;
    gated.commit = gated_commit;
    gated.model_put = gated_model_put;
    gated.delta_add = gated_delta_add;
    gated.keyframe_add = gated_keyframe_add;
    assert_fed_ok_err(fedserver_open_store(c->directory, &gated, NULL, &c->server, &err));
    fedserver_configure(c->server, &(fedserver_setup){.apart_values = apart_values});
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    fedserver_ports(c->server, 8443, 8444);
}

static void reopen(coordinator *c, size_t apart_values) {
    fedserver_close(c->server);
    open_apart(c, apart_values);
}

static int begin(void **state) {
    coordinator_begin(state);
    atomic_store(&shut, false);
    atomic_store(&fails, false);
    atomic_store(&kept, 0);
    file_count = rows_checked = 0;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    reopen(*state, 1);
    return 0;
}

static int end(void **state) {
    open_gate();
    coordinator_end(state);
    sem_destroy(&gate);
    return 0;
}

#define APART(test) cmocka_unit_test_setup_teardown(test, begin, end)

static const fedserver_training *training_of(const coordinator *c) {
    return fedserver_rounds_front(&c->server->rounds);
}

static bool closes(const coordinator *c) {
    return training_of(c)->round.phase == FEDSERVER_ROUND_CLOSING;
}

/* Commit the batch, which starts the thread. Then wait for the new version as a serving program
 * does: first for the descriptor, then in a batch. */
static void finish_closing(coordinator *c) {
    coordinator_commit(c);
    while (closes(c)) {
        struct pollfd bell = {.fd = fedserver_wake_fd(c->server), .events = POLLIN};
        assert_int_equal(poll(&bell, 1, 60000), 1);
        coordinator_wait(c, 0);
        coordinator_commit(c);
    }
}

static int count_blobs(const coordinator *c) {
    int count = 0;
    if (real.where[0] != '\0') {
        char rows[24];
        fed_postgres_sql(real.where, "SELECT count(DISTINCT (task, digest)) FROM fedserver.blobs",
                         rows, sizeof rows);
        return atoi(rows);
    }
    DIR *folder = opendir(c->directory);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        count += strncmp(e->d_name, "blob-", 5) == 0;
    }
    closedir(folder);
    return count;
}

static void expect_sound(coordinator *c) {
    fedserver_close(c->server);
    coordinator_check(c->directory);
    open_apart(c, 1);
}

static void devices_wait_late_updates_are_refused_and_the_old_version_is_handed_out(void **state) {
    coordinator *c = *state;
    char word[32];
    test_device d[4];
    fed_assignment work[3];
    float values[PARAMETERS];
    for (int k = 0; k < 4; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, TASK(""));
    for (int k = 0; k < 3; k++) {
        work[k] = device_ask_work(c, &d[k]);
        assert_int_equal(work[k].action, FED_ACTION_TRAIN);
    }
    atomic_store(&shut, true);
    assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &d[1], &work[1], some, 1, NULL), 200);
    coordinator_commit(c);
    for (int k = 0; k < 3; k++) {
        assert_true(closes(c));
        assert_int_equal(device_ask_work(c, &d[3]).action, FED_ACTION_WAIT);
        assert_int_equal(device_ask_work(c, &d[2]).action, FED_ACTION_WAIT);
        assert_int_equal(device_ask_work(c, &d[0]).reason, FED_WAIT_REPORTED);
        assert_int_equal(device_upload(c, &d[2], &work[2], ones, 1, word), 409);
        assert_string_equal(word, "round_closed");
        assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
        assert_int_equal(device_download(c, &d[3], &work[0].task, -1, 0, values, NULL), 200);
        assert_int_equal(device_download(c, &d[3], &work[0].task, 0, 1, values, NULL), 404);
        coordinator_wait(c, 20000); /* the deadline passes and changes nothing */
        coordinator_commit(c);
    }
    assert_false(fedserver_has_its_turn(training_of(c), coordinator_device(c, &d[3])));
    assert_int_equal(training_of(c)->versions.version, 0);
    open_gate();
    finish_closing(c);
    assert_true(fedserver_has_its_turn(training_of(c), coordinator_device(c, &d[3])));
    assert_int_equal(training_of(c)->versions.version, 1);
    assert_int_equal(training_of(c)->round.number, 2);
    assert_int_equal(device_download(c, &d[3], &work[0].task, 0, 1, values, NULL), 200);
    assert_memory_equal(values, training_of(c)->versions.values, sizeof values);
    assert_int_equal(device_ask_work(c, &d[3]).round, 2);
}

static void a_new_device_gets_a_task_that_does_not_close(void **state) {
    coordinator *c = *state;
    coordinator_task(c, TASK(", \"priority\": 9"));
    atomic_store(&shut, true);
    for (int k = 0; k < 2; k++) {
        const test_device d = coordinator_enrol(c);
        const fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    }
    coordinator_commit(c);
    assert_true(closes(c));
    const uint64_t other = coordinator_task(c, TASK(""));
    const test_device late = coordinator_enrol(c);
    const fed_assignment work = device_ask_work(c, &late);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_true(work.task.id == other);
    open_gate();
    finish_closing(c);
}

static bool any_closes(const coordinator *c) {
    const fedserver_rounds *rounds = &c->server->rounds;
    bool any = false;
    for (size_t k = 0; k < rounds->task_count; k++) {
        any = any || rounds->tasks[k]->round.phase == FEDSERVER_ROUND_CLOSING;
    }
    return any;
}

static void rounds_of_two_tasks_close_at_once(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    for (int k = 0; k < 2; k++) {
        coordinator_task(c, TASK(""));
    }
    atomic_store(&shut, true);
    for (int k = 0; k < 4; k++) {
        const test_device d = coordinator_enrol(c);
        const fed_assignment work = device_ask_work(c, &d);
        assert_int_equal(device_upload(c, &d, &work, ones, 1, NULL), 200);
    }
    coordinator_commit(c);
    for (size_t k = 0; k < 2; k++) {
        assert_non_null(c->server->rounds.tasks[k]->closing);
    }
    open_gate();
    sem_post(&gate);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_PAUSE, &err));
    coordinator_commit(c);
    assert_int_equal(c->server->rounds.task_count, 1);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 1, FEDSERVER_RESUME, &err));
    do {
        coordinator_commit(c);
        coordinator_wait(c, 1);
    } while (any_closes(c));
    for (uint64_t id = 1; id <= 2; id++) {
        assert_int_equal(fedserver_rounds_task(&c->server->rounds, id)->versions.version, 1);
    }
    expect_sound(c);
}

static void status_and_metrics_say_that_the_round_closes(void **state) {
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, TASK(""));
    atomic_store(&shut, true);
    for (int k = 0; k < 2; k++) {
        fed_assignment work = device_ask_work(c, &d[k]);
        assert_int_equal(device_upload(c, &d[k], &work, ones, 1, NULL), 200);
    }
    coordinator_commit(c);
    answer status = coordinator_ask(c, NULL, "GET", "/v1/status", "", NULL, 0);
    char closing[64];
    snprintf(closing, sizeof closing, "\"closing_ms\":%lld", (long long)c->now_ms);
    assert_non_null(strstr((char *)status.body, closing));
    assert_non_null(strstr((char *)status.body, "version 1 is being made of 2 updates"));
    answer_free(&status);
    answer metrics = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)metrics.body, "fed_round_closing{task=\"1\"} 1"));
    answer_free(&metrics);
    open_gate();
    finish_closing(c);
    metrics = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)metrics.body, "fed_round_closing{task=\"1\"} 0"));
    answer_free(&metrics);
}

static uint64_t train(coordinator *c, const char *task) {
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, task);
    float x[PARAMETERS];
    for (uint32_t round = 1; round <= 3; round++) {
        fed_assignment work[2] = {device_ask_work(c, &d[0]), device_ask_work(c, &d[1])};
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < PARAMETERS; i++) {
                x[i] = some[i] * (float)(1 + k) / (float)(round + 2);
            }
            assert_int_equal(work[k].round, round);
            assert_int_equal(device_upload(c, &d[k], &work[k], x, 1 + (uint32_t)k, NULL), 200);
        }
        finish_closing(c);
        assert_int_equal(training_of(c)->versions.version, round);
    }
    return training_of(c)->versions.digest;
}

static void a_thread_makes_the_version_that_the_caller_would_make(void **state) {
    (void)state;
    static const char *const tasks[] = {
        TASK(""), TASK(", \"strategy\": \"fedadam:lr=0.01\""), TASK(", \"strategy\": \"median\""),
        TASK(", \"staleness\": 2"), TASK(", \"device_share\": 0.5")};
    for (size_t k = 0; k < sizeof tasks / sizeof tasks[0]; k++) {
        uint64_t digest[2];
        for (size_t apart = 0; apart < 2; apart++) {
            coordinator c;
            coordinator_setup(&c);
            reopen(&c, apart);
            atomic_store(&kept, 0);
            digest[apart] = train(&c, tasks[k]);
            assert_true((atomic_load(&kept) > 0) == (apart == 1));
            expect_sound(&c);
            assert_int_equal(training_of(&c)->versions.digest, digest[apart]);
            coordinator_teardown(&c);
        }
        assert_int_equal(digest[0], digest[1]);
    }
}

static void files_do_not_pile_up(void **state) {
    coordinator *c = *state;
    train(c, TASK(", \"strategy\": \"fedadam:lr=0.01\""));
    /* Left are the values, residual and state of the last version, and two older versions. */
    fedserver_close(c->server); /* ends the thread that deletes files which no row names */
    assert_int_equal(count_blobs(c), 5);
    open_apart(c, 1);
    float *old = NULL;
    fed_error err = {0};
    const fedserver_archive archive = fedserver_rounds_archive(&c->server->rounds, training_of(c));
    assert_fed_ok_err(fedserver_old_versions_values((void *)(uintptr_t)&archive, 2, &old, &err));
    free(old);
}

/* The blobs are the values, the residual, the state, a delta too long for its row, and the
 * previous version. */
static void rows_name_files_that_their_closing_has_committed(void **state) {
    enum { WIDE = 200 * 100 + 100 };
    static float x[WIDE];
    coordinator *c = *state;
    test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, "{\"model\": \"input 200 | dense 100\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"strategy\": \"fedadam:lr=0.01\","
                        " \"rounds\": 3, \"cohort\": 2, \"goal\": 2}");
    for (uint32_t round = 1; round <= 2; round++) {
        for (int k = 0; k < 2; k++) {
            const fed_assignment work = device_ask_work(c, &d[k]);
            x[k] = (float)round;
            assert_int_equal(device_upload(c, &d[k], &work, x, 1, NULL), 200);
        }
        const size_t before = rows_checked;
        atomic_store(&kept, 0);
        finish_closing(c);
        assert_int_equal(rows_checked - before, 5);
        assert_int_equal(atomic_load(&kept), round == 1 ? 5 : 4);
    }
    expect_sound(c);
}

static const char flowing[] = TASK(", \"staleness\": 2");

/* Give leases to three devices and let two report, so that the round closes. The third device
 * reports while the round closes. */
static void report_while_it_closes(coordinator *c, test_device d[3], fed_assignment work[3]) {
    for (int k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, flowing);
    for (int k = 0; k < 3; k++) {
        work[k] = device_ask_work(c, &d[k]);
    }
    assert_int_equal(device_upload(c, &d[0], &work[0], ones, 1, NULL), 200);
    assert_int_equal(device_upload(c, &d[1], &work[1], some, 2, NULL), 200);
    coordinator_commit(c);
    assert_int_equal(device_upload(c, &d[2], &work[2], some, 3, NULL), 200);
    coordinator_commit(c);
}

static uint64_t finish_second_round(coordinator *c, const test_device *d) {
    finish_closing(c);
    assert_int_equal(training_of(c)->versions.version, 1);
    assert_int_equal(training_of(c)->round.received, 1);
    assert_int_equal(training_of(c)->sum.updates, 1);
    assert_int_not_equal(training_of(c)->round.deadline_ms, 0);
    fed_assignment work = device_ask_work(c, d);
    assert_int_equal(work.round, 2);
    assert_int_equal(device_upload(c, d, &work, ones, 1, NULL), 200);
    finish_closing(c);
    assert_int_equal(training_of(c)->versions.version, 2);
    return training_of(c)->versions.digest;
}

/* Returns the digest of a run in which no thread makes the versions. */
static uint64_t reference(void) {
    coordinator c;
    test_device d[3];
    fed_assignment work[3];
    coordinator_setup(&c);
    report_while_it_closes(&c, d, work);
    const uint64_t digest = finish_second_round(&c, &d[0]);
    coordinator_teardown(&c);
    return digest;
}

static void an_asynchronous_update_counts_in_the_next_round(void **state) {
    coordinator *c = *state;
    char word[32];
    test_device d[3];
    fed_assignment work[3];
    atomic_store(&shut, true);
    report_while_it_closes(c, d, work);
    assert_true(closes(c));
    assert_int_equal(training_of(c)->round.received, 2);
    assert_int_equal(training_of(c)->round.ahead, 1);
    assert_int_equal(device_upload(c, &d[2], &work[2], some, 3, NULL), 200);
    assert_int_equal(device_upload(c, &d[2], &work[2], ones, 3, word), 409);
    assert_string_equal(word, "cloned");
    assert_int_equal(training_of(c)->round.ahead, 1);
    open_gate();
    assert_int_equal(finish_second_round(c, &d[0]), reference());
    expect_sound(c);
}

static void updates_that_come_meanwhile_may_be_all_that_the_next_round_needs(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work[3];
    for (int k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 3, \"goal\": 1,"
                        " \"deadline_s\": 10, \"staleness\": 2}");
    for (int k = 0; k < 3; k++) {
        work[k] = device_ask_work(c, &d[k]);
    }
    atomic_store(&shut, true);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(device_upload(c, &d[k], &work[k], ones, 1, NULL), 200);
        coordinator_commit(c);
    }
    assert_int_equal(training_of(c)->round.ahead, 2);
    open_gate();
    finish_closing(c);
    assert_int_equal(training_of(c)->versions.version, 2);
    assert_int_equal(training_of(c)->round.number, 3);
    assert_int_equal(training_of(c)->round.received, 0);
}

static void a_coordinator_that_ended_while_a_round_closed_closes_it_to_the_same_bits(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work[3];
    atomic_store(&shut, true);
    report_while_it_closes(c, d, work);
    atomic_store(&fails, true);
    open_gate();
    fedserver_close(c->server);
    atomic_store(&fails, false);
    expect_sound((open_apart(c, 1), c));
    assert_true(closes(c));
    assert_int_equal(training_of(c)->round.received, 2);
    assert_int_equal(training_of(c)->round.ahead, 1);
    coordinator_wait(c, 0);
    assert_int_equal(finish_second_round(c, &d[0]), reference());
}

static void what_a_thread_could_not_store_ends_the_server_and_not_the_round(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    test_device d[3];
    fed_assignment work[3];
    int64_t next_ms;
    atomic_store(&fails, true);
    for (int k = 0; k < 3; k++) {
        d[k] = coordinator_enrol(c);
    }
    coordinator_task(c, TASK(""));
    for (int k = 0; k < 2; k++) {
        work[k] = device_ask_work(c, &d[k]);
        assert_int_equal(device_upload(c, &d[k], &work[k], ones, 1, NULL), 200);
    }
    coordinator_commit(c);
    struct pollfd bell = {.fd = fedserver_wake_fd(c->server), .events = POLLIN};
    assert_int_equal(poll(&bell, 1, 60000), 1);
    assert_fed_status(fedserver_tick(c->server, c->now_ms, &next_ms, &err), FED_EIO);
    assert_fed_says(err, "a planted fault");
    atomic_store(&fails, false);
    reopen(c, 1);
    coordinator_wait(c, 0);
    finish_closing(c);
    assert_int_equal(training_of(c)->versions.version, 1);
}

static void another_way_to_close_is_taken_up_after_a_restart(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work[3];
    atomic_store(&shut, true);
    report_while_it_closes(c, d, work);
    atomic_store(&fails, true);
    open_gate();
    reopen(c, 0);
    coordinator_wait(c, 0);
    assert_int_equal(finish_second_round(c, &d[0]), reference());
}

/* Change the task through a second handle, as the command line does in another process. */
static void change_task(coordinator *c, uint64_t id, fedserver_task_deed deed) {
    fed_error err = {0};
    fedserver *other;
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_task_change(other, c->now_ms, id, deed, &err));
    fedserver_close(other);
    coordinator_commit(c);
    coordinator_wait(c, 0);
    coordinator_commit(c);
}

static void a_task_that_is_paused_while_it_closes_goes_on_later(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work[3];
    atomic_store(&shut, true);
    report_while_it_closes(c, d, work);
    const uint64_t id = training_of(c)->task.wire.id;
    open_gate();
    change_task(c, id, FEDSERVER_PAUSE);
    assert_null(training_of(c));
    assert_int_equal(device_ask_work(c, &d[0]).action, FED_ACTION_WAIT);
    change_task(c, id, FEDSERVER_RESUME);
    coordinator_wait(c, 0);
    assert_int_equal(finish_second_round(c, &d[0]), reference());
}

static void of_a_task_that_is_cancelled_while_it_closes_no_file_is_left(void **state) {
    coordinator *c = *state;
    test_device d[3];
    fed_assignment work[3];
    atomic_store(&shut, true);
    report_while_it_closes(c, d, work);
    open_gate();
    change_task(c, training_of(c)->task.wire.id, FEDSERVER_CANCEL);
    assert_null(training_of(c));
    expect_sound(c);
    coordinator_commit(c);
    assert_int_equal(count_blobs(c), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        APART(devices_wait_late_updates_are_refused_and_the_old_version_is_handed_out),
        APART(a_new_device_gets_a_task_that_does_not_close),
        APART(rounds_of_two_tasks_close_at_once),
        APART(status_and_metrics_say_that_the_round_closes),
        APART(a_thread_makes_the_version_that_the_caller_would_make),
        APART(files_do_not_pile_up),
        APART(rows_name_files_that_their_closing_has_committed),
        APART(an_asynchronous_update_counts_in_the_next_round),
        APART(updates_that_come_meanwhile_may_be_all_that_the_next_round_needs),
        APART(a_coordinator_that_ended_while_a_round_closed_closes_it_to_the_same_bits),
        APART(what_a_thread_could_not_store_ends_the_server_and_not_the_round),
        APART(another_way_to_close_is_taken_up_after_a_restart),
        APART(a_task_that_is_paused_while_it_closes_goes_on_later),
        APART(of_a_task_that_is_cancelled_while_it_closes_no_file_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
