/* What the kill matrix does to its world, and what it says in the end. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_STRIKE_H
#define FED_KILL_STRIKE_H

#include "federation.h"
#include "kill_world.h"

typedef enum kill_victim {
    KILL_LEADER = 0, /* the coordinator that does the rounds */
    KILL_FOLLOWER,   /* one that passes requests on to the leader */
    KILL_PRIMARY,    /* the store's server; after its death it starts again */
    KILL_FAILOVER,   /* the store's server; after its death its standby is promoted */
    KILL_STANDBY,    /* the server's synchronous standby */
    KILL_BALANCER,   /* in front of the coordinators */
    KILL_VICTIMS
} kill_victim;

typedef enum kill_fault {
    KILL_DIES = 0, /* SIGKILL */
    KILL_STANDS,   /* SIGSTOP, and 3 s later SIGCONT */
    KILL_CUT_OFF,  /* its lines break, or nothing passes on them */
    KILL_FAULTS
} kill_fault;

typedef enum kill_phase {
    KILL_OPEN = 0, /* some updates of the round are in */
    KILL_FULL,     /* each place of the round is given */
    KILL_CLOSING,  /* the last update is under way, or in */
    KILL_PHASES
} kill_phase;

typedef struct kill_strike {
    kill_victim victim;
    kill_fault fault;
    kill_phase phase;
    /* where the victim is a coordinator: it happens at so many statements to its store from then
     * on, or, `late`, when such a statement has passed and its answer has not */
    unsigned step;
    bool late;
} kill_strike;

/** Wait for the phase of a round in which nothing was done yet, strike, and wait until devices get
 * on. False: the task was over before. */
bool kill_world_strike(kill_world *w, const kill_strike *strike);

/** Wait for the end of the task. */
void kill_world_finish(kill_world *w);

/** Stop the coordinators and devices, and judge: D1 to D5, the history, and the bits. */
void kill_world_judge(kill_world *w, federation_result *result);

/** Updates that coordinators have read back from the store when they took up the rounds. */
unsigned kill_world_refolded(const kill_world *w);

/** Print the logs of the coordinators and the balancer. */
void kill_world_print_logs(const kill_world *w);

#endif
