/* A PostgreSQL server of a test's own: in a directory of its own, on a socket there, as a user
 * without rights. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_POSTGRES_H
#define FED_POSTGRES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct fed_postgres {
    pid_t pid; /* of the postmaster; 0: it does not run */
    char directory[200];
    char where[300]; /* the connection string of its database */
} fed_postgres;

/** Is this build's store on PostgreSQL, and a server to try it, there? Else the function prints
 * what is missing. */
bool fed_postgres_is_there(void);

/** The folder of PostgreSQL's programs, of the newest release that is installed; "": none. */
const char *fed_postgres_programs(void);

/** Make a server and start it. Call it where fed_postgres_is_there. */
void fed_postgres_open(fed_postgres *server);
void fed_postgres_close(fed_postgres *server);

/** Start it again, after it was killed. Returns when it answers. */
void fed_postgres_start(fed_postgres *server);

/** A signal to the postmaster and all its processes. */
void fed_postgres_signal(const fed_postgres *server, int number);

/** SIGKILL to all of them. */
void fed_postgres_kill(fed_postgres *server);

/** Make a synchronous standby of a server that runs: from now on the server answers a commit once
 * the standby has it. *standby: zeroed, or a server that was killed, whose place it takes. */
void fed_postgres_standby(fed_postgres *primary, fed_postgres *standby);
/** The same, by the socket in this folder, which leads to the primary. */
void fed_postgres_standby_by(fed_postgres *primary, const char *folder, fed_postgres *standby);

/** Make a server of the standby, whose primary was killed. It commits again once it has a standby
 * of its own: make one of the old primary, which must not start as it was: there would be two. */
void fed_postgres_promote(fed_postgres *standby);

/** The connection string that names all of these, for a coordinator that goes on with whichever can
 * be written. */
void fed_postgres_where_all(const fed_postgres *servers, size_t count, char *where, size_t cap);

/** Run SQL there. first[cap], where not NULL: the first value of the result, as text; "" for none.
 * */
void fed_postgres_sql(const char *where, const char *sql, char *first, size_t cap);

/** The connection string of a server that all tests of this program share; "": there is none. It
 * ends with the program. */
const char *fed_postgres_shared(void);

/** The store of that name for `fedserver init`, without a coordinator in it: of "postgres" it is
 * the shared server; where there is none, the test ends as skipped. Anything else, also NULL, is
 * returned as it is. */
const char *fed_postgres_store(const char *name);

enum { FED_POSTGRES_STORES = 16 };

/** The same, in the k-th of FED_POSTGRES_STORES databases: for a test that has several coordinators
 * at once. */
const char *fed_postgres_store_at(const char *name, unsigned k);

/** The coordinator with this handle of its store asks at its next batch whether others have changed
 * something. It does that in any case, but not in each batch, and a notification comes in its own
 * time. */
void fed_postgres_look_again(void *db);

/** Delete the coordinator that this database holds, if it holds one. */
void fed_postgres_clear(const char *where);

#endif
