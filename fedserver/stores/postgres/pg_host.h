/* How a connection names its process, for whoever asks who holds the store's lock. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_POSTGRES_PG_HOST_H
#define FEDSERVER_STORES_POSTGRES_PG_HOST_H

#include <stdbool.h>

enum { FEDSERVER_PG_NAME = 64 /* PostgreSQL keeps 63 bytes of it */ };

/** "fedserver PID on HOST", of this process. */
void fedserver_pg_name_here(char name[FEDSERVER_PG_NAME]);

/** Read such a name. *process: 0 where the name is another program's. *here: it is of this machine.
 * */
void fedserver_pg_name_read(const char *name, long *process, bool *here);

#endif
