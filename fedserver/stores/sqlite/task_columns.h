/* Upgrades tasks from layout 8, which keeps a task in columns and its phases in rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_TASK_COLUMNS_H
#define FEDSERVER_STORES_SQLITE_TASK_COLUMNS_H

#include "fedserver/stores/sqlite/database.h"

/** Upgrade from layout 8 to 9: turn each task into one text (task_text.h), and drop its other
 * columns and the table of phases. Call it inside a transaction. The empty column `text` must
 * exist. */
fed_status fedserver_sqlite_columns_to_text(fedserver_database *db, fed_error *err) FED_CHECKED;

#endif
