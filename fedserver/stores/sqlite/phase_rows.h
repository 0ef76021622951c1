/* The later phases of a task in server.db: part of the store's task_add and task_find. */
#ifndef FEDSERVER_STORES_SQLITE_PHASE_ROWS_H
#define FEDSERVER_STORES_SQLITE_PHASE_ROWS_H

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/store.h"

/** Write those of a task that has its id. */
fed_status fedserver_sqlite_phases_add(fedserver_database *db, const fedserver_task *task,
                                       fed_error *err) FED_CHECKED;
/** Append those of the task with that id to it. */
fed_status fedserver_sqlite_phases_read(fedserver_database *db, fedserver_task *task,
                                        fed_error *err) FED_CHECKED;

#endif
