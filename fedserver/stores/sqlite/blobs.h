/* The blobs of the SQLite store: bytes of models in files beside server.db, named by digest. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_BLOBS_H
#define FEDSERVER_STORES_SQLITE_BLOBS_H

#include <inttypes.h>

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/store.h"

#define FEDSERVER_BLOB_NAME "blob-%" PRIu64 "-%016" PRIx64

/*
 * A blob is a whole file that never changes. The file gets its name once its bytes are on the
 * disk, and a row that names the file is committed after that (S9 in docs/durability.md). After a
 * crash, a file that no row names may be deleted. Writing a blob touches neither the database nor
 * its lock, so another thread may do it, with a handle of its own.
 */

/** Functions of the store: store.h explains blob_put and blob_find. */
fed_status fedserver_sqlite_blob_put(void *user, uint64_t task, uint64_t digest, const void *bytes,
                                     size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_blob_find(void *user, uint64_t task, uint64_t digest, void **bytes,
                                      size_t *len, fed_error *err) FED_CHECKED;

/** Set *len to the number of bytes of a blob. FED_ENOTFOUND: there is no such file. */
fed_status fedserver_sqlite_blob_length(void *user, uint64_t task, uint64_t digest, size_t *len,
                                        fed_error *err) FED_CHECKED;

fed_status fedserver_sqlite_blob_sweep(void *user, uint64_t task, fed_error *err) FED_CHECKED;

/** Note a task whose rows this transaction deletes. After the commit,
 * fedserver_sqlite_blobs_cleared deletes the task's blob files. */
void fedserver_sqlite_blobs_clear(fedserver_database *db, uint64_t task);
fed_status fedserver_sqlite_blobs_cleared(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Delete the blobs of all tasks that no row names. Waits for the end of another process's
 * transaction, which may be about to name a blob. */
fed_status fedserver_sqlite_blobs_recover(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Copy the blobs that the rows of `copy` name. FED_ENOTFOUND: a blob was deleted meanwhile. */
fed_status fedserver_sqlite_blobs_copy(const fedserver_database *db, fedserver_database *copy,
                                       fed_error *err) FED_CHECKED;

/** Check each blob that a row names against its digest, and report the files that no row names.
 * *blobs = number of blobs that rows name. */
fed_status fedserver_sqlite_blobs_check(fedserver_database *db, fedserver_checker *checker,
                                        size_t *blobs, fed_error *err) FED_CHECKED;

#endif
