/* Reads the query of a URL, which is the part after the question mark. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/query.h"

#include <string.h>

const char *fedserver_query_value(const char *query, const char *key, size_t *len) {
    size_t key_len = strlen(key);
    while (*query != '\0') {
        size_t pair = strcspn(query, "&");
        if (pair > key_len && query[key_len] == '=' && memcmp(query, key, key_len) == 0) {
            *len = pair - key_len - 1;
            return query + key_len + 1;
        }
        query += pair + (query[pair] == '&');
    }
    return NULL;
}

bool fedserver_query_number(const char *query, const char *key, uint64_t limit, uint64_t *number) {
    size_t len = 0;
    const char *text = fedserver_query_value(query, key, &len);
    uint64_t value = 0;
    if (text == NULL || len == 0 || len > 19) {
        /* at most 19 digits, so that the number fits into 64 bits */
        return false;
    }
    for (size_t k = 0; k < len; k++) {
        if (text[k] < '0' || text[k] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[k] - '0');
    }
    *number = value;
    return value <= limit;
}
