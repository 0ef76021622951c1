/* Reads a task's JSON into a fedserver_config, in one loop over the table of keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/task_source.h"

#include <stdio.h>
#include <string.h>

#include "fedserver/task/phases.h"

fed_status fedserver_source_open(fedserver_source *s, const char *path, const char *text,
                                 size_t len, bool stored, fed_error *err) {
    json_error_t wrong;
    *s = (fedserver_source){.path = path, .json = {text, len}, .stored = stored};
    s->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &wrong);
    if (s->root == NULL) {
        return fed_fail(err, FED_EFORMAT, "%s:%d: %s; a task is a JSON object", path,
                        wrong.line > 0 ? wrong.line : 1, wrong.text);
    }
    if (!json_is_object(s->root)) {
        fedserver_source_close(s);
        return fed_fail(err, FED_EFORMAT, "%s:1: a task is a JSON object", path);
    }
    return FED_OK;
}

void fedserver_source_close(fedserver_source *s) {
    json_decref(s->root);
    s->root = NULL;
}

static int line_of(const fedserver_source *s, const char *key) {
    return fedserver_json_line(&s->json, s->start, key);
}

int fedserver_source_line(const fedserver_source *s, fedserver_field_id id) {
    return line_of(s, fedserver_fields[id].name);
}

fed_status fedserver_source_refuse(const fedserver_source *s, fedserver_field_id id,
                                   const char *found, fed_error *err) {
    const fedserver_field *field = &fedserver_fields[id];
    char right[96];
    return fed_fail(err, FED_EINVAL, "%s:%d: key \"%s%s\" is %s; it must be %s", s->path,
                    line_of(s, field->name), s->prefix, field->name, found,
                    fedserver_field_right(field, right));
}

fed_status fedserver_source_explain(const fedserver_source *s, fedserver_field_id id,
                                    const char *why, fed_error *err) {
    const char *name = fedserver_fields[id].name;
    return fed_fail(err, FED_EINVAL, "%s:%d: key \"%s%s\": %s", s->path, line_of(s, name),
                    s->prefix, name, why);
}

static fed_status refuse_unknown(const fedserver_source *s, const char *name, fed_error *err) {
    if (s->stored) {
        return fed_fail(err, FED_EVERSION,
                        "%s has a key \"%s%.60s\" that this program does not know; use the release "
                        "that stored it, or a newer one",
                        s->path, s->prefix, name);
    }
    return fed_fail(err, FED_EINVAL,
                    "%s:%d: key \"%s%.60s\" is unknown; docs/protocol.md#task lists the keys",
                    s->path, line_of(s, name), s->prefix, name);
}

void fedserver_faults_note(fedserver_faults *f, const char *key, fed_status status,
                           const fed_error *fault) {
    if (status == FED_OK) {
        return;
    }
    if (f->status == FED_OK) {
        f->status = status;
        f->first = *fault;
    } else {
        char name[64];
        snprintf(name, sizeof name, "%.60s", key);
        fed_names_add(&f->others, name);
    }
}

fed_status fedserver_faults_tell(const fedserver_faults *f, fed_error *err) {
    const char *others = f->others.text;
    return f->status == FED_OK ? FED_OK
                               : fed_fail(err, f->status, "%s%s%s", f->first.text,
                                          others[0] != '\0' ? "; also wrong: " : "", others);
}

static void check_names(const fedserver_source *s, json_t *object, unsigned where,
                        fedserver_faults *f) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        fedserver_field_id id = 0;
        while (id < FEDSERVER_FIELDS && ((fedserver_fields[id].where & where) == 0 ||
                                         strcmp(fedserver_fields[id].name, name) != 0)) {
            id++;
        }
        if (id == FEDSERVER_FIELDS) {
            fed_error fault = {0};
            fedserver_faults_note(f, name, refuse_unknown(s, name, &fault), &fault);
        }
    }
}

/* Set the member of a key that the object has. */
static void take_value(const fedserver_source *s, fedserver_field_id id, char *member,
                       const json_t *value, fedserver_faults *f) {
    char buffer[96];
    fed_error fault = {0};
    const char *found =
        fedserver_field_take(&fedserver_fields[id], member, value, !s->stored, buffer);
    if (found != NULL) {
        fedserver_faults_note(f, fedserver_fields[id].name,
                              fedserver_source_refuse(s, id, found, &fault), &fault);
    }
}

static void note_missing(const fedserver_source *s, const fedserver_field *field,
                         fedserver_faults *f) {
    char right[96];
    fed_error fault = {0};
    fedserver_faults_note(f, field->name,
                          fed_fail(&fault, FED_EINVAL, "%s: key \"%s%s\" is missing; it must be %s",
                                   s->path, s->prefix, field->name,
                                   fedserver_field_right(field, right)),
                          &fault);
}

static fed_status take_object(const fedserver_source *s, json_t *object, unsigned where, char *base,
                              fed_error *err) {
    fedserver_faults f = {.status = FED_OK};
    check_names(s, object, where, &f);
    for (fedserver_field_id id = 0; id < FEDSERVER_FIELDS; id++) {
        const fedserver_field *field = &fedserver_fields[id];
        const json_t *value = json_object_get(object, field->name);
        if ((field->where & where) == 0) {
            continue;
        }
        char *member = base + (where == FEDSERVER_IN_TASK ? field->offset : field->phase_offset);
        if (value != NULL) {
            take_value(s, id, member, value, &f);
        } else if (field->preset == NULL) {
            note_missing(s, field, &f);
        } else if (where == FEDSERVER_IN_TASK) {
            fedserver_field_preset(field, member);
        }
    }
    return fedserver_faults_tell(&f, err);
}

static const char *phases_name(void) {
    return fedserver_fields[FEDSERVER_FIELD_PHASES].name;
}

void fedserver_source_enter(fedserver_source *s, uint32_t k) {
    snprintf(s->prefix, sizeof s->prefix, "%s[%u].", phases_name(), k);
    s->start = fedserver_json_item(&s->json, phases_name(), k);
}

bool fedserver_source_has(const fedserver_source *s, uint32_t k, fedserver_field_id id) {
    const json_t *phase = json_array_get(json_object_get(s->root, phases_name()), k);
    return json_object_get(phase, fedserver_fields[id].name) != NULL;
}

fed_status fedserver_source_read(fedserver_source *s, fedserver_config *config, fed_error *err) {
    fedserver_task *task = &config->task;
    FED_TRY(take_object(s, s->root, FEDSERVER_IN_TASK, (char *)config, err));
    const json_t *phases = json_object_get(s->root, phases_name());
    for (uint32_t k = 0; k < json_array_size(phases); k++) {
        json_t *object = json_array_get(phases, k);
        if (!json_is_object(object)) {
            return fedserver_source_refuse(s, FEDSERVER_FIELD_PHASES, "a list of something else",
                                           err);
        }
        fedserver_source later = *s;
        fedserver_source_enter(&later, k);
        task->phases[k] = fedserver_phase_at(task, k);
        FED_TRY(take_object(&later, object, FEDSERVER_IN_PHASE, (char *)&task->phases[k], err));
        task->phase_count++;
    }
    return FED_OK;
}
