/* The blobs of the PostgreSQL store: bytes of models, each blob in rows of PIECE bytes. The
 * transaction that writes a blob does not touch the row of `revision`, so one thread may write a
 * blob while another commits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"
#include "fedserver/stores/undone.h"

enum { PIECE = 8 << 20 };

static fed_status blob_length(fedserver_pg *db, uint64_t task, uint64_t digest, int64_t *len,
                              fed_error *err) {
    return fedserver_sql_count(db, FEDSERVER_SQL_BLOB_LENGTH, VALUES(INT(task), INT(digest)), len,
                               err);
}

static fed_status put_blob(fedserver_pg *db, uint64_t task, uint64_t digest, const void *bytes,
                           size_t len, fed_error *err) {
    int64_t there;
    FED_TRY(blob_length(db, task, digest, &there, err));
    size_t done = there >= 0 ? len : 0;
    for (int64_t k = 0; there < 0 && (k == 0 || done < len); k++) {
        const size_t size = len - done < PIECE ? len - done : PIECE;
        FED_TRY(fedserver_pg_write_aside(
            db, FEDSERVER_SQL_BLOB_ADD,
            VALUES(INT(task), INT(digest), INT(k),
                   BLOB(size > 0 ? (const uint8_t *)bytes + done : (const uint8_t *)"", size)),
            err));
        done += size;
    }
    /* S9 in docs/durability.md: the blob is stored whole before a row names it. */
    assert(done == len);
    return FED_OK;
}

/* A failure of the first read, before the transaction begins, is remembered too: no row may then
 * name the blob (S18 in docs/durability.md). */
fed_status fedserver_pg_blob_put(void *user, uint64_t task, uint64_t digest, const void *bytes,
                                 size_t len, fed_error *err) {
    fedserver_pg *db = user;
    fed_error why = {0};
    const fed_status status = put_blob(db, task, digest, bytes, len, &why);
    return fedserver_undone_note(&db->base.undone, status, &why, err);
}

static fed_status read_piece(fedserver_pg *db, uint64_t task, uint64_t digest, int64_t k,
                             uint8_t *dst, size_t room, size_t *len, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    *len = 0;
    FED_TRY(FIRST(BLOB_PIECE, &row, &found, INT(task), INT(digest), INT(k)));
    if (found) {
        const void *bytes = fedserver_sql_row_bytes(&row, 0, len);
        *len = *len <= room ? *len : 0;
        memcpy(dst, bytes, *len);
        fedserver_sql_row_end(&row);
    }
    return FED_OK;
}

/* Fails with FED_EFORMAT where a piece is missing, or where the bytes do not have the digest. */
static fed_status read_pieces(fedserver_pg *db, uint64_t task, uint64_t digest, uint8_t *dst,
                              size_t size, fed_error *err) {
    size_t done = 0;
    for (int64_t k = 0; done < size; k++) {
        size_t len;
        FED_TRY(read_piece(db, task, digest, k, dst + done, size - done, &len, err));
        if (len == 0) {
            break;
        }
        done += len;
    }
    if (done != size || fed_digest_bytes(dst, size) != digest) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: blob %016llx of task %llu is damaged; restore the database from a "
                        "backup",
                        db->place, (unsigned long long)digest, (unsigned long long)task);
    }
    return FED_OK;
}

static fed_status missing(const fedserver_pg *db, uint64_t task, uint64_t digest, fed_error *err) {
    return fed_fail(err, FED_ENOTFOUND, "%s: blob %016llx of task %llu is missing", db->place,
                    (unsigned long long)digest, (unsigned long long)task);
}

fed_status fedserver_pg_blob_find(void *user, uint64_t task, uint64_t digest, void **bytes,
                                  size_t *len, fed_error *err) {
    fedserver_pg *db = user;
    int64_t size;
    FED_TRY(blob_length(db, task, digest, &size, err));
    if (size < 0) {
        return missing(db, task, digest, err);
    }
    uint8_t *copy = malloc((size_t)size + 1);
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a blob of %lld bytes", (long long)size);
    }
    const fed_status status = read_pieces(db, task, digest, copy, (size_t)size, err);
    if (status != FED_OK) {
        free(copy);
        return status;
    }
    *bytes = copy;
    *len = (size_t)size;
    return FED_OK;
}

fed_status fedserver_pg_blob_length(void *db, uint64_t task, uint64_t digest, size_t *len,
                                    fed_error *err) {
    int64_t size;
    FED_TRY(blob_length(db, task, digest, &size, err));
    if (size < 0) {
        return missing(db, task, digest, err);
    }
    *len = (size_t)size;
    return FED_OK;
}

fed_status fedserver_pg_blob_sweep(void *user, uint64_t task, fed_error *err) {
    fedserver_pg *db = user;
    /* S9 in docs/durability.md: the sweep is a transaction of its own. */
    assert(!db->writing);
    const fed_status status =
        fedserver_pg_write_aside(db, FEDSERVER_SQL_BLOB_SWEEP, VALUES(INT(task)), err);
    if (status != FED_OK) { /* the sweep is the transaction's only write */
        fedserver_pg_rollback(db);
        return status;
    }
    return fedserver_pg_commit(db, err);
}

fed_status fedserver_pg_recover(void *user, fed_error *err) {
    return fedserver_pg_blob_sweep(user, 0, err);
}

static fed_status check_blob(fedserver_pg *db, fedserver_checker *checker, uint64_t task,
                             uint64_t digest, fed_error *err) {
    fed_error why = {0};
    void *bytes = NULL;
    size_t len;
    const fed_status status = fedserver_sql_blob_named(db, task, digest, &bytes, &len, &why);
    free(bytes);
    if (status == FED_EFORMAT) {
        fedserver_check_note(checker, FEDSERVER_FOUND, "S9: %s", why.text);
    }
    return status == FED_OK || status == FED_EFORMAT ? FED_OK
                                                     : fed_fail(err, status, "%s", why.text);
}

fed_status fedserver_pg_blobs_check(void *user, fedserver_checker *checker, size_t *blobs,
                                    fed_error *err) {
    fedserver_pg *db = user;
    fedserver_sql_row row;
    bool more;
    FED_TRY(fedserver_sql_first(db, FEDSERVER_SQL_BLOB_EACH, NO_VALUES, &row, &more, err));
    while (more) {
        const fed_status status = check_blob(db, checker, (uint64_t)fedserver_sql_row_int(&row, 0),
                                             (uint64_t)fedserver_sql_row_int(&row, 1), err);
        ++*blobs;
        FED_TRY(fedserver_sql_row_after(&row, status, &more, err));
    }
    return FED_OK;
}
