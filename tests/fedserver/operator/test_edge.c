/* The rounds of an edge aggregator. Updates that it acknowledged reach the upstream coordinator
 * exactly once, whichever process dies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <unistd.h>

#include "fed/layout_reference.h"
#include "fedserver/edge.h"

enum { SIZE = 6, LEASE_MS = 100000 };

static const fed_task upstreams_task = {.id = 7,
                                        .model = "input 2 | dense 2",
                                        .codec_up = "float32",
                                        .small_tensor = 1024,
                                        .local_steps = 3,
                                        .batch = 8,
                                        .optimizer = "momentum:m=0.9",
                                        .learning_rate = 0.1f,
                                        .seed = 5};

typedef struct world {
    coordinator home;
    test_device device[3];
    char state[300];
    fed_task task;
    fedserver_edge *edge;
    fedserver_edge_rules rules;
    float values[SIZE];
    fedserver_edge_offer offer;
    fedserver_edge_change change;
    int commits; /* rounds that the log named as committed */
} world;

static void open_edge(world *w) {
    fed_error err = {0};
    fedserver_edge_close(w->edge);
    assert_fed_ok_err(fedserver_edge_open(w->home.server, w->state, &w->rules, &w->edge, &err));
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    coordinator_setup(&w->home);
    for (int k = 0; k < 3; k++) {
        w->device[k] = coordinator_enrol(&w->home);
    }
    fed_test_tmpdir(w->state, sizeof w->state);
    w->task = upstreams_task;
    w->rules = (fedserver_edge_rules){.cohort = 3, .goal = 2};
    w->offer = (fedserver_edge_offer){.task = &w->task,
                                      .values = w->values,
                                      .size = SIZE,
                                      .number = 1,
                                      .left_ms = LEASE_MS,
                                      .lease_ms = LEASE_MS};
    open_edge(w);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fedserver_edge_close(w->edge);
    coordinator_teardown(&w->home);
    fed_test_rmdir(w->state);
    free(w);
    return 0;
}

static void crash(world *w) {
    coordinator_crash(&w->home);
    open_edge(w);
}

static void assign(world *w, uint32_t version, float value) {
    w->offer.version = version;
    for (int i = 0; i < SIZE; i++) {
        w->values[i] = value + (float)i;
    }
}

static bool turn(world *w) {
    fed_error err = {0};
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_fed_ok_err(fedserver_edge_poll(w->edge, &w->offer, w->home.now_ms, &w->change, &err));
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    coordinator_wait(&w->home, 10);
    return w->change.ready;
}

static fed_assignment work_of(world *w, int k) {
    return device_ask_work(&w->home, &w->device[k]);
}

static int upload(world *w, int k, const fed_assignment *work, float value, uint32_t samples) {
    float x[SIZE];
    for (int i = 0; i < SIZE; i++) {
        x[i] = value;
    }
    return device_upload(&w->home, &w->device[k], work, x, samples, NULL);
}

static void train(world *w, int k, float value, uint32_t samples) {
    const fed_assignment work = work_of(w, k);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(upload(w, k, &work, value, samples), 200);
}

static void assert_values(const float *values, float first, float step) {
    for (int i = 0; i < SIZE; i++) {
        assert_true(values[i] == first + step * (float)i);
    }
}

/* Begin the task with version 0, and let two devices upload the values 1 and 3. */
static void first_round(world *w) {
    assign(w, 0, 100);
    assert_false(turn(w));
    assert_false(turn(w));
    train(w, 0, 1, 10);
    assert_false(turn(w));
    train(w, 1, 3, 30);
}

static void the_edges_devices_get_upstreams_task_and_its_values(void **state) {
    world *w = *state;
    float values[SIZE] = {0};
    assign(w, 4, 100);
    assert_false(turn(w));
    const fed_assignment work = work_of(w, 0);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_string_equal(work.task.optimizer, "momentum:m=0.9");
    assert_int_equal(work.task.local_steps, 3);
    assert_true(work.task.learning_rate == 0.1f);
    assert_int_equal(work.task.seed, 5);
    assert_int_equal(
        device_download(&w->home, &w->device[0], &work.task, -1, work.version, values, NULL), 200);
    assert_values(values, 100, 1);
}

static void check_layout(world *w, const char *text) {
    const fed_assignment work = work_of(w, 0);
    char query[40];
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_string_equal(work.task.model, w->task.model);
    snprintf(query, sizeof query, "task=%llu", (unsigned long long)work.task.id);
    answer a = coordinator_ask(&w->home, &w->device[0], "GET", "/v1/layout", query, NULL, 0);
    assert_int_equal(a.status, 200);
    assert_string_equal((const char *)a.body, text);
    answer_free(&a);
}

static void its_devices_get_the_layout_that_upstreams_task_names(void **state) {
    world *w = *state;
    char text[160];
    fed_arch arch;
    fed_error err = {0};
    bool done = false;
    snprintf(text, sizeof text, "tensors %0100d 4 | b 2", 0);
    assert_fed_ok_err(fed_arch_parse(text, &arch, &err));
    fed_layout_name(&arch, w->task.model);
    fed_arch_free(&arch);
    assert_true(fed_layout_is_reference(w->task.model));
    w->offer.model = text;
    assign(w, 0, 100);
    assert_false(turn(w));
    check_layout(w, text);
    crash(w);
    assert_false(turn(w));
    check_layout(w, text);
    while (!done) {
        assert_fed_ok_err(fedserver_commit(w->home.server, &err));
        assert_fed_ok_err(fedserver_edge_finish(w->edge, w->task.id, w->values, SIZE,
                                                w->home.now_ms, &done, &err));
        assert_fed_ok_err(fedserver_begin(w->home.server, &err));
        coordinator_wait(&w->home, 10);
    }
}

static void a_layout_that_upstream_does_not_name_is_declined(void **state) {
    world *w = *state;
    fed_error err = {0};
    snprintf(w->task.model, sizeof w->task.model, "layout 1 tensors 6 values sha256 %064d", 0);
    static const char *const wrong[] = {"tensors a 6", "", NULL};
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    for (size_t k = 0; k < 3; k++) {
        w->offer.model = wrong[k];
        err = (fed_error){0};
        assert_fed_fails(fedserver_edge_poll(w->edge, &w->offer, w->home.now_ms, &w->change, &err),
                         FED_EDECLINED,
                         wrong[k] != NULL ? "do not have the digest" : "its layout is missing");
    }
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
}

static void a_round_goes_up_as_one_change_that_weighs_its_samples(void **state) {
    world *w = *state;
    first_round(w);
    assert_true(turn(w));
    assert_values(w->values, 2.5f, 0);
    assert_int_equal(w->change.samples, 40);
    assert_true(w->change.loss > 0);
}

static void train_without_loss(world *w, int k) {
    static const float x[SIZE] = {0};
    const fed_assignment work = work_of(w, k);
    const float none = NAN;
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(&work, x, 10, &body);
    memcpy(body.data + 8 + 4 + 8 + 4, &none, sizeof none);
    answer a =
        coordinator_ask(&w->home, &w->device[k], "POST", "/v1/update", "", body.data, body.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    fed_writer_free(&body);
}

static void a_round_whose_devices_told_no_loss_goes_up_without_one(void **state) {
    world *w = *state;
    assign(w, 0, 100);
    turn(w);
    train(w, 0, 1, 10);
    train_without_loss(w, 1);
    assert_true(turn(w));
    assert_true(w->change.loss == 0.5f);
    w->offer.number++;
    assign(w, 1, 100);
    turn(w);
    train_without_loss(w, 0);
    train_without_loss(w, 1);
    assert_true(turn(w));
    assert_true(isnan(w->change.loss));
    crash(w); /* the change comes from the record */
    assert_true(turn(w));
    assert_true(isnan(w->change.loss));
}

static void a_claim_that_the_edge_lowers_weighs_as_little_upstream(void **state) {
    world *w = *state;
    w->rules.goal = 3;
    open_edge(w);
    assign(w, 0, 0);
    turn(w);
    train(w, 0, 1, 4000000000U);
    train(w, 1, 2, 10);
    train(w, 2, 4, 10);
    assert_true(turn(w));
    assert_values(w->values, 2, 0);
    assert_in_range(w->change.samples, 39, 40);
}

static void a_closed_round_takes_no_update_and_gives_no_slot(void **state) {
    world *w = *state;
    assign(w, 0, 100);
    turn(w);
    const fed_assignment late = work_of(w, 2);
    train(w, 0, 1, 10);
    train(w, 1, 1, 10);
    assert_true(turn(w));
    assert_int_equal(upload(w, 2, &late, 9, 10), 409);
    assert_int_equal(work_of(w, 2).action, FED_ACTION_WAIT);
}

static void give_back(world *w, int k) {
    const fed_assignment work = work_of(w, k);
    uint8_t body[64];
    fed_writer bytes;
    fed_writer_fixed(&bytes, body, sizeof body);
    fed_decline_write(
        &bytes, &(fed_decline){.task = work.task.id, .round = work.round, .lease = work.lease});
    answer said =
        coordinator_ask(&w->home, &w->device[k], "POST", "/v1/decline", "", body, bytes.len);
    answer_expect(&said, 200, "");
}

/* The task's row still has the cohort size with which the edge aggregator began. */
static void an_edge_that_got_more_slots_counts_all_of_them_after_a_crash(void **state) {
    world *w = *state;
    w->rules = (fedserver_edge_rules){.cohort = 1, .goal = 1};
    open_edge(w);
    assign(w, 0, 100);
    turn(w);
    turn(w);
    w->rules = (fedserver_edge_rules){.cohort = 3, .goal = 3};
    crash(w);
    turn(w);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(work_of(w, k).action, FED_ACTION_TRAIN);
    }
    assert_false(turn(w));
    crash(w);
    turn(w);
    const fedserver_training *t = fedserver_rounds_front(&w->home.server->rounds);
    assert_int_equal(t->round.leased, 3);
    for (int k = 0; k < 3; k++) {
        give_back(w, k);
    }
    assert_int_equal(t->round.leased, 0);
    assert_int_equal(work_of(w, 0).action, FED_ACTION_TRAIN);
}

static void the_next_version_commits_the_round_to_the_bit(void **state) {
    world *w = *state;
    float values[SIZE] = {0};
    first_round(w);
    assert_true(turn(w));
    assign(w, 1, 0.1f);
    w->offer.number++;
    assert_false(turn(w));
    const fed_assignment work = work_of(w, 0);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(work.round, 2);
    assert_int_equal(work.version, 1);
    for (int i = 0; i < SIZE; i++) {
        values[i] = 100 + (float)i;
    }
    assert_int_equal(
        device_download(&w->home, &w->device[0], &work.task, 0, work.version, values, NULL), 200);
    assert_memory_equal(values, w->values, sizeof values);
}

static void a_change_that_nobody_took_up_is_the_same_again(void **state) {
    world *w = *state;
    first_round(w);
    assert_true(turn(w));
    for (int k = 0; k < 3; k++) {
        crash(w);
        assign(w, k > 1 ? 1 : 0, 50);
        assert_true(turn(w));
        assert_values(w->values, 2.5f, 0);
        assert_int_equal(w->change.samples, 40);
    }
}

static void an_update_counts_in_one_change_whenever_the_edge_dies(void **state) {
    world *w = *state;
    float up = 0;
    assign(w, 0, 0);
    for (uint32_t round = 1; round <= 5; round++) {
        while (!turn(w)) {
            for (int k = 0; k < 2; k++) {
                const fed_assignment work = work_of(w, k);
                if (work.action == FED_ACTION_TRAIN) {
                    assert_int_equal(upload(w, k, &work, (float)round, 10), 200);
                    coordinator_commit(&w->home);
                }
                crash(w);
            }
        }
        if (round % 2 == 0) { /* die before the edge aggregator's own client stores the change */
            crash(w);
            assign(w, round - 1, 0);
            assert_true(turn(w));
        }
        up += w->values[0];
        w->offer.number++; /* the edge aggregator's own client has stored the change */
        crash(w);
        assign(w, round, 0);
    }
    assert_true(up == 1 + 2 + 3 + 4 + 5);
}

static void a_change_that_upstream_refused_is_not_trained_again(void **state) {
    world *w = *state;
    first_round(w);
    assert_true(turn(w));
    w->offer.number++;
    w->offer.owes = true;
    assign(w, 0, 100);
    assert_true(turn(w));
    assert_values(w->values, 0, 0); /* the edge's own client still owes the change */
    assert_int_equal(w->change.samples, 40);
    assert_int_equal(work_of(w, 2).action, FED_ACTION_WAIT);
}

static void an_asynchronous_upstream_gets_another_change_of_the_same_version(void **state) {
    world *w = *state;
    first_round(w);
    assert_true(turn(w));
    w->offer.number++; /* the upstream coordinator has counted the change */
    assign(w, 0, 100);
    assert_false(turn(w));
    train(w, 0, 4, 10);
    train(w, 2, 4, 10);
    assert_true(turn(w));
    assert_values(w->values, 4, 0);
}

static void in_the_last_quarter_a_round_closes_with_the_minimum(void **state) {
    world *w = *state;
    w->rules = (fedserver_edge_rules){.minimum = 2};
    open_edge(w);
    assign(w, 0, 0);
    turn(w);
    train(w, 0, 1, 10);
    w->offer.left_ms = LEASE_MS / 4;
    assert_false(turn(w));
    w->offer.left_ms = LEASE_MS / 4 + 1;
    train(w, 1, 1, 10);
    assert_false(turn(w));
    w->offer.left_ms = LEASE_MS / 4;
    assert_true(turn(w));
}

static void a_round_that_missed_its_version_goes_up_with_the_next(void **state) {
    world *w = *state;
    w->rules = (fedserver_edge_rules){.minimum = 1};
    open_edge(w);
    assign(w, 0, 0);
    turn(w);
    train(w, 0, 1, 10);
    assign(w, 1, 50);
    assert_true(turn(w));
    assert_values(w->values, 1, 0);
}

static void a_round_without_updates_moves_on_to_the_newer_version(void **state) {
    world *w = *state;
    assign(w, 0, 0);
    turn(w);
    const fed_assignment old = work_of(w, 0);
    assign(w, 9, 50);
    assert_false(turn(w));
    assert_int_equal(upload(w, 0, &old, 1, 10), 409);
    const fed_assignment work = work_of(w, 1);
    assert_int_equal(work.version, 1);
    float values[SIZE] = {0};
    assert_int_equal(
        device_download(&w->home, &w->device[1], &work.task, -1, work.version, values, NULL), 200);
    assert_values(values, 50, 1);
}

static void another_task_of_upstreams_ends_the_one_before(void **state) {
    world *w = *state;
    first_round(w);
    w->task.id = 8;
    assign(w, 0, 1);
    assert_false(turn(w));
    assert_false(turn(w));
    const fed_assignment work = work_of(w, 0);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(work.task.id, 2);
    assert_int_equal(work.version, 0);
}

static void so_do_new_settings_and_a_lost_record(void **state) {
    world *w = *state;
    first_round(w);
    w->task.learning_rate = 0.05f;
    assign(w, 0, 1);
    assert_false(turn(w));
    assert_false(turn(w));
    assert_int_equal(work_of(w, 0).task.id, 2);
    fed_test_rmdir(w->state);
    fed_test_tmpdir(w->state, sizeof w->state);
    open_edge(w);
    assert_false(turn(w));
    assert_false(turn(w));
    assert_int_equal(work_of(w, 0).task.id, 3);
}

static void rules_that_can_not_be_met_are_refused(void **state) {
    world *w = *state;
    fed_error err = {0};
    fedserver_edge *edge = NULL;
    const fedserver_edge_rules rules = {.cohort = 2, .goal = 3};
    assert_fed_fails(fedserver_edge_open(w->home.server, w->state, &rules, &edge, &err), FED_EINVAL,
                     "minimum <= goal <= cohort");
}

static void no_more_devices_than_the_cohort_get_a_slot(void **state) {
    world *w = *state;
    w->rules = (fedserver_edge_rules){.cohort = 2};
    open_edge(w);
    assign(w, 0, 0);
    turn(w);
    train(w, 0, 1, 10);
    assert_int_equal(work_of(w, 1).action, FED_ACTION_TRAIN);
    assert_int_equal(work_of(w, 2).action, FED_ACTION_WAIT);
    coordinator_wait(&w->home, LEASE_MS); /* device 1 does not report, so its slot becomes free */
    coordinator_wait(&w->home, 5000);
    assert_int_equal(work_of(w, 2).action, FED_ACTION_TRAIN);
}

static void a_damaged_record_is_named(void **state) {
    world *w = *state;
    fed_error err = {0};
    fedserver_edge *edge = NULL;
    fed_test_put(w->state, "site", "123456789012345", 15);
    assert_fed_fails(fedserver_edge_open(w->home.server, w->state, &w->rules, &edge, &err),
                     FED_EFORMAT, "/site is damaged");
}

static void a_person_who_resumes_a_closed_round_changes_nothing(void **state) {
    world *w = *state;
    fed_error err = {0};
    first_round(w);
    assert_true(turn(w));
    w->offer.number++;
    w->offer.owes = true;
    coordinator_commit(&w->home);
    assert_fed_ok_err(
        fedserver_task_change(w->home.server, w->home.now_ms, 1, FEDSERVER_RESUME, &err));
    coordinator_commit(&w->home);
    coordinator_wait(&w->home, 10);
    assign(w, 0, 100);
    assert_false(turn(w));
    assert_int_equal(work_of(w, 2).action, FED_ACTION_WAIT);
}

static void the_last_version_ends_the_edges_task(void **state) {
    world *w = *state;
    fed_error err = {0};
    bool done = false;
    float values[SIZE] = {0};
    first_round(w);
    const fed_task task = work_of(w, 2).task;
    assert_true(turn(w));
    assign(w, 1, 7);
    coordinator_commit(&w->home);
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_fed_ok_err(
        fedserver_edge_finish(w->edge, 7, w->values, SIZE, w->home.now_ms, &done, &err));
    assert_true(done);
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    const fed_assignment over = device_checkin(&w->home, &w->device[2], FED_ROLE_TRAIN, task.id, 0);
    assert_int_equal(over.action, FED_ACTION_DONE);
    assert_int_equal(
        device_download(&w->home, &w->device[2], &task, -1, over.version, values, NULL), 200);
    assert_values(values, 7, 1);
    assert_fed_ok_err(
        fedserver_edge_finish(w->edge, 7, w->values, SIZE, w->home.now_ms, &done, &err));
    assert_true(done);
}

/* An upstream coordinator that was restored from a backup may give a task's number to another
 * task. */
static void the_last_version_of_another_model_is_declined(void **state) {
    world *w = *state;
    fed_error err = {0};
    bool done = false;
    first_round(w);
    assert_true(turn(w));
    coordinator_commit(&w->home);
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_fed_status(
        fedserver_edge_finish(w->edge, 7, w->values, SIZE - 1, w->home.now_ms, &done, &err),
        FED_EDECLINED);
    assert_false(done);
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_fed_ok_err(
        fedserver_edge_finish(w->edge, 7, w->values, SIZE, w->home.now_ms, &done, &err));
    assert_true(done);
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
}

static void note(void *user, fedserver_check_kind kind, const char *sentence) {
    if (kind == FEDSERVER_FOUND) {
        fail_msg("the check of the directory found: %s", sentence);
    }
    (void)user;
}

static const fedserver_store *real;

/* Fail the commit and leave nothing of its batch (S18 in docs/durability.md). */
static fed_status commit_nothing(void *db, fed_error *err) {
    real->rollback(db);
    return fed_fail(err, FED_ENOSPC, "the disk is full (test)");
}

static void after_a_turn_that_was_not_stored_the_server_promises_nothing(void **state) {
    world *w = *state;
    fed_error err = {0};
    real = w->home.server->store;
    fedserver_store full = *real;
    full.commit = commit_nothing;
    first_round(w);
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    w->home.server->store = &full;
    assert_fed_fails(fedserver_edge_poll(w->edge, &w->offer, w->home.now_ms, &w->change, &err),
                     FED_ENOSPC, "the disk is full (test)");
    assert_fed_status(fedserver_begin(w->home.server, &err), FED_ESTATE);
    crash(w);
    assert_true(turn(w));
    assert_values(w->values, 2.5f, 0);
}

/* Counts the lines " committed with ". A line of the level INFO is true only after the commit. */
static void note_line(void *user, fed_log_level level, const char *line) {
    world *w = user;
    assert_true(level != FED_LOG_INFO || fedserver_settled(w->home.server));
    w->commits += strstr(line, " committed with ") != NULL;
}

static void a_turn_logs_a_round_as_committed_only_after_the_commit(void **state) {
    world *w = *state;
    fed_error err = {0};
    const fed_log log = {.write = note_line, .user = w, .level = FED_LOG_INFO};
    first_round(w);
    assert_true(turn(w));
    coordinator_commit(&w->home);
    fedserver_close(w->home.server);
    assert_fed_ok_err(fedserver_open(w->home.directory, &log, &w->home.server, &err));
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
    open_edge(w);
    w->offer.number++;
    assign(w, 1, 200);
    assert_false(turn(w));
    assert_int_equal(w->commits, 1);
    crash(w); /* the coordinator must not keep this function's log */
}

static void a_turn_waits_while_another_program_holds_the_database(void **state) {
    world *w = *state;
    char path[300];
    sqlite3 *other = NULL;
    bool done = true;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/server.db", w->home.directory);
    if (access(path, F_OK) != 0) {
        skip(); /* other stores have no file to hold */
    }
    first_round(w);
    assert_fed_ok_err(fedserver_commit(w->home.server, &err));
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_fed_ok_err(fedserver_edge_poll(w->edge, &w->offer, w->home.now_ms, &w->change, &err));
    assert_false(w->change.ready);
    assert_fed_ok_err(
        fedserver_edge_finish(w->edge, w->task.id, w->values, SIZE, w->home.now_ms, &done, &err));
    assert_false(done);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_fed_ok_err(fedserver_edge_poll(w->edge, &w->offer, w->home.now_ms, &w->change, &err));
    assert_true(w->change.ready);
    /* the edge aggregator holds the database no longer */
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE; COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_fed_ok_err(fedserver_begin(w->home.server, &err));
}

static void an_edge_passes_fedserver_check_open_and_closed(void **state) {
    world *w = *state;
    fed_error err = {0};
    for (uint32_t round = 1; round <= 3; round++) {
        assign(w, round - 1, (float)round / 3);
        turn(w);
        turn(w);
        train(w, 0, 1, 10);
        train(w, 1, 1, 10);
        for (int closed = 0; closed < 2; closed++) {
            size_t findings = 0;
            coordinator_commit(&w->home);
            fedserver_close(w->home.server);
            assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &w->home.server, &err));
            assert_fed_ok_err(fedserver_check(w->home.server, note, NULL, &findings, &err));
            coordinator_crash(&w->home);
            open_edge(w);
            assert_int_equal(findings, 0);
            assert_true(closed == 1 || turn(w));
        }
        w->offer.number++;
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(the_edges_devices_get_upstreams_task_and_its_values),
        test(its_devices_get_the_layout_that_upstreams_task_names),
        test(a_layout_that_upstream_does_not_name_is_declined),
        test(a_round_goes_up_as_one_change_that_weighs_its_samples),
        test(a_round_whose_devices_told_no_loss_goes_up_without_one),
        test(a_claim_that_the_edge_lowers_weighs_as_little_upstream),
        test(a_closed_round_takes_no_update_and_gives_no_slot),
        test(an_edge_that_got_more_slots_counts_all_of_them_after_a_crash),
        test(the_next_version_commits_the_round_to_the_bit),
        test(a_change_that_nobody_took_up_is_the_same_again),
        test(an_update_counts_in_one_change_whenever_the_edge_dies),
        test(a_change_that_upstream_refused_is_not_trained_again),
        test(an_asynchronous_upstream_gets_another_change_of_the_same_version),
        test(in_the_last_quarter_a_round_closes_with_the_minimum),
        test(a_round_that_missed_its_version_goes_up_with_the_next),
        test(a_round_without_updates_moves_on_to_the_newer_version),
        test(another_task_of_upstreams_ends_the_one_before),
        test(so_do_new_settings_and_a_lost_record),
        test(rules_that_can_not_be_met_are_refused),
        test(no_more_devices_than_the_cohort_get_a_slot),
        test(a_damaged_record_is_named),
        test(a_person_who_resumes_a_closed_round_changes_nothing),
        test(the_last_version_ends_the_edges_task),
        test(the_last_version_of_another_model_is_declined),
        test(after_a_turn_that_was_not_stored_the_server_promises_nothing),
        test(a_turn_logs_a_round_as_committed_only_after_the_commit),
        test(a_turn_waits_while_another_program_holds_the_database),
        test(an_edge_passes_fedserver_check_open_and_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
