/* A helper's memory in SQLite: each commit is on disk before an answer leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/helper_state.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APPLICATION = 0x46656448 /* "FedH" */, LAYOUT = 1, BUSY_MS = 5000 };

static const char layout[] =
    "CREATE TABLE openings (generation INTEGER NOT NULL, task INTEGER NOT NULL,"
    " round INTEGER NOT NULL, set_digest BLOB NOT NULL,"
    " PRIMARY KEY (generation, task, round)) WITHOUT ROWID;"
    "CREATE TABLE devices (task INTEGER NOT NULL, device BLOB NOT NULL, taken INTEGER NOT NULL,"
    " generation INTEGER NOT NULL, last_round INTEGER NOT NULL,"
    " PRIMARY KEY (task, device)) WITHOUT ROWID;"
    "CREATE TABLE generations (task INTEGER PRIMARY KEY, generation INTEGER NOT NULL);"
    "CREATE TABLE promises (task INTEGER PRIMARY KEY, promise BLOB NOT NULL);"
    /* of each task's last round only */
    "CREATE TABLE noises (task INTEGER PRIMARY KEY, generation INTEGER NOT NULL,"
    " round INTEGER NOT NULL, noise_key BLOB NOT NULL);"
    /* of the task's last rounds, where a device takes part in each apart-th one */
    "CREATE TABLE correlated (generation INTEGER NOT NULL, task INTEGER NOT NULL,"
    " round INTEGER NOT NULL, noise BLOB NOT NULL, PRIMARY KEY (generation, task, round));"
    "PRAGMA application_id = 1181049928; PRAGMA user_version = 1;";

enum {
    FIND,
    ADD,
    TAKEN,
    TAKE,
    NEWEST,
    RENEW,
    KNOWN,
    PROMISE,
    PROMISED,
    KEEP_NOISE,
    NOISE,
    KEEP_CORRELATED,
    CORRELATED,
    FORGET_CORRELATED,
    STATEMENTS
};

static const char *const texts[STATEMENTS] = {
    "SELECT set_digest FROM openings WHERE generation = ? AND task = ? AND round = ?",
    "INSERT INTO openings VALUES (?, ?, ?, ?)",
    ("SELECT taken, CASE generation WHEN ?1 THEN last_round ELSE 0 END FROM devices"
     " WHERE task = ?2 AND device = ?3"),
    ("INSERT INTO devices VALUES (?2, ?3, 1, ?1, ?4) ON CONFLICT (task, device)"
     " DO UPDATE SET taken = taken + 1, generation = excluded.generation,"
     " last_round = excluded.last_round"),
    "SELECT generation FROM generations WHERE task = ?",
    ("INSERT INTO generations VALUES (?2, ?1) ON CONFLICT (task)"
     " DO UPDATE SET generation = excluded.generation"),
    "SELECT 1 FROM openings WHERE generation = ? AND task = ? LIMIT 1",
    "INSERT OR IGNORE INTO promises VALUES (?, ?)",
    "SELECT promise FROM promises WHERE task = ?",
    "INSERT OR REPLACE INTO noises (generation, task, round, noise_key) VALUES (?, ?, ?, ?)",
    "SELECT noise_key FROM noises WHERE generation = ? AND task = ? AND round = ?",
    "INSERT OR REPLACE INTO correlated VALUES (?, ?, ?, ?)",
    "SELECT noise FROM correlated WHERE generation = ? AND task = ? AND round = ?",
    "DELETE FROM correlated WHERE task = ?2 AND (generation <> ?1 OR round <= ?3)",
};

struct fedserver_helper_state {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char path[1024];
};

static fed_status fail(fedserver_helper_state *s, int code, fed_error *err) {
    const fed_status status = (code & 0xff) == SQLITE_FULL      ? FED_ENOSPC
                              : (code & 0xff) == SQLITE_BUSY    ? FED_EBUSY
                              : (code & 0xff) == SQLITE_NOMEM   ? FED_ENOMEM
                              : (code & 0xff) == SQLITE_CORRUPT ? FED_EFORMAT
                              : (code & 0xff) == SQLITE_NOTADB  ? FED_EFORMAT
                                                                : FED_EIO;
    return fed_fail(err, status, "%s, the helper's state: %s (SQLite error %d)%s", s->path,
                    sqlite3_errmsg(s->db), code,
                    status == FED_EBUSY ? "; another process has it open, end it" : "");
}

static fed_status script(fedserver_helper_state *s, const char *sql, fed_error *err) {
    const int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? FED_OK : fail(s, code, err);
}

static fed_status number_of(fedserver_helper_state *s, const char *sql, int64_t *number,
                            fed_error *err) {
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &row, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(row);
        *number = code == SQLITE_ROW ? sqlite3_column_int64(row, 0) : 0;
    }
    sqlite3_finalize(row);
    return code == SQLITE_ROW || code == SQLITE_DONE ? FED_OK : fail(s, code, err);
}

/* Make the tables of a new file; check those of another. */
static fed_status settle(fedserver_helper_state *s, fed_error *err) {
    int64_t application = 0, version = 0, tables = 0;
    FED_TRY(number_of(s, "PRAGMA application_id", &application, err));
    FED_TRY(number_of(s, "PRAGMA user_version", &version, err));
    FED_TRY(number_of(s, "SELECT count(*) FROM sqlite_schema", &tables, err));
    if (application == 0 && tables == 0) {
        FED_TRY(script(s, "BEGIN IMMEDIATE", err));
        FED_TRY(script(s, layout, err));
        return script(s, "COMMIT", err);
    }
    if (application != APPLICATION) {
        return fed_fail(err, FED_EFORMAT, "%s is not a helper's state; give another file", s->path);
    }
    return version == LAYOUT
               ? FED_OK
               : fed_fail(err, FED_EVERSION,
                          "%s was written by another release (layout %lld, this program has %d); "
                          "run that release",
                          s->path, (long long)version, LAYOUT);
}

fed_status fedserver_helper_state_open(const char *path, fedserver_helper_state **state,
                                       fed_error *err) {
    fedserver_helper_state *s = calloc(1, sizeof *s);
    FED_REQUIRE(s != NULL, FED_ENOMEM);
    snprintf(s->path, sizeof s->path, "%s", path);
    const int code = sqlite3_open_v2(path, &s->db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                         SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_FULLMUTEX,
                                     NULL);
    fed_status status = code == SQLITE_OK ? FED_OK : fail(s, code, err);
    if (status == FED_OK) {
        sqlite3_busy_timeout(s->db, BUSY_MS);
        /* One process has the file: two helpers with one key would each open a set. */
        status = script(s,
                        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE;"
                        "PRAGMA synchronous = EXTRA; PRAGMA secure_delete = ON;"
                        "BEGIN EXCLUSIVE; COMMIT;",
                        err);
    }
    if (status == FED_OK) {
        status = settle(s, err);
    }
    for (int k = 0; k < STATEMENTS && status == FED_OK; k++) {
        const int prepared = sqlite3_prepare_v2(s->db, texts[k], -1, &s->statements[k], NULL);
        status = prepared == SQLITE_OK ? FED_OK : fail(s, prepared, err);
    }
    if (status != FED_OK) {
        fedserver_helper_state_close(s);
        return status;
    }
    *state = s;
    return FED_OK;
}

void fedserver_helper_state_close(fedserver_helper_state *s) {
    if (s != NULL) {
        for (int k = 0; k < STATEMENTS; k++) {
            sqlite3_finalize(s->statements[k]);
        }
        sqlite3_close(s->db);
        free(s);
    }
}

fed_status fedserver_helper_state_begin(fedserver_helper_state *s, fed_error *err) {
    return script(s, "BEGIN IMMEDIATE", err);
}

fed_status fedserver_helper_state_commit(fedserver_helper_state *s, fed_error *err) {
    return script(s, "COMMIT", err);
}

void fedserver_helper_state_rollback(fedserver_helper_state *s) {
    (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static void bind_opened(sqlite3_stmt *row, const fedserver_opened *which) {
    sqlite3_bind_int64(row, 1, (sqlite3_int64)which->generation);
    sqlite3_bind_int64(row, 2, (sqlite3_int64)which->task);
    sqlite3_bind_int64(row, 3, which->round);
}

/* Run a statement to its end. */
static fed_status write_row(fedserver_helper_state *s, sqlite3_stmt *row, fed_error *err) {
    const int code = sqlite3_step(row);
    const fed_status status = code == SQLITE_DONE ? FED_OK : fail(s, code, err);
    sqlite3_reset(row);
    return status;
}

/* Read the first column of the row that a statement finds: len bytes. */
static fed_status read_blob(fedserver_helper_state *s, sqlite3_stmt *row, uint8_t *dst, size_t len,
                            bool *found, fed_error *err) {
    const int code = sqlite3_step(row);
    *found = code == SQLITE_ROW && (size_t)sqlite3_column_bytes(row, 0) == len;
    if (*found) {
        memcpy(dst, sqlite3_column_blob(row, 0), len);
    }
    const fed_status status = *found || code == SQLITE_DONE ? FED_OK
                              : code == SQLITE_ROW          ? fail(s, SQLITE_CORRUPT, err)
                                                            : fail(s, code, err);
    sqlite3_reset(row);
    return status;
}

fed_status fedserver_helper_state_find(fedserver_helper_state *s, const fedserver_opened *which,
                                       bool *found, uint8_t set[FED_SHA256_SIZE], fed_error *err) {
    bind_opened(s->statements[FIND], which);
    return read_blob(s, s->statements[FIND], set, FED_SHA256_SIZE, found, err);
}

fed_status fedserver_helper_state_add(fedserver_helper_state *s, const fedserver_opened *which,
                                      const uint8_t set[FED_SHA256_SIZE], fed_error *err) {
    sqlite3_stmt *row = s->statements[ADD];
    bind_opened(row, which);
    sqlite3_bind_blob(row, 4, set, FED_SHA256_SIZE, SQLITE_TRANSIENT);
    return write_row(s, row, err);
}

fed_status fedserver_helper_state_taken(fedserver_helper_state *s, const fedserver_opened *which,
                                        const uint8_t device[FED_SHA256_SIZE], uint32_t *taken,
                                        uint32_t *last, fed_error *err) {
    sqlite3_stmt *row = s->statements[TAKEN];
    sqlite3_bind_int64(row, 1, (sqlite3_int64)which->generation);
    sqlite3_bind_int64(row, 2, (sqlite3_int64)which->task);
    sqlite3_bind_blob(row, 3, device, FED_SHA256_SIZE, SQLITE_TRANSIENT);
    const int code = sqlite3_step(row);
    *taken = code == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(row, 0) : 0;
    *last = code == SQLITE_ROW ? (uint32_t)sqlite3_column_int64(row, 1) : 0;
    const fed_status status =
        code == SQLITE_ROW || code == SQLITE_DONE ? FED_OK : fail(s, code, err);
    sqlite3_reset(row);
    return status;
}

fed_status fedserver_helper_state_take(fedserver_helper_state *s, const fedserver_opened *which,
                                       const uint8_t device[FED_SHA256_SIZE], fed_error *err) {
    sqlite3_stmt *row = s->statements[TAKE];
    sqlite3_bind_int64(row, 1, (sqlite3_int64)which->generation);
    sqlite3_bind_int64(row, 2, (sqlite3_int64)which->task);
    sqlite3_bind_blob(row, 3, device, FED_SHA256_SIZE, SQLITE_TRANSIENT);
    sqlite3_bind_int64(row, 4, which->round);
    return write_row(s, row, err);
}

/* Is there a row? The caller has bound the statement. *number: its first column; 0: there is no
 * row. */
static fed_status look_up(fedserver_helper_state *s, sqlite3_stmt *row, bool *found,
                          uint64_t *number, fed_error *err) {
    const int code = sqlite3_step(row);
    *found = code == SQLITE_ROW;
    *number = *found ? (uint64_t)sqlite3_column_int64(row, 0) : 0;
    const fed_status status = *found || code == SQLITE_DONE ? FED_OK : fail(s, code, err);
    sqlite3_reset(row);
    return status;
}

fed_status fedserver_helper_state_age(fedserver_helper_state *s, const fedserver_opened *which,
                                      fedserver_helper_age *age, fed_error *err) {
    sqlite3_stmt *newest = s->statements[NEWEST], *known = s->statements[KNOWN];
    bool found = false, opened = false;
    uint64_t number = 0;
    sqlite3_bind_int64(newest, 1, (sqlite3_int64)which->task);
    FED_TRY(look_up(s, newest, &found, &number, err));
    *age = !found                        ? FEDSERVER_HELPER_FIRST
           : number == which->generation ? FEDSERVER_HELPER_PRESENT
                                         : FEDSERVER_HELPER_NEWER;
    if (*age == FEDSERVER_HELPER_NEWER) {
        sqlite3_bind_int64(known, 1, (sqlite3_int64)which->generation);
        sqlite3_bind_int64(known, 2, (sqlite3_int64)which->task);
        FED_TRY(look_up(s, known, &opened, &number, err));
        *age = opened ? FEDSERVER_HELPER_OVER : *age;
    }
    return FED_OK;
}

fed_status fedserver_helper_state_renew(fedserver_helper_state *s, const fedserver_opened *which,
                                        fed_error *err) {
    sqlite3_stmt *row = s->statements[RENEW];
    sqlite3_bind_int64(row, 1, (sqlite3_int64)which->generation);
    sqlite3_bind_int64(row, 2, (sqlite3_int64)which->task);
    return write_row(s, row, err);
}

fed_status fedserver_helper_state_promise(fedserver_helper_state *s, uint64_t task,
                                          const uint8_t promise[FEDSERVER_PROMISE], bool *same,
                                          fed_error *err) {
    uint8_t first[FEDSERVER_PROMISE];
    bool found = false;
    sqlite3_bind_int64(s->statements[PROMISE], 1, (sqlite3_int64)task);
    sqlite3_bind_blob(s->statements[PROMISE], 2, promise, FEDSERVER_PROMISE, SQLITE_TRANSIENT);
    FED_TRY(write_row(s, s->statements[PROMISE], err));
    sqlite3_bind_int64(s->statements[PROMISED], 1, (sqlite3_int64)task);
    FED_TRY(read_blob(s, s->statements[PROMISED], first, sizeof first, &found, err));
    *same = found && memcmp(first, promise, sizeof first) == 0;
    return FED_OK;
}

fed_status fedserver_helper_state_keep_noise(fedserver_helper_state *s,
                                             const fedserver_opened *which,
                                             const uint8_t key[FEDSERVER_NOISE_KEY],
                                             fed_error *err) {
    sqlite3_stmt *row = s->statements[KEEP_NOISE];
    bind_opened(row, which);
    sqlite3_bind_blob(row, 4, key, FEDSERVER_NOISE_KEY, SQLITE_TRANSIENT);
    const fed_status status = write_row(s, row, err);
    sqlite3_clear_bindings(row);
    return status;
}

fed_status fedserver_helper_state_noise(fedserver_helper_state *s, const fedserver_opened *which,
                                        uint8_t key[FEDSERVER_NOISE_KEY], bool *found,
                                        fed_error *err) {
    bind_opened(s->statements[NOISE], which);
    return read_blob(s, s->statements[NOISE], key, FEDSERVER_NOISE_KEY, found, err);
}

fed_status fedserver_helper_state_keep_correlated(fedserver_helper_state *s,
                                                  const fedserver_opened *which,
                                                  const uint8_t *noise, size_t len, uint32_t kept,
                                                  fed_error *err) {
    sqlite3_stmt *row = s->statements[KEEP_CORRELATED];
    sqlite3_stmt *old = s->statements[FORGET_CORRELATED];
    bind_opened(row, which);
    sqlite3_bind_blob64(row, 4, noise, len, SQLITE_STATIC);
    const fed_status status = write_row(s, row, err);
    sqlite3_clear_bindings(row);
    FED_TRY(status);
    bind_opened(old, which);
    sqlite3_bind_int64(old, 3, (sqlite3_int64)which->round - (sqlite3_int64)kept);
    return write_row(s, old, err);
}

fed_status fedserver_helper_state_correlated(fedserver_helper_state *s,
                                             const fedserver_opened *which, uint8_t *noise,
                                             size_t len, bool *found, fed_error *err) {
    bind_opened(s->statements[CORRELATED], which);
    return read_blob(s, s->statements[CORRELATED], noise, len, found, err);
}
