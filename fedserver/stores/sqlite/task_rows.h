/* Tasks as rows of a list, and what is left of those that are over: the store's functions of that
 * name (store.h). */
#ifndef FEDSERVER_STORES_SQLITE_TASK_ROWS_H
#define FEDSERVER_STORES_SQLITE_TASK_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_place(void *db, uint64_t id, uint64_t position,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_clear(void *db, uint64_t *id, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) FED_CHECKED;

#endif
