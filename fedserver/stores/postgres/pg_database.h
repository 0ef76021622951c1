/* A thin layer over libpq: statements by number, sent in pipeline mode; transactions; errors with a
 * sentence. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_POSTGRES_PG_DATABASE_H
#define FEDSERVER_STORES_POSTGRES_PG_DATABASE_H

#include <libpq-fe.h>

#include "fedserver/stores/sql/sql_engine.h"

/* Of the statements about the lead: k, of pg_locks, is the tag of a lead. */
#define LEAD_TAGGED                                                                                \
    "k.locktype = 'advisory' AND k.objsubid = 2 AND k.classid::bigint = ?1 AND k.granted AND"      \
    " k.database = (SELECT oid FROM pg_database WHERE datname = current_database())"

/** The statements of PostgreSQL alone. Their numbers follow those of every engine (fedserver_sql).
 */
enum {
    FEDSERVER_PG_BEFORE = FEDSERVER_SQL_COUNT - 1,
#define FEDSERVER_SQL(name, text) FEDSERVER_SQL_##name,
#include "fedserver/stores/postgres/pg_statements.def"
#undef FEDSERVER_SQL
    FEDSERVER_PG_COUNT
};

/** Renews the lead: pg_lead.c. */
typedef struct fedserver_pg_pulse fedserver_pg_pulse;

typedef struct fedserver_pg {
    fedserver_sql_db base; /* first: the row functions use it */
    PGconn *conn;
    bool prepared[FEDSERVER_PG_COUNT];
    bool writing;              /* inside a transaction */
    bool revised;              /* which has taken a revision */
    bool lost;                 /* the connection is of no use any more; `why` says why */
    bool locked;               /* this handle serves */
    uint64_t term;             /* this handle writes for that lead; 0: for none */
    bool outdone;              /* a write has shown that this lead is over */
    fedserver_pg_pulse *pulse; /* NULL: this handle does not lead */
    int answer_ms;             /* the longest wait for the server */
    char *where;               /* the connection string */
    bool several;              /* the connection string names several servers */
    size_t unsent;             /* bytes that libpq may still hold */
    unsigned sent;             /* statements since the last synchronization */
    unsigned next_at;          /* which of them returns the transaction's revision; 0: none */
    int64_t next;              /* that revision */
    int64_t revision;          /* commits of all handles that were seen at the last look */
    bool looked;               /* there was such a look, at that time: */
    int64_t looked_ms;
    char place[200]; /* for errors: names the database and its host */
    char why[300];
} fedserver_pg;

/** Connect, and prepare the session. `where` is libpq's connection string or URL. It may hold a
 * password, so no error repeats it. */
fed_status fedserver_pg_connect(const char *where, fedserver_pg **db, fed_error *err) FED_CHECKED;
void fedserver_pg_close(fedserver_pg *db);

/** FED_ESTATE: the lead that this handle writes for is over. */
fed_status fedserver_pg_fail_outdone(fedserver_pg *db, fed_error *err) FED_CHECKED;

/** Run SQL text, before fedserver_pg_pipeline: *result is its last result, or NULL. The caller
 * frees it with PQclear; pass NULL to go without. */
fed_status fedserver_pg_script(fedserver_pg *db, const char *sql, PGresult **result,
                               fed_error *err) FED_CHECKED;

/** From now on statements are sent by number, and many of them before the first answer. */
fed_status fedserver_pg_pipeline(fedserver_pg *db, fed_error *err) FED_CHECKED;

/** Write what others need not notice, in a transaction that hinders nobody. */
fed_status fedserver_pg_write_aside(fedserver_pg *db, int sql, const fedserver_value *values,
                                    int count, fed_error *err) FED_CHECKED;

/** Commit, or roll back, the open transaction. FED_EIO: perhaps nobody knows whether the
 * transaction is stored; the sentence then says so. */
fed_status fedserver_pg_commit(fedserver_pg *db, fed_error *err) FED_CHECKED;
void fedserver_pg_rollback(fedserver_pg *db);

/** Commits of all handles so far, without this handle's open transaction. */
fed_status fedserver_pg_revision(fedserver_pg *db, int64_t *revision, fed_error *err) FED_CHECKED;

/** Has another handle said since the last call that it has committed? Only handles that listen are
 * told. Also true where the connection is lost: the next statement says so. */
bool fedserver_pg_notified(fedserver_pg *db);

/** PostgreSQL for the row functions; cursor: a PGresult. */
extern const fedserver_engine fedserver_pg_engine;

#endif
