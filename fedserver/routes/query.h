/* Reads the query of a URL, which is the part after the question mark. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_QUERY_H
#define FEDSERVER_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Find the value of `key` in a query such as "task=1&have=none"; NULL if it is missing. */
const char *fedserver_query_value(const char *query, const char *key, size_t *len);

/** Read a whole number up to limit. False: it is missing, or is no such number. */
bool fedserver_query_number(const char *query, const char *key, uint64_t limit, uint64_t *number);

#endif
