/* Devices with slots for two tasks whose rounds close in threads. Whatever happens, slots are
 * not lost, and every acknowledged update counts once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <poll.h>

#include "fed/rng.h"
#include "fedserver/open.h"
#include "fedserver/operator.h"
#include "fedserver/rounds/leases.h"

enum { PARAMETERS = 6, CROWD = 7, TASKS = 2, STEPS = 2500, LEAST_ROUNDS = 10 };
enum { PATIENCE_MS = 60000 };

#define TASK(more)                                                                                 \
    "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","   \
    " \"rounds\": 100000, \"cohort\": 4, \"goal\": 3, \"minimum\": 2, \"deadline_s\": 60" more "}"

static const float ones[PARAMETERS] = {1, 1, 1, 1, 1, 1};

typedef struct crowd {
    test_device device[CROWD];
    fed_assignment work[CROWD];
    uint64_t held[CROWD][TASKS];
    uint32_t yes[TASKS]; /* number of updates that the coordinator has acknowledged */
    uint32_t crashes[TASKS];
} crowd;

static fedserver_training *task_of(const coordinator *c, uint64_t id) {
    fedserver_training *t = fedserver_rounds_task(&c->server->rounds, id);
    assert_non_null(t);
    return t;
}

static bool closes(const fedserver_training *t) {
    return t->round.phase == FEDSERVER_ROUND_CLOSING;
}

static void reopen_apart(coordinator *c) {
    fed_error err = {0};
    fedserver_close(c->server);
    assert_fed_ok_err(fedserver_open(c->directory, NULL, &c->server, &err));
    fedserver_configure(c->server, &(fedserver_setup){.apart_values = 1});
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    fedserver_ports(c->server, 8443, 8444);
}

static void crash(coordinator *c, crowd *all) {
    coordinator_commit(c);
    for (uint64_t id = 1; id <= TASKS; id++) {
        all->crashes[id - 1] += closes(task_of(c, id));
    }
    reopen_apart(c);
    coordinator_wait(c, 0);
}

static void finish_closing(coordinator *c) {
    coordinator_commit(c);
    while (closes(task_of(c, 1)) || closes(task_of(c, 2))) {
        struct pollfd bell = {.fd = fedserver_wake_fd(c->server), .events = POLLIN};
        assert_int_equal(poll(&bell, 1, PATIENCE_MS), 1);
        coordinator_wait(c, 0);
        coordinator_commit(c);
    }
}

static void ask(coordinator *c, crowd *all, uint32_t who) {
    const fed_checkin said = {.capabilities = FED_CAN_TASKS,
                              .slots = TASKS,
                              .held = {{all->held[who][0], 0}, {all->held[who][1], 0}}};
    const fed_assignment work = device_say(c, &all->device[who], &said);
    if (work.action != FED_ACTION_TRAIN) {
        return;
    }
    all->work[who] = work;
    if (work.task.id != all->held[who][0]) {
        all->held[who][1] = all->held[who][0];
        all->held[who][0] = work.task.id;
    }
}

static void report(coordinator *c, crowd *all, uint32_t who) {
    const fed_assignment *work = &all->work[who];
    if (work->lease == 0) {
        return;
    }
    const uint64_t counted = coordinator_device(c, &all->device[who])->counted_lease;
    const int status = device_upload(c, &all->device[who], work, ones, 1, NULL);
    assert_true(status == 200 || status == 409);
    all->yes[work->task.id - 1] += status == 200 && counted != work->lease;
}

static void step(coordinator *c, crowd *all, fed_rng *rng) {
    const uint32_t who = fed_rng_below(rng, CROWD), dice = fed_rng_below(rng, 1000);
    if (dice < 400) {
        ask(c, all, who);
    } else if (dice < 800) {
        report(c, all, who);
    } else if (dice < 950) {
        coordinator_wait(c, (int64_t)fed_rng_below(rng, 5000));
    } else if (dice < 960) {
        coordinator_wait(c, -(int64_t)fed_rng_below(rng, 200000));
    } else if (dice < 970) {
        coordinator_commit(c);
    } else if (dice < 990) {
        finish_closing(c);
    } else {
        crash(c, all);
    }
}

/* S10 in docs/durability.md: each taken slot belongs to a device. */
static void check_slots(const coordinator *c, const fedserver_training *t) {
    const bool flows = t->task.rules.staleness > 0;
    uint32_t taken = flows ? 0 : t->round.received;
    for (size_t k = 0; k < c->server->rounds.devices.count; k++) {
        taken += fedserver_lease_stands(t, fedserver_devices_at(&c->server->rounds.devices, k),
                                        c->now_ms);
    }
    if (flows || !closes(t)) {
        assert_int_equal(t->round.leased, taken);
        assert_true(taken <= t->task.rules.cohort);
    }
}

static fed_status add_updates(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    *(uint32_t *)user += row->updates;
    return FED_OK;
}

/* D1 and D2 in docs/durability.md: as many updates were counted as were acknowledged. */
static void check_updates(const coordinator *c, const fedserver_training *t, uint32_t yes) {
    fed_error err = {0};
    uint32_t updates = t->round.received + t->round.ahead;
    assert_fed_ok_err(c->server->store->round_each(c->server->db, t->task.wire.id, UINT32_MAX,
                                                   add_updates, &updates, &err));
    assert_int_equal(updates, yes);
}

static void whatever_happens_slots_and_updates_of_two_tasks_add_up(void **state) {
    coordinator *c = *state;
    crowd all = {0};
    fed_rng rng;
    reopen_apart(c);
    for (int k = 0; k < CROWD; k++) {
        all.device[k] = coordinator_enrol(c);
    }
    coordinator_task(c, TASK(""));
    coordinator_task(c, TASK(", \"staleness\": 3"));
    coordinator_commit(c);
    fed_rng_init(&rng, 1, 0, 0);
    for (int k = 0; k < STEPS; k++) {
        step(c, &all, &rng);
        for (uint64_t id = 1; id <= TASKS; id++) {
            check_slots(c, task_of(c, id));
            check_updates(c, task_of(c, id), all.yes[id - 1]);
        }
    }
    for (uint64_t id = 1; id <= TASKS; id++) {
        assert_true(task_of(c, id)->versions.version >= LEAST_ROUNDS);
        assert_true(all.crashes[id - 1] > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(whatever_happens_slots_and_updates_of_two_tasks_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
