/* The table of a task's keys (task_keys.def), and the conversion of values from and to JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_FIELDS_H
#define FEDSERVER_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "fed/bytes.h"
#include "fedserver/task/task.h"

typedef enum fedserver_field_id {
#define FEDSERVER_TASK_KEY(id, ...) FEDSERVER_FIELD_##id,
#include "fedserver/task_keys.def"
    FEDSERVER_FIELDS
} fedserver_field_id;

typedef enum fedserver_field_kind {
    FEDSERVER_TEXT,
    FEDSERVER_PATH,
    FEDSERVER_CHOICE,
    FEDSERVER_INTEGER,
    FEDSERVER_NUMBER,
    FEDSERVER_SECONDS,
    FEDSERVER_LIST,
    FEDSERVER_OBJECT
} fedserver_field_kind;

/* Objects that may have a key: the task, each of its phases, or both. */
enum { FEDSERVER_IN_TASK = 1, FEDSERVER_IN_PHASE = 2, FEDSERVER_IN_BOTH = 3 };

typedef enum fedserver_member_type {
    FEDSERVER_CHARS,
    FEDSERVER_U32,
    FEDSERVER_U64,
    FEDSERVER_I64,
    FEDSERVER_F32,
    FEDSERVER_F64,
    FEDSERVER_OTHER
} fedserver_member_type;

/** One key of a task: a line of task_keys.def. */
typedef struct fedserver_field {
    const char *name;
    unsigned where;
    fedserver_field_kind kind;
    fedserver_member_type type;
    size_t offset, size;
    size_t phase_offset;
    double low, high;
    /* preset: text of the default; NULL: the key is required. right: text that says which values
     * are valid; NULL: those from low to high */
    const char *preset, *right;
} fedserver_field;

extern const fedserver_field fedserver_fields[FEDSERVER_FIELDS];

/** Is the value part of the text that the store keeps of a task? */
bool fedserver_field_kept(const fedserver_field *field);
/** Is the value part of what the coordinator sends to devices? */
bool fedserver_field_told(const fedserver_field *field);

/** Is the value an empty text or the number 0, and is there none by default? */
bool fedserver_field_unset(const fedserver_field *field, const void *member);

/** A text that says what the value must be, such as "an integer from 1 to 10". The text may lie in
 * `dst`. */
const char *fedserver_field_right(const fedserver_field *field, char dst[96]);

/** Set *member to the default. */
void fedserver_field_preset(const fedserver_field *field, void *member);

/** Convert a JSON value into *member. Returns NULL on success, else a text that says what the wrong
 * value is. The text may lie in `found`. bounded: the value must be between low and high, not just
 * fit into the member. */
const char *fedserver_field_take(const fedserver_field *field, void *member, const json_t *value,
                                 bool bounded, char found[96]);

/** Write the value as JSON. A number is written so that fedserver_field_take reads the same number.
 * Not for FEDSERVER_LIST. */
void fedserver_field_write(const fedserver_field *field, const void *member, fed_writer *w);

#endif
