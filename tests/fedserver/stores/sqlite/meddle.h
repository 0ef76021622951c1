/* Changes to the SQLite store's database by another program. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEDDLE_H
#define MEDDLE_H

#include <sqlite3.h>

#include "store_fixture.h"

/* Run SQL on a separate connection, as another process would. */
static inline void meddle(const fixture *f, const char *sql) {
    sqlite3 *other;
    char path[300];
    snprintf(path, sizeof path, "%s/server.db", f->directory);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
}

#endif
