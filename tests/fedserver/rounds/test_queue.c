/* Tasks that run side by side: which device serves which, and which tasks fit into memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>

#include "fed/rng.h"
#include "fed/version.h"
#include "fedserver/rounds/task_memory.h"

#define SMALL(keys)                                                                                \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\", "  \
    "\"deadline_s\": 10, " keys "}"
#define PLAIN SMALL("\"rounds\": 2, \"cohort\": 2")

enum { VALUES = 6 };

static const fedserver_training *task_of(const coordinator *c, uint64_t id) {
    const fedserver_training *t = fedserver_rounds_task(&c->server->rounds, id);
    assert_non_null(t);
    return t;
}

static bool runs(const coordinator *c, uint64_t id) {
    const fedserver_training *t = fedserver_rounds_task(&c->server->rounds, id);
    return t != NULL && fedserver_training_runs(t);
}

static int upload(coordinator *c, const test_device *d, const fed_assignment *work) {
    const float x[VALUES] = {1, 0, 0, 0, 0, 1};
    return device_upload(c, d, work, x, 10, NULL);
}

static uint64_t train(coordinator *c, const test_device *d, uint64_t held) {
    const fed_assignment work = device_checkin(c, d, FED_ROLE_TRAIN, held, 0);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    assert_int_equal(upload(c, d, &work), 200);
    return work.task.id;
}

static void tasks_run_side_by_side_and_share_new_devices(void **state) {
    coordinator *c = *state;
    int got[4] = {0};
    for (int k = 0; k < 3; k++) {
        coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 100, \"goal\": 50"));
    }
    for (int k = 0; k < 12; k++) {
        const test_device d = coordinator_enrol(c);
        got[device_ask_work(c, &d).task.id]++;
    }
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(runs(c, id));
        assert_int_equal(got[id], 4);
    }
}

static void a_larger_priority_is_served_first_until_it_is_full(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 5, \"priority\": 2"));
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 3, \"priority\": 7"));
    for (int k = 0; k < 5; k++) {
        const test_device d = coordinator_enrol(c);
        assert_int_equal(device_ask_work(c, &d).task.id, k < 3 ? 2 : 1);
    }
}

static void a_device_gets_only_tasks_of_its_tag(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 9, \"priority\": 9, \"tag\": \"cars\""));
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 9"));
    const fedserver_grant car = {.ttl_s = 3600, .tag = "cars"};
    const test_device a = coordinator_enrol(c), b = coordinator_enrol_as(c, &car);
    assert_int_equal(device_ask_work(c, &a).task.id, 2);
    assert_int_equal(device_ask_work(c, &b).task.id, 1);
}

/* The device's model of the task has a residual, which the device would have to drop in another
 * task (D4 in docs/durability.md). */
static void a_device_stays_with_the_task_whose_model_it_holds(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 1, \"priority\": 1"));
    const test_device a = coordinator_enrol(c);
    assert_int_equal(train(c, &a, 0), 1);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 9, \"priority\": 9"));
    const test_device other = coordinator_enrol(c);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 1, 1).task.id, 1);
    assert_int_equal(device_ask_work(c, &other).task.id, 2);
}

static void it_waits_for_that_task_where_another_has_places(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 2, \"minimum\": 2"));
    const test_device a = coordinator_enrol(c);
    assert_int_equal(train(c, &a, 0), 1);
    coordinator_task(c, PLAIN);
    const fed_assignment waits = device_checkin(c, &a, FED_ROLE_TRAIN, 1, 0);
    assert_int_equal(waits.action, FED_ACTION_WAIT);
    assert_int_equal(waits.reason, FED_WAIT_REPORTED);
}

/* A device that left for the other task could return and report in this round a second time. */
static void a_device_that_has_reported_stays_whatever_it_says_that_it_holds(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 2, \"minimum\": 2"));
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    assert_int_equal(train(c, &a, 0), 1);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 9, \"priority\": 9"));
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 0, 0).reason, FED_WAIT_REPORTED);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 2, 0).reason, FED_WAIT_REPORTED);
    assert_int_equal(task_of(c, 2)->round.leased, 0);
    assert_int_equal(train(c, &b, 1), 1);
    coordinator_wait(c, 1);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, 0, 0).task.id, 2);
}

static void it_may_leave_once_the_task_is_over_or_declined(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    const test_device a = coordinator_enrol(c);
    assert_int_equal(train(c, &a, 0), 1);
    coordinator_task(c, PLAIN);
    coordinator_task(c, PLAIN);
    const fed_assignment next = device_checkin(c, &a, FED_ROLE_TRAIN, 1, 1);
    assert_int_equal(next.action, FED_ACTION_TRAIN);
    const uint64_t left = next.task.id;
    uint8_t body[400];
    fed_writer w;
    fed_writer_fixed(&w, body, sizeof body);
    fed_decline_write(&w, &(fed_decline){.task = left,
                                         .round = next.round,
                                         .lease = next.lease,
                                         .reason = "samples are 784 values"});
    answer said = coordinator_ask(c, &a, "POST", "/v1/decline", "", body, w.len);
    assert_int_equal(said.status, 200);
    answer_free(&said);
    assert_int_equal(device_checkin(c, &a, FED_ROLE_TRAIN, left, 0).task.id, 5 - left);
}

/* Check in as a device of the first release, which names the task of its model but no capabilities.
 * Returns the task. */
static uint64_t ask_as_first_release(coordinator *c, const test_device *d, uint64_t held) {
    uint8_t body[64];
    fed_writer w;
    fed_reader r;
    fed_assignment work = {0};
    const fed_checkin asks = {.protocol = FED_PROTOCOL_OLDEST, .held = {{held, 0}}};
    fed_writer_fixed(&w, body, sizeof body);
    fed_checkin_write(&w, &asks);
    answer a = coordinator_ask(c, d, "POST", "/v1/checkin", "", body, w.len);
    assert_int_equal(a.status, 200);
    fed_reader_init(&r, a.body, a.len);
    assert_fed_ok(fed_assignment_read(&r, asks.protocol, &work));
    answer_free(&a);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    return work.task.id;
}

static void so_does_a_device_of_the_first_release(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 9, \"priority\": 1"));
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 9, \"priority\": 9"));
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    assert_int_equal(ask_as_first_release(c, &a, 0), 2);
    assert_int_equal(ask_as_first_release(c, &b, 1), 1);
}

/* The device's lease is still valid, so no other task is offered, whatever model it has (S3 in
 * docs/durability.md). */
static void a_device_has_one_lease(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 2, \"priority\": 1"));
    const test_device a = coordinator_enrol(c);
    const fed_assignment first = device_ask_work(c, &a);
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 2, \"priority\": 9"));
    const fed_assignment again = device_checkin(c, &a, FED_ROLE_TRAIN, 2, 0);
    assert_true(again.task.id == first.task.id && again.lease == first.lease);
    assert_int_equal(task_of(c, 2)->round.leased, 0);
}

static void a_deadline_of_each_task_passes_by_itself(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 2, \"minimum\": 2, \"priority\": 9"));
    coordinator_task(c, "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                        " \"rounds\": 1, \"cohort\": 2, \"deadline_s\": 100}");
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c), d = coordinator_enrol(c);
    assert_int_equal(device_ask_work(c, &a).task.id, 1);
    assert_int_equal(device_ask_work(c, &b).task.id, 1);
    assert_int_equal(train(c, &d, 0), 2);
    coordinator_wait(c, 11000);
    assert_int_equal(task_of(c, 1)->round.attempt, 2);
    assert_true(runs(c, 2));
    coordinator_wait(c, 90000);
    assert_false(runs(c, 2));
    assert_int_equal(task_of(c, 2)->versions.version, 1);
}

static fed_assignment say(coordinator *c, const test_device *d, uint8_t slots, uint64_t first,
                          uint64_t second) {
    return device_say(c, d,
                      &(fed_checkin){.capabilities = FED_CAN_TASKS,
                                     .slots = slots,
                                     .held = {{first, 0}, {second, 0}}});
}

static void a_device_with_a_free_slot_gets_the_task_that_was_served_longest_ago(void **state) {
    coordinator *c = *state;
    for (int k = 0; k < 3; k++) {
        coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 1, \"minimum\": 1"));
    }
    const test_device a = coordinator_enrol(c);
    uint64_t held[2] = {0, 0}, seen = 0;
    for (int k = 0; k < 3; k++) {
        const fed_assignment work = say(c, &a, 3, held[0], held[1]);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(work.replaces, 0);
        assert_int_equal(upload(c, &a, &work), 200);
        coordinator_wait(c, 1);
        seen |= UINT64_C(1) << work.task.id;
        held[1] = held[0];
        held[0] = work.task.id;
    }
    assert_int_equal(seen, 1 << 1 | 1 << 2 | 1 << 3);
}

static void a_device_without_a_free_slot_serves_its_own_tasks_in_turn(void **state) {
    coordinator *c = *state;
    for (int k = 0; k < 2; k++) {
        coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 1"));
    }
    coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 1, \"priority\": 9"));
    const test_device a = coordinator_enrol(c);
    uint64_t last = 2;
    for (int k = 0; k < 4; k++) {
        const fed_assignment work = say(c, &a, 2, last, 3 - last);
        assert_int_equal(work.action, FED_ACTION_TRAIN);
        assert_int_equal(work.task.id <= 2, 1);
        assert_true(k == 0 || work.task.id != last);
        assert_int_equal(work.replaces, 0);
        assert_int_equal(upload(c, &a, &work), 200);
        coordinator_wait(c, 1);
        last = work.task.id;
    }
}

static void it_reports_once_in_a_round_and_may_serve_another_task_meanwhile(void **state) {
    coordinator *c = *state;
    coordinator_task(c, SMALL("\"rounds\": 2, \"cohort\": 3, \"minimum\": 3, \"priority\": 9"));
    coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 3, \"minimum\": 3"));
    const test_device a = coordinator_enrol(c);
    for (uint64_t id = 1; id <= 2; id++) {
        const fed_assignment work = say(c, &a, 2, id == 2 ? 1 : 0, 0);
        assert_int_equal(work.task.id, id);
        assert_int_equal(upload(c, &a, &work), 200);
    }
    for (int k = 0; k < 2; k++) {
        const fed_assignment waits = say(c, &a, 2, 2, 1);
        assert_int_equal(waits.action, FED_ACTION_WAIT);
        assert_int_equal(waits.reason, FED_WAIT_REPORTED);
        coordinator_commit(c);
        coordinator_crash(c);
    }
    assert_int_equal(task_of(c, 1)->round.received, 1);
    assert_int_equal(task_of(c, 2)->round.received, 1);
}

static void a_task_that_does_not_run_makes_room(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 9"));
    coordinator_task(c, SMALL("\"rounds\": 9, \"cohort\": 9"));
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1, \"priority\": 9"));
    const test_device a = coordinator_enrol(c), b = coordinator_enrol(c);
    assert_int_equal(train(c, &b, 0), 3);
    coordinator_wait(c, 1);
    assert_false(runs(c, 3));
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_task_change(c->server, c->now_ms, 2, FEDSERVER_PAUSE, &err));
    coordinator_wait(c, 1);
    /* Of models that may be replaced, that of a finished task goes first. */
    assert_int_equal(say(c, &a, 2, 3, 2).replaces, 3);
    assert_int_equal(say(c, &a, 2, 2, 3).replaces, 3);
    assert_int_equal(say(c, &a, 1, 2, 0).replaces, 2);
    assert_int_equal(say(c, &a, 2, 1, 2).replaces, 0);
    assert_int_equal(say(c, &a, 2, 2, 0).replaces, 0);
}

static void it_gets_the_last_model_of_each_of_its_tasks(void **state) {
    coordinator *c = *state;
    const test_device a = coordinator_enrol(c);
    for (uint64_t id = 1; id <= 2; id++) {
        coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
        assert_int_equal(train(c, &a, 0), id);
        coordinator_wait(c, 1);
    }
    fed_checkin said = {.capabilities = FED_CAN_TASKS, .slots = 2, .held = {{2, 0}, {1, 0}}};
    for (uint64_t id = 2; id >= 1; id--) {
        const fed_assignment last = device_say(c, &a, &said);
        assert_int_equal(last.action, FED_ACTION_DONE);
        assert_int_equal(last.task.id, id);
        said.held[2 - id].version = 1;
    }
    assert_int_equal(device_say(c, &a, &said).reason, FED_WAIT_FINISHED);
}

static void measure(coordinator *c, const test_device *judge, const fed_assignment *work) {
    uint8_t body[64];
    fed_writer w;
    const fed_metric metric = {
        .task = work->task.id, .version = work->version, .samples = 9, .correct = 1, .loss = 1};
    fed_writer_fixed(&w, body, sizeof body);
    fed_metric_write(&w, &metric);
    answer a = coordinator_ask(c, judge, "POST", "/v1/metric", "", body, w.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
}

static void an_evaluator_measures_each_version_of_each_task_once(void **state) {
    coordinator *c = *state;
    for (int k = 0; k < 3; k++) {
        coordinator_task(c, SMALL("\"rounds\": 5, \"cohort\": 1"));
    }
    const test_device judge = coordinator_enrol_evaluator(c), d = coordinator_enrol(c);
    uint64_t seen = 0;
    for (int k = 0; k < 3; k++) {
        const fed_assignment work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
        assert_int_equal(work.action, FED_ACTION_EVALUATE);
        measure(c, &judge, &work);
        seen |= UINT64_C(1) << work.task.id;
    }
    assert_int_equal(seen, 1 << 1 | 1 << 2 | 1 << 3);
    assert_int_equal(device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0).reason, FED_WAIT_NO_MODEL);
    const uint64_t newer = train(c, &d, 0);
    const fed_assignment work = device_checkin(c, &judge, FED_ROLE_EVALUATE, 0, 0);
    assert_int_equal(work.action, FED_ACTION_EVALUATE);
    assert_true(work.task.id == newer && work.version == 1);
}

static uint64_t waiting_task(json_t *tasks, const char **why) {
    size_t k = 0;
    json_t *one = NULL;
    json_array_foreach(tasks, k, one) {
        if (json_is_string(json_object_get(one, "waits"))) {
            *why = json_string_value(json_object_get(one, "waits"));
            return (uint64_t)json_integer_value(json_object_get(one, "id"));
        }
    }
    return 0;
}

static void a_task_that_does_not_fit_waits_and_says_why(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    coordinator_one_at_a_time(c);
    coordinator_task(c, PLAIN);
    assert_true(runs(c, 1) && !runs(c, 2));
    coordinator_commit(c);
    fedserver *person = NULL;
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &person, &err));
    assert_fed_ok_err(fedserver_tasks_json(person, c->now_ms, &w, &err));
    fedserver_close(person);
    json_t *tasks = json_loadb((const char *)w.data, w.len, 0, NULL);
    const char *why = NULL;
    assert_int_equal(waiting_task(tasks, &why), 2);
    assert_non_null(strstr(why, "MB of memory, and of the "));
    assert_non_null(strstr(why, "starts when a running task ends"));
    assert_non_null(strstr(why, "--task-memory"));
    json_decref(tasks);
    fed_writer_free(&w);
    const test_device a = coordinator_enrol(c);
    assert_int_equal(train(c, &a, 0), 1);
    coordinator_wait(c, 0);
    assert_true(runs(c, 2));
}

static void read_why(coordinator *c, uint64_t id, char why[FEDSERVER_TASK_WAITS]) {
    size_t k = 0;
    json_t *status = coordinator_json(c, "/v1/status", ""), *one = NULL;
    why[0] = '\0';
    json_array_foreach(json_object_get(status, "tasks"), k, one) {
        const json_t *waits = json_object_get(one, "waits");
        if (json_integer_value(json_object_get(one, "id")) == (json_int_t)id && waits != NULL) {
            snprintf(why, FEDSERVER_TASK_WAITS, "%s",
                     json_is_string(waits) ? json_string_value(waits) : "");
        }
    }
    json_decref(status);
}

static void each_queued_task_says_why_it_does_not_run(void **state) {
    static const char large[] = "{\"model\": \"input 100 | dense 100\", \"rounds\": 1,"
                                " \"cohort\": 1}";
    coordinator *c = *state;
    char why[FEDSERVER_TASK_WAITS];
    coordinator_task(c, large);
    coordinator_one_at_a_time(c);
    coordinator_task(c, large);
    coordinator_task(c, PLAIN);
    assert_true(runs(c, 1) && !runs(c, 2) && !runs(c, 3));
    read_why(c, 1, why);
    assert_string_equal(why, "");
    read_why(c, 2, why);
    assert_non_null(strstr(why, "starts when a running task ends"));
    read_why(c, 3, why);
    assert_non_null(strstr(why, "task 2 is before it in the queue"));
    c->server->rounds.memory_limit = 0;
    read_why(c, 3, why);
    assert_non_null(strstr(why, "it fits"));
}

static void a_queued_task_is_seen_within_a_second(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    int64_t next_ms = 0;
    coordinator_task(c, PLAIN);
    assert_true(runs(c, 1));
    assert_fed_ok_err(fedserver_tick(c->server, c->now_ms, &next_ms, &err));
    assert_in_range(next_ms - c->now_ms, 1, 1000);
}

static void a_task_that_never_fits_is_refused(void **state) {
    coordinator *c = *state;
    fed_error err = {0};
    uint64_t id = 0;
    coordinator_task(c, SMALL("\"rounds\": 1, \"cohort\": 1"));
    coordinator_one_at_a_time(c);
    static const char large[] = "{\"model\": \"input 1000 | dense 1000\", \"rounds\": 1,"
                                " \"cohort\": 1}";
    char path[400];
    fed_test_put(c->directory, "large.json", large, strlen(large));
    snprintf(path, sizeof path, "%s/large.json", c->directory);
    assert_fed_status(fedserver_task_add(c->server, c->now_ms, path, &id, &err), FED_ERANGE);
    assert_non_null(strstr(err.text, "choose a smaller model, or start `fedserver run` with a "
                                     "larger --task-memory"));
}

static void a_waiting_task_is_not_overtaken_by_smaller_ones(void **state) {
    coordinator *c = *state;
    coordinator_task(c, "{\"model\": \"input 100 | dense 100\", \"rounds\": 1, \"cohort\": 1}");
    coordinator_one_at_a_time(c);
    coordinator_task(c, "{\"model\": \"input 100 | dense 100\", \"rounds\": 1, \"cohort\": 1}");
    coordinator_task(c, PLAIN);
    assert_true(runs(c, 1) && !runs(c, 2) && !runs(c, 3));
}

static void the_estimate_covers_the_vectors_of_a_task(void) {
    fed_error err = {0};
    fedserver_task task = {.strategy = "fedadam:lr=0.01", .codec_down = "float32"};
    uint64_t with_state = 0, without = 0;
    strcpy(task.wire.model, "input 1000 | dense 1000");
    strcpy(task.wire.codec_up, "sbc:p=0.01");
    const uint64_t vector = (1000 * 1000 + 1000) * sizeof(float);
    fed_arch arch;
    assert_fed_ok_err(fed_arch_parse(task.wire.model, &arch, &err));
    assert_fed_ok_err(fedserver_memory_of(&task, &arch.layout, &with_state, &err));
    strcpy(task.strategy, "fedavg");
    assert_fed_ok_err(fedserver_memory_of(&task, &arch.layout, &without, &err));
    fed_arch_free(&arch);
    assert_true(without > 10 * vector && without < 13 * vector);
    assert_true(with_state - without == 2 * 2 * vector); /* two moments, copied at a commit */
}

enum { DEVICES = 60, TASKS = 3, ROUNDS = 4, GOAL = 8 };

typedef struct person {
    test_device device;
    uint64_t task; /* the task whose model the device has; 0: none */
    uint32_t version;
} person;

/* All updates of a round have the same values, so the round's mean is known whichever devices
 * take part. */
static float value_of(uint64_t task, uint32_t round) {
    return (float)(task * round) / 16;
}

static void send_update(coordinator *c, person *p, uint32_t *counted) {
    const fed_assignment work = device_checkin(c, &p->device, FED_ROLE_TRAIN, p->task, p->version);
    float x[VALUES];
    if (work.action == FED_ACTION_DONE) {
        p->version = work.version;
    }
    if (work.action != FED_ACTION_TRAIN) {
        return;
    }
    /* The device leaves a task only if the task has ended (D4 in docs/durability.md). */
    assert_true(p->task == 0 || p->task == work.task.id || !runs(c, p->task));
    for (int k = 0; k < VALUES; k++) {
        x[k] = value_of(work.task.id, work.round);
    }
    p->task = work.task.id;
    p->version = work.version;
    assert_int_equal(device_upload(c, &p->device, &work, x, 1, NULL), 200);
    counted[work.task.id]++;
}

static fed_status add_updates(void *user, const fedserver_round_entry *entry, fed_error *err) {
    (void)err;
    *(uint32_t *)user += entry->updates;
    return FED_OK;
}

/* The coordinator crashes between requests. Each acknowledged update must be in a committed
 * round. */
static void three_tasks_with_60_devices_end_with_the_right_models_through_crashes(void **state) {
    coordinator *c = *state;
    static person people[DEVICES];
    uint32_t counted[TASKS + 1] = {0};
    fed_error err = {0};
    fed_rng dice;
    fed_rng_init(&dice, 7, 0, 0);
    for (int k = 0; k < DEVICES; k++) {
        people[k] = (person){.device = coordinator_enrol(c)};
    }
    for (int k = 0; k < TASKS; k++) {
        coordinator_task(c, SMALL("\"rounds\": 4, \"cohort\": 10, \"goal\": 8, \"minimum\": 8"));
    }
    float models[TASKS + 1][VALUES];
    for (uint64_t id = 1; id <= TASKS; id++) {
        memcpy(models[id], task_of(c, id)->versions.values, sizeof models[id]);
    }
    for (int turn = 0; turn < 4000 && fedserver_rounds_busy(&c->server->rounds); turn++) {
        send_update(c, &people[fed_rng_below(&dice, DEVICES)], counted);
        coordinator_commit(c);
        if (fed_rng_below(&dice, 20) == 0) {
            coordinator_crash(c);
        }
        coordinator_wait(c, 50);
    }
    for (uint64_t id = 1; id <= TASKS; id++) {
        uint32_t in_rounds = 0;
        const fedserver_training *t = task_of(c, id);
        assert_int_equal(t->versions.version, ROUNDS);
        assert_fed_ok_err(
            fedserver_round_each(c->server, id, UINT32_MAX, add_updates, &in_rounds, &err));
        assert_int_equal(in_rounds, counted[id]); /* D1 and D2 in docs/durability.md */
        assert_true(in_rounds >= ROUNDS * GOAL);
        for (uint32_t round = 1; round <= ROUNDS; round++) {
            /* D3 in docs/durability.md: recompute the model in a simple way and compare bits. */
            for (int k = 0; k < VALUES; k++) {
                models[id][k] += value_of(id, round);
            }
        }
        assert_memory_equal(t->versions.values, models[id], sizeof models[id]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(tasks_run_side_by_side_and_share_new_devices),
        WITH_COORDINATOR(a_larger_priority_is_served_first_until_it_is_full),
        WITH_COORDINATOR(a_device_gets_only_tasks_of_its_tag),
        WITH_COORDINATOR(a_device_stays_with_the_task_whose_model_it_holds),
        WITH_COORDINATOR(so_does_a_device_of_the_first_release),
        WITH_COORDINATOR(it_waits_for_that_task_where_another_has_places),
        WITH_COORDINATOR(a_device_that_has_reported_stays_whatever_it_says_that_it_holds),
        WITH_COORDINATOR(it_may_leave_once_the_task_is_over_or_declined),
        WITH_COORDINATOR(a_device_has_one_lease),
        WITH_COORDINATOR(a_deadline_of_each_task_passes_by_itself),
        WITH_COORDINATOR(a_device_with_a_free_slot_gets_the_task_that_was_served_longest_ago),
        WITH_COORDINATOR(a_device_without_a_free_slot_serves_its_own_tasks_in_turn),
        WITH_COORDINATOR(it_reports_once_in_a_round_and_may_serve_another_task_meanwhile),
        WITH_COORDINATOR(a_task_that_does_not_run_makes_room),
        WITH_COORDINATOR(it_gets_the_last_model_of_each_of_its_tasks),
        WITH_COORDINATOR(an_evaluator_measures_each_version_of_each_task_once),
        WITH_COORDINATOR(a_task_that_does_not_fit_waits_and_says_why),
        WITH_COORDINATOR(each_queued_task_says_why_it_does_not_run),
        WITH_COORDINATOR(a_queued_task_is_seen_within_a_second),
        WITH_COORDINATOR(a_task_that_never_fits_is_refused),
        WITH_COORDINATOR(a_waiting_task_is_not_overtaken_by_smaller_ones),
        fed_unit_test(the_estimate_covers_the_vectors_of_a_task),
        WITH_COORDINATOR(three_tasks_with_60_devices_end_with_the_right_models_through_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
