/* The line of a key in a JSON text. jansson tells lines of syntax errors only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_JSON_LINE_H
#define FEDSERVER_JSON_LINE_H

#include <stddef.h>

/** A text that jansson has parsed, so its brackets match. */
typedef struct fedserver_json_text {
    const char *text;
    size_t len;
} fedserver_json_text;

/** The line, from 1, of a key of the object that begins at offset `start`. An object without that
 * key: the line of the object. */
int fedserver_json_line(const fedserver_json_text *json, size_t start, const char *key);

/** The outermost object has a list under that key: the offset of the list's k-th object, from 0. 0:
 * there is no such object. */
size_t fedserver_json_item(const fedserver_json_text *json, const char *key, size_t k);

#endif
