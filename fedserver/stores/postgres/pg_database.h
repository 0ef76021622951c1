/* A thin layer over libpq. It sends numbered statements in pipeline mode, runs transactions, and
 * turns PostgreSQL's errors into sentences. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_POSTGRES_PG_DATABASE_H
#define FEDSERVER_STORES_POSTGRES_PG_DATABASE_H

#include <libpq-fe.h>

#include "fedserver/stores/sql/sql_engine.h"

/* SQL condition: row k of pg_locks is the shared advisory lock of a leader (pg_lead.c). ?1 is the
 * first half of the lock's number. */
#define LEAD_TAGGED                                                                                \
    "k.locktype = 'advisory' AND k.objsubid = 2 AND k.classid::bigint = ?1 AND k.granted AND"      \
    " k.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

/** Numbers of the statements that only PostgreSQL has. They follow those of the statements that
 * every engine has (fedserver_sql). */
enum {
    FEDSERVER_PG_BEFORE = FEDSERVER_SQL_COUNT - 1,
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/postgres/pg_statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_PG_COUNT
};

/** The thread that keeps this process the leader, with its own connection: pg_lead.c. */
typedef struct fedserver_pg_pulse fedserver_pg_pulse;

typedef struct fedserver_pg {
    fedserver_sql_db base; /* must be first: the functions of stores/sql cast the handle to it */
    PGconn *conn;
    bool prepared[FEDSERVER_PG_COUNT];
    bool writing;
    bool revised; /* the open transaction has added 1 to the number in `revision` */
    bool lost;    /* the connection is broken; `why` has the reason */
    bool locked;
    uint64_t term;             /* the leader's term that this handle writes for; 0: none */
    bool outdone;              /* a write has failed because another coordinator leads */
    fedserver_pg_pulse *pulse; /* NULL: this handle does not lead */
    int answer_ms;             /* the longest wait for the server, in ms */
    char *where;
    bool several;
    size_t unsent;    /* number of bytes given to libpq that it may not have sent yet */
    unsigned sent;    /* statements sent since the pipeline's last synchronization */
    unsigned next_at; /* number, from 1, of the sent statement that returns the revision; 0: none */
    int64_t next;     /* the revision that this transaction's commit will make */
    int64_t revision; /* the newest committed revision that this handle knows */
    bool looked;
    int64_t looked_ms;
    char place[200]; /* the database and its host, for errors */
    char why[300];
} fedserver_pg;

/** Connect, and set up the session. `where` is libpq's connection string or URL. The string may
 * hold a password, so no error repeats it. */
fed_status fedserver_pg_connect(const char *where, fedserver_pg **db, fed_error *err) FED_CHECKED;
void fedserver_pg_close(fedserver_pg *db);

/** Fail with FED_ESTATE: another coordinator leads now, so this handle can't write any more. */
fed_status fedserver_pg_fail_outdone(fedserver_pg *db, fed_error *err) FED_CHECKED;

/** Run SQL text. Only possible before fedserver_pg_pipeline. *result is the result of the text's
 * last statement, or NULL. The caller frees it with PQclear. Pass `result` NULL to drop it. */
fed_status fedserver_pg_script(fedserver_pg *db, const char *sql, PGresult **result,
                               fed_error *err) FED_CHECKED;

/** Begin libpq's pipeline mode: many statements can be sent before the first answer arrives. */
fed_status fedserver_pg_pipeline(fedserver_pg *db, fed_error *err) FED_CHECKED;

/** Run a write that other handles need not notice, such as that of a blob. Its transaction does
 * not lock the row of `revision`, so other handles can write meanwhile. */
fed_status fedserver_pg_write_aside(fedserver_pg *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) FED_CHECKED;

/** Commit, or roll back, the open transaction. Where the connection breaks during a commit,
 * nobody knows whether the transaction is stored. The result is FED_EIO then, and its sentence
 * says so. */
fed_status fedserver_pg_commit(fedserver_pg *db, fed_error *err) FED_CHECKED;
void fedserver_pg_rollback(fedserver_pg *db);

/** Read the number in `revision`, to which each commit of rows adds 1, without this handle's open
 * transaction. FED_EVERSION: another release has changed the tables. */
fed_status fedserver_pg_revision(fedserver_pg *db, int64_t *revision, fed_error *err) FED_CHECKED;

/** Has PostgreSQL notified this handle since the last call that another handle has committed? Only
 * a handle with the store's lock gets notifications. Also true where the connection is lost: the
 * next statement then fails. */
bool fedserver_pg_notified(fedserver_pg *db);

/** PostgreSQL as the engine of the functions in stores/sql. A row's `cursor` is a PGresult. */
extern const fedserver_engine fedserver_pg_engine;

#endif
