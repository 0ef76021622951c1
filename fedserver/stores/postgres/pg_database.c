/*
 * A handle of the PostgreSQL store: one connection, whose statements go out in libpq's pipeline
 * mode. Most writes do not wait for their answers: the commit does.
 *
 * Every wait ends: where the server neither takes nor sends a byte for answer_ms, the connection is
 * given up. Answers are read while statements are sent, since a server whose answers nobody reads
 * stops reading statements.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/postgres/pg_database.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"
#include "fedserver/stores/layouts.h"
#include "fedserver/stores/postgres/pg_rows.h"
#include "fedserver/stores/postgres/pg_schema.h"
#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/undone.h"

/* SQL for the next value of the column devices.change. A transaction that writes devices holds the
 * lock of the row of `revision`, so no other transaction can take the same number. */
#define NEXT_CHANGE "(SELECT coalesce(max(change), 0) + 1 FROM devices)"

static const char *const texts[FEDSERVER_PG_COUNT] = {
#define FEDSERVER_SQL(name, text) [FEDSERVER_SQL_##name] = (text),
#include "fedserver/stores/postgres/pg_statements.def"
#include "fedserver/stores/sql/sql_statements.def"
#undef FEDSERVER_SQL
};

enum {
    UNSENT_FEW = 64 << 10, /* bytes: send once libpq holds more */
    UNSENT_MOST = 4 << 20, /* bytes: wait for the server once libpq holds more */
    MOST_VALUES = 48,
    TEXT_SIZE = 2048
};

static int line_length(const char *text) {
    return (int)strcspn(text != NULL ? text : "", "\n");
}

/* Give up the connection: every later call fails with the same reason. */
static fed_status lose(fedserver_pg *db, const char *what, fed_error *err) {
    if (!db->lost) {
        db->lost = true;
        snprintf(db->why, sizeof db->why, "the connection is lost: %.*s%s", line_length(what), what,
                 db->term != 0 ? "; another coordinator may lead now" : "");
    }
    return fed_fail(err, FED_EIO, "%s: %s", db->place, db->why);
}

fed_status fedserver_pg_fail_outdone(fedserver_pg *db, fed_error *err) {
    db->outdone = true;
    return fed_fail(err, FED_ESTATE,
                    "%s: another coordinator leads since term %" PRIu64
                    " ended, so this coordinator's last writes are not stored; start it again to "
                    "make it a follower",
                    db->place, db->term);
}

static bool is_class(const char *state, const char *prefix) {
    return strncmp(state, prefix, strlen(prefix)) == 0;
}

static fed_status fail_result(fedserver_pg *db, const PGresult *result, fed_error *err) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    state = state != NULL ? state : "";
    text = text != NULL ? text : PQresultErrorMessage(result);
    const int len = line_length(text);
    if (is_class(state, "53100")) {
        return fed_fail(err, FED_ENOSPC, "%s: the server's disk is full: %.*s", db->place, len,
                        text);
    }
    if (is_class(state, "53200")) {
        return fed_fail(err, FED_ENOMEM, "%s: the server is out of memory: %.*s", db->place, len,
                        text);
    }
    if (is_class(state, "55P03") || is_class(state, "40P01")) {
        return fed_fail(err, FED_EBUSY,
                        "%s: another process has held the database for 5 s; end it, then try again",
                        db->place);
    }
    /* the statement REVISION_FENCED divides by 0 where another coordinator leads */
    if (is_class(state, "22012") && db->term != 0) {
        return fedserver_pg_fail_outdone(db, err);
    }
    /* the statement LAYOUT_FENCED takes the root of -1 where another release has changed the
     * tables */
    if (is_class(state, "2201F")) {
        return fedserver_layout_changed(db->place, err);
    }
    if (is_class(state, "57P01") && db->term != 0) {
        /* libpq may not know yet that the server closed the connection */
        (void)lose(db, text, NULL);
        return fed_fail(err, FED_EIO,
                        "%s: the server has ended the connection: another coordinator leads now, "
                        "or the server stops; start this coordinator again to make it a follower",
                        db->place);
    }
    if (is_class(state, "XX001") || is_class(state, "XX002")) {
        return fed_fail(err, FED_EFORMAT, "%s: %.*s; restore the database from a backup", db->place,
                        len, text);
    }
    return fed_fail(err, FED_EIO, "%s: %.*s (SQLSTATE %s)", db->place, len, text, state);
}

static fed_status wait_for_socket(fedserver_pg *db, bool to_write, fed_error *err) {
    struct pollfd socket = {.fd = PQsocket(db->conn),
                            .events = (short)(POLLIN | (to_write ? POLLOUT : 0))};
    const int ready = poll(&socket, 1, db->answer_ms);
    if (ready < 0 && errno == EINTR) {
        return FED_OK;
    }
    if (ready == 0) {
        char what[60];
        snprintf(what, sizeof what, "the server has not answered for %d s", db->answer_ms / 1000);
        return lose(db, what, err);
    }
    const bool readable = (socket.revents & ~POLLOUT) != 0;
    return ready > 0 && (!readable || PQconsumeInput(db->conn) == 1)
               ? FED_OK
               : lose(db, PQerrorMessage(db->conn), err);
}

/* Wait for the next result. *result NULL: the statement has no further result. */
static fed_status await(fedserver_pg *db, PGresult **result, fed_error *err) {
    *result = NULL;
    while (!db->lost) {
        const int left = PQflush(db->conn);
        if (left == 0 && PQisBusy(db->conn) == 0) {
            *result = PQgetResult(db->conn);
            return *result != NULL || PQstatus(db->conn) == CONNECTION_OK
                       ? FED_OK
                       : lose(db, PQerrorMessage(db->conn), err);
        }
        if (left < 0) {
            return lose(db, PQerrorMessage(db->conn), err);
        }
        FED_TRY(wait_for_socket(db, left > 0, err));
    }
    return lose(db, "", err);
}

static fed_status push(fedserver_pg *db, fed_error *err) {
    while (db->unsent > UNSENT_FEW) {
        const int left = PQflush(db->conn);
        if (left < 0) {
            return lose(db, PQerrorMessage(db->conn), err);
        }
        db->unsent = left == 0 ? 0 : db->unsent;
        if (db->unsent <= UNSENT_MOST) {
            return FED_OK;
        }
        FED_TRY(wait_for_socket(db, true, err));
    }
    return FED_OK;
}

/* PostgreSQL wants numbered placeholders: `?` becomes $1, $2, ...; `?3` becomes $3. */
static void number_marks(const char *text, char dst[TEXT_SIZE]) {
    size_t at = 0;
    int next = 1;
    for (; *text != '\0'; text++) {
        assert(at + 8 < TEXT_SIZE);
        if (*text != '?') {
            dst[at++] = *text;
        } else if (text[1] >= '0' && text[1] <= '9') {
            dst[at++] = '$';
        } else {
            at += (size_t)snprintf(dst + at, TEXT_SIZE - at, "$%d", next++);
        }
    }
    dst[at] = '\0';
}

typedef struct parameters {
    Oid types[MOST_VALUES];
    const char *values[MOST_VALUES];
    int lengths[MOST_VALUES], formats[MOST_VALUES];
    uint8_t numbers[MOST_VALUES][8];
    char *cleaned[MOST_VALUES]; /* well-formed copies of texts that were not UTF-8 */
    size_t bytes;
} parameters;

static void put_number(uint64_t number, uint8_t dst[8]) {
    for (int k = 7; k >= 0; k--, number >>= 8) {
        dst[k] = (uint8_t)number;
    }
}

static uint64_t get_number(const char *src, int len) {
    uint64_t number = 0;
    for (int k = 0; k < len; k++) {
        number = number << 8 | (uint8_t)src[k];
    }
    return number;
}

/* PostgreSQL refuses text that is not UTF-8, so such a text is cleaned first. A text may come
 * from a device, and a device must not be able to make a batch fail. */
static fed_status set_text(parameters *p, int k, const char *text, fed_error *err) {
    p->values[k] = text;
    if (!fed_utf8_valid(text)) {
        p->cleaned[k] = strdup(text);
        if (p->cleaned[k] == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for a text to store");
        }
        fed_utf8_clean(p->cleaned[k]);
        p->values[k] = p->cleaned[k];
    }
    p->lengths[k] = (int)strlen(p->values[k]);
    return FED_OK;
}

static fed_status set_value(parameters *p, int k, const fedserver_value *value, fed_error *err) {
    /* type numbers of PostgreSQL's pg_type.dat, which never change */
    enum { INT8 = 20, FLOAT8 = 701, BYTES = 17, CHARACTERS = 25 };
    static const Oid types[] = {INT8, FLOAT8, CHARACTERS, BYTES};
    uint64_t bits = (uint64_t)value->integer;
    p->types[k] = types[value->kind];
    p->formats[k] = 1;
    p->values[k] = value->bytes;
    p->lengths[k] = (int)value->len;
    if (value->kind == FEDSERVER_VALUE_TEXT && value->bytes != NULL) {
        FED_TRY(set_text(p, k, value->bytes, err));
    } else if (value->kind == FEDSERVER_VALUE_INT || value->kind == FEDSERVER_VALUE_REAL) {
        if (value->kind == FEDSERVER_VALUE_REAL) {
            memcpy(&bits, &value->real, sizeof bits);
        }
        put_number(bits, p->numbers[k]);
        p->values[k] = value->null ? NULL : (const char *)p->numbers[k];
        p->lengths[k] = sizeof bits;
    }
    p->bytes += (size_t)p->lengths[k];
    return FED_OK;
}

static fed_status prepare(fedserver_pg *db, int sql, const char *name, const parameters *p,
                          int count, fed_error *err) {
    char text[TEXT_SIZE];
    number_marks(texts[sql], text);
    if (PQsendPrepare(db->conn, name, text, count, p->types) != 1) {
        return lose(db, PQerrorMessage(db->conn), err);
    }
    db->prepared[sql] = true;
    db->sent++;
    return FED_OK;
}

static fed_status send_bound(fedserver_pg *db, int sql, const parameters *p, int count,
                             fed_error *err) {
    char name[16];
    snprintf(name, sizeof name, "s%d", sql);
    if (!db->prepared[sql]) {
        FED_TRY(prepare(db, sql, name, p, count, err));
    }
    if (PQsendQueryPrepared(db->conn, name, count, p->values, p->lengths, p->formats, 1) != 1) {
        return lose(db, PQerrorMessage(db->conn), err);
    }
    db->sent++;
    db->unsent += p->bytes;
    return push(db, err);
}

static fed_status send(fedserver_pg *db, int sql, const fedserver_value *values, int count,
                       fed_error *err) {
    parameters p = {.bytes = 0};
    fed_status status = FED_OK;
    assert(count <= MOST_VALUES);
    if (db->lost) {
        return lose(db, "", err);
    }
    /* S18 in docs/durability.md: in a pipeline the server skips all statements after a failure. */
    assert(PQpipelineStatus(db->conn) != PQ_PIPELINE_OFF);
    for (int k = 0; k < count && status == FED_OK; k++) {
        status = set_value(&p, k, &values[k], err);
    }
    if (status == FED_OK) {
        status = send_bound(db, sql, &p, count, err);
    }
    for (int k = 0; k < count; k++) {
        free(p.cleaned[k]);
    }
    return status;
}

typedef struct answers {
    PGresult *last;
    PGresult *failure;
} answers;

static void take(fedserver_pg *db, answers *a, unsigned number, PGresult *result) {
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (number == db->next_at && db->next_at != 0) {
            db->next = (int64_t)get_number(PQgetvalue(result, 0, 0), PQgetlength(result, 0, 0));
        }
        PQclear(a->last);
        a->last = result;
    } else if (status != PGRES_PIPELINE_ABORTED && a->failure == NULL) {
        a->failure = result;
    } else {
        PQclear(result);
    }
}

static fed_status gather(fedserver_pg *db, answers *a, fed_error *err) {
    unsigned number = 1;
    if (PQpipelineSync(db->conn) != 1) {
        return lose(db, PQerrorMessage(db->conn), err);
    }
    for (;;) {
        PGresult *result;
        FED_TRY(await(db, &result, err));
        if (result == NULL) {
            number++;
        } else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            db->sent = db->next_at = 0;
            return FED_OK;
        } else {
            take(db, a, number, result);
        }
    }
}

/* Wait for the answers of all statements sent so far. The caller frees *last with PQclear. */
static fed_status finish(fedserver_pg *db, PGresult **last, fed_error *err) {
    answers a = {.last = NULL};
    *last = NULL;
    if (db->lost) {
        return lose(db, "", err);
    }
    fed_status status = gather(db, &a, err);
    if (a.failure != NULL) {
        status = fail_result(db, a.failure, err);
    }
    if (PQstatus(db->conn) != CONNECTION_OK && !db->lost) {
        status = lose(db, PQerrorMessage(db->conn), err);
    }
    PQclear(a.failure);
    if (status != FED_OK) {
        PQclear(a.last);
        return status;
    }
    assert(db->sent == 0); /* S1 in docs/durability.md: each statement's answer has been read. */
    *last = a.last;
    return FED_OK;
}

fed_status fedserver_pg_script(fedserver_pg *db, const char *sql, PGresult **result,
                               fed_error *err) {
    answers a = {.last = NULL};
    PGresult *next = NULL;
    /* S7, S8 in docs/durability.md: a script begins and commits a transaction of its own. */
    assert(!db->writing);
    if (PQsendQuery(db->conn, sql) != 1) {
        return lose(db, PQerrorMessage(db->conn), err);
    }
    fed_status status = await(db, &next, err);
    while (status == FED_OK && next != NULL) {
        take(db, &a, 0, next);
        status = await(db, &next, err);
    }
    if (status == FED_OK && a.failure != NULL) {
        status = fail_result(db, a.failure, err);
    }
    PQclear(a.failure);
    if (status == FED_OK && result != NULL) {
        *result = a.last;
    } else {
        PQclear(a.last);
    }
    return status;
}

fed_status fedserver_pg_pipeline(fedserver_pg *db, fed_error *err) {
    return PQenterPipelineMode(db->conn) == 1 ? FED_OK : lose(db, PQerrorMessage(db->conn), err);
}

static fed_status begin(fedserver_pg *db, bool revise, fed_error *err) {
    if (!db->writing) {
        db->writing = true;
        FED_TRY(send(db, FEDSERVER_SQL_BEGIN, NO_VALUES, err));
    }
    if (revise && !db->revised) {
        db->revised = true;
        FED_TRY(db->term != 0 ? send(db, FEDSERVER_SQL_REVISION_FENCED, VALUES(INT(db->term)), err)
                              : send(db, FEDSERVER_SQL_REVISION_NEXT, NO_VALUES, err));
        db->next_at = db->sent;
        FED_TRY(send(db, FEDSERVER_SQL_LAYOUT_FENCED, VALUES(INT(FEDSERVER_PG_LAYOUT)), err));
    }
    /* S6 in docs/durability.md: the leader's term is checked first, unless only blobs are
     * written. */
    assert(db->writing && (db->revised || !revise));
    return FED_OK;
}

static void drop(fedserver_pg *db, int sql) {
    PGresult *result;
    fed_status status = send(db, sql, NO_VALUES, NULL);
    status = status == FED_OK ? finish(db, &result, NULL) : status;
    if (status == FED_OK) {
        PQclear(result);
    }
}

/* Nobody knows which statements the server prepared before a failure, so prepare all of them
 * again. */
static void forget_prepared(fedserver_pg *db) {
    memset(db->prepared, 0, sizeof db->prepared);
    drop(db, FEDSERVER_SQL_FORGET_PREPARED);
    memset(db->prepared, 0, sizeof db->prepared);
}

void fedserver_pg_rollback(fedserver_pg *db) {
    db->base.undone = (fed_error){0};
    if (!db->writing) {
        return;
    }
    PGresult *result;
    db->writing = db->revised = false;
    fed_status ignored = db->sent > 0 ? finish(db, &result, NULL) : FED_ENOTFOUND;
    if (ignored == FED_OK) {
        PQclear(result);
    }
    drop(db, FEDSERVER_SQL_ROLLBACK);
    forget_prepared(db);
}

static fed_status fail_unknown(fedserver_pg *db, fed_error *err) {
    return fed_fail(
        err, FED_EIO,
        "%s: %.200s. The connection was lost during a commit, so it is unknown whether the "
        "last writes are stored: the coordinator ends, and finds out when it starts again",
        db->place, db->why);
}

fed_status fedserver_pg_commit(fedserver_pg *db, fed_error *err) {
    PGresult *result = NULL;
    fed_status status = fedserver_undone_report(&db->base.undone, err);
    if (status != FED_OK) { /* S18 in docs/durability.md: a failed transaction is rolled back */
        fedserver_pg_rollback(db);
        return status;
    }
    if (!db->writing) {
        return FED_OK;
    }
    /* Only the handle with the store's lock listens for notifications. That handle commits often
     * and sends none, because PostgreSQL makes commits with notifications wait for each other. */
    if (db->revised && !db->locked) {
        status = send(db, FEDSERVER_SQL_NOTIFY, NO_VALUES, err);
    }
    status = status == FED_OK ? send(db, FEDSERVER_SQL_COMMIT, NO_VALUES, err) : status;
    const bool asked = status == FED_OK;
    status = asked ? finish(db, &result, err) : status;
    if (status == FED_OK && strcmp(PQcmdStatus(result), "COMMIT") != 0) {
        status =
            fed_fail(err, FED_EIO, "%s: the server has rolled back the transaction", db->place);
    }
    PQclear(result);
    if (status != FED_OK) {
        fedserver_pg_rollback(db);
        return asked && db->lost ? fail_unknown(db, err) : status;
    }
    /* S18 in docs/durability.md: no step of what was committed had failed. */
    assert(!fedserver_undone(&db->base.undone));
    /* S6 in docs/durability.md: no other coordinator has taken over the lead. */
    assert(!db->revised || !db->outdone);
    const bool revised = db->revised;
    db->writing = db->revised = false;
    /* S5 in docs/durability.md: the commit has ended the transaction. */
    assert(PQtransactionStatus(db->conn) == PQTRANS_IDLE);
    /* If the two numbers follow each other, no other handle has committed meanwhile. */
    if (revised && db->next == db->revision + 1) {
        db->revision = db->next;
    }
    return FED_OK;
}

fed_status fedserver_pg_revision(fedserver_pg *db, int64_t *revision, fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(fedserver_sql_first(db, FEDSERVER_SQL_REVISION, NO_VALUES, &row, &found, err));
    const bool same = found && fedserver_sql_row_int(&row, 1) == FEDSERVER_PG_LAYOUT;
    if (found) {
        *revision = fedserver_sql_row_int(&row, 0);
        *revision -= db->revised; /* this handle's own increment is not committed yet */
        fedserver_sql_row_end(&row);
    }
    return same ? FED_OK : fedserver_layout_changed(db->place, err);
}

bool fedserver_pg_notified(fedserver_pg *db) {
    bool told = db->lost || PQconsumeInput(db->conn) != 1;
    PGnotify *note;
    while (!db->lost && (note = PQnotifies(db->conn)) != NULL) {
        PQfreemem(note);
        told = true;
    }
    return told;
}

static fed_status engine_read(void *user, int sql, const fedserver_value *values, int count,
                              fedserver_sql_row *row, fed_error *err) {
    fedserver_pg *db = user;
    PGresult *result = NULL;
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&db->base.undone, err));
    fed_status status = send(db, sql, values, count, &why);
    status = status == FED_OK ? finish(db, &result, &why) : status;
    /* A failed read aborts the transaction. Remember it, since a reader may ignore the error. */
    if (db->writing) {
        FED_TRY(fedserver_undone_note(&db->base.undone, status, &why, err));
    } else if (status != FED_OK) {
        forget_prepared(db);
        return fed_fail(err, status, "%s", why.text);
    }
    /* S18 in docs/durability.md: nothing is read in a failed transaction. */
    assert(!fedserver_undone(&db->base.undone));
    row->cursor = result;
    row->at = -1;
    return FED_OK;
}

static void engine_end(fedserver_sql_row *row) {
    PQclear(row->cursor);
    row->cursor = NULL;
}

static fed_status engine_next(fedserver_sql_row *row, bool *found, fed_error *err) {
    (void)err;
    *found = ++row->at < PQntuples(row->cursor);
    if (!*found) {
        engine_end(row);
    }
    return FED_OK;
}

static fed_status read_written(fedserver_pg *db, fedserver_written *written, fed_error *err) {
    PGresult *result;
    assert(db->writing); /* S1 in docs/durability.md: the write can still be rolled back. */
    FED_TRY(finish(db, &result, err));
    *written = (fedserver_written){.rows = strtoll(PQcmdTuples(result), NULL, 10)};
    if (PQntuples(result) > 0) {
        written->id = (int64_t)get_number(PQgetvalue(result, 0, 0), PQgetlength(result, 0, 0));
    }
    PQclear(result);
    return FED_OK;
}

static fed_status engine_write(void *user, int sql, const fedserver_value *values, int count,
                               fedserver_written *written, fed_error *err) {
    fedserver_pg *db = user;
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&db->base.undone, err));
    fed_status status = begin(db, true, &why);
    status = status == FED_OK ? send(db, sql, values, count, &why) : status;
    if (status == FED_OK && written != NULL) {
        status = read_written(db, written, &why);
    }
    return fedserver_undone_note(&db->base.undone, status, &why, err);
}

fed_status fedserver_pg_write_aside(fedserver_pg *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) {
    fed_error why = {0};
    FED_TRY(fedserver_undone_report(&db->base.undone, err));
    fed_status status = begin(db, false, &why);
    status = status == FED_OK ? send(db, sql, values, count, &why) : status;
    return fedserver_undone_note(&db->base.undone, status, &why, err);
}

static int64_t engine_integer(const fedserver_sql_row *row, int column) {
    const int len = PQgetlength(row->cursor, row->at, column);
    const uint64_t number = get_number(PQgetvalue(row->cursor, row->at, column), len);
    return len == 4 ? (int32_t)number : (int64_t)number;
}

static double engine_real(const fedserver_sql_row *row, int column) {
    double real = NAN;
    if (PQgetlength(row->cursor, row->at, column) == (int)sizeof real) {
        const uint64_t bits = get_number(PQgetvalue(row->cursor, row->at, column), sizeof real);
        memcpy(&real, &bits, sizeof real);
    }
    return real;
}

static const void *engine_bytes(const fedserver_sql_row *row, int column, size_t *len) {
    *len = (size_t)PQgetlength(row->cursor, row->at, column);
    return PQgetisnull(row->cursor, row->at, column) == 0 ? PQgetvalue(row->cursor, row->at, column)
                                                          : NULL;
}

static int engine_columns(const fedserver_sql_row *row) {
    return PQnfields(row->cursor);
}

static fed_status engine_clear_bytes(void *db, uint64_t task, fed_error *err) {
    FED_TRY(WRITE(BLOB_CLEAR, INT(task)));
    return fedserver_pg_update_clear(db, task, UINT32_MAX, err);
}

const fedserver_engine fedserver_pg_engine = {
    .write = engine_write,
    .read = engine_read,
    .next = engine_next,
    .end = engine_end,
    .integer = engine_integer,
    .real = engine_real,
    .bytes = engine_bytes,
    .columns = engine_columns,
    .clear_bytes = engine_clear_bytes,
    .blob_find = fedserver_pg_blob_find,
    .blob_length = fedserver_pg_blob_length,
    .advice = "; restore the database from a backup",
};
