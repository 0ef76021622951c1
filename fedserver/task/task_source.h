/* Reads a task's JSON into a fedserver_config by the table of fields. Messages name the line of
 * a key. config.c checks what the values mean together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TASK_SOURCE_H
#define FEDSERVER_TASK_SOURCE_H

#include "fedserver/task/fields.h"
#include "fedserver/task/json_line.h"

typedef struct fedserver_source {
    const char *path; /* names the text in messages */
    fedserver_json_text json;
    json_t *root;
    /* the text comes from a store, not from a file: its values were checked before they were
     * stored */
    bool stored;
    /* The members from here on describe the object that is being read: the task or a phase. */
    char prefix[32]; /* prefix of the object's keys in messages: "", "phases[0]." */
    size_t start;    /* offset of the object in the text */
} fedserver_source;

/** Parse text[len]. `path` and `text` must outlive the source. FED_EFORMAT: the text is not a
 * JSON object. */
fed_status fedserver_source_open(fedserver_source *s, const char *path, const char *text,
                                 size_t len, bool stored, fed_error *err) FED_CHECKED;
void fedserver_source_close(fedserver_source *s);

/** Fill in every member of *config that has a key; *config is all 0 before. A key that the task
 * leaves out has its default. A key that a phase leaves out has the value of the phase before.
 * Errors: FED_EINVAL, with file, line and key; FED_EVERSION a stored task has a key that this
 * program does not know. */
fed_status fedserver_source_read(fedserver_source *s, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** From now on messages are about the k-th later phase; k counts from 0. */
void fedserver_source_enter(fedserver_source *s, uint32_t k);
/** Does the k-th later phase have the key? */
bool fedserver_source_has(const fedserver_source *s, uint32_t k, fedserver_field_id id);

int fedserver_source_line(const fedserver_source *s, fedserver_field_id id);
/** "FILE:LINE: key "x" is <found>; it must be ...". FED_EINVAL. */
fed_status fedserver_source_refuse(const fedserver_source *s, fedserver_field_id id,
                                   const char *found, fed_error *err);
/** "FILE:LINE: key "x": <why>". FED_EINVAL. */
fed_status fedserver_source_explain(const fedserver_source *s, fedserver_field_id id,
                                    const char *why, fed_error *err);

#endif
