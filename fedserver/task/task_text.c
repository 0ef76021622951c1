/* Writes and reads the text of a task by the table of keys, and names the states of tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/task_text.h"

#include <stdio.h>

#include "fedserver/operator.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/task_source.h"

static void write_name(fed_writer *w, const char *name, bool *first) {
    fed_write_printf(w, "%s\"%s\":", *first ? "" : ",", name);
    *first = false;
}

/* A key that a phase leaves out has the value of the phase before. */
static void write_phase(const fedserver_phase *phase, const fedserver_phase *before,
                        fed_writer *w) {
    bool first = true;
    fed_write_printf(w, "{");
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        const char *member = (const char *)phase + field->phase_offset;
        if ((field->where & FEDSERVER_IN_PHASE) != 0 &&
            !(fedserver_field_unset(field, member) &&
              fedserver_field_unset(field, (const char *)before + field->phase_offset))) {
            write_name(w, field->name, &first);
            fedserver_field_write(field, member, w);
        }
    }
    fed_write_printf(w, "}");
}

static void write_phases(const fedserver_task *task, fed_writer *w) {
    fed_write_printf(w, "[");
    for (uint32_t k = 0; k < task->phase_count; k++) {
        const fedserver_phase before = fedserver_phase_at(task, k);
        fed_write_printf(w, "%s", k > 0 ? "," : "");
        write_phase(&task->phases[k], &before, w);
    }
    fed_write_printf(w, "]");
}

void fedserver_task_text_write(const fedserver_task *task, fed_writer *w) {
    bool first = true;
    fed_write_printf(w, "{");
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        /* the offset of a key that is not kept may lie outside fedserver_task */
        if (!fedserver_field_kept(field)) {
            continue;
        }
        const char *member = (const char *)task + field->offset;
        const bool list = field->kind == FEDSERVER_LIST;
        if (list ? task->phase_count == 0 : fedserver_field_unset(field, member)) {
            continue;
        }
        write_name(w, field->name, &first);
        if (list) {
            write_phases(task, w);
        } else {
            fedserver_field_write(field, member, w);
        }
    }
    fed_write_printf(w, "}");
}

fed_status fedserver_task_text_read(uint64_t id, const char *text, size_t len, fedserver_task *task,
                                    fed_error *err) {
    char name[40];
    fedserver_source s;
    fed_error why = {0};
    snprintf(name, sizeof name, "task %llu", (unsigned long long)id);
    FED_TRY(fedserver_source_open(&s, name, text, len, true, err));
    fedserver_config read = {0};
    fed_status status = fedserver_source_read(&s, &read, &why);
    fedserver_source_close(&s);
    if (status != FED_OK) {
        return fed_fail(err, status == FED_EINVAL ? FED_EFORMAT : status, "%s", why.text);
    }
    *task = read.task;
    return FED_OK;
}

const char *fedserver_task_state_name(fedserver_task_state state) {
    static const char *const names[] = {"queued", "running", "finished", "paused", "cancelled"};
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "?";
}
