/* Pauses a task whose stored bytes can't be read, so that other tasks go on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/set_aside.h"

#include <assert.h>
#include <stdio.h>

#include "fed/clock.h"
#include "fed/utf8.h"

bool fedserver_unreadable(fed_status status) {
    return status == FED_EIO || status == FED_EFORMAT;
}

fed_status fedserver_set_aside(fedserver_rounds *rounds, const fedserver_task *task,
                               const fed_error *why, fed_error *err) {
    /* S14 in docs/durability.md: no task in memory is paused here. */
    assert(fedserver_rounds_task(rounds, task->wire.id) == NULL);
    fedserver_task paused = *task;
    paused.state = FEDSERVER_TASK_PAUSED;
    FED_TRY(rounds->store->task_put(rounds->db, &paused, 1 << FEDSERVER_TASK_RUNNING, err));
    rounds->tasks_changed = true;
    fedserver_audit_entry entry = {.at_ms = fed_clock_unix_ms(), .event = "task_unreadable"};
    snprintf(entry.detail, sizeof entry.detail, "task=%llu name=\"%s\" reason=\"%.300s\"",
             (unsigned long long)task->wire.id, task->name, why->text);
    fed_utf8_clean(entry.detail);
    FED_TRY(rounds->store->audit_add(rounds->db, &entry, err));
    const fed_log_about about = fedserver_task_about(task, 0);
    fed_logf_about(rounds->log, FED_LOG_ERROR, &about,
                   "task %llu (%s) is paused, because it can't be read: %s; mend that, then call "
                   "`fedserver resume`",
                   (unsigned long long)task->wire.id, task->name, why->text);
    return FED_OK;
}
