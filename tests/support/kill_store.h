/* The store of the kill matrix: PostgreSQL and a standby, whose connections tests can cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_STORE_H
#define FED_KILL_STORE_H

#include "cut_lines.h"
#include "fed_postgres.h"

enum { KILL_SERVERS = 2 };

typedef struct kill_store {
    fed_postgres server[KILL_SERVERS];
    unsigned primary;
    char directory[300];
    /* The lines (cut_lines.h) between the two servers. By lines[k] the other server reaches
     * server k. */
    cut_lines *lines[KILL_SERVERS];
    pid_t forwarder[KILL_SERVERS];
} kill_store;

void kill_store_open(kill_store *store);
void kill_store_close(kill_store *store);

fed_postgres *kill_store_primary(kill_store *store);
fed_postgres *kill_store_standby(kill_store *store);
cut_line *kill_store_line(kill_store *store); /* the standby's line to the primary */

void kill_store_await_standby(kill_store *store);

/** Promote the standby after its primary was killed. Then kill_store_repair makes the old primary
 * the new standby. */
void kill_store_promote(kill_store *store);
void kill_store_repair(kill_store *store);

#endif
