/* Finds the line of a key in a JSON text, because jansson only reports the lines of syntax
 * errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_JSON_LINE_H
#define FEDSERVER_JSON_LINE_H

#include <stddef.h>

/** A text that jansson has parsed, so its brackets match. */
typedef struct fedserver_json_text {
    const char *text;
    size_t len;
} fedserver_json_text;

/** The line, counted from 1, of a key of the object that begins at offset `start`. If the object
 * does not have the key, the line where the object begins. */
int fedserver_json_line(const fedserver_json_text *json, size_t start, const char *key);

/** The offset of the k-th object, counted from 0, in the list that is the value of `key` in the
 * outermost object. 0: there is no such object. */
size_t fedserver_json_item(const fedserver_json_text *json, const char *key, size_t k);

#endif
