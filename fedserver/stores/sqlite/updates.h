/* Updates of open rounds in the SQLite store, and the store's functions that span its files.
 * store.h explains those without a comment. */
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
fed_status fedserver_sqlite_update_remove(void *user, uint64_t task, uint64_t lease,
                                          fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_update_clear(void *user, uint64_t task, uint32_t round,
                                         fed_error *err) FED_CHECKED;

/** Set *end to the offset at which the round's last body in its segment file ends; 0: none. */
fed_status fedserver_sqlite_segment_end(fedserver_database *db, uint64_t task, uint32_t round,
                                        uint64_t *end, fed_error *err) FED_CHECKED;

/** Open the round's file as db->segment. Where it is missing, create it if `make`, or fail with
 * FED_ENOTFOUND. */
fed_status fedserver_sqlite_segment(fedserver_database *db, uint64_t task, uint32_t round,
                                    bool make, fed_error *err) FED_CHECKED;

/** Copy the store to the file `path` and to files beside it, for the store's function `copy`. db
 * may have an older layout. */
fed_status fedserver_sqlite_copy(fedserver_database *db, const char *path,
                                 fed_error *err) FED_CHECKED;
/** The store's function `check`. */
fed_status fedserver_sqlite_check(void *db, fedserver_checker *checker, fed_error *err) FED_CHECKED;

/** Check all updates' bodies against their checksums, and add the number of bodies to *bodies. */
fed_status fedserver_sqlite_updates_check(fedserver_database *db, fedserver_checker *checker,
                                          size_t *bodies, fed_error *err) FED_CHECKED;

/** Remove what a crash has left behind: bytes after the last committed body, files of rounds that
 * are over, and blobs that no row names. */
fed_status fedserver_sqlite_recover(void *user, fed_error *err) FED_CHECKED;

/** The store's commit and rollback. A commit first syncs the appended bodies, then commits their
 * rows, then deletes the files of rounds that ended. */
fed_status fedserver_sqlite_commit(void *user, fed_error *err) FED_CHECKED;
void fedserver_sqlite_rollback(void *user);

#endif
