/* The layout of server.db: reads it, and upgrades the tables of an older release. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/sqlite_layout.h"

#include <assert.h>
#include <stdio.h>

#include "fedserver/stores/layouts.h"
#include "fedserver/stores/sqlite/schema.h"
#include "fedserver/stores/sqlite/sqlite_lock.h"
#include "fedserver/stores/sqlite/task_columns.h"

static const char *const migrations[] = FEDSERVER_MIGRATIONS;
_Static_assert(sizeof migrations / sizeof migrations[0] == FEDSERVER_SCHEMA_VERSION - 1,
               "each version but the first needs a migration");

fed_status fedserver_sqlite_layout(fedserver_database *db, int64_t *layout, fed_error *err) {
    int64_t id;
    int64_t version;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_APPLICATION, NO_VALUES, &id, err));
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_LAYOUT, NO_VALUES, &version, err));
    if (id != FEDSERVER_SCHEMA_ID) {
        return fed_fail(err, FED_EFORMAT, "%s is not a coordinator's database", db->path);
    }
    if (version < 1 || version > FEDSERVER_SCHEMA_VERSION) {
        return fedserver_layout_newer(db->path, version, FEDSERVER_SCHEMA_VERSION, err);
    }
    *layout = version;
    return FED_OK;
}

fed_status fedserver_sqlite_layout_older(fedserver_database *db, int64_t layout, fed_error *err) {
    const fedserver_older older = {.place = db->path,
                                   .release = layout == FEDSERVER_SCHEMA_0_1_0 ? "release 0.1.0"
                                                                               : "an older release",
                                   .layout = layout,
                                   .needed = FEDSERVER_SCHEMA_VERSION,
                                   .holder = fedserver_sqlite_holder(db)};
    return fedserver_layout_older(&older, err);
}

static fed_status migrate(fedserver_database *db, int64_t from, fed_error *err) {
    char sql[64];
    /* S8 in docs/durability.md: one version at a time. */
    assert(from >= 1 && from < FEDSERVER_SCHEMA_VERSION && !db->writing);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %lld;", (long long)from + 1);
    FED_TRY(fedserver_database_script(db, "BEGIN IMMEDIATE;", err));
    fed_status status = fedserver_database_script(db, migrations[from - 1], err);
    if (status == FED_OK && from + 1 == FEDSERVER_SCHEMA_TEXT) {
        status = fedserver_sqlite_columns_to_text(db, err);
    }
    if (status == FED_OK) {
        status = fedserver_database_script(db, sql, err);
    }
    if (status != FED_OK) {
        fed_error ignored;
        fed_status undone = fedserver_database_script(db, "ROLLBACK;", &ignored);
        (void)undone;
        return status;
    }
    return fedserver_database_script(db, "COMMIT;", err);
}

fed_status fedserver_sqlite_upgrade(fedserver_database *db, fed_error *err) {
    int64_t layout = 0;
    FED_TRY(fedserver_sqlite_layout(db, &layout, err));
    for (; layout < FEDSERVER_SCHEMA_VERSION; layout++) {
        FED_TRY(migrate(db, layout, err));
    }
    /* S8 in docs/durability.md: all upgrades are done. */
    assert(layout == FEDSERVER_SCHEMA_VERSION);
    return FED_OK;
}
