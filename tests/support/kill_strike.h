/* A strike: a fault that the kill matrix causes at a chosen moment. Also the final checks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_STRIKE_H
#define FED_KILL_STRIKE_H

#include "federation.h"
#include "kill_world.h"

typedef enum kill_victim {
    KILL_LEADER = 0, /* the coordinator that does the rounds */
    KILL_FOLLOWER,   /* a coordinator that passes requests on to the leader */
    KILL_PRIMARY,    /* the store's primary server; after its death it starts again */
    KILL_FAILOVER,   /* the store's primary server; after its death its standby is promoted */
    KILL_STANDBY,
    KILL_BALANCER,
    KILL_FRONT,  /* the process that serves the front of the coordinator that does the rounds */
    KILL_HELPER, /* of the private task */
    KILL_VICTIMS
} kill_victim;

typedef enum kill_fault {
    KILL_DIES = 0, /* the victim gets SIGKILL */
    KILL_STANDS,   /* the victim gets SIGSTOP, and SIGCONT 3 s later */
    KILL_CUT_OFF,  /* the victim's connections break, or nothing passes on them */
    /* The victim, a coordinator or a front, gets SIGSTOP. It gets SIGCONT after kill_setup.hang_ms,
     * and not before the rounds have gone on without it. Behind nginx it gets SIGCONT 3 s later. */
    KILL_HANGS,
    KILL_HANGS_BEHIND, /* the same behind HAProxy, with deploy/conf/haproxy.cfg */
    KILL_FAULTS
} kill_fault;

typedef enum kill_phase {
    KILL_OPEN = 0, /* an update of the round was acknowledged */
    KILL_FULL,     /* each slot of the round is taken */
    KILL_CLOSING,  /* at most one of the round's updates is not acknowledged yet */
    KILL_PHASES
} kill_phase;

typedef struct kill_strike {
    kill_victim victim;
    kill_fault fault;
    kill_phase phase;
    /* A coordinator's fault happens at the step-th statement to the store from the phase on; 0: at
     * once. With `late` that statement still passes. Every fourth coordinator that hangs does so
     * while it sends an answer to a device. */
    unsigned step;
    bool late;
} kill_strike;

/** Wait for the phase in a round without a fault so far, cause the fault, and wait until another
 * update is acknowledged. Returns false if the task was over before. */
bool kill_world_strike(kill_world *w, const kill_strike *strike);

void kill_world_finish(kill_world *w);

/** Stop coordinators and devices. Check D1 to D5 of docs/durability.md, the history, and the model
 * bit by bit. */
void kill_world_judge(kill_world *w, federation_result *result);

/** Return how many updates new leaders have read back from the store. */
unsigned kill_world_refolded(const kill_world *w);

void kill_world_print_logs(const kill_world *w);

#endif
