/* The open round's updates in server.db: the store's functions of that name, as in store.h. */
#ifndef FEDSERVER_STORES_SQLITE_UPDATES_H
#define FEDSERVER_STORES_SQLITE_UPDATES_H

#include "fedserver/store.h"

fed_status fedserver_sqlite_update_add(void *db, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_update_each(void *db, fedserver_update_visit visit, void *user,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_update_clear(void *db, fed_error *err) FED_CHECKED;

#endif
