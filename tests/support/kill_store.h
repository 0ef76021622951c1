/* The store of the kill matrix: PostgreSQL and a synchronous standby, with lines between the two
 * that can be cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_STORE_H
#define FED_KILL_STORE_H

#include "cut_lines.h"
#include "fed_postgres.h"

enum { KILL_SERVERS = 2 };

typedef struct kill_store {
    fed_postgres server[KILL_SERVERS];
    unsigned primary;
    char directory[300]; /* has the sockets of the lines */
    /* one line leads to each server, for the other one; shared memory */
    cut_lines *lines[KILL_SERVERS];
    pid_t forwarder[KILL_SERVERS];
} kill_store;

void kill_store_open(kill_store *store);
void kill_store_close(kill_store *store);

fed_postgres *kill_store_primary(kill_store *store);
fed_postgres *kill_store_standby(kill_store *store);
cut_line *kill_store_line(kill_store *store); /* by which the standby follows */

/** Wait until the standby is synchronous. */
void kill_store_await_standby(kill_store *store);

/** The primary is dead: the standby takes its place. The dead one becomes the standby with
 * kill_store_repair. */
void kill_store_promote(kill_store *store);
void kill_store_repair(kill_store *store);

#endif
