/* The layout of server.db: reads it, and upgrades the tables of an older release. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_SQLITE_LAYOUT_H
#define FEDSERVER_STORES_SQLITE_SQLITE_LAYOUT_H

#include "fedserver/stores/sqlite/database.h"

/** Read the layout. FED_EFORMAT: this is no coordinator's database. FED_EVERSION: a newer release
 * made it. */
fed_status fedserver_sqlite_layout(fedserver_database *db, int64_t *layout,
                                   fed_error *err) FED_CHECKED;

/** Fail with FED_EVERSION: the database has this older layout. */
fed_status fedserver_sqlite_layout_older(fedserver_database *db, int64_t layout,
                                         fed_error *err) FED_CHECKED;

/** Upgrade the tables to this program's layout (S8 in docs/durability.md). No other process may
 * use the database: the caller has the store's lock, or a copy that has no name yet. */
fed_status fedserver_sqlite_upgrade(fedserver_database *db, fed_error *err) FED_CHECKED;

#endif
