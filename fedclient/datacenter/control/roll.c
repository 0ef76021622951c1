/* The judge's knowledge of a gang: who joins, meets, leaves and is condemned. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/roll.h"

#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fedclient/datacenter/control/verdict.h"

fed_status feddc_roll_init(feddc_roll *roll, uint32_t size, uint32_t min, uint32_t join_ms,
                           int64_t now_ms, fed_error *err) {
    if (size == 0 || size > FEDDC_RANKS || min > size) {
        return fed_fail(err, FED_EINVAL,
                        "a gang has 1 to %d members, and its least number is no "
                        "larger: %u and %u do not fit",
                        FEDDC_RANKS, size, min);
    }
    *roll = (feddc_roll){.size = size,
                         .min = min == 0 ? size : min,
                         .join_ms = join_ms == 0 ? 60000 : join_ms,
                         .since_ms = now_ms,
                         .settled_ms = now_ms};
    roll->member = calloc(size, sizeof *roll->member);
    roll->slot = calloc(size, sizeof *roll->slot);
    roll->verdict = calloc(size, sizeof *roll->verdict);
    if (roll->member == NULL || roll->slot == NULL || roll->verdict == NULL) {
        feddc_roll_free(roll);
        return fed_fail(err, FED_ENOMEM, "no memory for a gang of %u", size);
    }
    return FED_OK;
}

void feddc_roll_free(feddc_roll *roll) {
    free(roll->member);
    free(roll->slot);
    free(roll->verdict);
    *roll = (feddc_roll){0};
}

/* Text of any length into a fixed array; the rest is cut. */
static void put_text(char *dst, size_t cap, const char *text) {
    size_t len = strlen(text);
    len = len < cap ? len : cap - 1;
    memmove(dst, text, len); /* dst may be text */
    dst[len] = '\0';
}

/* --- joining --- */

fed_status feddc_roll_join(feddc_roll *roll, const feddc_join *join, int64_t now_ms, uint32_t *slot,
                           fed_error *err) {
    uint32_t free_slot = roll->members;
    if (roll->generation > 0 || roll->state != FEDDC_MEETING) {
        return fed_fail(err, FED_ESTATE, "the gang has begun without this member");
    }
    if (join->wish != FEDDC_NOBODY && join->wish >= roll->size) {
        return fed_fail(err, FED_EINVAL, "rank %u is none of a gang of %u", join->wish, roll->size);
    }
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        if (!m->here) {
            free_slot = i;
        } else if (join->wish != FEDDC_NOBODY && m->wish == join->wish) {
            return fed_fail(err, FED_EEXIST, "rank %u is taken by host %s, pid %u", join->wish,
                            m->host, m->pid);
        }
    }
    if (free_slot == roll->size) {
        return fed_fail(err, FED_ESTATE, "the gang has its %u members already", roll->size);
    }
    roll->members += free_slot == roll->members;
    feddc_roll_member *m = &roll->member[free_slot];
    *m = (feddc_roll_member){.here = true,
                             .pid = join->pid,
                             .wish = join->wish,
                             .worker = free_slot,
                             .rank = FEDDC_NOBODY,
                             .heard_ms = now_ms,
                             .moved_ms = now_ms};
    m->beat.waits.bucket = UINT32_MAX;
    put_text(m->host, sizeof m->host, join->host);
    put_text(m->computes_on, sizeof m->computes_on, join->computes_on);
    *slot = free_slot;
    return FED_OK;
}

/* --- faults --- */

/* The generation is over: all who live shall meet. */
static void leave_generation(feddc_roll *roll, int64_t now_ms) {
    roll->state = FEDDC_MEETING;
    roll->since_ms = now_ms;
    roll->lost = false;
    roll->todo |= FEDDC_TELL_OVER;
    for (uint32_t i = 0; i < roll->members; i++) {
        roll->member[i].moved_ms = now_ms; /* from now on it has time to come */
    }
}

void feddc_roll_end(feddc_roll *roll, const char *why) {
    if (roll->state != FEDDC_DONE && roll->state != FEDDC_ENDED) {
        put_text(roll->why, sizeof roll->why, why);
        roll->state = FEDDC_ENDED;
        roll->todo |= FEDDC_TELL_END;
    }
}

/* End the gang if too few are left. */
static void count_the_left(feddc_roll *roll) {
    uint32_t alive = feddc_roll_alive(roll), finished = 0;
    for (uint32_t i = 0; i < roll->members; i++) {
        finished += roll->member[i].here && roll->member[i].fate == FEDDC_FINISHED;
    }
    if (roll->state == FEDDC_DONE || roll->state == FEDDC_ENDED) {
        return;
    }
    if (alive == 0 && finished > 0) {
        roll->state = FEDDC_DONE;
    } else if (alive + finished < roll->min) {
        char why[sizeof roll->why];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w, "%.330s; %u %s left, and the gang needs %u", roll->why, alive,
                         alive == 1 ? "is" : "are", roll->min);
        feddc_roll_end(roll, roll->size == roll->min ? roll->why : why);
    }
}

static void condemn(feddc_roll *roll, uint32_t slot, feddc_fate fate, const char *detail,
                    int64_t now_ms) {
    feddc_roll_member *m = &roll->member[slot];
    feddc_verdict *verdict = &roll->verdict[roll->verdicts++];
    feddc_verdict_say(roll, slot, fate, detail, now_ms, verdict);
    m->fate = fate;
    verdict->left = feddc_roll_alive(roll);
    if (roll->state == FEDDC_TRAINING) {
        leave_generation(roll, now_ms);
    }
    if (roll->lost) {
        size_t len = strlen(roll->why);
        fed_writer w;
        fed_writer_fixed(&w, roll->why + len, sizeof roll->why - len);
        fed_write_printf(&w, ". Also: %s", verdict->text);
    } else {
        put_text(roll->why, sizeof roll->why, verdict->text);
    }
    roll->lost = true;
    count_the_left(roll);
}

/* Before the first generation nobody is condemned: the slot is free again. */
static void lose(feddc_roll *roll, uint32_t slot, feddc_fate fate, const char *detail,
                 int64_t now_ms) {
    if (roll->generation == 0) {
        roll->member[slot].here = false;
    } else if (feddc_roll_lives(&roll->member[slot])) {
        condemn(roll, slot, fate, detail, now_ms);
    }
}

/* --- what a member says --- */

void feddc_roll_beat(feddc_roll *roll, uint32_t slot, const feddc_beat *beat, int64_t now_ms) {
    feddc_roll_member *m = &roll->member[slot];
    m->heard = ++roll->events;
    m->heard_ms = now_ms;
    if (beat->marks != m->beat.marks) {
        m->moved_ms = now_ms;
    }
    m->beat = *beat;
}

void feddc_roll_meet(feddc_roll *roll, uint32_t slot, uint32_t whole, const char *address,
                     const char *broke, int64_t now_ms) {
    feddc_roll_member *m = &roll->member[slot];
    m->heard = ++roll->events;
    m->heard_ms = m->moved_ms = now_ms;
    m->meets = true;
    m->whole = whole;
    put_text(m->address, sizeof m->address, address);
    if (roll->state == FEDDC_TRAINING && feddc_roll_lives(m)) {
        fed_writer w;
        fed_writer_fixed(&w, roll->why, sizeof roll->why);
        fed_write_printf(&w, "worker %u (host %s, pid %u) left an exchange: %.200s", m->worker,
                         m->host, m->pid, broke);
        leave_generation(roll, now_ms);
    }
}

void feddc_roll_digest_is(feddc_roll *roll, uint32_t slot, uint32_t whole, uint64_t digest,
                          int64_t now_ms) {
    feddc_roll_member *m = &roll->member[slot];
    if (roll->state != FEDDC_TRAINING || !feddc_roll_lives(m)) {
        return;
    }
    m->digest[m->digests++ % FEDDC_DIGESTS] = (feddc_roll_digest){whole, digest};
    bool split = false;
    uint32_t odd = feddc_verdict_odd(roll, whole, &split);
    if (split) {
        char why[200];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w,
                         "the workers' parameters differ after %u steps, and none has a "
                         "majority: go back to a checkpoint",
                         whole);
        feddc_roll_end(roll, why);
    } else if (odd != FEDDC_NOBODY) {
        char detail[80];
        fed_writer w;
        fed_writer_fixed(&w, detail, sizeof detail);
        fed_write_printf(&w, "their digest after %u steps is not that of the majority", whole);
        condemn(roll, odd, FEDDC_DIVERGED, detail, now_ms);
    }
}

void feddc_roll_bye(feddc_roll *roll, uint32_t slot, const char *why, int64_t now_ms) {
    if (why[0] != '\0') {
        lose(roll, slot, FEDDC_GAVE_UP, why, now_ms);
    } else if (roll->generation == 0) {
        roll->member[slot].here = false;
    } else if (feddc_roll_lives(&roll->member[slot])) {
        roll->member[slot].fate = FEDDC_FINISHED;
        count_the_left(roll);
    }
}

void feddc_roll_gone(feddc_roll *roll, uint32_t slot, int64_t now_ms) {
    feddc_roll_member *m = &roll->member[slot];
    if (roll->generation == 0) {
        m->here = false;
    } else if (feddc_roll_lives(m) && m->gone == 0) {
        m->gone = ++roll->events;
        m->gone_ms = now_ms;
        roll->todo |= FEDDC_TELL_ASK;
    }
}

/* --- the next generation --- */

/* Members by rank of before; in the first generation by wish, then by slot. */
static uint64_t order_of(const feddc_roll *roll, uint32_t slot) {
    const feddc_roll_member *m = &roll->member[slot];
    return (uint64_t)(roll->generation > 0 ? m->worker : m->wish) << 32 | slot;
}

/* Fill roll->slot with those who live, in order. */
static uint32_t give_ranks(feddc_roll *roll) {
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < roll->members; i++) {
        if (!feddc_roll_lives(&roll->member[i])) {
            continue;
        }
        uint32_t k = ranks++;
        for (; k > 0 && order_of(roll, roll->slot[k - 1]) > order_of(roll, i); k--) {
            roll->slot[k] = roll->slot[k - 1];
        }
        roll->slot[k] = i;
    }
    return ranks;
}

/* A meeting without a loss must have brought steps, or the gang goes in circles. */
static bool fruitless(feddc_roll *roll) {
    uint32_t best = 0;
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        best = feddc_roll_lives(m) && m->whole > best ? m->whole : best;
    }
    bool idle = roll->generation > 0 && !roll->lost && best <= roll->best;
    roll->fruitless = idle ? roll->fruitless + 1 : 0;
    roll->best = best;
    return roll->fruitless > FEDDC_FRUITLESS;
}

static void begin(feddc_roll *roll, int64_t now_ms) {
    if (fruitless(roll)) {
        char why[sizeof roll->why];
        fed_writer w;
        fed_writer_fixed(&w, why, sizeof why);
        fed_write_printf(&w,
                         "%d generations in a row ended without a step, and nobody is to "
                         "blame: %.250s",
                         FEDDC_FRUITLESS + 1, roll->why);
        feddc_roll_end(roll, why);
        return;
    }
    roll->ranks = give_ranks(roll);
    for (uint32_t i = 0; i < roll->members; i++) {
        roll->member[i].rank = FEDDC_NOBODY;
    }
    for (uint32_t r = 0; r < roll->ranks; r++) {
        feddc_roll_member *m = &roll->member[roll->slot[r]];
        m->rank = r;
        m->worker = roll->generation == 0 ? r : m->worker;
        m->meets = false;
        m->moved_ms = now_ms;
        m->digests = 0;
        m->beat.waits.bucket = UINT32_MAX;
    }
    roll->generation++;
    roll->state = FEDDC_TRAINING;
    roll->since_ms = now_ms;
    roll->todo |= FEDDC_TELL_GANG;
}

static void end_unmet(feddc_roll *roll, uint32_t ready, int64_t now_ms) {
    char why[160];
    fed_writer w;
    fed_writer_fixed(&w, why, sizeof why);
    fed_write_printf(&w, "%u of %u workers came within %.1f s, and the gang needs %u", ready,
                     roll->size, (double)(now_ms - roll->since_ms) / 1000, roll->min);
    feddc_roll_end(roll, why);
}

/* Begin when all are there, or, the first time, enough when the time to join is over. */
static void meet(feddc_roll *roll, int64_t now_ms) {
    uint32_t here = 0, ready = 0;
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        here += feddc_roll_lives(m);
        ready += feddc_roll_lives(m) && m->meets && m->gone == 0;
    }
    int64_t waited = now_ms - roll->since_ms;
    uint32_t wanted = roll->generation > 0 ? here : roll->size;
    if (roll->generation == 0 && waited >= roll->join_ms) {
        wanted = here > roll->min ? here : roll->min;
    }
    if (ready > 0 && ready == wanted) {
        begin(roll, now_ms);
    } else if (roll->generation == 0 && waited >= roll->join_ms &&
               (here < roll->min || waited >= 2 * roll->join_ms)) {
        end_unmet(roll, ready, now_ms);
    }
}

/* --- conclusions --- */

/* The judge itself was away: who had something to say while it was has said it by now or says it
 * soon. The main threads may have been away as well, so that time counts for none of them. */
static void forgive(feddc_roll *roll, int64_t now_ms) {
    int64_t away = now_ms - roll->settled_ms;
    roll->settled_ms = now_ms;
    if (away <= FEDDC_STALL_MS) {
        return;
    }
    for (uint32_t i = 0; i < roll->members; i++) {
        feddc_roll_member *m = &roll->member[i];
        int64_t least = now_ms - FEDDC_SILENT_MS + FEDDC_BACK_MS;
        m->heard_ms = m->heard_ms > least ? m->heard_ms : least;
        m->moved_ms = m->moved_ms + away < now_ms ? m->moved_ms + away : now_ms;
    }
}

/* Who is silent comes after all who are gone. */
static uint64_t order_of_end(const feddc_roll_member *m) {
    return m->gone > 0 ? m->gone : UINT64_MAX;
}

/* The first of those that are gone or silent: who was gone first comes first. */
static uint32_t first_silent(const feddc_roll *roll, int64_t now_ms, feddc_fate *fate) {
    uint32_t first = FEDDC_NOBODY;
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        if (!feddc_roll_lives(m) || feddc_verdict_silence(roll, i, now_ms) == FEDDC_ALIVE) {
            continue;
        }
        if (first == FEDDC_NOBODY || order_of_end(m) < order_of_end(&roll->member[first])) {
            first = i;
        }
    }
    *fate = first == FEDDC_NOBODY ? FEDDC_ALIVE : feddc_verdict_silence(roll, first, now_ms);
    return first;
}

void feddc_roll_settle(feddc_roll *roll, int64_t now_ms) {
    forgive(roll, now_ms);
    for (uint32_t k = 0; k <= roll->size; k++) { /* each pass loses one member or ends */
        if (roll->state != FEDDC_MEETING && roll->state != FEDDC_TRAINING) {
            return;
        }
        feddc_fate fate = FEDDC_ALIVE;
        uint32_t slot = first_silent(roll, now_ms, &fate);
        slot = slot == FEDDC_NOBODY ? feddc_verdict_stuck(roll, now_ms, &fate) : slot;
        if (slot == FEDDC_NOBODY) {
            break;
        }
        lose(roll, slot, fate, "", now_ms);
    }
    if (feddc_verdict_deadlock(roll, now_ms)) {
        put_text(roll->why, sizeof roll->why,
                 "all workers wait for each other, and nothing moves: a line between two is down");
        leave_generation(roll, now_ms);
    }
    if (roll->state == FEDDC_MEETING) {
        meet(roll, now_ms);
    }
}

/* --- looking --- */

static float compute_s(const feddc_beat *beat) {
    return beat->compute_s;
}

/* The member that computes longest a step, beside the median one. */
static void find_slowest(const feddc_roll *roll, feddc_judge_look *look) {
    float longest = 0;
    look->slowest = FEDDC_NOBODY;
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        if (feddc_roll_lives(m) && m->beat.compute_s > longest) {
            longest = m->beat.compute_s;
            look->slowest = m->worker;
        }
    }
    double median = feddc_verdict_median(roll, compute_s);
    look->slowness = median > 0 ? (double)longest / median : 0;
}

void feddc_roll_look(const feddc_roll *roll, feddc_judge_look *look) {
    *look = (feddc_judge_look){.state = roll->state,
                               .generation = roll->generation,
                               .alive = feddc_roll_alive(roll),
                               .step = UINT32_MAX};
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        look->members += m->here;
        look->step = feddc_roll_lives(m) && m->beat.step < look->step ? m->beat.step : look->step;
    }
    look->step = look->step == UINT32_MAX ? 0 : look->step;
    memcpy(look->why, roll->why, sizeof look->why);
    find_slowest(roll, look);
}

bool feddc_roll_member_look(const feddc_roll *roll, uint32_t worker, int64_t now_ms,
                            feddc_member_look *look) {
    for (uint32_t i = 0; i < roll->members; i++) {
        const feddc_roll_member *m = &roll->member[i];
        if (!m->here || m->worker != worker) {
            continue;
        }
        uint32_t rank = m->beat.waits.waits_for;
        bool waits = m->beat.waits.bucket != UINT32_MAX && rank < roll->ranks;
        *look = (feddc_member_look){.fate = m->fate,
                                    .pid = m->pid,
                                    .rank = m->rank,
                                    .step = m->beat.step,
                                    .phase = (feddc_phase)m->beat.phase,
                                    .bucket = m->beat.waits.bucket,
                                    .waits_for = FEDDC_NOBODY,
                                    .compute_s = m->beat.compute_s,
                                    .step_s = m->beat.step_s,
                                    .silent_ms = (uint32_t)(now_ms - m->heard_ms)};
        look->waits_for = waits ? roll->member[roll->slot[rank]].worker : FEDDC_NOBODY;
        memcpy(look->host, m->host, sizeof look->host);
        memcpy(look->computes_on, m->computes_on, sizeof look->computes_on);
        return true;
    }
    return false;
}
