/* Coordinators beside each other on one PostgreSQL: `fedserver run --cluster`, a process each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CLUSTER_H
#define FED_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fedserver/operator.h"

enum { FED_CLUSTER_MOST = 8 };

typedef struct fed_cluster_member {
    pid_t pid;           /* of `fedserver run`; 0: it does not run */
    char directory[340]; /* parent/coordinator, parent/coordinator1, ...: with copies of
                            the same keys and of `store` */
    char log[340];       /* what it has logged in all its lives: DIRECTORY.log */
    char bind[24];       /* 127.0.0.1 for the first, 127.0.0.2 for the second, ... */
    uint16_t link;       /* port for the other coordinators */
} fed_cluster_member;

/** All members have the same two ports, each on its own address, as devices expect it. */
typedef struct fed_cluster {
    unsigned count;
    fed_cluster_member member[FED_CLUSTER_MOST];
    uint16_t front, devices;
    char servers[400]; /* for fedclient_options.server: all their fronts */
    char *ca;          /* PEM */
    long requests;     /* `run --requests`; 0: its default */
} fed_cluster;

/** Make the coordinator in parent/coordinator, with that store, and copies of its directory for the
 * others. None is started. store: as of `fedserver init --store`. */
void fed_cluster_open(fed_cluster *c, const char *parent, const char *store, unsigned count);
/** Kill all that run. */
void fed_cluster_close(fed_cluster *c);

/** Make the directory `to` of another coordinator: copies of the keys and of `store`. */
void fed_cluster_copy(const char *from, const char *to);

/** A token for a device with that tag ("": none). A task from JSON; its files lie in `parent`. */
void fed_cluster_token(const fed_cluster *c, const char *tag, char token[FEDSERVER_TOKEN]);
uint64_t fed_cluster_task(const fed_cluster *c, const char *parent, const char *json);

/** Start member k; it need not serve yet when the function returns. */
void fed_cluster_start(fed_cluster *c, unsigned k);
/** Start member k, and wait until its ports are open. The test fails if it ends. */
void fed_cluster_start_ready(fed_cluster *c, unsigned k);

/** Send a signal to `fedserver run`. SIGKILL also waits for its end. */
void fed_cluster_signal(fed_cluster *c, unsigned k, int number);
/** Has member k ended? Then *how is as of waitpid, and it may be started again. */
bool fed_cluster_ended(fed_cluster *c, unsigned k, int *how);

/** The newest term in which a coordinator led, as its log at this path says; 0: in none. */
uint64_t fed_cluster_led(const char *path);
/** Which member led last, as their logs say; -1: none has led. *term, where not NULL: of its lead.
 * */
int fed_cluster_leader(const fed_cluster *c, uint64_t *term);
/** How often these words are in the log of member k. */
unsigned fed_cluster_says(const fed_cluster *c, unsigned k, const char *words);

#endif
