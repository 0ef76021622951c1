/* The failure detector's knowledge of a worker group: who joins, waits, leaves or has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/membership.h"

#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fedclient/datacenter/control/group_settings.h"
#include "fedclient/datacenter/control/verdict.h"

fed_status feddc_membership_init(feddc_membership *membership, uint32_t size, uint32_t min,
                                 uint32_t join_ms, int64_t now_ms, fed_error *err) {
    if (size == 0 || size > FEDDC_RANKS || min > size) {
        return fed_fail(err, FED_EINVAL,
                        "a worker group has 1 to %d members, and its minimum is not larger than "
                        "its size: size %u and minimum %u are not allowed",
                        FEDDC_RANKS, size, min);
    }
    *membership = (feddc_membership){.size = size,
                                     .min = min == 0 ? size : min,
                                     .join_ms = join_ms == 0 ? 60000 : join_ms,
                                     .since_ms = now_ms,
                                     .settled_ms = now_ms};
    membership->member = calloc(size, sizeof *membership->member);
    membership->slot = calloc(size, sizeof *membership->slot);
    membership->verdict = calloc(size, sizeof *membership->verdict);
    if (membership->member == NULL || membership->slot == NULL || membership->verdict == NULL) {
        feddc_membership_free(membership);
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker group of %u", size);
    }
    return FED_OK;
}

void feddc_membership_free(feddc_membership *membership) {
    free(membership->member);
    free(membership->slot);
    free(membership->verdict);
    *membership = (feddc_membership){0};
}

static void put_text(char *dst, size_t cap, const char *text) {
    size_t len = strlen(text);
    len = len < cap ? len : cap - 1;
    memmove(dst, text, len); /* dst may be text */
    dst[len] = '\0';
}

void feddc_membership_expect(feddc_membership *membership, const char *settings) {
    put_text(membership->settings, sizeof membership->settings, settings);
    membership->expects = true;
}

static fed_status compare_settings(feddc_membership *membership, const feddc_join *join,
                                   fed_error *err) {
    char why[280];
    fed_writer w;
    if (!membership->expects && feddc_membership_alive(membership) == 0) {
        put_text(membership->settings, sizeof membership->settings, join->settings);
    }
    if (feddc_group_settings_equal(join->settings, membership->settings, why, sizeof why)) {
        return FED_OK;
    }
    fed_writer_fixed(&w, membership->refused, sizeof membership->refused);
    fed_write_printf(&w, "a worker (host %.48s, pid %u) was refused: %s", join->host, join->pid,
                     why);
    membership->refusals++;
    return fed_fail(err, FED_ESTATE, "%s", why);
}

fed_status feddc_membership_join(feddc_membership *membership, const feddc_join *join,
                                 int64_t now_ms, uint32_t *slot, fed_error *err) {
    uint32_t free_slot = membership->members;
    if (membership->generation > 0 || membership->state != FEDDC_MEETING) {
        return fed_fail(err, FED_ESTATE, "the worker group has begun without this member");
    }
    if (join->requested != FEDDC_NOBODY && join->requested >= membership->size) {
        return fed_fail(err, FED_EINVAL,
                        "rank %u does not exist in a worker group of %u: ranks begin at 0",
                        join->requested, membership->size);
    }
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (!m->here) {
            free_slot = i;
        } else if (join->requested != FEDDC_NOBODY && m->requested == join->requested) {
            return fed_fail(err, FED_EEXIST, "rank %u is taken by host %s, pid %u", join->requested,
                            m->host, m->pid);
        }
    }
    if (free_slot == membership->size) {
        return fed_fail(
            err, FED_ESTATE,
            "the worker group is full: its %u members have joined already; start fewer workers",
            membership->size);
    }
    FED_TRY(compare_settings(membership, join, err));
    membership->members += free_slot == membership->members;
    feddc_membership_member *m = &membership->member[free_slot];
    *m = (feddc_membership_member){.here = true,
                                   .pid = join->pid,
                                   .requested = join->requested,
                                   .worker = free_slot,
                                   .rank = FEDDC_NOBODY,
                                   .heard_ms = now_ms,
                                   .moved_ms = now_ms};
    m->heartbeat.waits.bucket = UINT32_MAX;
    put_text(m->host, sizeof m->host, join->host);
    put_text(m->computes_on, sizeof m->computes_on, join->computes_on);
    *slot = free_slot;
    return FED_OK;
}

/* End the generation: all living members must ask for the next one. */
static void leave_generation(feddc_membership *membership, int64_t now_ms) {
    membership->state = FEDDC_MEETING;
    membership->since_ms = now_ms;
    membership->lost = false;
    membership->todo |= FEDDC_SEND_OVER;
    for (uint32_t i = 0; i < membership->members; i++) {
        /* the member's time to ask for the next generation begins now */
        membership->member[i].moved_ms = now_ms;
    }
}

void feddc_membership_end(feddc_membership *membership, const char *why) {
    if (membership->state != FEDDC_DONE && membership->state != FEDDC_ENDED) {
        put_text(membership->why, sizeof membership->why, why);
        membership->state = FEDDC_ENDED;
        membership->todo |= FEDDC_SEND_END;
    }
}

static void count_the_left(feddc_membership *membership) {
    uint32_t alive = feddc_membership_alive(membership), finished = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        finished += membership->member[i].here && membership->member[i].fate == FEDDC_FINISHED;
    }
    if (membership->state == FEDDC_DONE || membership->state == FEDDC_ENDED) {
        return;
    }
    if (alive == 0 && finished > 0) {
        membership->state = FEDDC_DONE;
    } else if (alive + finished < membership->min) {
        char why[sizeof membership->why];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w, "%.330s; %u %s left, and the worker group needs %u", membership->why,
                         alive, alive == 1 ? "is" : "are", membership->min);
        feddc_membership_end(membership,
                             membership->size == membership->min ? membership->why : why);
    }
}

static void condemn(feddc_membership *membership, uint32_t slot, feddc_fate fate,
                    const char *detail, int64_t now_ms) {
    feddc_membership_member *m = &membership->member[slot];
    feddc_verdict *verdict = &membership->verdict[membership->verdicts++];
    feddc_verdict_report(membership, slot, fate, detail, now_ms, verdict);
    m->fate = fate;
    verdict->left = feddc_membership_alive(membership);
    if (membership->state == FEDDC_TRAINING) {
        leave_generation(membership, now_ms);
    }
    if (membership->lost) {
        size_t len = strlen(membership->why);
        fed_writer w;
        fed_writer_fixed(&w, membership->why + len, sizeof membership->why - len);
        fed_write_printf(&w, ". Also: %s", verdict->text);
    } else {
        put_text(membership->why, sizeof membership->why, verdict->text);
    }
    membership->lost = true;
    count_the_left(membership);
}

/* Before the first generation, the slot of a lost member becomes free. Later a lost member gets a
 * verdict. */
static void lose(feddc_membership *membership, uint32_t slot, feddc_fate fate, const char *detail,
                 int64_t now_ms) {
    if (membership->generation == 0) {
        membership->member[slot].here = false;
    } else if (feddc_membership_lives(&membership->member[slot])) {
        condemn(membership, slot, fate, detail, now_ms);
    }
}

void feddc_membership_heartbeat(feddc_membership *membership, uint32_t slot,
                                const feddc_heartbeat *heartbeat, int64_t now_ms) {
    feddc_membership_member *m = &membership->member[slot];
    m->heard = ++membership->events;
    m->heard_ms = now_ms;
    if (heartbeat->marks != m->heartbeat.marks) {
        m->moved_ms = now_ms;
    }
    m->heartbeat = *heartbeat;
}

void feddc_membership_meet(feddc_membership *membership, uint32_t slot, uint32_t completed,
                           const char *address, const char *broke, int64_t now_ms) {
    feddc_membership_member *m = &membership->member[slot];
    m->heard = ++membership->events;
    m->heard_ms = m->moved_ms = now_ms;
    m->meets = true;
    m->completed = completed;
    put_text(m->address, sizeof m->address, address);
    if (membership->state == FEDDC_TRAINING && feddc_membership_lives(m)) {
        fed_writer w;
        fed_writer_fixed(&w, membership->why, sizeof membership->why);
        fed_write_printf(&w, "worker %u (host %s, pid %u) left an exchange: %.200s", m->worker,
                         m->host, m->pid, broke);
        leave_generation(membership, now_ms);
    }
}

void feddc_membership_digest_is(feddc_membership *membership, uint32_t slot, uint32_t completed,
                                uint64_t digest, int64_t now_ms) {
    feddc_membership_member *m = &membership->member[slot];
    if (membership->state != FEDDC_TRAINING || !feddc_membership_lives(m)) {
        return;
    }
    m->digest[m->digests++ % FEDDC_DIGESTS] = (feddc_membership_digest){completed, digest};
    bool split = false;
    uint32_t odd = feddc_verdict_odd(membership, completed, &split);
    if (split) {
        char why[200];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w,
                         "the workers' parameters differ after %u steps, and none has a "
                         "majority: go back to a checkpoint",
                         completed);
        feddc_membership_end(membership, why);
    } else if (odd != FEDDC_NOBODY) {
        char detail[80];
        fed_writer w;
        fed_writer_fixed(&w, detail, sizeof detail);
        fed_write_printf(&w, "their digest after %u steps is not that of the majority", completed);
        condemn(membership, odd, FEDDC_DIVERGED, detail, now_ms);
    }
}

void feddc_membership_bye(feddc_membership *membership, uint32_t slot, const char *why,
                          int64_t now_ms) {
    if (why[0] != '\0') {
        lose(membership, slot, FEDDC_GAVE_UP, why, now_ms);
    } else if (membership->generation == 0) {
        membership->member[slot].here = false;
    } else if (feddc_membership_lives(&membership->member[slot])) {
        membership->member[slot].fate = FEDDC_FINISHED;
        count_the_left(membership);
    }
}

void feddc_membership_gone(feddc_membership *membership, uint32_t slot, int64_t now_ms) {
    feddc_membership_member *m = &membership->member[slot];
    if (membership->generation == 0) {
        m->here = false;
    } else if (feddc_membership_lives(m) && m->gone == 0) {
        m->gone = ++membership->events;
        m->gone_ms = now_ms;
        membership->todo |= FEDDC_SEND_ASK;
    }
}

/* Sort key of members: the rank in the first generation; before that, the requested rank and the
 * slot. */
static uint64_t order_of(const feddc_membership *membership, uint32_t slot) {
    const feddc_membership_member *m = &membership->member[slot];
    return (uint64_t)(membership->generation > 0 ? m->worker : m->requested) << 32 | slot;
}

static uint32_t give_ranks(feddc_membership *membership) {
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        if (!feddc_membership_lives(&membership->member[i])) {
            continue;
        }
        uint32_t k = ranks++;
        for (; k > 0 && order_of(membership, membership->slot[k - 1]) > order_of(membership, i);
             k--) {
            membership->slot[k] = membership->slot[k - 1];
        }
        membership->slot[k] = i;
    }
    return ranks;
}

/* Return true after too many generations in a row that lost no member and completed no step.
 * Otherwise the worker group would begin again for ever. */
static bool fruitless(feddc_membership *membership) {
    uint32_t best = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        best = feddc_membership_lives(m) && m->completed > best ? m->completed : best;
    }
    bool idle = membership->generation > 0 && !membership->lost && best <= membership->best;
    membership->fruitless = idle ? membership->fruitless + 1 : 0;
    membership->best = best;
    return membership->fruitless > FEDDC_FRUITLESS;
}

static void begin(feddc_membership *membership, int64_t now_ms) {
    if (fruitless(membership)) {
        char why[sizeof membership->why];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w,
                         "%d generations in a row ended without a completed step, and nobody is to "
                         "blame: %.250s",
                         FEDDC_FRUITLESS + 1, membership->why);
        feddc_membership_end(membership, why);
        return;
    }
    membership->ranks = give_ranks(membership);
    for (uint32_t i = 0; i < membership->members; i++) {
        membership->member[i].rank = FEDDC_NOBODY;
    }
    for (uint32_t r = 0; r < membership->ranks; r++) {
        feddc_membership_member *m = &membership->member[membership->slot[r]];
        m->rank = r;
        m->worker = membership->generation == 0 ? r : m->worker;
        m->meets = false;
        m->moved_ms = now_ms;
        m->digests = 0;
        m->heartbeat.waits.bucket = UINT32_MAX;
    }
    membership->generation++;
    membership->state = FEDDC_TRAINING;
    membership->since_ms = now_ms;
    membership->todo |= FEDDC_SEND_WORKER_GROUP;
}

static void end_unmet(feddc_membership *membership, uint32_t ready, int64_t now_ms) {
    char why[sizeof membership->why];
    fed_writer w;
    fed_writer_fixed(&w, why, sizeof why);
    fed_write_printf(&w, "%u of %u workers came within %.1f s, and ", ready, membership->size,
                     (double)(now_ms - membership->since_ms) / 1000);
    if (membership->refusals > 0) {
        fed_write_printf(&w, "%.330s", membership->refused);
    } else {
        fed_write_printf(&w, "the worker group needs %u", membership->min);
    }
    feddc_membership_end(membership, why);
}

/* Begin the next generation when all members are ready. The first also needs `size` members, or
 * `min` once the time to join is over and if none was refused. */
static void meet(feddc_membership *membership, int64_t now_ms) {
    uint32_t here = 0, ready = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        here += feddc_membership_lives(m);
        ready += feddc_membership_lives(m) && m->meets && m->gone == 0;
    }
    int64_t waited = now_ms - membership->since_ms;
    uint32_t wanted = membership->generation > 0 ? here : membership->size;
    const bool refuses = membership->refusals > 0;
    if (membership->generation == 0 && waited >= membership->join_ms && !refuses) {
        wanted = here > membership->min ? here : membership->min;
    }
    if (ready > 0 && ready == wanted) {
        begin(membership, now_ms);
    } else if (membership->generation == 0 && waited >= membership->join_ms &&
               (here < membership->min || refuses || waited >= 2 * membership->join_ms)) {
        end_unmet(membership, ready, now_ms);
    }
}

/* After the failure detector itself was stopped, heartbeats may wait to be read: every member has
 * at least FEDDC_BACK_MS left. Main threads may have been stopped too, so this time does not count
 * against them. */
static void forgive(feddc_membership *membership, int64_t now_ms) {
    int64_t away = now_ms - membership->settled_ms;
    membership->settled_ms = now_ms;
    if (away <= FEDDC_STALL_MS) {
        return;
    }
    for (uint32_t i = 0; i < membership->members; i++) {
        feddc_membership_member *m = &membership->member[i];
        int64_t least = now_ms - FEDDC_SILENT_MS + FEDDC_BACK_MS;
        m->heard_ms = m->heard_ms > least ? m->heard_ms : least;
        m->moved_ms = m->moved_ms + away < now_ms ? m->moved_ms + away : now_ms;
    }
}

/* Sort key of lost members: by the end of their connection, then the silent ones. */
static uint64_t order_of_end(const feddc_membership_member *m) {
    return m->gone > 0 ? m->gone : UINT64_MAX;
}

static uint32_t first_silent(const feddc_membership *membership, int64_t now_ms, feddc_fate *fate) {
    uint32_t first = FEDDC_NOBODY;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (!feddc_membership_lives(m) ||
            feddc_verdict_silence(membership, i, now_ms) == FEDDC_ALIVE) {
            continue;
        }
        if (first == FEDDC_NOBODY || order_of_end(m) < order_of_end(&membership->member[first])) {
            first = i;
        }
    }
    *fate = first == FEDDC_NOBODY ? FEDDC_ALIVE : feddc_verdict_silence(membership, first, now_ms);
    return first;
}

void feddc_membership_settle(feddc_membership *membership, int64_t now_ms) {
    forgive(membership, now_ms);
    /* each pass loses one member or ends the loop */
    for (uint32_t k = 0; k <= membership->size; k++) {
        if (membership->state != FEDDC_MEETING && membership->state != FEDDC_TRAINING) {
            return;
        }
        feddc_fate fate = FEDDC_ALIVE;
        uint32_t slot = first_silent(membership, now_ms, &fate);
        slot = slot == FEDDC_NOBODY ? feddc_verdict_stuck(membership, now_ms, &fate) : slot;
        if (slot == FEDDC_NOBODY) {
            break;
        }
        lose(membership, slot, fate, "", now_ms);
    }
    if (feddc_verdict_deadlock(membership, now_ms)) {
        put_text(membership->why, sizeof membership->why,
                 "all workers wait for each other, and nothing moves: a line between two is down");
        leave_generation(membership, now_ms);
    }
    if (membership->state == FEDDC_MEETING) {
        meet(membership, now_ms);
    }
}

static float compute_s(const feddc_heartbeat *heartbeat) {
    return heartbeat->compute_s;
}

static void find_slowest(const feddc_membership *membership, feddc_detector_look *look) {
    float longest = 0;
    look->slowest = FEDDC_NOBODY;
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (feddc_membership_lives(m) && m->heartbeat.compute_s > longest) {
            longest = m->heartbeat.compute_s;
            look->slowest = m->worker;
        }
    }
    double median = feddc_verdict_median(membership, compute_s);
    look->slowness = median > 0 ? (double)longest / median : 0;
}

void feddc_membership_look(const feddc_membership *membership, feddc_detector_look *look) {
    *look = (feddc_detector_look){.state = membership->state,
                                  .generation = membership->generation,
                                  .alive = feddc_membership_alive(membership),
                                  .step = UINT32_MAX};
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        look->members += m->here;
        look->step = feddc_membership_lives(m) && m->heartbeat.step < look->step ? m->heartbeat.step
                                                                                 : look->step;
    }
    look->step = look->step == UINT32_MAX ? 0 : look->step;
    memcpy(look->why, membership->why, sizeof look->why);
    find_slowest(membership, look);
}

bool feddc_membership_member_look(const feddc_membership *membership, uint32_t worker,
                                  int64_t now_ms, feddc_member_look *look) {
    for (uint32_t i = 0; i < membership->members; i++) {
        const feddc_membership_member *m = &membership->member[i];
        if (!m->here || m->worker != worker) {
            continue;
        }
        uint32_t rank = m->heartbeat.waits.waits_for;
        bool waits = m->heartbeat.waits.bucket != UINT32_MAX && rank < membership->ranks;
        *look = (feddc_member_look){.fate = m->fate,
                                    .pid = m->pid,
                                    .rank = m->rank,
                                    .step = m->heartbeat.step,
                                    .phase = (feddc_phase)m->heartbeat.phase,
                                    .bucket = m->heartbeat.waits.bucket,
                                    .waits_for = FEDDC_NOBODY,
                                    .compute_s = m->heartbeat.compute_s,
                                    .step_s = m->heartbeat.step_s,
                                    .silent_ms = (uint32_t)(now_ms - m->heard_ms),
                                    .meets = m->meets};
        look->waits_for = waits ? membership->member[membership->slot[rank]].worker : FEDDC_NOBODY;
        memcpy(look->host, m->host, sizeof look->host);
        memcpy(look->computes_on, m->computes_on, sizeof look->computes_on);
        return true;
    }
    return false;
}
