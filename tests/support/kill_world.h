/* The world of the kill matrix: a database, coordinators and devices as real processes over real
 * TLS, with lines between them that can be cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_WORLD_H
#define FED_KILL_WORLD_H

#include <stdbool.h>

#include "chaos_crowd.h"
#include "cut_lines.h"
#include "kill_balancer.h"
#include "kill_store.h"

enum { KILL_DEVICES = 12, KILL_COORDINATORS = 4, KILL_GOAL = 8, KILL_COHORT = 10 };

/** Most strikes of one world. */
enum { KILL_STRIKES = 40 };

/** What the task is like. */
typedef enum kill_mode {
    KILL_SYNCHRONOUS = 0,
    KILL_ASYNCHRONOUS,
    KILL_MEDIAN,
    KILL_PIECES, /* updates come in pieces, and a thread makes each version */
    KILL_MODES
} kill_mode;

/** What is asked of a world. */
typedef struct kill_setup {
    kill_mode mode;
    unsigned rounds, coordinators;
    uint64_t seed;
    /* programs of the coordinators: of the others every second one is `other`; NULL: fedserver of
     * this build */
    const char *program, *other;
    const char *plant; /* the fault of a planted program; NULL: none */
    kill_balancer balancer;
    bool no_standby;   /* planted: commits do not wait for the standby, which gets nothing */
    kill_store *store; /* it runs */
} kill_setup;

typedef struct kill_world {
    const kill_setup *setup;
    chaos_run run;
    fed_rng dice;
    cut_lines *lines; /* shared memory */
    unsigned front, devices_port, cluster_port;
    char servers[300]; /* the devices' --server */
    /* numbers of lines: to the store; from devices to a coordinator's two ports; from other
     * coordinators */
    unsigned store_line[KILL_COORDINATORS][KILL_SERVERS], device_line[KILL_COORDINATORS][2];
    unsigned cluster_line[KILL_COORDINATORS];
    chaos_child coordinator[KILL_COORDINATORS], device[KILL_DEVICES], forwarder, balancer;
    char token[KILL_DEVICES][FEDSERVER_TOKEN];
    unsigned struck; /* the newest round in which something was done */
    unsigned ended;  /* coordinators that ended by themselves */
    unsigned failovers;
    /* a coordinator was killed or stopped then, in that round, and no device has seen a later one;
     * 0: this is not so */
    int64_t fault_ms;
    unsigned fault_round;
    /* of each such fault over which a device saw the next version: after how long */
    unsigned version_ms[KILL_STRIKES], versions;
    char broken[300]; /* "": nothing is wrong yet */
} kill_world;

/** Returns when all devices are enrolled, and have begun to train. */
void kill_world_open(kill_world *w, const kill_setup *setup);
void kill_world_close(kill_world *w);

/** Note who has ended, and start again whoever should be there. Returns how many devices have not
 * finished. */
unsigned kill_world_tend(kill_world *w);

/** A coordinator was killed or stopped just now: measure how long the next version takes. */
void kill_world_faulted(kill_world *w);

/** End all processes but the lines. */
void kill_world_stop(kill_world *w);

/** The coordinator that leads, as the logs say. Of one that is alone, 0. */
unsigned kill_world_leader(const kill_world *w);

/** The directory of a coordinator, and its log. */
void kill_world_directory(const kill_world *w, unsigned k, char *dst, size_t cap);
void kill_world_log(const kill_world *w, unsigned k, char *dst, size_t cap);

/** The text of the model that all devices train. */
const char *kill_model(kill_mode mode);

/** Note the first thing that is wrong. */
void kill_break(kill_world *w, const char *format, ...) FED_PRINTF(2, 3);

#endif
