/* Several coordinators with one PostgreSQL store, each a process of `fedserver run --cluster`. */
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
    pid_t pid;           /* process ID of `fedserver run`; 0: not running */
    char directory[340]; /* parent/coordinator, parent/coordinator1, ... */
    char log[340];       /* DIRECTORY.log: the log of all its starts */
    char bind[24];       /* 127.0.0.1 for the first, 127.0.0.2 for the second, ... */
    uint16_t link;
} fed_cluster_member;

/** The coordinators. All have the same two ports for devices, each on its own address, as devices
 * expect. */
typedef struct fed_cluster {
    unsigned count;
    fed_cluster_member member[FED_CLUSTER_MOST];
    uint16_t front, devices;
    char servers[400]; /* the addresses of all fronts, for fedclient_options.server */
    char *ca;
    long requests;     /* value of `fedserver run --requests`; 0: 100 */
    const char *proxy; /* value of `fedserver run --proxy-protocol`; NULL: without */
} fed_cluster;

/** Make the coordinators' directories, with the same keys and the file `store`, and start none.
 * store: a value of `fedserver init --store`. */
void fed_cluster_open(fed_cluster *c, const char *parent, const char *store, unsigned count);
void fed_cluster_close(fed_cluster *c);

/** Make the directory of another coordinator, with copies of the keys and of the file `store`. */
void fed_cluster_copy(const char *from, const char *to);

/** fed_cluster_token makes a token for a device with that tag ("": none). fed_cluster_task queues a
 * task from JSON; the files that the JSON names lie in `parent`. */
void fed_cluster_token(const fed_cluster *c, const char *tag, char token[FEDSERVER_TOKEN]);
uint64_t fed_cluster_task(const fed_cluster *c, const char *parent, const char *json);

/** Start member k. It may not serve yet when the function returns. */
void fed_cluster_start(fed_cluster *c, unsigned k);
/** Start member k and wait until its ports are open. The test fails if the process ends. */
void fed_cluster_start_ready(fed_cluster *c, unsigned k);

/** Send a signal to member k's `fedserver run`. After SIGKILL, wait for the end of the process. */
void fed_cluster_signal(fed_cluster *c, unsigned k, int number);
/** Has member k ended? If so, *how is waitpid's status, and the member may be started again. */
bool fed_cluster_ended(fed_cluster *c, unsigned k, int *how);

/** Return the newest term in which the coordinator with this log was the leader; 0: in none. */
uint64_t fed_cluster_led(const char *path);
/** Return which member was the leader last, by the logs; -1: none. *term, where not NULL: its
 * term. */
int fed_cluster_leader(const fed_cluster *c, uint64_t *term);
unsigned fed_cluster_says(const fed_cluster *c, unsigned k, const char *words);

#endif
