/* A round's state machine: what each event causes in each phase of a round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/round.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#define ROW(event, none, open, full, closing)                                                      \
    [FEDSERVER_ON_##event] = {FEDSERVER_DO_##none, FEDSERVER_DO_##open, FEDSERVER_DO_##full,       \
                              FEDSERVER_DO_##closing}

/* The action for each event in each phase. decide() may replace it by another action. */
// clang-format off
static const uint8_t table[FEDSERVER_ROUND_EVENTS][4] = {
    /*                    NONE            OPEN            FULL            CLOSING */
    ROW(START,            OPEN,           NOTHING,        NOTHING,        NOTHING),
    ROW(RESUMED,          NOTHING,        REOPEN,         REOPEN,         NOTHING),
    ROW(TICK,             NOTHING,        CLOSE,          CLOSE,          NOTHING),
    ROW(GIVEN,            NOTHING,        CLOSE,          CLOSE,          NOTHING),
    ROW(COMMITTED,        NOTHING,        NOTHING,        NOTHING,        OPEN),
    ROW(LEASE_ENDED,      NOTHING,        FREE,           FREE,           FREE),
    ROW(LEFT_OUT,         NOTHING,        LEAVE_OUT,      LEAVE_OUT,      LEAVE_OUT),
    ROW(CHECKIN_NEW,      WAIT_NO_TASK,   LEASE,          WAIT_FULL,      WAIT_CLOSING),
    ROW(CHECKIN_EARLY,    WAIT_NO_TASK,   WAIT_ADMISSION, WAIT_FULL,      WAIT_CLOSING),
    ROW(CHECKIN_OTHER,    WAIT_NO_TASK,   WAIT_NO_TASK,   WAIT_NO_TASK,   WAIT_NO_TASK),
    ROW(CHECKIN_LEASED,   WAIT_NO_TASK,   LEASE_AGAIN,    LEASE_AGAIN,    LEASE_AGAIN),
    ROW(CHECKIN_REPORTED, WAIT_NO_TASK,   WAIT_REPORTED,  WAIT_REPORTED,  WAIT_REPORTED),
    ROW(UPDATE_LEASED,    REFUSE_CLOSED,  COUNT,          COUNT,          COUNT),
    ROW(UPDATE_EXPIRED,   REFUSE_CLOSED,  REFUSE_EXPIRED, REFUSE_EXPIRED, REFUSE_EXPIRED),
    ROW(UPDATE_STALE,     REFUSE_CLOSED,  REFUSE_STALE,   REFUSE_STALE,   REFUSE_STALE),
    ROW(UPDATE_UNKNOWN,   REFUSE_CLOSED,  REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN),
    ROW(UPDATE_CLOSED,    REFUSE_CLOSED,  REFUSE_CLOSED,  REFUSE_CLOSED,  REFUSE_CLOSED),
    ROW(UPDATE_COUNTED,   COUNTED_BEFORE, COUNTED_BEFORE, COUNTED_BEFORE, COUNTED_BEFORE),
    ROW(UPDATE_CLONED,    REFUSE_CLONED,  REFUSE_CLONED,  REFUSE_CLONED,  REFUSE_CLONED),
};
// clang-format on

static bool asynchronous(const fedserver_round_rules *rules) {
    return rules->staleness > 0;
}

static fedserver_round_action decide_tick(const fedserver_round_rules *rules,
                                          const fedserver_round *round, int64_t now_ms) {
    /* an edge aggregator's round closes only at the event GIVEN */
    const bool held = rules->upstream[0] != '\0';
    if (round->received >= rules->goal) {
        return held ? FEDSERVER_DO_NOTHING : FEDSERVER_DO_CLOSE;
    }
    if (round->deadline_ms == 0 || now_ms < round->deadline_ms) {
        return FEDSERVER_DO_NOTHING;
    }
    if (round->received >= fedserver_round_least(rules) && !held) {
        return FEDSERVER_DO_CLOSE;
    }
    return asynchronous(rules) ? FEDSERVER_DO_NOTHING : FEDSERVER_DO_REOPEN;
}

uint32_t fedserver_round_counting(const fedserver_round *round) {
    return round->number + (round->phase == FEDSERVER_ROUND_CLOSING ? 1 : 0);
}

static bool may_count(const fedserver_round_rules *rules, const fedserver_round *round) {
    return round->phase != FEDSERVER_ROUND_CLOSING ||
           (asynchronous(rules) && round->number < rules->rounds);
}

static fedserver_round_action decide(const fedserver_round_rules *rules,
                                     const fedserver_round *round, fedserver_round_event event,
                                     int64_t now_ms) {
    fedserver_round_action action = (fedserver_round_action)table[event][round->phase];
    if (event == FEDSERVER_ON_TICK && action == FEDSERVER_DO_CLOSE) {
        return decide_tick(rules, round, now_ms);
    }
    if (event == FEDSERVER_ON_COMMITTED && action == FEDSERVER_DO_OPEN &&
        round->number >= rules->rounds) {
        return FEDSERVER_DO_FINISH;
    }
    if (action == FEDSERVER_DO_COUNT && !may_count(rules, round)) {
        return FEDSERVER_DO_REFUSE_CLOSED;
    }
    return action;
}

static void run_deadline(const fedserver_round_rules *rules, fedserver_round *round,
                         int64_t now_ms) {
    if (round->deadline_ms == 0) {
        round->deadline_ms = now_ms + rules->deadline_ms;
    }
}

/* Open the next attempt. An asynchronous round keeps its leases and updates, and gets a new
 * deadline if it has updates. */
static void reopen(const fedserver_round_rules *rules, fedserver_round *round, int64_t now_ms) {
    round->deadline_ms = 0;
    /* S5 in docs/durability.md: a round that closes never reopens, but in leave_out. */
    assert(round->closing_ms == 0);
    if (!asynchronous(rules)) {
        /* D1 in docs/durability.md: counted updates keep their slots. */
        assert(round->leased >= round->received);
        round->attempt++;
        round->leased = round->received;
    } else if (round->received > 0) {
        run_deadline(rules, round, now_ms);
    }
}

/* D1 in docs/durability.md: an update whose seal can't be opened is lost. Its slot is free, and the
 * round goes on closing, unless too few updates are left. */
static void leave_out(const fedserver_round_rules *rules, fedserver_round *round, int64_t now_ms) {
    assert(!asynchronous(rules) && round->received > 0 && round->leased >= round->received);
    round->received--;
    round->leased--;
    if (round->phase == FEDSERVER_ROUND_CLOSING && round->received < fedserver_round_least(rules)) {
        round->closing_ms = 0;
        reopen(rules, round, now_ms);
    }
}

/* Open the next round. An asynchronous round keeps the leases, and gets the updates that were
 * counted for it while the last round closed. */
static void open_next(const fedserver_round_rules *rules, fedserver_round *round, int64_t now_ms) {
    /* S5 in docs/durability.md: a synchronous round begins without updates. */
    assert(asynchronous(rules) || round->ahead == 0);
    *round = (fedserver_round){.number = round->number + 1,
                               .attempt = 1,
                               .leased = asynchronous(rules) ? round->leased : 0,
                               .received = round->ahead,
                               .opened_ms = now_ms};
    if (round->received > 0) {
        run_deadline(rules, round, now_ms);
    }
}

static void count(const fedserver_round_rules *rules, fedserver_round *round, int64_t now_ms) {
    const bool closing = round->phase == FEDSERVER_ROUND_CLOSING;
    *(closing ? &round->ahead : &round->received) += 1;
    if (asynchronous(rules)) {
        /* S10 in docs/durability.md: the update's lease has a slot to free. */
        assert(round->leased > 0);
        round->leased--;
    }
    if (asynchronous(rules) && !closing) {
        run_deadline(rules, round, now_ms);
    }
}

static void change(const fedserver_round_rules *rules, fedserver_round *round,
                   fedserver_round_action action, int64_t now_ms) {
    switch (action) {
    case FEDSERVER_DO_OPEN:
        open_next(rules, round, now_ms);
        break;
    case FEDSERVER_DO_CLOSE:
        round->phase = FEDSERVER_ROUND_CLOSING;
        round->closing_ms = now_ms;
        return;
    case FEDSERVER_DO_REOPEN:
        reopen(rules, round, now_ms);
        break;
    case FEDSERVER_DO_FREE:
        assert(round->leased > 0); /* S10 in docs/durability.md: there is a slot to free. */
        round->leased--;
        break;
    case FEDSERVER_DO_LEAVE_OUT:
        leave_out(rules, round, now_ms);
        break;
    case FEDSERVER_DO_LEASE:
        round->leased++;
        if (!asynchronous(rules)) {
            run_deadline(rules, round, now_ms);
        }
        break;
    case FEDSERVER_DO_COUNT:
        count(rules, round, now_ms);
        break;
    case FEDSERVER_DO_FINISH:
        *round = (fedserver_round){.phase = FEDSERVER_ROUND_NONE};
        return;
    default:
        return;
    }
    if (round->closing_ms == 0) {
        round->phase = round->leased >= rules->cohort ? FEDSERVER_ROUND_FULL : FEDSERVER_ROUND_OPEN;
    }
}

static void check_step(const fedserver_round_rules *rules, const fedserver_round *before,
                       const fedserver_round *round, fedserver_round_action action,
                       int64_t now_ms) {
    (void)rules, (void)before, (void)round, (void)now_ms;
    const uint32_t lost = action == FEDSERVER_DO_LEAVE_OUT;
    const bool runs = round->phase != FEDSERVER_ROUND_NONE;
    const bool same = runs && round->number == before->number;
    (void)same, (void)lost;
    /* D1 in docs/durability.md: a round loses no update that can be opened, and no earlier attempt
     * returns. */
    assert(!same || (round->received + lost >= before->received && round->ahead >= before->ahead));
    assert(!same || round->attempt >= before->attempt);
    /* D2 in docs/durability.md: one event counts one update at most. */
    assert(!same || round->received + round->ahead <= before->received + before->ahead + 1);
    /* D6, S10 in docs/durability.md: no deadline is further away than the task allows. */
    assert(round->deadline_ms <= now_ms + rules->deadline_ms);
    /* S5 in docs/durability.md: round numbers have no gap, and updates wait for the next round
     * only while this one closes. */
    assert(!runs || same || round->number == before->number + 1);
    assert(round->ahead == 0 || (asynchronous(rules) && round->phase == FEDSERVER_ROUND_CLOSING));
}

fedserver_round_action fedserver_round_step(const fedserver_round_rules *rules,
                                            fedserver_round *round, fedserver_round_event event,
                                            int64_t now_ms) {
    assert(event < FEDSERVER_ROUND_EVENTS);
    /* The wall clock may have been set back. */
    if (round->deadline_ms > now_ms + rules->deadline_ms) {
        round->deadline_ms = now_ms + rules->deadline_ms;
    }
    const fedserver_round before = *round;
    fedserver_round_action action = decide(rules, round, event, now_ms);
    change(rules, round, action, now_ms);
    check_step(rules, &before, round, action, now_ms);
    return action;
}

uint32_t fedserver_round_weight(const fedserver_round_rules *rules, uint32_t counting,
                                uint32_t trained) {
    if (!asynchronous(rules)) {
        return 1;
    }
    /* D3 in docs/durability.md: the weight depends on the two rounds only. */
    assert(trained <= counting && counting - trained <= rules->staleness);
    return (uint32_t)lround(64.0 / sqrt(1.0 + (counting - trained)));
}
