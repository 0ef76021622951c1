/* Connects to PostgreSQL, and sets the session's timeouts and its durability. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedserver/stores/postgres/pg_database.h"
#include "fedserver/stores/postgres/pg_host.h"
#include "fedserver/stores/postgres/pg_rows.h"

enum { PARAMETERS = 16, STARTING_UP_MS = 30000, AGAIN_MS = 100, ANSWER_MS = 60000 };

/* The session's settings. Keepalives let the server notice a broken connection. A statement waits
 * at most 5 s for a lock. The server ends a transaction that is idle for 60 s. Commits wait until
 * the data is on the disk, and has reached the synchronous standby, if there is one. */
static const char session[] =
    "SET search_path = fedserver; SET client_min_messages = warning; SET jit = off;"
    "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '60s';"
    "SET statement_timeout = 0; SET default_transaction_isolation = 'read committed';"
    "SET default_transaction_read_only = off;"
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;"
    "SET tcp_user_timeout = '30s';"
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/* Drops the server's notices, which libpq would print to stderr. */
static void ignore_notice(void *user, const PGresult *result) {
    (void)user, (void)result;
}

typedef struct parameters {
    const char *keys[PARAMETERS], *values[PARAMETERS];
    int count;
} parameters;

static void add(parameters *p, const char *key, const char *value) {
    p->keys[p->count] = key;
    p->values[p->count++] = value;
}

/* libpq takes the last value of a key. So the operator's string, passed as `dbname`, overrides the
 * keys before it, and the keys after it override the string. */
static void set_parameters(parameters *p, const char *where, const char *name) {
    *p = (parameters){.count = 0};
    add(p, "connect_timeout", "10");
    add(p, "keepalives_idle", "10");
    add(p, "keepalives_interval", "5");
    add(p, "keepalives_count", "4");
    add(p, "tcp_user_timeout", "30000");
    add(p, "target_session_attrs", "read-write");
    add(p, "dbname", where);
    add(p, "client_encoding", "UTF8");
    add(p, "application_name", name);
}

/* Does a URL have a password with an unescaped '@' or '/'? libpq would take the rest of that
 * password for a host, a port or a database, and its errors would print it. */
static bool takes_password_for_place(const char *where, const PQconninfoOption *options) {
    const bool url = strstr(where, "://") == where + strcspn(where, ":= ");
    for (; url && options->keyword != NULL; options++) {
        const bool place = strcmp(options->keyword, "host") == 0 ||
                           strcmp(options->keyword, "port") == 0 ||
                           strcmp(options->keyword, "dbname") == 0;
        if (place && options->val != NULL && strchr(options->val, '@') != NULL) {
            return true;
        }
    }
    return false;
}

/* libpq's own error may quote a part of the password, so this error does not repeat it. */
static fed_status check_string(const char *where, fed_error *err) {
    PQconninfoOption *options = PQconninfoParse(where, NULL);
    if (options != NULL && takes_password_for_place(where, options)) {
        PQconninfoFree(options);
        return fed_fail(err, FED_EINVAL,
                        "the store's URL has an '@' too many; in a password write '@' as %%40 and "
                        "'/' as %%2F");
    }
    if (options == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "the store's connection string can't be read; write it as "
                        "postgres://USER@HOST/DATABASE or as \"host=HOST dbname=DATABASE "
                        "user=USER\"");
    }
    PQconninfoFree(options);
    return FED_OK;
}

static void name_place(fedserver_pg *db) {
    const char *host = PQhost(db->conn);
    const char *name = PQdb(db->conn);
    snprintf(db->place, sizeof db->place, "PostgreSQL database %s at %s", name != NULL ? name : "?",
             host != NULL && host[0] != '\0' ? host : "this machine");
}

static bool names_several(PGconn *conn) {
    bool several = false;
    PQconninfoOption *options = PQconninfo(conn);
    for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
        const bool names = strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "hostaddr") == 0;
        several |= names && o->val != NULL && strchr(o->val, ',') != NULL;
    }
    PQconninfoFree(options);
    return several;
}

/* May a server accept connections soon? It rejects them while it starts. Of several servers, a
 * standby may become the primary. */
static bool may_come(PGconn *conn, const parameters *p) {
    return names_several(conn) || PQpingParams(p->keys, p->values, 1) == PQPING_REJECT;
}

/* Connect, trying for STARTING_UP_MS, since the server may be starting or replaying its log. */
static PGconn *connect_patiently(const parameters *p) {
    const int64_t end_ms = fed_clock_monotonic_ms() + STARTING_UP_MS;
    PGconn *conn = PQconnectdbParams(p->keys, p->values, 1);
    while (conn != NULL && PQstatus(conn) != CONNECTION_OK && fed_clock_monotonic_ms() < end_ms &&
           may_come(conn, p)) {
        PQfinish(conn);
        fed_sleep_ms(AGAIN_MS);
        conn = PQconnectdbParams(p->keys, p->values, 1);
    }
    return conn;
}

static fed_status begin_session(fedserver_pg *db, fed_error *err) {
    if (PQstatus(db->conn) != CONNECTION_OK) {
        const char *text = PQerrorMessage(db->conn);
        return fed_fail(err, FED_EIO, "can't connect to the store's PostgreSQL: %.*s",
                        (int)strcspn(text, "\n"), text);
    }
    if (PQserverVersion(db->conn) < 150000) {
        return fed_fail(err, FED_EVERSION, "%s: PostgreSQL 15 or newer is needed, but this is %s",
                        db->place, PQparameterStatus(db->conn, "server_version"));
    }
    if (PQsetnonblocking(db->conn, 1) != 0) {
        return fed_fail(err, FED_EIO, "%s: %s", db->place, PQerrorMessage(db->conn));
    }
    return fedserver_pg_script(db, session, NULL, err);
}

fed_status fedserver_pg_connect(const char *where, fedserver_pg **db, fed_error *err) {
    char name[FEDSERVER_PG_NAME];
    parameters p;
    FED_TRY(check_string(where, err));
    fedserver_pg *made = calloc(1, sizeof *made);
    char *copy = strdup(where);
    if (made == NULL || copy == NULL) {
        free(made);
        free(copy);
        return fed_fail(err, FED_ENOMEM, "out of memory for a connection to the store");
    }
    made->where = copy;
    made->answer_ms = ANSWER_MS;
    made->base.engine = &fedserver_pg_engine;
    fedserver_pg_name_here(name);
    set_parameters(&p, where, name);
    made->conn = connect_patiently(&p);
    if (made->conn == NULL) {
        free(copy);
        free(made);
        return fed_fail(err, FED_ENOMEM, "out of memory for a connection to PostgreSQL");
    }
    PQsetNoticeReceiver(made->conn, ignore_notice, NULL);
    name_place(made);
    made->several = names_several(made->conn);
    const fed_status status = begin_session(made, err);
    if (status != FED_OK) {
        fedserver_pg_close(made);
        return status;
    }
    *db = made;
    return FED_OK;
}

/* The transaction and the lock are ended first, because the server notices a closed connection only
 * after a while. */
void fedserver_pg_close(fedserver_pg *db) {
    if (db == NULL) {
        return;
    }
    fedserver_pg_let_go(db);
    fedserver_pg_rollback(db);
    fedserver_pg_unlock(db);
    PQfinish(db->conn);
    free(db->where);
    free(db);
}
