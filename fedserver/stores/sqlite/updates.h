/* The open round's updates in server.db: the store's functions of that name, as in store.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_UPDATES_H
#define FEDSERVER_STORES_SQLITE_UPDATES_H

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/store.h"

fed_status fedserver_sqlite_update_add(void *user, const fedserver_update_row *row,
                                       const uint8_t *body, size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_update_each(void *db, uint64_t task, uint32_t round,
                                        fedserver_update_visit visit, void *user,
                                        fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_update_clear(void *user, uint64_t task, uint32_t round,
                                         fed_error *err) FED_CHECKED;

/** Where the round's last body ends; 0: it has none in a segment file. */
fed_status fedserver_sqlite_segment_end(fedserver_database *db, uint64_t task, uint32_t round,
                                        uint64_t *end, fed_error *err) FED_CHECKED;

/** Open db->segment for that round; `make` it where it is missing (else FED_ENOTFOUND). */
fed_status fedserver_sqlite_segment(fedserver_database *db, uint64_t task, uint32_t round,
                                    bool make, fed_error *err) FED_CHECKED;

/** The store's copy (copy.c) and check (verify.c). */
fed_status fedserver_sqlite_copy(void *db, const char *path, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_check(void *db, fedserver_checker *checker, fed_error *err) FED_CHECKED;

/** Every body and its guard; each that is damaged is a finding. */
fed_status fedserver_sqlite_updates_check(fedserver_database *db, fedserver_checker *checker,
                                          size_t *bodies, fed_error *err) FED_CHECKED;

/** Remove what a crash has left: bytes after the last committed body, files of rounds that are
 * over, and blobs that no row names. */
fed_status fedserver_sqlite_recover(void *user, fed_error *err) FED_CHECKED;

/** The store's commit and rollback: bodies first, then their rows, then the files of a round that
 * ended with it. */
fed_status fedserver_sqlite_commit(void *user, fed_error *err) FED_CHECKED;
void fedserver_sqlite_rollback(void *user);

#endif
