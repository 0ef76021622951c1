/* Slots: a device keeps the residual of each of several tasks, whichever process dies. Device
 * and coordinator are real; network and power supply are simulated. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed_cases.h"
#include "fed_device.h"
#include "fed_drill.h"
#include "fed_inproc.h"
#include "fed_ledger.h"
#include "fedclient/fedclient.h"
#include "fedclient/state/record.h"
#include "fedclient/steps/steps.h"

enum { VALUES = 27, TASKS = 4, STEPS_MOST = 120 };

#define TASK(codec, keys)                                                                          \
    "{\"model\": \"input 8 | dense 3\", \"codec_up\": \"" codec "\", \"codec_down\": \"float32\"," \
    " \"small_tensor\": 0, \"cohort\": 1, \"deadline_s\": 60, " keys "}"
/* The codec sends 40 % of the values, and these exactly. */
#define SPARSE TASK("topk:p=0.4", "\"rounds\": 3")

/** The device's store: a flash chip, memory that lends its values, or memory whose values are
 * changed in place. */
typedef enum store_kind { CHIP, LENDING, IN_PLACE } store_kind;

typedef struct device {
    coordinator *c;
    fed_inproc line;
    fed_fake_flash flash;
    fedclient *client;
    fedclient_options options;
    fed_error err;
    uint64_t durable; /* number of the last training that is durable */
    double trained[TASKS + 1][VALUES];
    fed_ledger acknowledged[TASKS + 1];
    uint64_t order[STEPS_MOST]; /* the tasks of the acknowledged updates, in order */
    size_t updates;
    bool declines[TASKS + 1];
    fed_checkin said;
} device;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    const device *d = user;
    if (d->declines[round->task->id]) {
        return fed_fail(err, FED_EDECLINED, "the test does not want this task");
    }
    assert_true(round->slot < d->options.slots);
    assert_true(round->number > d->durable); /* a training's number is never used again */
    memset(round->values, 0, VALUES * sizeof *round->values);
    fed_drill drill = {.client = 0};
    round->is_change = true;
    return fed_drill_train(&drill, round, err);
}

static void note(void *user, const char *path, const uint8_t *body, size_t len, int status,
                 const fed_writer *reply) {
    device *d = user;
    fed_update head;
    fed_reader r;
    fed_error err = {0};
    (void)reply;
    if (strcmp(path, "/v1/checkin") == 0) {
        fed_reader_init(&r, body, len);
        assert_fed_ok(fed_checkin_read(&r, &d->said));
    }
    if (strcmp(path, "/v1/update") != 0 || status != 200) {
        return;
    }
    fed_reader_init(&r, body, len);
    assert_fed_ok(fed_update_read(&r, &head));
    const size_t before = d->acknowledged[head.task].count;
    assert_fed_ok_err(fed_ledger_add(&d->acknowledged[head.task], 0, body, len, &err));
    if (d->acknowledged[head.task].count > before) {
        d->order[d->updates++] = head.task;
    }
}

static void start(device *d, unsigned slots) {
    d->options.slots = slots;
    fed_fake_flash_revive(&d->flash);
    assert_fed_ok_err_of(d, fedclient_open(&d->options, &d->client, &d->err));
}

static void restart(device *d, unsigned slots) {
    fedclient_close(d->client);
    d->client = NULL;
    start(d, slots);
}

static void open_device(device *d, coordinator *c, store_kind kind, unsigned slots) {
    char token[FEDSERVER_TOKEN];
    *d = (device){.c = c};
    fed_inproc_open(&d->line, c);
    d->line.after = note;
    d->line.user = d;
    fed_fake_flash_open(&d->flash);
    d->options = (fedclient_options){.server = "https://here:8443",
                                     .platform = &d->flash.platform,
                                     .transport = &d->line.transport,
                                     .train = train,
                                     .user = d};
    if (kind == LENDING) {
        fed_fake_flash_lend(&d->flash);
    } else if (kind == IN_PLACE) {
        d->flash.inner.memory = d->flash.lends;
        d->options.platform = &d->flash.inner;
    }
    coordinator_commit(c);
    assert_fed_ok_err_of(d, fedserver_token_new(c->server, c->now_ms, 3600, token, &d->err));
    start(d, slots);
    assert_fed_ok_err_of(d, fedclient_enrol(d->client, token, &d->err));
    d->flash.puts = 0;
    d->line.requests = 0;
}

static void open_with_two_tasks(device *d, coordinator *c, unsigned slots) {
    coordinator_task(c, SPARSE);
    coordinator_task(c, SPARSE);
    open_device(d, c, CHIP, slots);
}

static void close_device(device *d) {
    fedclient_close(d->client);
    fed_fake_flash_close(&d->flash);
    for (size_t k = 0; k <= TASKS; k++) {
        fed_ledger_free(&d->acknowledged[k]);
    }
}

static void note_durable(device *d) {
    for (unsigned slot = 0; slot < FED_SLOTS; slot++) {
        fedclient_residual_head head;
        fedclient_record record;
        assert_fed_ok_err_of(
            d, fedclient_residual_load(&d->flash.inner, slot, &head, &record, &d->err));
        fedclient_record_free(&record);
        if (head.seq > d->durable) {
            d->durable = head.seq;
            fed_drill_add(0, head.seq, VALUES, d->trained[head.task]);
        }
    }
}

static fedclient_event step(device *d) {
    fedclient_event event = {.outcome = FEDCLIENT_RETRY};
    d->err = (fed_error){0};
    const fed_status status = fedclient_step(d->client, &event, &d->err);
    const bool dead = d->flash.dead;
    if (dead) {
        restart(d, d->options.slots);
    } else {
        assert_fed_ok_err_of(d, status);
    }
    note_durable(d);
    if (event.outcome == FEDCLIENT_WAITED) {
        coordinator_wait(d->c, event.wait_ms);
    }
    return event;
}

static void train_rounds(device *d, size_t count) {
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(step(d).outcome, FEDCLIENT_COUNTED);
    }
}

static void finish(device *d) {
    for (int k = 0; k < STEPS_MOST; k++) {
        const fedclient_event event = step(d);
        if (event.outcome == FEDCLIENT_WAITED && event.reason == FED_WAIT_FINISHED) {
            return;
        }
    }
    fail_msg("the tasks are not over after %d steps", STEPS_MOST);
}

/** D4 in docs/durability.md: everything trained for the task is acknowledged or in the residual. */
static void check_task(device *d, uint64_t task, double tolerance) {
    const fed_layout *layout = &fedserver_rounds_task(&d->c->server->rounds, task)->arch.layout;
    assert_int_equal(layout->size, VALUES);
    float owed[VALUES];
    double sum[VALUES] = {0};
    unsigned slot = 0;
    uint64_t last = 0;
    assert_fed_ok_err_of(
        d, fed_drill_owed(&d->flash.inner, task, layout, owed, &slot, &last, &d->err));
    assert_fed_ok_err_of(d, fed_ledger_sum(&d->acknowledged[task], layout, 0, sum, &d->err));
    for (int i = 0; i < VALUES; i++) {
        const double got = sum[i] + (double)owed[i];
        if (fabs(got - d->trained[task][i]) > tolerance) {
            fail_msg("task %u, value %d: trained %g, but %g is acknowledged and %g owed",
                     (unsigned)task, i, d->trained[task][i], sum[i], (double)owed[i]);
        }
    }
}

/** D3 in docs/durability.md: compute the model from the acknowledged updates, and compare. */
static void check_model(const device *d, uint64_t task, const float first[VALUES]) {
    const fedserver_training *t = fedserver_rounds_task(&d->c->server->rounds, task);
    float values[VALUES];
    fed_error err = {0};
    memcpy(values, first, sizeof values);
    for (uint32_t v = 1; v <= t->versions.version; v++) {
        assert_fed_ok_err(
            fed_ledger_apply(&d->acknowledged[task], &t->arch.layout, v, values, &err));
    }
    assert_memory_equal(values, t->versions.values, sizeof values);
}

static uint64_t task_in(device *d, unsigned slot) {
    fedclient_model_head head;
    fedclient_record record;
    assert_fed_ok_err_of(d, fedclient_model_load(&d->flash.inner, slot, &head, &record, &d->err));
    fedclient_record_free(&record);
    return head.task;
}

FED_TEST_WITH(a_check_in_lists_the_tasks_that_were_trained_last_first, coordinator *c) {
    device d;
    for (int k = 0; k < 3; k++) {
        coordinator_task(c, SPARSE);
    }
    open_device(&d, c, CHIP, 4);
    for (unsigned k = 0; k < 7; k++) {
        assert_int_equal(step(&d).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(d.said.slots, 4);
        assert_int_equal(fed_checkin_count(&d.said), k < 3 ? k : 3);
        for (unsigned place = 0; place < fed_checkin_count(&d.said); place++) {
            assert_int_equal(d.said.held[place].task, d.order[k - 1 - place]);
        }
        restart(&d, 4);
    }
    assert_int_equal(d.said.held[0].version, 1);
    close_device(&d);
}

FED_TEST_WITH(two_tasks_take_turns_on_one_device_and_keep_what_it_owes, coordinator *c) {
    device d;
    open_with_two_tasks(&d, c, 2);
    finish(&d);
    assert_int_equal(d.updates, 6);
    for (size_t k = 2; k < d.updates; k++) {
        assert_int_equal(d.order[k], d.order[k - 2]);
        assert_int_not_equal(d.order[k], d.order[k - 1]);
    }
    check_task(&d, 1, 0);
    check_task(&d, 2, 0);
    assert_int_equal(task_in(&d, 0) + task_in(&d, 1), 1 + 2);
    close_device(&d);
}

FED_TEST_WITH(with_one_slot_they_follow_one_another, coordinator *c) {
    device d;
    open_with_two_tasks(&d, c, 1);
    finish(&d);
    assert_int_equal(d.updates, 6);
    for (size_t k = 1; k < d.updates; k++) {
        assert_int_equal(d.order[k] != d.order[k - 1], k == 3);
    }
    assert_int_equal(task_in(&d, 1), 0);
    close_device(&d);
}

FED_TEST_WITH(a_device_that_gets_slots_keeps_its_task, coordinator *c) {
    device d;
    coordinator_task(c, SPARSE);
    open_device(&d, c, CHIP, 1);
    train_rounds(&d, 1);
    coordinator_task(c, SPARSE);
    restart(&d, 3);
    finish(&d);
    assert_int_equal(task_in(&d, 0), 1);
    assert_int_equal(task_in(&d, 1), 2);
    assert_int_equal(d.updates, 6);
    check_task(&d, 1, 0);
    check_task(&d, 2, 0);
    close_device(&d);
}

FED_TEST_WITH(a_device_that_loses_slots_goes_on_with_the_first, coordinator *c) {
    device d;
    open_with_two_tasks(&d, c, 2);
    train_rounds(&d, 2);
    const uint64_t first = task_in(&d, 0);
    restart(&d, 1);
    train_rounds(&d, 1);
    assert_int_equal(d.order[2], first);
    restart(&d, 2);
    finish(&d);
    check_task(&d, 1, 0);
    check_task(&d, 2, 0);
    close_device(&d);
}

/* Values in the store that a release without slots does not read. */
typedef struct hidden {
    const char *key;
    uint8_t *data;
    size_t len;
} hidden;

static void hide_slot(device *d, hidden kept[3]) {
    static const char *const keys[] = {"model1", "residual1", "pending1"};
    const fedclient_platform *store = &d->flash.inner;
    for (int k = 0; k < 3; k++) {
        kept[k].key = keys[k];
        assert_fed_ok(store->get(store->user, keys[k], &kept[k].data, &kept[k].len, NULL));
        assert_fed_ok(store->drop(store->user, keys[k], NULL));
    }
    restart(d, 1);
    d->durable = 1;
}

static void show_slot(device *d, hidden kept[3]) {
    const fedclient_platform *store = &d->flash.inner;
    for (int k = 0; k < 3; k++) {
        assert_fed_ok(store->put(store->user, kept[k].key, kept[k].data, kept[k].len, NULL));
        free(kept[k].data);
    }
    restart(d, 2);
}

/* An update was counted but got no answer, and then an older release runs, which does not read the
 * second slot (D2 in docs/durability.md). second: trainings of the second task, up to that update.
 * older: trainings by the older release. */
static void leave_an_upload_to_an_older_release(coordinator *c, size_t second, size_t older) {
    device d;
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 9, \"staleness\": 9"));
    open_device(&d, c, CHIP, 2);
    train_rounds(&d, 1);
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 9, \"staleness\": 9, \"priority\": 9"));
    train_rounds(&d, second - 1);
    d.line.breaks_at = d.line.requests + 2; /* the third request from here is the update */
    d.line.breaks_answering = true;
    assert_int_equal(step(&d).outcome, FEDCLIENT_RETRY);
    assert_int_equal(d.updates, 1 + second); /* counted, but the device got no answer */
    const uint64_t other = task_in(&d, 1);
    hidden kept[3];
    hide_slot(&d, kept);
    for (size_t k = 0; k < older; k++) {
        assert_int_equal(step(&d).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(d.order[1 + second + k], task_in(&d, 0));
    }
    show_slot(&d, kept);
    memset(d.trained[other], 0, sizeof d.trained[other]);
    fedclient_residual_head head;
    fedclient_record record;
    assert_fed_ok(fedclient_residual_load(&d.flash.inner, 1, &head, &record, NULL));
    assert_int_equal(head.seq, 0);
    const fed_ledger old = d.acknowledged[other];
    d.acknowledged[other] = (fed_ledger){0};
    train_rounds(&d, 4);
    assert_true(d.acknowledged[other].count > 0);
    check_task(&d, other, 0); /* no value of the lost message is in the new updates */
    fed_ledger_free(&d.acknowledged[other]);
    d.acknowledged[other] = old;
    close_device(&d);
}

FED_TEST_WITH(an_upload_that_an_older_release_knew_nothing_of_is_not_sent_again, coordinator *c) {
    leave_an_upload_to_an_older_release(c, 1, 3);
}

FED_TEST_WITH(nor_is_one_whose_number_an_older_release_did_not_reach, coordinator *c) {
    leave_an_upload_to_an_older_release(c, 4, 1);
}

FED_TEST_WITH(a_task_that_is_over_makes_room, coordinator *c) {
    device d;
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 6"));
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 2"));
    open_device(&d, c, CHIP, 2);
    while (d.acknowledged[2].count < 2) {
        assert_int_equal(step(&d).outcome, FEDCLIENT_COUNTED);
    }
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 3, \"priority\": 9"));
    train_rounds(&d, 1);
    assert_int_equal(d.order[d.updates - 1], 3);
    assert_int_equal(task_in(&d, 0) + task_in(&d, 1), 1 + 3);
    finish(&d);
    check_task(&d, 1, 0);
    check_task(&d, 3, 0);
    close_device(&d);
}

/* The coordinator knows only the device's last task. A new task must take the slot of that task. */
FED_TEST_WITH(a_coordinator_without_slots_replaces_the_task_that_it_knows, coordinator *c) {
    device d;
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 9"));
    open_device(&d, c, CHIP, 2);
    train_rounds(&d, 1);
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 2, \"priority\": 9"));
    train_rounds(&d, 1);
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 2, \"priority\": 9"));
    d.client->lists = false; /* as after an older coordinator's answer 400 */
    train_rounds(&d, 3);
    assert_int_equal(d.order[1], 2);
    assert_int_equal(d.order[2], 2);
    assert_int_equal(d.order[3], 3);
    assert_int_equal(task_in(&d, 0), 1);
    assert_int_equal(task_in(&d, 1), 3);
    check_task(&d, 1, 0);
    check_task(&d, 3, 0);
    close_device(&d);
}

/* For a third task the device would have to drop a residual. */
FED_TEST_WITH(a_device_without_room_leaves_a_new_task_to_others, coordinator *c) {
    device d;
    open_with_two_tasks(&d, c, 2);
    train_rounds(&d, 2);
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 1, \"priority\": 9"));
    for (int k = 0; k < 3; k++) {
        assert_int_equal(step(&d).outcome, FEDCLIENT_COUNTED);
        assert_int_not_equal(d.order[d.updates - 1], 3);
    }
    finish(&d);
    assert_int_equal(d.updates, 7);
    close_device(&d);
}

FED_TEST_WITH(a_declined_task_takes_no_slot, coordinator *c) {
    device d;
    coordinator_task(c, SPARSE);
    coordinator_task(c, TASK("topk:p=0.4", "\"rounds\": 1, \"priority\": 9"));
    open_device(&d, c, CHIP, 2);
    d.declines[2] = true;
    assert_int_equal(step(&d).outcome, FEDCLIENT_DECLINED);
    coordinator_task(c, SPARSE);
    train_rounds(&d, 6);
    check_task(&d, 1, 0);
    check_task(&d, 3, 0);
    close_device(&d);
}

FED_TEST_WITH(a_damaged_model_leaves_the_task_its_slot, coordinator *c) {
    device d;
    open_with_two_tasks(&d, c, 2);
    train_rounds(&d, 2);
    const fedclient_platform *store = &d.flash.inner;
    assert_fed_ok(store->put(store->user, "model1", "FEDr", 4, NULL));
    restart(&d, 2);
    finish(&d);
    check_task(&d, 1, 0);
    check_task(&d, 2, 0);
    close_device(&d);
}

FED_TEST_WITH(a_number_of_slots_that_makes_no_sense_is_refused, coordinator *c) {
    device d;
    fedclient *client = NULL;
    open_device(&d, c, CHIP, FED_SLOTS);
    d.options.slots = FED_SLOTS + 1;
    assert_fed_status(fedclient_open(&d.options, &client, &d.err), FED_EINVAL);
    close_device(&d);
}

/** Run two tasks to their end. Power fails in put number `put`, and the link in request number
 * `request`; UINT64_MAX: never. late: after the put or the request was done. */
static void run(store_kind kind, uint64_t put, uint64_t request, bool late, uint64_t *puts,
                uint64_t *requests) {
    static const char *const tasks[] = {SPARSE, TASK("sbc:p=0.2", "\"rounds\": 3")};
    coordinator c;
    device d;
    float first[2][VALUES];
    coordinator_setup(&c);
    for (int k = 0; k < 2; k++) {
        coordinator_task(&c, tasks[k]);
        const fedserver_training *t = fedserver_rounds_task(&c.server->rounds, (uint64_t)k + 1);
        memcpy(first[k], t->versions.values, sizeof first[k]);
    }
    open_device(&d, &c, kind, 2);
    d.flash.dies_at = put;
    d.flash.dies_writing = late;
    d.line.breaks_at = request;
    d.line.breaks_answering = late;
    finish(&d);
    check_task(&d, 1, 0);
    check_task(&d, 2, 1e-6); /* sbc sends means, which are rounded */
    check_model(&d, 1, first[0]);
    check_model(&d, 2, first[1]);
    assert_int_equal(d.acknowledged[1].count + d.acknowledged[2].count, 6);
    *puts = d.flash.puts;
    *requests = d.line.requests;
    close_device(&d);
    coordinator_teardown(&c);
}

FED_TEST(power_that_fails_at_any_put_loses_nothing_of_either_task) {
    for (store_kind kind = CHIP; kind <= LENDING; kind++) {
        uint64_t puts = 0, requests = 0, again = 0;
        run(kind, UINT64_MAX, UINT64_MAX, false, &puts, &requests);
        assert_true(puts >= 6 * 4);
        for (uint64_t at = kind % FED_TEST_TRIES(1, 3); at < puts; at += FED_TEST_TRIES(1, 3)) {
            run(kind, at, UINT64_MAX, at % 2 == 0, &again, &requests);
            run(kind, at, UINT64_MAX, at % 2 != 0, &again, &requests);
        }
    }
}

FED_TEST(a_line_that_breaks_at_any_request_loses_nothing_of_either_task) {
    for (store_kind kind = CHIP; kind <= IN_PLACE; kind += IN_PLACE) {
        uint64_t puts = 0, requests = 0, again = 0;
        run(kind, UINT64_MAX, UINT64_MAX, false, &puts, &requests);
        assert_true(requests >= 6 * 3);
        for (uint64_t at = kind % FED_TEST_TRIES(1, 3); at < requests; at += FED_TEST_TRIES(1, 3)) {
            run(kind, UINT64_MAX, at, false, &puts, &again);
            run(kind, UINT64_MAX, at, true, &puts, &again);
        }
    }
}

int main(void) {
    return fed_cases_run_each(coordinator_begin, coordinator_end);
}
