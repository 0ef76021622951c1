/* Short forms of calls for functions with parameters `db` and `err`. A statement of WRITE may run
 * later than the call (fedserver_engine). WRITE_NOW runs at once and sets *written. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQL_SQL_CALLS_H
#define FEDSERVER_STORES_SQL_SQL_CALLS_H

#include "fedserver/stores/sql/sql_engine.h"

#define WRITE(sql, ...) fedserver_sql_write(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), NULL, err)
#define WRITE_NOW(sql, written, ...)                                                               \
    fedserver_sql_write(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), written, err)
#define READ(sql, row, ...)                                                                        \
    fedserver_sql_read(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), row, err)
#define FIRST(sql, row, found, ...)                                                                \
    fedserver_sql_first(db, FEDSERVER_SQL_##sql, VALUES(__VA_ARGS__), row, found, err)

#endif
