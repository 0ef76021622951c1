/* Functions of the PostgreSQL store that are not shared with SQLite (stores/sql). store.h explains
 * those without a comment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_POSTGRES_PG_ROWS_H
#define FEDSERVER_STORES_POSTGRES_PG_ROWS_H

#include "fedserver/stores/store.h"

fed_status fedserver_pg_blob_put(void *user, uint64_t task, uint64_t digest, const void *bytes,
                                 size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_pg_blob_find(void *user, uint64_t task, uint64_t digest, void **bytes,
                                  size_t *len, fed_error *err) FED_CHECKED;
/** Set *len to the bytes of a blob; 0: there is no such blob. */
fed_status fedserver_pg_blob_length(void *db, uint64_t task, uint64_t digest, size_t *len,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_pg_blob_sweep(void *user, uint64_t task, fed_error *err) FED_CHECKED;
/** The store's recover: deletes all blobs that no row names. */
fed_status fedserver_pg_recover(void *user, fed_error *err) FED_CHECKED;
/** Check every blob that a row names against its digest, and add their number to *blobs. */
fed_status fedserver_pg_blobs_check(void *user, fedserver_checker *checker, size_t *blobs,
                                    fed_error *err) FED_CHECKED;

fed_status fedserver_pg_update_add(void *db, const fedserver_update_row *row, const uint8_t *body,
                                   size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_pg_update_each(void *db, uint64_t task, uint32_t round,
                                    fedserver_update_visit visit, void *user,
                                    fed_error *err) FED_CHECKED;
fed_status fedserver_pg_update_remove(void *db, uint64_t task, uint64_t lease,
                                      fed_error *err) FED_CHECKED;
fed_status fedserver_pg_update_clear(void *db, uint64_t task, uint32_t round,
                                     fed_error *err) FED_CHECKED;
/** Check all updates' bodies against their checksums, and add the number of bodies to *bodies. */
fed_status fedserver_pg_updates_check(void *db, fedserver_checker *checker, size_t *bodies,
                                      fed_error *err) FED_CHECKED;

fed_status fedserver_pg_lock(void *user, fed_error *err) FED_CHECKED;
/** Try to get the lock, without waiting. *taken false: another handle has it. */
fed_status fedserver_pg_lock_try(void *user, bool *taken, fed_error *err) FED_CHECKED;
/** Release all advisory locks of the connection. */
void fedserver_pg_unlock(void *user);
long fedserver_pg_holder(void *db);
/** The store's check: of all updates and blobs, and of server settings that endanger them. */
fed_status fedserver_pg_check(void *user, fedserver_checker *checker, fed_error *err) FED_CHECKED;

fed_status fedserver_pg_lead(void *user, const char *address, fedserver_lead *lead,
                             fed_error *err) FED_CHECKED;
void fedserver_pg_let_go(void *user);
fed_status fedserver_pg_serve_term(void *user, uint64_t term, fed_error *err) FED_CHECKED;

#endif
