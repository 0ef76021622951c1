/* Bytes of models that lie in files beside server.db, each named by its digest. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_BLOBS_H
#define FEDSERVER_STORES_SQLITE_BLOBS_H

#include <inttypes.h>

#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/store.h"

/** Its name in the coordinator's directory: task (PRIu64), digest of the bytes (PRIx64). */
#define FEDSERVER_BLOB_NAME "blob-%" PRIu64 "-%016" PRIx64

/*
 * A blob is a whole file that never changes. The file gets its name once its bytes are on the disk,
 * and a row that names the file is committed later than that (S9). So a file that no row names was
 * promised to nobody. Writing one touches neither the database nor its lock: another thread may do
 * it with a handle of its own.
 */

/** The store's functions of that name. */
fed_status fedserver_sqlite_blob_put(void *user, uint64_t task, uint64_t digest, const void *bytes,
                                     size_t len, fed_error *err) FED_CHECKED;
fed_status fedserver_sqlite_blob_find(void *user, uint64_t task, uint64_t digest, void **bytes,
                                      size_t *len, fed_error *err) FED_CHECKED;

/** Bytes of a blob. FED_ENOTFOUND: there is no such file. */
fed_status fedserver_sqlite_blob_length(void *user, uint64_t task, uint64_t digest, size_t *len,
                                        fed_error *err) FED_CHECKED;

fed_status fedserver_sqlite_blob_sweep(void *user, uint64_t task, fed_error *err) FED_CHECKED;

/** The task's rows are deleted: once they are, the commit sweeps. */
void fedserver_sqlite_blobs_clear(fedserver_database *db, uint64_t task);
fed_status fedserver_sqlite_blobs_cleared(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Sweep all tasks. Waits for a process that is about to name a blob. */
fed_status fedserver_sqlite_blobs_recover(fedserver_database *db, fed_error *err) FED_CHECKED;

/** Copy the blobs that the copy's rows name. FED_ENOTFOUND: one was deleted meanwhile. */
fed_status fedserver_sqlite_blobs_copy(const fedserver_database *db, fedserver_database *copy,
                                       fed_error *err) FED_CHECKED;

/** Verify each blob that a row names, and note the files that no row names. *blobs = how many
 * were read. */
fed_status fedserver_sqlite_blobs_check(fedserver_database *db, fedserver_checker *checker,
                                        size_t *blobs, fed_error *err) FED_CHECKED;

#endif
