/* Tasks as layouts 1 to 8 of server.db kept them: a column a key, and a row a phase. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_TASK_COLUMNS_H
#define FEDSERVER_STORES_SQLITE_TASK_COLUMNS_H

#include "fedserver/stores/sqlite/database.h"

/** From layout 8 to 9: each task becomes one text (task_text.h), and its columns and the table of
 * phases go. Inside a transaction; column `text` is there, empty. */
fed_status fedserver_sqlite_columns_to_text(fedserver_database *db, fed_error *err) FED_CHECKED;

#endif
