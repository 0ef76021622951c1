/* Where in a JSON text something stands: jansson says so of syntax errors only. */
#ifndef FEDSERVER_JSON_PLACE_H
#define FEDSERVER_JSON_PLACE_H

#include <stddef.h>

/** A text that jansson has parsed: its brackets match. */
typedef struct fedserver_json_text {
    const char *text;
    size_t len;
} fedserver_json_text;

/** The line, from 1, of a key of the object that begins at `start`; where it has none such, of the
 * object itself. */
int fedserver_json_line(const fedserver_json_text *json, size_t start, const char *key);

/** Where the k-th object begins, from 0, of the list that the outermost object has under that key;
 * 0 where there is none. */
size_t fedserver_json_item(const fedserver_json_text *json, const char *key, size_t k);

#endif
