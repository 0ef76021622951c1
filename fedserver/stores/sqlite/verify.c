/* The SQLite store's check: pages, references between rows, files, and checksums of bodies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/sqlite/blobs.h"
#include "fedserver/stores/sqlite/database.h"
#include "fedserver/stores/sqlite/updates.h"

typedef struct checking {
    fedserver_database *db;
    fedserver_checker *checker;
    size_t files;
} checking;

static fed_status check_rows(const checking *c, int sql, fed_error *err) {
    fedserver_database *db = c->db;
    sqlite3_stmt *row;
    bool more;
    FED_TRY(fedserver_database_read(db, sql, NO_VALUES, &row, err));
    FED_TRY(fedserver_database_next(db, row, &more, err));
    while (more) {
        fedserver_check_note(c->checker, FEDSERVER_FOUND, "S1: %s: %s" FEDSERVER_RESTORE, db->path,
                             (const char *)sqlite3_column_text(row, 0));
        FED_TRY(fedserver_database_next(db, row, &more, err));
    }
    return FED_OK;
}

/* Report a segment file that has no round, or more bytes than its rows name. A file that is too
 * short is reported when its bodies are read. */
static fed_status check_file(void *user, const char *path, uint64_t task, uint32_t round,
                             uint64_t size, fed_error *err) {
    checking *c = user;
    uint64_t end;
    FED_TRY(fedserver_sqlite_segment_end(c->db, task, round, &end, err));
    if (end == 0) {
        fedserver_check_note(c->checker, FEDSERVER_NOTED,
                             "S9: %s belongs to no open round; the next start removes it", path);
    } else if (size > end) {
        fedserver_check_note(c->checker, FEDSERVER_NOTED,
                             "S9: %s has %" PRIu64 " bytes that were never acknowledged; the next "
                             "start removes them",
                             path, size - end);
    }
    c->files++;
    return FED_OK;
}

fed_status fedserver_sqlite_check(void *db, fedserver_checker *checker, fed_error *err) {
    checking c = {.db = db, .checker = checker};
    FED_TRY(check_rows(&c, FEDSERVER_SQL_CHECK_PAGES, err));
    FED_TRY(check_rows(&c, FEDSERVER_SQL_CHECK_REFERENCES, err));
    fedserver_check_note(checker, FEDSERVER_CHECKED,
                         "S1: the database: pages, indexes, references");
    FED_TRY(fedserver_segment_each(c.db->directory, check_file, &c, err));
    size_t bodies = 0;
    size_t blobs = 0;
    FED_TRY(fedserver_sqlite_updates_check(c.db, checker, &bodies, err));
    fedserver_check_note(checker, FEDSERVER_CHECKED,
                         "S9: %zu bodies of updates and their guards, %zu segment files", bodies,
                         c.files);
    FED_TRY(fedserver_sqlite_blobs_check(c.db, checker, &blobs, err));
    fedserver_check_note(checker, FEDSERVER_CHECKED,
                         "S9: %zu files of models, named by their digests", blobs);
    return FED_OK;
}
