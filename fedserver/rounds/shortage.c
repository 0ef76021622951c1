/* Counts who may still take part in a round, and says when a task ends for its budget. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/shortage.h"

#include <stdio.h>
#include <time.h>

#include "fedserver/task/private_task.h"

enum { LOOK_MS = 1000 };

bool fedserver_is_short(const fedserver_training *t) {
    return t->shortage.since_ms != 0;
}

int64_t fedserver_shortage_ends_ms(const fedserver_training *t) {
    return t->shortage.since_ms + t->task.rules.deadline_ms;
}

static bool is_open(const fedserver_training *t) {
    return t->round.phase == FEDSERVER_ROUND_OPEN || t->round.phase == FEDSERVER_ROUND_FULL;
}

fed_status fedserver_shortage_look(fedserver_rounds *rounds, fedserver_training *t,
                                   int64_t since_ms, int64_t now_ms, fed_error *err) {
    fedserver_shortage *s = &t->shortage;
    const fedserver_task *task = &t->task;
    const uint64_t least = fedserver_round_least(&task->rules);
    uint64_t left = least, all = 0;
    if (fedserver_task_promises(task) && is_open(t)) {
        FED_TRY(rounds->store->ledger_left(rounds->db, task->wire.id, task->tag,
                                           task->participations, t->round.number,
                                           fedserver_task_apart(task), &left, err));
    }
    if (left < least) {
        FED_TRY(rounds->store->ledger_left(rounds->db, task->wire.id, task->tag, UINT32_MAX, 0, 0,
                                           &all, err));
    }
    s->left = left;
    s->looked_ms = now_ms;
    if (left >= least || all < least) {
        s->since_ms = 0;
    } else if (s->since_ms == 0) {
        s->since_ms = since_ms;
    }
    return FED_OK;
}

void fedserver_shortage_report(const fedserver_training *t, char *dst, size_t cap) {
    char ends[16] = "?";
    const time_t seconds = (time_t)(fedserver_shortage_ends_ms(t) / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) != NULL) {
        strftime(ends, sizeof ends, "%H:%M:%S", &utc);
    }
    snprintf(dst, cap,
             "devices that may still take part: %llu may, and the minimum is %u; the others have "
             "taken part %u times, or rest. Enrol further devices until %s UTC; else the task is "
             "finished then, for its budget",
             (unsigned long long)t->shortage.left, fedserver_round_least(&t->task.rules),
             t->task.participations, ends);
}

fed_status fedserver_shortage_advance(fedserver_rounds *rounds, fedserver_training *t,
                                      int64_t now_ms, bool *over, bool *again, fed_error *err) {
    const int64_t passed_ms = now_ms - t->shortage.looked_ms;
    *over = *again = false;
    if (!fedserver_is_short(t) || !is_open(t)) {
        return FED_OK;
    }
    if (passed_ms >= LOOK_MS || passed_ms < 0) { /* below 0: the wall clock was set back */
        FED_TRY(fedserver_shortage_look(rounds, t, now_ms, now_ms, err));
        *again = !fedserver_is_short(t);
    }
    /* Devices that have leases may still report. */
    *over = !*again && now_ms >= fedserver_shortage_ends_ms(t) && t->round.deadline_ms == 0;
    return FED_OK;
}
