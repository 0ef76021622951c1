/* The processes of e2e.test_kill_matrix, which kills, stops and cuts them off at chosen moments: a
 * database, coordinators and devices over real TLS. cut_lines.h cuts their connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_KILL_WORLD_H
#define FED_KILL_WORLD_H

#include <stdbool.h>

#include "chaos_crowd.h"
#include "cut_lines.h"
#include "fed/point.h"
#include "kill_balancer.h"
#include "kill_store.h"

enum { KILL_DEVICES = 12, KILL_COORDINATORS = 4, KILL_GOAL = 8, KILL_COHORT = 10 };

enum { KILL_STRIKES = 40 };

typedef enum kill_mode {
    KILL_SYNCHRONOUS = 0,
    KILL_ASYNCHRONOUS,
    KILL_MEDIAN,
    KILL_PIECES,  /* updates travel in pieces, and a thread makes each new version */
    KILL_PRIVATE, /* a helper, one more process, opens the sums */
    KILL_GROUPS,  /* as private, with the median of three sums */
    KILL_CLIP,    /* as private, with a promise, noise and a clip that follows the updates */
    KILL_MODES
} kill_mode;

typedef struct kill_setup {
    kill_mode mode;
    unsigned rounds, coordinators;
    uint64_t seed;
    /* Programs of coordinators: 1, 3, ... run `other`, the rest `program`. NULL: this build's. */
    const char *program, *other;
    const char *plant; /* fault that `program` has planted (FED_PLANT); NULL: none */
    kill_balancer balancer;
    unsigned hang_ms;           /* how long a process that hangs is stopped at least */
    unsigned train_ms, hold_ms; /* of the devices; hold_ms 0: the default of chaos_run */
    bool no_standby; /* planted fault: before a failover, commits no longer wait for the standby */
    kill_store *store;
} kill_setup;

/* What the devices get done, and since when there was nothing new. */
typedef struct kill_progress {
    unsigned seen;
    int64_t since_ms;
    unsigned still_ms; /* the longest time without anything new since kill_world_hangs */
} kill_progress;

typedef struct kill_world {
    const kill_setup *setup;
    chaos_run run;
    fed_rng dice;
    cut_lines *lines;
    unsigned front, devices_port, cluster_port;
    char servers[300]; /* what devices get as --server */
    /* Numbers of lines: from a coordinator to the store's servers; from devices to a coordinator's
     * two ports; from other coordinators to a coordinator. */
    unsigned store_line[KILL_COORDINATORS][KILL_SERVERS], device_line[KILL_COORDINATORS][2];
    unsigned cluster_line[KILL_COORDINATORS];
    chaos_child coordinator[KILL_COORDINATORS], device[KILL_DEVICES], forwarder, balancer, helper;
    char token[KILL_DEVICES][FEDSERVER_TOKEN], helper_token[FEDSERVER_TOKEN];
    uint8_t helper_secret[FED_POINT_SECRET];
    unsigned struck; /* the newest round in which a fault was caused */
    unsigned ended;  /* number of coordinators that ended by themselves */
    unsigned failovers;
    /* When a coordinator died or was stopped, and in which round. 0: none, or a device has seen a
     * later round since. */
    int64_t fault_ms;
    unsigned fault_round;
    /* For each such fault: how long it took until a device saw the next version. */
    unsigned version_ms[KILL_STRIKES], versions;
    kill_progress updates, rounds;
    /* For each process that hung: the longest time without an update, and without a version. */
    unsigned no_update_ms[KILL_STRIKES], no_version_ms[KILL_STRIKES], hangs;
    unsigned in_statement, in_answer; /* of these: at a chosen statement, or at an answer */
    char broken[300];                 /* the first thing that was wrong; "": nothing */
} kill_world;

/** Start everything. Returns when all devices are enrolled. */
void kill_world_open(kill_world *w, const kill_setup *setup);
void kill_world_close(kill_world *w);

/** Note which processes have ended, and restart those that should run. Returns how many devices
 * have not finished. */
unsigned kill_world_tend(kill_world *w);

/** A coordinator was killed or stopped: begin to measure how long the next version takes. */
void kill_world_faulted(kill_world *w);

/** A process hangs, and the devices got on after it: measure between the two calls. */
void kill_world_hangs(kill_world *w);
void kill_world_hung(kill_world *w);

/** End all processes except the one that forwards the lines. */
void kill_world_stop(kill_world *w);

/** Return the number of the leader, by the logs. With one coordinator it is 0. */
unsigned kill_world_leader(const kill_world *w);

/** Return how often the words are in coordinator k's log. */
unsigned kill_world_says(const kill_world *w, unsigned k, const char *words);

void kill_world_directory(const kill_world *w, unsigned k, char *dst, size_t cap);
void kill_world_log(const kill_world *w, unsigned k, char *dst, size_t cap);
void kill_world_helper_log(const kill_world *w, char *dst, size_t cap);

const char *kill_model(kill_mode mode);
/** Does a helper open the sums? */
bool kill_is_helped(kill_mode mode);

void kill_break(kill_world *w, const char *format, ...) FED_PRINTF(2, 3);

#endif
