/* Writes the sentence that tells what a round waits for, and the text of `fedserver status`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/operator/waiting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fedserver/rounds/leases.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/running.h"
#include "fedserver/rounds/shortage.h"
#include "fedserver/server.h"
#include "fedserver/task/fields.h"
#include "fedserver/task/phases.h"

static void keep_first(const fedserver_device *first[FEDSERVER_WAITING_NAMES], uint32_t count,
                       const fedserver_device *device) {
    uint32_t k = count < FEDSERVER_WAITING_NAMES ? count : FEDSERVER_WAITING_NAMES;
    for (; k > 0 && first[k - 1]->id > device->id; k--) {
        if (k < FEDSERVER_WAITING_NAMES) {
            first[k] = first[k - 1];
        }
    }
    if (k < FEDSERVER_WAITING_NAMES) {
        first[k] = device;
    }
}

void fedserver_waiting_find(const fedserver_training *t, int64_t now_ms,
                            fedserver_waiting *waiting) {
    *waiting = (fedserver_waiting){.lease_ends_ms = INT64_MAX};
    for (size_t k = 0; k < t->declined.count; k++) {
        waiting->declined += now_ms - t->declined.items[k].value < FEDSERVER_DECLINE_MS;
    }
    const fedserver_device *first[FEDSERVER_WAITING_NAMES] = {NULL};
    for (size_t k = 0; k < t->leases.count; k++) {
        const fedserver_device *device = t->leases.items[k].device;
        if (device->lease != t->leases.items[k].lease ||
            !fedserver_lease_stands(t, device, now_ms)) {
            continue;
        }
        keep_first(first, waiting->out++, device);
        int64_t ends_ms = fedserver_lease_deadline(t, device);
        waiting->lease_ends_ms =
            ends_ms < waiting->lease_ends_ms ? ends_ms : waiting->lease_ends_ms;
    }
    for (uint32_t k = 0; k < FEDSERVER_WAITING_NAMES && first[k] != NULL; k++) {
        fed_hex(first[k]->fingerprint, FEDSERVER_WAITING_DIGITS / 2, waiting->names[k]);
    }
    uint32_t reported = t->task.rules.staleness > 0 ? 0 : t->round.received;
    uint32_t taken = waiting->out + reported;
    waiting->free = taken < t->task.rules.cohort ? t->task.rules.cohort - taken : 0;
}

typedef struct sentence {
    char *dst;
    size_t cap, len;
} sentence;

static void say(sentence *s, const char *format, ...) FED_PRINTF(2, 3);
static void say(sentence *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(s->dst + s->len, s->cap - s->len, format, args);
    va_end(args);
    s->len += len > 0 ? (size_t)len : 0;
    s->len = s->len < s->cap ? s->len : s->cap - 1;
}

static void say_time(sentence *s, int64_t time_ms) {
    char text[16] = "?";
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) != NULL) {
        strftime(text, sizeof text, "%H:%M:%S", &utc);
    }
    say(s, "%s UTC", text);
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

/* Append, for example, " from 1 device (1f2e3d4c) and 3 free slots". */
static void say_whom(sentence *s, const fedserver_waiting *w) {
    if (w->out > 0) {
        say(s, " from %u device%s (", w->out, plural(w->out));
        uint32_t named = w->out < FEDSERVER_WAITING_NAMES ? w->out : FEDSERVER_WAITING_NAMES;
        for (uint32_t k = 0; k < named; k++) {
            say(s, "%s%s", k > 0 ? ", " : "", w->names[k]);
        }
        if (named < w->out) {
            say(s, " and %u more", w->out - named);
        }
        say(s, ")");
    }
    if (w->free > 0) {
        say(s, " %s %u free slot%s", w->out > 0 ? "and" : "from", w->free, plural(w->free));
    }
}

static void say_then(sentence *s, const fedserver_training *t, int64_t now_ms) {
    const fedserver_round *round = &t->round;
    const fedserver_round_rules *rules = &t->task.rules;
    if (rules->staleness > 0 && now_ms >= round->deadline_ms) {
        say(s, "; the round commits with the minimum of %u", fedserver_round_least(rules));
        return;
    }
    say(s, " until ");
    say_time(s, round->deadline_ms);
    if (round->received >= fedserver_round_least(rules)) {
        say(s, "; then the round commits, since the minimum of %u is met",
            fedserver_round_least(rules));
    } else if (rules->staleness > 0) {
        say(s, "; from then on the minimum of %u is enough to commit",
            fedserver_round_least(rules));
    } else {
        say(s, "; then a new attempt opens, unless the minimum of %u is met by %u more",
            fedserver_round_least(rules), fedserver_round_least(rules) - round->received);
    }
}

static void say_round_waits(sentence *s, const fedserver_training *t, const fedserver_waiting *w,
                            int64_t now_ms) {
    const fedserver_round *round = &t->round;
    const fedserver_round_rules *rules = &t->task.rules;
    if (t->asking.waits) {
        char text[sizeof t->asking.refusal + 200];
        fedserver_openings_report(t, text, sizeof text);
        say(s, "%s", text);
        return;
    }
    if (fedserver_is_short(t)) {
        char text[400];
        fedserver_shortage_report(t, text, sizeof text);
        say(s, "%s", text);
        return;
    }
    if (round->phase == FEDSERVER_ROUND_CLOSING) {
        say(s, "its model: version %u is being made of %u update%s since ", round->number,
            round->received, plural(round->received));
        say_time(s, round->closing_ms);
        return;
    }
    /* more may have arrived than the goal: an edge aggregator's row may have an older goal */
    const uint32_t missing = round->received < rules->goal ? rules->goal - round->received : 0;
    if (w->out == 0 && round->deadline_ms == 0) {
        say(s,
            "a device to check in (%u slot%s free, %u update%s missing); the deadline of %.1f s ",
            w->free, w->free == 1 ? " is" : "s are", missing, missing == 1 ? " is" : "s are",
            (double)rules->deadline_ms / 1000.0);
        say(s, rules->staleness > 0 ? "starts with its update" : "starts then");
        return;
    }
    say(s, "%u more update%s (%u of %u)", missing, plural(missing), round->received, rules->goal);
    say_whom(s, w);
    if (round->deadline_ms != 0) {
        say_then(s, t, now_ms);
        return;
    }
    say(s, "; the first lease ends at ");
    say_time(s, w->lease_ends_ms);
    say(s, ", and its slot is free again then");
}

void fedserver_waiting_report(const fedserver_training *t, const fedserver_waiting *w,
                              int64_t now_ms, char *dst, size_t cap) {
    sentence s = {.dst = dst, .cap = cap};
    say_round_waits(&s, t, w, now_ms);
    if (w->declined > 0) {
        say(&s, "; %u device%s declined the task", w->declined, plural(w->declined));
    }
}

static void say_phase(sentence *s, const fedserver_task *task, uint32_t round) {
    if (task->phase_count == 0) {
        return;
    }
    const uint32_t number = fedserver_phase_number(task, round);
    const fedserver_phase phase = fedserver_phase_at(task, number);
    say(s, "phase %u of %u, since round %u", number + 1, task->phase_count + 1, phase.round);
    const char *before = ": ";
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        const char *member = (const char *)&phase + field->phase_offset;
        if (field->where == FEDSERVER_IN_BOTH && !fedserver_field_unset(field, member)) {
            char text[64];
            fed_writer w;
            fed_writer_fixed(&w, text, sizeof text);
            if (field->type != FEDSERVER_CHARS) {
                fedserver_field_write(field, member, &w);
                member = w.status == FED_OK ? text : "?";
            }
            say(s, "%s%s %s", before, field->name, member);
            before = ", ";
        }
    }
    say(s, "\n");
}

typedef struct summary {
    sentence *s;
    const fedserver_rounds *view;
    int64_t now_ms;
    uint32_t running, queued, paused;
} summary;

static fed_status say_running(void *user, const fedserver_task_entry *entry, fed_error *err) {
    summary *sum = user;
    sentence *s = sum->s;
    const fedserver_training *t = fedserver_rounds_task(sum->view, entry->id);
    (void)err;
    if (t != NULL) {
        say(s, "task %llu (%s): ", (unsigned long long)entry->id, entry->name);
        fedserver_waiting waiting;
        fedserver_waiting_find(t, sum->now_ms, &waiting);
        say(s, "round %u of %u, attempt %u\n", t->round.number, t->task.rules.rounds,
            t->round.attempt);
        say_phase(s, &t->task, t->round.number);
        if (t->task.phase_count == 0 && t->task.codec_up_asked[0] != '\0') {
            say(s, "updates: %s, chosen for %s\n", t->task.wire.codec_up, t->task.codec_up_asked);
        }
        say(s, "waiting for ");
        fedserver_waiting_report(t, &waiting, sum->now_ms, s->dst + s->len, s->cap - s->len);
        s->len = strlen(s->dst);
        say(s, "\n");
        for (size_t k = 0; k < FEDSERVER_TASK_REASONS && entry->reasons[k].devices > 0; k++) {
            say(s, "%u device%s declined: %s\n", entry->reasons[k].devices,
                plural(entry->reasons[k].devices), entry->reasons[k].text);
        }
    }
    if (entry->state == FEDSERVER_TASK_PAUSED && entry->waits[0] != '\0') {
        say(s, "task %llu (%s) is paused: %s\n", (unsigned long long)entry->id, entry->name,
            entry->waits);
    }
    sum->running += t != NULL;
    sum->queued += entry->state == FEDSERVER_TASK_QUEUED;
    sum->paused += entry->state == FEDSERVER_TASK_PAUSED;
    return FED_OK;
}

/* No task runs: append the state of the first queued task or, if there is none, of the task that
 * finished last. *queued: the task is queued. */
static fed_status say_idle(fedserver *server, sentence *s, bool *queued, fed_error *err) {
    fedserver_task task;
    fed_error absent = {0};
    fed_status status =
        server->store->task_find(server->db, FEDSERVER_PICK_QUEUED, 0, &task, &absent);
    if (status == FED_ENOTFOUND) {
        status = server->store->task_find(server->db, FEDSERVER_PICK_FINISHED, 0, &task, &absent);
    }
    if (status == FED_ENOTFOUND) {
        say(s, "there is no task; `fedserver task` queues one\n");
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    say(s, "task %llu (%s): %s\n", (unsigned long long)task.wire.id, task.name,
        fedserver_task_state_name(task.state));
    *queued = task.state == FEDSERVER_TASK_QUEUED;
    return FED_OK;
}

static fed_status say_tasks(fedserver *server, int64_t now_ms, sentence *s, fed_error *err) {
    fedserver_rounds view;
    summary sum = {.s = s, .view = &view, .now_ms = now_ms};
    fed_status status = fedserver_rounds_view(server->store, server->db, server->log, &view, err);
    if (status == FED_OK) {
        status = fedserver_task_each(server, now_ms, say_running, &sum, err);
    }
    fedserver_rounds_free(&view);
    FED_TRY(status);
    if (sum.running == 0) {
        bool queued = false;
        FED_TRY(say_idle(server, s, &queued, err));
        sum.queued -= queued;
    }
    if (sum.queued + sum.paused > 0) {
        say(s, "besides: %u queued, %u paused; `fedserver tasks` lists them\n", sum.queued,
            sum.paused);
    }
    return FED_OK;
}

fed_status fedserver_status(fedserver *server, int64_t now_ms, char *text, size_t cap,
                            fed_error *err) {
    sentence s = {.dst = text, .cap = cap};
    long process = server->store->holder(server->db);
    FED_TRY(say_tasks(server, now_ms, &s, err));
    if (process != 0) {
        say(&s, "served by process %ld\n", process);
    } else {
        say(&s, "not being served: nothing goes on before `fedserver run`\n");
    }
    return FED_OK;
}
