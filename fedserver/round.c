/* The round's table: what each event means in each phase, and what it changes. */
#include "fedserver/round.h"

#include <assert.h>
#include <math.h>

#define ROW(event, none, open, leasing, full)                                                      \
    [FEDSERVER_ON_##event] = {FEDSERVER_DO_##none, FEDSERVER_DO_##open, FEDSERVER_DO_##leasing,    \
                              FEDSERVER_DO_##full}

/* Phases in which an event can't happen have a harmless answer all the same: the machine is total.
 * TICK's REOPEN and COMMITTED's OPEN depend on numbers too: decide(). */
// clang-format off
static const uint8_t table[FEDSERVER_ROUND_EVENTS][4] = {
    /*                    NONE            OPEN            LEASING         FULL */
    ROW(START,            OPEN,           NOTHING,        NOTHING,        NOTHING),
    ROW(TICK,             NOTHING,        NOTHING,        REOPEN,         REOPEN),
    ROW(COMMITTED,        NOTHING,        NOTHING,        OPEN,           OPEN),
    ROW(CHECKIN_NEW,      WAIT_NO_TASK,   LEASE,          LEASE,          WAIT_FULL),
    ROW(CHECKIN_LEASED,   WAIT_NO_TASK,   LEASE,          LEASE_AGAIN,    LEASE_AGAIN),
    ROW(CHECKIN_REPORTED, WAIT_NO_TASK,   WAIT_REPORTED,  WAIT_REPORTED,  WAIT_REPORTED),
    ROW(UPDATE_LEASED,    REFUSE_CLOSED,  REFUSE_EXPIRED, COUNT,          COUNT),
    ROW(UPDATE_EXPIRED,   REFUSE_CLOSED,  REFUSE_EXPIRED, REFUSE_EXPIRED, REFUSE_EXPIRED),
    ROW(UPDATE_UNKNOWN,   REFUSE_CLOSED,  REFUSE_UNKNOWN, REFUSE_UNKNOWN, REFUSE_UNKNOWN),
    ROW(UPDATE_CLOSED,    REFUSE_CLOSED,  REFUSE_CLOSED,  REFUSE_CLOSED,  REFUSE_CLOSED),
    ROW(UPDATE_COUNTED,   COUNTED_BEFORE, COUNTED_BEFORE, COUNTED_BEFORE, COUNTED_BEFORE),
};
// clang-format on

/* The two cells that depend on numbers: is a running attempt over, and was that the last round? */
static fedserver_round_action decide(const fedserver_round_rules *rules,
                                     const fedserver_round *round, fedserver_round_event event,
                                     int64_t now_ms) {
    fedserver_round_action action = (fedserver_round_action)table[event][round->phase];
    if (action == FEDSERVER_DO_REOPEN) {
        if (round->received >= rules->goal) {
            return FEDSERVER_DO_COMMIT;
        }
        if (now_ms < round->deadline_ms) {
            return FEDSERVER_DO_NOTHING;
        }
        return round->received >= rules->minimum ? FEDSERVER_DO_COMMIT : FEDSERVER_DO_REOPEN;
    }
    if (event == FEDSERVER_ON_COMMITTED && action == FEDSERVER_DO_OPEN &&
        round->number >= rules->rounds) {
        return FEDSERVER_DO_FINISH;
    }
    return action;
}

static void take_place(const fedserver_round_rules *rules, fedserver_round *round, int64_t now_ms) {
    if (round->phase == FEDSERVER_ROUND_OPEN) {
        round->deadline_ms = now_ms + rules->deadline_ms;
    }
    round->leased++;
    round->phase = round->leased >= rules->cohort ? FEDSERVER_ROUND_FULL : FEDSERVER_ROUND_LEASING;
}

fedserver_round_action fedserver_round_step(const fedserver_round_rules *rules,
                                            fedserver_round *round, fedserver_round_event event,
                                            int64_t now_ms) {
    assert(event < FEDSERVER_ROUND_EVENTS);
    /* Should the wall clock be set back, a deadline moves nearer again instead of out of reach. */
    if (round->deadline_ms > now_ms + rules->deadline_ms) {
        round->deadline_ms = now_ms + rules->deadline_ms;
    }
    fedserver_round_action action = decide(rules, round, event, now_ms);
    switch (action) {
    case FEDSERVER_DO_OPEN:
        *round = (fedserver_round){.phase = FEDSERVER_ROUND_OPEN,
                                   .number = round->number + 1,
                                   .attempt = 1,
                                   .opened_ms = now_ms};
        break;
    case FEDSERVER_DO_REOPEN: /* those that reported keep their places */
        round->phase = FEDSERVER_ROUND_OPEN;
        round->attempt++;
        round->leased = round->received;
        round->deadline_ms = 0;
        break;
    case FEDSERVER_DO_FINISH:
        *round = (fedserver_round){.phase = FEDSERVER_ROUND_NONE};
        break;
    case FEDSERVER_DO_LEASE:
        take_place(rules, round, now_ms);
        break;
    case FEDSERVER_DO_COUNT:
        round->received++;
        break;
    default:
        break;
    }
    return action;
}

uint32_t fedserver_round_weight(const fedserver_round_rules *rules, const fedserver_round *round,
                                uint32_t trained) {
    if (rules->staleness == 0) {
        return 1;
    }
    assert(trained <= round->number && round->number - trained <= rules->staleness);
    return (uint32_t)lround(64.0 / sqrt(1.0 + (round->number - trained)));
}
