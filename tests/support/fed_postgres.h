/* A PostgreSQL server for tests, in a temporary directory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_POSTGRES_H
#define FED_POSTGRES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct fed_postgres {
    pid_t pid; /* process ID of the postmaster, PostgreSQL's main process; 0: not running */
    char directory[200];
    char where[300];
} fed_postgres;

/** Is this build made with PostgreSQL, and is a server installed? If not, print what is missing. */
bool fed_postgres_is_there(void);

/** Return the folder of the newest installed PostgreSQL's programs; "": none. */
const char *fed_postgres_programs(void);

/** Make a server and start it. Call this only if fed_postgres_is_there. */
void fed_postgres_open(fed_postgres *server);
void fed_postgres_close(fed_postgres *server);

/** Start a server again after it was killed, and wait until it answers. */
void fed_postgres_start(fed_postgres *server);

/** Send a signal to the postmaster and all its child processes. */
void fed_postgres_signal(const fed_postgres *server, int number);

void fed_postgres_kill(fed_postgres *server);

/** Make a synchronous standby of a running server. From then on a commit waits for the standby.
 * *standby: zeroed, or a killed server, whose directory is used again. */
void fed_postgres_standby(fed_postgres *primary, fed_postgres *standby);
/** As fed_postgres_standby, but the standby connects by the socket in this folder. */
void fed_postgres_standby_by(fed_postgres *primary, const char *folder, fed_postgres *standby);

/** Turn the standby into a primary after its primary was killed. The new primary answers no commit
 * until it has a standby of its own. */
void fed_postgres_promote(fed_postgres *standby);

/** Write a connection string that names all these servers. */
void fed_postgres_where_all(const fed_postgres *servers, size_t count, char *where, size_t cap);

/** Run SQL. first[cap], where not NULL: the first value of the result as text; "": none. */
void fed_postgres_sql(const char *where, const char *sql, char *first, size_t cap);

/** Return the connection string of the server that all tests of this program share; "": none. */
const char *fed_postgres_shared(void);

/** Return an argument for `fedserver init --store`. "postgres": an emptied database of the shared
 * server, or the program ends as skipped. Any other name, also NULL, is returned as it is. */
const char *fed_postgres_store(const char *name);

enum { FED_POSTGRES_STORES = 16 };

/** As fed_postgres_store, with the k-th of FED_POSTGRES_STORES databases. */
const char *fed_postgres_store_at(const char *name, unsigned k);

/** Let the coordinator with this store handle look for changes by others at its next batch. */
void fed_postgres_look_again(void *db);

/** Delete the coordinator in this database, if there is one. */
void fed_postgres_clear(const char *where);

#endif
