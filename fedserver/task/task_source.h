/* Reads a task's JSON into a fedserver_config, by the table of keys. Messages name the line of a
 * key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_SOURCE_H
#define FEDSERVER_TASK_SOURCE_H

#include "fed/params.h"
#include "fedserver/task/fields.h"
#include "fedserver/task/json_line.h"

typedef struct fedserver_source {
    const char *path;
    fedserver_json_text json;
    json_t *root;
    bool stored; /* the text comes from a store, so its values were checked before */
    /* The members from here on describe the object that is being read: the task or a phase. */
    char prefix[32]; /* prefix of the object's keys in messages: "", "phases[0]." */
    size_t start;
} fedserver_source;

/** Parse text[len]. `path` and `text` must outlive s. FED_EFORMAT: the text is no JSON object. */
fed_status fedserver_source_open(fedserver_source *s, const char *path, const char *text,
                                 size_t len, bool stored, fed_error *err) FED_CHECKED;
void fedserver_source_close(fedserver_source *s);

/** Set every member of *config that has a key; *config is all zeros before. A key that the task
 * leaves out has its default. A key that a phase leaves out has the value of the phase before.
 * FED_EINVAL: a value is wrong or missing; the message names the key. FED_EVERSION: a stored task
 * has a key that this program does not know. */
fed_status fedserver_source_read(fedserver_source *s, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** Let messages from now on name keys of phase k in the list of phases; k counts from 0. */
void fedserver_source_enter(fedserver_source *s, uint32_t k);
/** Does phase k in the list of phases have the key? k counts from 0. */
bool fedserver_source_has(const fedserver_source *s, uint32_t k, fedserver_field_id id);

/** What is wrong with a task: the first fault in full, and the keys of the others. */
typedef struct fedserver_faults {
    fed_status status; /* of the first fault; FED_OK: there is none */
    fed_error first;
    fed_names others;
} fedserver_faults;

/** Add a check's result to the faults; FED_OK adds nothing. */
void fedserver_faults_note(fedserver_faults *f, const char *key, fed_status status,
                           const fed_error *fault);
/** Return the status of the first fault, with the message: <the fault>; also wrong: x, y */
fed_status fedserver_faults_tell(const fedserver_faults *f, fed_error *err) FED_CHECKED;

int fedserver_source_line(const fedserver_source *s, fedserver_field_id id);
/** Fail with FED_EINVAL and the message: FILE:LINE: key "x" is <found>; it must be ... */
fed_status fedserver_source_refuse(const fedserver_source *s, fedserver_field_id id,
                                   const char *found, fed_error *err);
/** Fail with FED_EINVAL and the message: FILE:LINE: key "x": <why> */
fed_status fedserver_source_explain(const fedserver_source *s, fedserver_field_id id,
                                    const char *why, fed_error *err);

#endif
