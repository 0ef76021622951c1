/* Waits for a phase of a round and causes a fault then. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_strike.h"

#include <signal.h>

#include "fed/clock.h"
#include "fed_test.h"

/* LIMIT_MS: how long a run may stand still. A round whose devices have lost their leases ends at
 * its deadline, 15 s, and a planted fault can cause several such rounds. */
enum { LIMIT_MS = 120000 };
enum {
    ANSWERS = 16, /* there are fewer answers than statements */
    AIM_MS = 300,
    STANDS_MS = 3000,
    CUT_MS = 1500,
    UNSEEN_MS = 200,
    HANG_ROUNDS = 2
};

static bool in_phase(const kill_world *w, kill_phase phase) {
    const chaos_board *board = w->run.board;
    if (board->round <= w->struck) {
        return false;
    }
    switch (phase) {
    case KILL_OPEN:
        return board->counted >= 1;
    case KILL_FULL:
        return board->given >= KILL_COHORT;
    default:
        return board->counted >= KILL_GOAL - 1;
    }
}

static bool wait_for_phase(kill_world *w, kill_phase phase) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    bool reached = false;
    for (unsigned left = 1; left > 0 && !reached && w->broken[0] == '\0';) {
        left = kill_world_tend(w);
        reached = in_phase(w, phase);
        if (fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "D6: no round was %s for %d s",
                       phase == KILL_OPEN   ? "open"
                       : phase == KILL_FULL ? "full"
                                            : "about to close",
                       LIMIT_MS / 1000);
        }
    }
    w->struck = w->run.board->round;
    return reached && w->broken[0] == '\0';
}

static void tend_for(kill_world *w, int64_t ms) {
    for (const int64_t end_ms = fed_clock_monotonic_ms() + ms; fed_clock_monotonic_ms() < end_ms;) {
        (void)kill_world_tend(w);
    }
}

static void signal_child(chaos_child *one, int number) {
    if (one->pid > 0) {
        (void)kill(one->pid, number);
    }
}

static unsigned store_line(const kill_world *w, unsigned k) {
    return w->store_line[k][w->setup->store->primary];
}

static bool hangs(const kill_strike *s) {
    return s->fault == KILL_HANGS || s->fault == KILL_HANGS_BEHIND;
}

static bool at_answer(const kill_strike *s) {
    enum { EVERY = 4 };
    return hangs(s) && s->step % EVERY == 0;
}

/* The line on which something picks the moment of coordinator k's fault. */
static cut_line *line_to_aim(kill_world *w, unsigned k, const kill_strike *s) {
    return &w->lines->line[at_answer(s) ? w->device_line[k][1] : store_line(w, k)];
}

/* Let the fault happen at a statement or an answer of coordinator k. false: none came in time. */
static bool aim(kill_world *w, unsigned k, const kill_strike *s) {
    static const cut_deed deeds[KILL_FAULTS] = {CUT_KILLS, CUT_STOPS, CUT_BREAKS, CUT_STOPS,
                                                CUT_STOPS};
    cut_line *line = line_to_aim(w, k, s);
    const unsigned before = line->deeds;
    line->victim = w->coordinator[k].pid;
    line->deed = deeds[s->fault];
    line->deed_is_after = s->late;
    line->deed_in = at_answer(s) ? 1 + s->step / ANSWERS : s->step;
    const int64_t end_ms = fed_clock_monotonic_ms() + AIM_MS;
    while (line->deeds == before && fed_clock_monotonic_ms() < end_ms) {
        (void)kill_world_tend(w);
    }
    line->deed_in = 0;
    return line->deeds != before;
}

static void cut(kill_world *w, unsigned line, cut_state state) {
    w->lines->line[line].state = (int)state;
}

static void cut_devices(kill_world *w, unsigned k, cut_state state) {
    cut(w, w->device_line[k][0], state);
    cut(w, w->device_line[k][1], state);
}

/* Cut connections of coordinator k for a while. The step decides which: the connection to the
 * store, the connections to devices, or the connections between followers and leader. */
static void cut_coordinator(kill_world *w, unsigned k, const kill_strike *s) {
    enum { STORE, DEVICES, PEERS, KINDS };
    const cut_state state = s->late ? CUT_HOLE : CUT_OFF;
    const unsigned what = s->step % (w->setup->coordinators > 1 ? KINDS : PEERS);
    const unsigned store = store_line(w, k), peers = w->cluster_line[kill_world_leader(w)];
    if (what == STORE && !aim(w, k, s)) {
        cut(w, store, state);
    } else if (what == DEVICES) {
        cut_devices(w, k, state);
    } else if (what == PEERS) {
        cut(w, peers, state);
    }
    tend_for(w, CUT_MS);
    cut(w, store, CUT_OPEN);
    cut(w, peers, CUT_OPEN);
    cut_devices(w, k, CUT_OPEN);
}

/* Wait until the rounds have gone on without coordinator k or its front, which is stopped. nginx
 * does not move the devices of such a coordinator, so behind nginx it stops for a while only. */
static void wait_without(kill_world *w, unsigned k) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const int64_t limit_ms = now_ms + LIMIT_MS, until_ms = now_ms + w->setup->hang_ms;
    const unsigned until = w->run.board->round + HANG_ROUNDS;
    if (w->setup->balancer == KILL_NGINX) {
        tend_for(w, STANDS_MS);
        return;
    }
    bool gone_on = false;
    for (unsigned left = 1; left > 0 && w->broken[0] == '\0';) {
        left = kill_world_tend(w);
        gone_on = w->run.board->round >= until;
        if (gone_on && fed_clock_monotonic_ms() >= until_ms) {
            return;
        }
        if (!gone_on && fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "D6: round %u stood still for %d s, because coordinator %u hung",
                       w->run.board->round, LIMIT_MS / 1000, k);
        }
    }
}

/* Coordinator k led, and was stopped until another one led. Wake it. It must commit no round, as
 * what it remembers is old (S6), and end with a sentence. A round that was stored before may be in
 * its log only now; the judge of histories looks whether the next leader knew of it. */
static void wake_leader(kill_world *w, unsigned k) {
    static const char commits[] = "committed with", sentence[] = "another coordinator ";
    const unsigned ended = w->ended, committed = kill_world_says(w, k, commits);
    const unsigned said = kill_world_says(w, k, sentence);
    signal_child(&w->coordinator[k], SIGCONT);
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (w->ended == ended && w->broken[0] == '\0') {
        (void)kill_world_tend(w);
        if (fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "S6: coordinator %u led, was stopped, and did not end when it woke", k);
        }
    }
    if (kill_world_says(w, k, commits) > committed + 1) {
        kill_break(w, "S6: coordinator %u committed rounds when it woke", k);
    }
    if (kill_world_says(w, k, sentence) == said) {
        kill_break(w, "S6: coordinator %u woke, and ended without saying that another one leads",
                   k);
    }
}

static void hang_coordinator(kill_world *w, unsigned k, const kill_strike *s) {
    const bool leads = kill_world_leader(w) == k;
    kill_world_hangs(w);
    const bool done = s->step > 0 && aim(w, k, s);
    *(at_answer(s) ? &w->in_answer : &w->in_statement) += done;
    signal_child(&w->coordinator[k], done ? 0 : SIGSTOP);
    kill_world_faulted(w);
    wait_without(w, k);
    const bool outdone = leads && kill_world_leader(w) != k;
    if (leads && !outdone && w->setup->balancer != KILL_NGINX && w->setup->hang_ms > 0) {
        kill_break(w, "S6: coordinator %u was stopped, and no other one led", k);
    }
    if (outdone) {
        wake_leader(w, k);
    } else {
        signal_child(&w->coordinator[k], SIGCONT);
    }
}

/* The front of coordinator k hangs. */
static void hang_front(kill_world *w, unsigned k) {
    const pid_t front = fed_test_child(w->coordinator[k].pid);
    assert_true(front > 0);
    kill_world_hangs(w);
    (void)kill(front, SIGSTOP);
    kill_world_faulted(w);
    wait_without(w, k);
    (void)kill(front, SIGCONT);
}

static void strike_coordinator(kill_world *w, unsigned k, const kill_strike *s) {
    while (w->coordinator[k].pid == 0) { /* the previous fault may have ended the coordinator */
        (void)kill_world_tend(w);
    }
    if (s->fault == KILL_CUT_OFF) {
        cut_coordinator(w, k, s);
        return;
    }
    if (hangs(s)) {
        hang_coordinator(w, k, s);
        return;
    }
    const bool done = s->step > 0 && aim(w, k, s);
    if (s->fault == KILL_DIES) {
        signal_child(&w->coordinator[k], done ? 0 : SIGKILL);
        kill_world_faulted(w);
        return;
    }
    signal_child(&w->coordinator[k], done ? 0 : SIGSTOP);
    kill_world_faulted(w);
    tend_for(w, STANDS_MS);
    signal_child(&w->coordinator[k], SIGCONT);
}

static void cut_store(kill_world *w, cut_state state) {
    const unsigned primary = w->setup->store->primary;
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        cut(w, w->store_line[k][primary], state);
    }
}

static void stop_server(kill_world *w, const fed_postgres *server) {
    fed_postgres_signal(server, SIGSTOP);
    tend_for(w, STANDS_MS);
    fed_postgres_signal(server, SIGCONT);
}

static void strike_primary(kill_world *w, const kill_strike *s) {
    fed_postgres *server = kill_store_primary(w->setup->store);
    switch (s->fault) {
    case KILL_DIES:
        fed_postgres_kill(server);
        fed_postgres_start(server);
        break;
    case KILL_STANDS:
        stop_server(w, server);
        break;
    default:
        cut_store(w, s->late ? CUT_HOLE : CUT_OFF);
        tend_for(w, CUT_MS);
        cut_store(w, CUT_OPEN);
    }
}

/* Kill the primary and promote its standby. Then make the old primary its standby. */
static void fail_over(kill_world *w) {
    if (w->setup->no_standby) {
        const char *where = kill_store_primary(w->setup->store)->where;
        fed_postgres_sql(where, "ALTER SYSTEM SET synchronous_standby_names = ''", NULL, 0);
        fed_postgres_sql(where, "SELECT pg_reload_conf()", NULL, 0);
        kill_store_line(w->setup->store)->state = CUT_HOLE;
        tend_for(w, UNSEEN_MS);
        kill_store_line(w->setup->store)->state = CUT_OFF;
    }
    fed_postgres_kill(kill_store_primary(w->setup->store));
    kill_store_line(w->setup->store)->state = CUT_OPEN;
    kill_store_promote(w->setup->store);
    tend_for(w, CUT_MS / 2);
    kill_store_repair(w->setup->store);
    w->failovers++;
}

static void strike_standby(kill_world *w, const kill_strike *s) {
    fed_postgres *server = kill_store_standby(w->setup->store);
    cut_line *line = kill_store_line(w->setup->store);
    switch (s->fault) {
    case KILL_DIES:
        fed_postgres_kill(server);
        tend_for(w, CUT_MS / 2);
        fed_postgres_start(server);
        break;
    case KILL_STANDS:
        stop_server(w, server);
        break;
    default:
        line->state = s->late ? CUT_HOLE : CUT_OFF;
        tend_for(w, CUT_MS);
        line->state = CUT_OPEN;
    }
    kill_store_await_standby(w->setup->store);
}

static void strike_balancer(kill_world *w, const kill_strike *s) {
    if (s->fault != KILL_CUT_OFF) {
        signal_child(&w->balancer, s->fault == KILL_DIES ? SIGKILL : SIGSTOP);
        tend_for(w, s->fault == KILL_DIES ? 0 : STANDS_MS);
        signal_child(&w->balancer, SIGCONT);
        return;
    }
    const unsigned k = s->step % w->setup->coordinators;
    cut_devices(w, k, s->late ? CUT_HOLE : CUT_OFF);
    tend_for(w, CUT_MS);
    cut_devices(w, k, CUT_OPEN);
}

static void strike_helper(kill_world *w, const kill_strike *s) {
    signal_child(&w->helper, s->fault == KILL_DIES ? SIGKILL : SIGSTOP);
    tend_for(w, s->fault == KILL_DIES ? 0 : STANDS_MS);
    signal_child(&w->helper, SIGCONT);
}

static void wait_until_devices_get_on(kill_world *w) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    const unsigned acknowledged = w->run.board->acknowledged;
    for (unsigned left = 1; left > 0 && w->run.board->acknowledged == acknowledged;) {
        left = kill_world_tend(w);
        if (w->broken[0] != '\0' || fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "D6: no update was acknowledged for %d s after a fault", LIMIT_MS / 1000);
            return;
        }
    }
}

static unsigned follower(kill_world *w) {
    const unsigned others = w->setup->coordinators - 1;
    return (kill_world_leader(w) + 1 + fed_rng_below(&w->dice, others)) % w->setup->coordinators;
}

bool kill_world_strike(kill_world *w, const kill_strike *strike) {
    if (!wait_for_phase(w, strike->phase)) {
        return false;
    }
    switch (strike->victim) {
    case KILL_PRIMARY:
        strike_primary(w, strike);
        break;
    case KILL_FAILOVER:
        fail_over(w);
        break;
    case KILL_STANDBY:
        strike_standby(w, strike);
        break;
    case KILL_BALANCER:
        strike_balancer(w, strike);
        break;
    case KILL_HELPER:
        strike_helper(w, strike);
        break;
    case KILL_FOLLOWER:
        strike_coordinator(w, follower(w), strike);
        break;
    case KILL_FRONT:
        hang_front(w, kill_world_leader(w));
        break;
    default:
        strike_coordinator(w, kill_world_leader(w), strike);
    }
    wait_until_devices_get_on(w);
    if (hangs(strike)) {
        kill_world_hung(w);
    }
    return true;
}

void kill_world_finish(kill_world *w) {
    const chaos_board *board = w->run.board;
    int64_t limit_ms = 0;
    unsigned before = 0;
    for (unsigned left = 1; left > 0 && w->broken[0] == '\0';) {
        left = kill_world_tend(w);
        const unsigned done = board->acknowledged + board->finished;
        if (limit_ms == 0 || done != before) {
            limit_ms = fed_clock_monotonic_ms() + LIMIT_MS;
            before = done;
        } else if (fed_clock_monotonic_ms() > limit_ms) {
            kill_break(w, "D6: %u devices are not finished, and nothing happens for %d s", left,
                       LIMIT_MS / 1000);
        }
    }
}
