/* Passes in server.db. They are functions of the store. */
#ifndef FEDSERVER_STORES_SQLITE_PASS_ROWS_H
#define FEDSERVER_STORES_SQLITE_PASS_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_pass_add(void *db, const uint8_t *hash, const fedserver_pass *pass,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_find(void *db, const uint8_t *hash, fedserver_pass *pass,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_use(void *db, const uint8_t *hash, int64_t now_ms,
                                     fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_pass_end(void *db, int64_t until_ms, fed_error *err) FED_CHECKED;

#endif
