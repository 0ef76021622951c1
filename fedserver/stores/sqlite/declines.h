/* Devices that can't serve a task, in server.db: the store's functions of that name (store.h). */
#ifndef FEDSERVER_STORES_SQLITE_DECLINES_H
#define FEDSERVER_STORES_SQLITE_DECLINES_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_decline_put(void *db, uint64_t task, int64_t device, const char *reason,
                                        int64_t now_ms, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_decline_each(void *db, uint64_t task, int64_t after_ms,
                                         fedserver_decline_visit visit, void *user,
                                         fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_decline_forget(void *db, uint64_t task, fed_error *err) FED_CHECKED;

/** The most frequent reasons of those declines of the entry's task that are newer. */
fed_status fedserver_sqlite_decline_reasons(void *db, int64_t after_ms, fedserver_task_entry *entry,
                                            fed_error *err) FED_CHECKED;

#endif
