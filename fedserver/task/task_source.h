/* A task's JSON: read into a fedserver_config by the table of fields. Messages name the line of a
 * key. What the values mean together is config.c's. */
#ifndef FEDSERVER_TASK_SOURCE_H
#define FEDSERVER_TASK_SOURCE_H

#include "fedserver/task/fields.h"
#include "fedserver/task/json_place.h"

typedef struct fedserver_source {
    const char *path; /* names the text in messages */
    fedserver_json_text json;
    json_t *root;
    bool stored; /* a store's text, not a person's: its values were checked before it was written */
    /* the object that is being read: the task, or a phase */
    char place[32]; /* "", "phases[0]." */
    size_t start;   /* where in the text it begins */
} fedserver_source;

/** Parse text[len]; both must outlive the source. Errors: FED_EFORMAT no JSON object. */
fed_status fedserver_source_open(fedserver_source *s, const char *path, const char *text,
                                 size_t len, bool stored, fed_error *err) FED_CHECKED;
void fedserver_source_close(fedserver_source *s);

/** Fill in every member that has a key, as it is written: what the task leaves out has its default,
 * what a phase leaves out is that of the phase before. *config is all 0. Errors: FED_EINVAL, with
 * file, line and key; FED_EVERSION a stored task has a key that this program does not know. */
fed_status fedserver_source_read(fedserver_source *s, fedserver_config *config,
                                 fed_error *err) FED_CHECKED;

/** From here on messages are about the k-th later phase, from 0. */
void fedserver_source_enter(fedserver_source *s, uint32_t k);
/** Does the k-th later phase have that key? */
bool fedserver_source_has(const fedserver_source *s, uint32_t k, fedserver_field_id id);

int fedserver_source_line(const fedserver_source *s, fedserver_field_id id);
/** "FILE:LINE: key "x" is <found>; it must be ...". FED_EINVAL. */
fed_status fedserver_source_refuse(const fedserver_source *s, fedserver_field_id id,
                                   const char *found, fed_error *err);
/** "FILE:LINE: key "x": <why>". FED_EINVAL. */
fed_status fedserver_source_explain(const fedserver_source *s, fedserver_field_id id,
                                    const char *why, fed_error *err);

#endif
