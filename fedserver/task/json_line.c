/* Scans the brackets and strings of a JSON text for keys, and ignores values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/json_line.h"

#include <stdbool.h>
#include <string.h>

static size_t string_end(const fedserver_json_text *json, size_t at) {
    for (at++; at < json->len && json->text[at] != '"'; at++) {
        at += json->text[at] == '\\';
    }
    return at;
}

static bool is_key(const fedserver_json_text *json, size_t open, size_t close, const char *key) {
    size_t len = strlen(key), after = close + 1;
    while (after < json->len && strchr(" \t\r\n", json->text[after]) != NULL) {
        after++;
    }
    return after < json->len && json->text[after] == ':' && close - open - 1 == len &&
           memcmp(json->text + open + 1, key, len) == 0;
}

static int deeper(char c) {
    return (c == '{' || c == '[') - (c == '}' || c == ']');
}

/* The offset of the opening quote of a key of the object at `start`. Keys of inner objects do not
 * count. Returns `start` if the object does not have the key. */
static size_t find_key(const fedserver_json_text *json, size_t start, const char *key) {
    int depth = 0;
    for (size_t at = start; at < json->len; at++) {
        depth += deeper(json->text[at]);
        if (json->text[at] == '"') {
            size_t close = string_end(json, at);
            if (depth == 1 && is_key(json, at, close, key)) {
                return at;
            }
            at = close;
        }
    }
    return start;
}

int fedserver_json_line(const fedserver_json_text *json, size_t start, const char *key) {
    size_t end = find_key(json, start, key);
    int line = 1;
    for (size_t at = 0; at < end; at++) {
        line += json->text[at] == '\n';
    }
    return line;
}

size_t fedserver_json_item(const fedserver_json_text *json, const char *key, size_t k) {
    int depth = 0;
    for (size_t at = find_key(json, 0, key); at < json->len; at++) {
        char c = json->text[at];
        depth += deeper(c);
        if (c == '"') {
            at = string_end(json, at);
        } else if (c == '{' && depth == 2 && k-- == 0) {
            return at;
        }
    }
    return 0;
}
