/* Looks up the settings that hold in a phase or a round of a task. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/phases.h"

#include <assert.h>
#include <string.h>

#include "fedserver/task/fields.h"

uint32_t fedserver_phase_number(const fedserver_task *task, uint32_t round) {
    uint32_t number = 0;
    while (number < task->phase_count && task->phases[number].round <= round) {
        number++;
    }
    return number;
}

static bool changes(const fedserver_field *field) {
    return field->where == FEDSERVER_IN_BOTH;
}

fedserver_phase fedserver_phase_at(const fedserver_task *task, uint32_t number) {
    assert(number <= task->phase_count);
    if (number > 0) {
        return task->phases[number - 1];
    }
    fedserver_phase first = {.round = 1};
    for (const fedserver_field *f = fedserver_fields; f < fedserver_fields + FEDSERVER_FIELDS;
         f++) {
        if (changes(f)) {
            memcpy((char *)&first + f->phase_offset, (const char *)task + f->offset, f->size);
        }
    }
    return first;
}

fedserver_phase fedserver_phase_of(const fedserver_task *task, uint32_t round) {
    return fedserver_phase_at(task, fedserver_phase_number(task, round));
}

void fedserver_phase_begin(const fedserver_phase *phase, fedserver_task *task) {
    for (const fedserver_field *f = fedserver_fields; f < fedserver_fields + FEDSERVER_FIELDS;
         f++) {
        if (changes(f)) {
            memcpy((char *)task + f->offset, (const char *)phase + f->phase_offset, f->size);
        }
    }
}

void fedserver_phase_apply(const fedserver_phase *phase, fed_task *wire) {
    for (const fedserver_field *f = fedserver_fields; f < fedserver_fields + FEDSERVER_FIELDS;
         f++) {
        if (changes(f) && fedserver_field_told(f)) {
            char *member = (char *)wire + (f->offset - offsetof(fedserver_config, task.wire));
            memcpy(member, (const char *)phase + f->phase_offset, f->size);
        }
    }
}
