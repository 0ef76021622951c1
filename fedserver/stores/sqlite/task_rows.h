/* Tasks, a row each, and what is left of those that are over: the store's functions of that name
 * (store.h). A row has a task's number, text, state, times and position in the queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_TASK_ROWS_H
#define FEDSERVER_STORES_SQLITE_TASK_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_task_add(void *db, fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_find(void *db, fedserver_task_pick pick, uint64_t id,
                                      fedserver_task *task, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_put(void *db, const fedserver_task *task, unsigned from,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_each(void *db, int64_t declines_after_ms,
                                      fedserver_task_visit visit, void *user,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_place(void *db, uint64_t id, uint64_t position,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_task_clear(void *db, uint64_t *id, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_shrink(void *db, bool *left, fed_error *err) FED_CHECKED;

#endif
