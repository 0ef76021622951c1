/* Find the member that failed, from heartbeats and ends of connections, and write its verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/verdict.h"

#include <string.h>

#include "fed/bytes.h"

const char *feddc_phase_name(feddc_phase phase) {
    static const char *const names[FEDDC_PHASES] = {"start",  "forward",  "backward", "wait",
                                                    "update", "evaluate", "save",     "sync"};
    return (unsigned)phase < FEDDC_PHASES ? names[phase] : "?";
}

/* Return whether all other connected members were heard from since this member's connection
 * ended. */
static bool others_answered(const feddc_membership *membership, uint32_t slot) {
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (i != slot && feddc_membership_lives(m) && m->gone == 0 &&
            m->heard < membership->member[slot].gone) {
            return false;
        }
    }
    return true;
}

feddc_fate feddc_verdict_silence(const feddc_membership *membership, uint32_t slot,
                                 int64_t now_ms) {
    const feddc_membership_member *m = &membership->member[slot];
    if (m->gone > 0) {
        bool ripe = now_ms - m->gone_ms >= FEDDC_ASK_MS || others_answered(membership, slot);
        return ripe ? FEDDC_DIED : FEDDC_ALIVE;
    }
    if (now_ms - m->heard_ms < FEDDC_SILENT_MS) {
        return FEDDC_ALIVE;
    }
    return m->acks ? FEDDC_STOPPED : FEDDC_CUT_OFF;
}

double feddc_verdict_median(const feddc_membership *membership,
                            float (*value)(const feddc_heartbeat *heartbeat)) {
    float known[FEDDC_RANKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        float v = value(&membership->member[i].heartbeat);
        if (!feddc_membership_lives(&membership->member[i]) || !(v > 0)) {
            continue;
        }
        uint32_t k = count++;
        for (; k > 0 && known[k - 1] > v; k--) {
            known[k] = known[k - 1];
        }
        known[k] = v;
    }
    return count > 0 ? (double)known[(count - 1) / 2] : 0;
}

static float step_s(const feddc_heartbeat *heartbeat) {
    return heartbeat->step_s;
}

static int64_t limit_ms(const feddc_membership *membership) {
    double usual = feddc_verdict_median(membership, step_s);
    if (!(usual > 0)) {
        return FEDDC_FIRST_MS;
    }
    double limit = usual * 1000 * FEDDC_STUCK_STEPS;
    if (limit > 86400e3) {
        return 86400 * 1000;
    }
    return limit > FEDDC_STUCK_MS ? (int64_t)limit : FEDDC_STUCK_MS;
}

static bool stands(const feddc_membership *membership, const feddc_membership_member *m,
                   int64_t now_ms) {
    int64_t still = now_ms - m->moved_ms;
    if (still <= FEDDC_STUCK_MS) {
        return false;
    }
    return still > (m->heartbeat.phase == FEDDC_STARTING ? FEDDC_FIRST_MS : limit_ms(membership));
}

/* Between two generations, return a member that has not asked for the next one, and is later than
 * FEDDC_COME_MS or has a main thread that reports nothing. */
static uint32_t missing(const feddc_membership *membership, int64_t now_ms) {
    bool late = now_ms - membership->since_ms > FEDDC_COME_MS;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (feddc_membership_lives(m) && !m->meets && (late || stands(membership, m, now_ms))) {
            return i;
        }
    }
    return FEDDC_NOBODY;
}

/* While all members wait, find the one that all others wait for. With only two members, each waits
 * for the other, so neither can be blamed. */
static uint32_t awaited_by_all(const feddc_membership *membership) {
    uint32_t alive = feddc_membership_alive(membership);
    for (uint32_t i = 0; i < membership->members && alive > 2; i++) {
        uint32_t votes = 0;
        for (uint32_t j = 0; j < membership->members; j++) {
            const feddc_membership_member *m = &membership->member[j];
            votes += j != i && feddc_membership_lives(m) &&
                     m->heartbeat.waits.bucket != UINT32_MAX &&
                     m->heartbeat.waits.waits_for == membership->member[i].rank;
        }
        if (feddc_membership_lives(&membership->member[i]) && votes == alive - 1) {
            return i;
        }
    }
    return FEDDC_NOBODY;
}

/* Return whether the main threads of all living members have been silent for too long, and some
 * wait for an exchange. *waiting: how many wait; *busy: the first member that does not wait. */
static bool all_stand(const feddc_membership *membership, int64_t now_ms, uint32_t *waiting,
                      uint32_t *busy) {
    *waiting = 0;
    *busy = FEDDC_NOBODY;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (!feddc_membership_lives(m)) {
            continue;
        }
        if (m->heartbeat.phase == FEDDC_STARTING || m->gone > 0 || !stands(membership, m, now_ms)) {
            return false;
        }
        if (m->heartbeat.phase == FEDDC_WAITING) {
            *waiting += 1;
        } else if (*busy == FEDDC_NOBODY) {
            *busy = i;
        }
    }
    return *waiting > 0;
}

uint32_t feddc_verdict_stuck(const feddc_membership *membership, int64_t now_ms, feddc_fate *fate) {
    *fate = FEDDC_STUCK;
    if (membership->state == FEDDC_MEETING) {
        return membership->generation > 0 ? missing(membership, now_ms) : FEDDC_NOBODY;
    }
    uint32_t waiting = 0, busy = FEDDC_NOBODY;
    if (!all_stand(membership, now_ms, &waiting, &busy)) {
        return FEDDC_NOBODY;
    }
    if (busy != FEDDC_NOBODY) {
        return busy;
    }
    /* the member is cut off from other members only: the failure detector gets its heartbeats */
    *fate = FEDDC_CUT_OFF;
    return awaited_by_all(membership);
}

bool feddc_verdict_deadlock(const feddc_membership *membership, int64_t now_ms) {
    uint32_t waiting = 0, busy = FEDDC_NOBODY;
    return membership->state == FEDDC_TRAINING && all_stand(membership, now_ms, &waiting, &busy) &&
           busy == FEDDC_NOBODY && awaited_by_all(membership) == FEDDC_NOBODY;
}

static const feddc_membership_digest *digest_of(const feddc_membership_member *m,
                                                uint32_t completed) {
    for (uint32_t k = 0; k < FEDDC_DIGESTS && k < m->digests; k++) {
        if (m->digest[k].completed == completed) {
            return &m->digest[k];
        }
    }
    return NULL;
}

static uint32_t agree(const feddc_membership *membership, uint32_t completed, uint64_t digest) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_digest *d = digest_of(&membership->member[i], completed);
        count += feddc_membership_lives(&membership->member[i]) && d != NULL && d->digest == digest;
    }
    return count;
}

uint32_t feddc_verdict_odd(const feddc_membership *membership, uint32_t completed, bool *split) {
    uint32_t alive = feddc_membership_alive(membership), odd = FEDDC_NOBODY;
    bool majority = false;
    *split = false;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (!feddc_membership_lives(m)) {
            continue;
        }
        const feddc_membership_digest *d = digest_of(m, completed);
        if (d == NULL) {
            return FEDDC_NOBODY;
        }
        if (agree(membership, completed, d->digest) * 2 > alive) {
            majority = true;
        } else if (odd == FEDDC_NOBODY) {
            odd = i;
        }
    }
    *split = odd != FEDDC_NOBODY && !majority;
    return odd;
}

/* The number of other members that wait for an exchange, and the lowest step and bucket that they
 * wait for. */
typedef struct queue {
    uint32_t count, step, bucket;
} queue;

static queue others_wait(const feddc_membership *membership, uint32_t slot) {
    queue q = {0, UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        const feddc_exchange_state *w = &m->heartbeat.waits;
        if (i == slot || !feddc_membership_lives(m) || m->rank == FEDDC_NOBODY ||
            w->bucket == UINT32_MAX) {
            continue;
        }
        q.count++;
        if (w->step < q.step) {
            q.step = w->step;
            q.bucket = w->bucket;
        } else if (w->step == q.step && w->bucket < q.bucket) {
            q.bucket = w->bucket;
        }
    }
    return q;
}

static void write_fate(fed_writer *w, const feddc_membership_member *m, feddc_fate fate,
                       const char *detail, int64_t now_ms) {
    double silent = (double)(now_ms - m->heard_ms) / 1000;
    double still = (double)(now_ms - m->moved_ms) / 1000;
    if (fate == FEDDC_STOPPED) {
        fed_write_printf(w, ": no heartbeat for %.1f s, but its host answers", silent);
    } else if (fate == FEDDC_CUT_OFF && silent * 1000 >= FEDDC_SILENT_MS) {
        fed_write_printf(w, ": no heartbeat for %.1f s, and its host does not answer", silent);
    } else if (fate == FEDDC_CUT_OFF) {
        fed_write_printf(
            w, " from the others: it sends heartbeats, but nothing has moved for %.1f s", still);
    } else if (fate == FEDDC_STUCK) {
        fed_write_printf(w, ": it sends heartbeats, but has done nothing for %.1f s", still);
    } else if (detail[0] != '\0') {
        fed_write_printf(w, ": %.200s", detail);
    }
}

static void write_step(fed_writer *w, const feddc_heartbeat *heartbeat, uint32_t step) {
    const char *phase = feddc_phase_name((feddc_phase)heartbeat->phase);
    if (heartbeat->phase == FEDDC_STARTING && step == 0) {
        fed_write_printf(w, " before its first step was over");
    } else if (heartbeat->phase == FEDDC_STARTING) {
        fed_write_printf(w, " at step %u (last heard of before the first)", step);
    } else if (step == heartbeat->step) {
        fed_write_printf(w, " at step %u in %s", step, phase);
    } else {
        fed_write_printf(w, " at step %u (last heard of in %s of step %u)", step, phase,
                         heartbeat->step);
    }
}

void feddc_verdict_report(const feddc_membership *membership, uint32_t slot, feddc_fate fate,
                          const char *detail, int64_t now_ms, feddc_verdict *verdict) {
    static const char *const verb[] = {
        [FEDDC_ALIVE] = "lives",         [FEDDC_FINISHED] = "finished",
        [FEDDC_GAVE_UP] = "gave up",     [FEDDC_DIED] = "died",
        [FEDDC_STOPPED] = "was stopped", [FEDDC_CUT_OFF] = "was cut off",
        [FEDDC_STUCK] = "is stuck",      [FEDDC_DIVERGED] = "has parameters of its own"};
    const feddc_membership_member *m = &membership->member[slot];
    queue q = others_wait(membership, slot);
    *verdict = (feddc_verdict){.fate = fate,
                               .worker = m->worker,
                               .generation = membership->generation,
                               .pid = m->pid,
                               .step = m->heartbeat.step,
                               .phase = (feddc_phase)m->heartbeat.phase};
    memcpy(verdict->host, m->host, sizeof verdict->host);
    if (q.count > 0 && q.step > m->heartbeat.step && fate != FEDDC_DIVERGED) {
        /* the others have this member's gradients of all earlier steps, so it was at the step that
         * they wait for */
        verdict->step = q.step;
    }
    fed_writer w;
    fed_writer_fixed(&w, verdict->text, sizeof verdict->text);
    fed_write_printf(&w, "worker %u (host %s, pid %u) %s", m->worker, m->host, m->pid, verb[fate]);
    write_step(&w, &m->heartbeat, verdict->step);
    write_fate(&w, m, fate, detail, now_ms);
    if (q.count > 0) {
        fed_write_printf(&w, "; %u other%s wait%s for bucket %u", q.count, q.count > 1 ? "s" : "",
                         q.count > 1 ? "" : "s", q.bucket);
    }
}
