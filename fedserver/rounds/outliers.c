/* Counts who is in the worst group, and names who is there too often for chance. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/outliers.h"

#include <assert.h>
#include <math.h>

#include "fed/log.h"

/* x ln(x / y), which is 0 where x is. */
static double term(double x, double y) {
    return x > 0 ? x * log(x / y) : 0;
}

bool fedserver_outlier_stands_out(const fedserver_outlier_row *row) {
    static const double chance = 1e-6;
    const double rounds = row->rounds, a = row->worst / rounds, p = row->expected / rounds;
    return row->worst >= FEDSERVER_OUTLIER_LEAST && a > p && p > 0 &&
           rounds * (term(a, p) + term(1 - a, 1 - p)) > -log(chance);
}

typedef struct naming {
    const fedserver_rounds *rounds;
    const fedserver_training *t;
    double share; /* of the devices that are in the worst group of this round */
} naming;

/* Name the device, if it did not stand out before this round. */
static fed_status name_one(void *user, const fedserver_outlier_row *row, fed_error *err) {
    const naming *n = user;
    fedserver_outlier_row before = *row;
    (void)err;
    before.rounds--;
    before.worst--;
    before.expected -= n->share;
    if (row->last_worst != n->t->round.number || !fedserver_outlier_stands_out(row) ||
        fedserver_outlier_stands_out(&before)) {
        return FED_OK;
    }
    const fedserver_task *task = &n->t->task;
    const fed_log_about about = fedserver_task_about(task, n->t->round.number);
    fed_logf_about(
        n->rounds->log, FED_LOG_WARN, &about,
        "task %llu (%s): round %u: device %s%s%s%s was in the worst group in %u of its %u rounds, "
        "and by chance in %.1f; either its data are unlike all others', or it ignores the clip. If "
        "you do not trust it, exclude it with `fedserver revoke`",
        (unsigned long long)task->wire.id, task->name, n->t->round.number, row->fingerprint,
        row->name[0] != '\0' ? " (" : "", row->name, row->name[0] != '\0' ? ")" : "", row->worst,
        row->rounds, row->expected);
    return FED_OK;
}

fed_status fedserver_outliers_take(fedserver_rounds *rounds, const fedserver_training *t,
                                   uint32_t updates, const fedserver_weights *weights,
                                   fed_error *err) {
    const uint64_t id = t->task.wire.id;
    const uint32_t round = t->round.number, count = weights->worst_count;
    if (count == 0 || weights->lost == updates) {
        return FED_OK;
    }
    /* S5 in docs/durability.md: the round's updates are still there, and this is its commit. */
    assert(count <= updates && t->round.phase == FEDSERVER_ROUND_CLOSING);
    naming n = {.rounds = rounds, .t = t, .share = (double)count / updates};
    FED_TRY(rounds->store->outliers_count(rounds->db, id, round, n.share, err));
    for (uint32_t k = 0; k < count; k++) {
        FED_TRY(rounds->store->outlier_add(rounds->db, id, round, weights->worst[k], err));
    }
    return rounds->store->outliers_each(rounds->db, id, FEDSERVER_OUTLIER_LEAST, name_one, &n, err);
}
