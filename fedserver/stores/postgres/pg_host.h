/* The name of a PostgreSQL connection. It tells other processes which process holds the store's
 * lock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_POSTGRES_PG_HOST_H
#define FEDSERVER_STORES_POSTGRES_PG_HOST_H

#include <stdbool.h>

enum { FEDSERVER_PG_NAME = 64 /* PostgreSQL keeps 63 bytes of a connection's name */ };

/** Make this process's name: "fedserver PID on HOST". */
void fedserver_pg_name_here(char name[FEDSERVER_PG_NAME]);

/** Read a name that fedserver_pg_name_here made. *process: its PID, 0 where the name is another
 * program's. *here: its host is this machine. */
void fedserver_pg_name_read(const char *name, long *process, bool *here);

#endif
