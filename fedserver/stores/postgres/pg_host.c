/* Makes and reads the name of a PostgreSQL connection, which PostgreSQL shows to other
 * connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/stores/postgres/pg_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 36 };

/* PostgreSQL replaces characters of a connection's name that are not ASCII, so they are replaced
 * here. */
static void host_name(char host[HOST_SIZE]) {
    if (gethostname(host, HOST_SIZE) != 0) {
        strcpy(host, "?");
    }
    host[HOST_SIZE - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        *c = *c > ' ' && *c < 127 ? *c : '?';
    }
}

void fedserver_pg_name_here(char name[FEDSERVER_PG_NAME]) {
    char host[HOST_SIZE];
    host_name(host);
    snprintf(name, FEDSERVER_PG_NAME, "fedserver %ld on %s", (long)getpid(), host);
}

void fedserver_pg_name_read(const char *name, long *process, bool *here) {
    static const char program[] = "fedserver ";
    static const char on[] = " on ";
    char host[HOST_SIZE];
    char *end = NULL;
    host_name(host);
    *process = 0;
    *here = false;
    if (strncmp(name, program, sizeof program - 1) == 0) {
        const long number = strtol(name + sizeof program - 1, &end, 10);
        if (strncmp(end, on, sizeof on - 1) == 0) {
            *process = number;
            *here = strcmp(end + sizeof on - 1, host) == 0;
        }
    }
}
