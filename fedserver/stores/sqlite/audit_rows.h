/* The audit log in server.db: the store's functions of that name (store.h). */
#ifndef FEDSERVER_STORES_SQLITE_AUDIT_ROWS_H
#define FEDSERVER_STORES_SQLITE_AUDIT_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_audit_add(void *db, const fedserver_audit_entry *entry,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_audit_each(void *db, int64_t since_ms, fedserver_audit_visit visit,
                                       void *user, fed_error *err) FED_CHECKED;

#endif
