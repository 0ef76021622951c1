/* Updates that have arrived in part, in server.db: the store's functions of that name (store.h). */
#ifndef FEDSERVER_STORES_SQLITE_PIECES_H
#define FEDSERVER_STORES_SQLITE_PIECES_H

#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_piece_add(void *db, int64_t device, const fed_piece *piece,
                                      const uint8_t *data, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_find(void *db, int64_t device, fed_piece *piece, uint64_t *end,
                                       fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_join(void *db, int64_t device, uint8_t *dst, size_t cap,
                                       size_t *len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_clear(void *db, int64_t device, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_piece_prune(void *db, uint64_t task, uint32_t round,
                                        fed_error *err) FED_CHECKED;

#endif
