/* A device's report about its worker group: a struct, and the two byte layouts of its message
 * (docs/protocol.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_WORKER_GROUP_H
#define FED_WORKER_GROUP_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"

FED_API_BEGIN

enum {
    FED_WORKER_GROUP_LAYOUT = 1, /* the first byte of a message if no worker has a computes_on */
    /* the first byte if any worker has a computes_on; then each worker has that field */
    FED_WORKER_GROUP_LAYOUT_NAMED = 2,
    FED_WORKER_GROUP_WORKERS = 64,      /* the most workers that a message lists */
    FED_WORKER_GROUP_BYTES = 16 * 1024, /* enough for any message */
    FED_WORKER_GROUP_RANKS = 65536      /* the most workers of a worker group */
};
#define FED_WORKER_GROUP_NOBODY UINT32_MAX

typedef enum fed_worker_state {
    FED_WORKER_WELL = 0,
    FED_WORKER_SLOW = 1,  /* computes much longer than the others */
    FED_WORKER_STUCK = 2, /* answers, but stays at one step while the others wait for this worker */
    FED_WORKER_STOPPED = 3, /* does not answer any more: stopped, or the connection is down */
    FED_WORKER_DEAD = 4     /* the worker's process has ended */
} fed_worker_state;

/** The worker of one rank. Texts are UTF-8, for people. */
typedef struct fed_worker {
    uint32_t rank; /* below the worker group's size */
    fed_worker_state state;
    uint32_t pid;            /* process id; 0: not known */
    uint32_t waits_for;      /* the rank waited for; FED_WORKER_GROUP_NOBODY: none */
    uint64_t step;           /* the current step, from 0 */
    float compute_ms;        /* milliseconds a step, without waiting; finite, at least 0 */
    char phase[16];          /* the current phase, such as "forward", "backward", "exchange" */
    char host[64];           /* host name; "": not known */
    uint64_t sent_bytes;     /* since the worker group began */
    uint64_t received_bytes; /* since the worker group began */
    /* the computing device: "opencl:0 pthread-Xeon", "cuda:0 NVIDIA H100"; "": the processor */
    char computes_on[80];
} fed_worker;

/** A worker group that is one device for the coordinator. */
typedef struct fed_worker_group {
    uint64_t task;  /* the task in training; 0: none */
    uint32_t round; /* the round; 0: none */
    uint32_t size;  /* workers at the start; 1 to FED_WORKER_GROUP_RANKS */
    float exposed;  /* the share of a step's time spent waiting for the exchange: 0 to 1 */
    /* how the workers exchange gradients, for example "tcp", "owners", "ssgd", "3lc:s=1.75",
     * "float32" */
    char link[16], collective[48], sync[48], codec[64], pull[64];
    char verdict[256]; /* a sentence for people on what is wrong; "": nothing is */
    /* Workers in the list, at most FED_WORKER_GROUP_WORKERS, by ascending rank. For a larger
     * worker group the device lists the workers that matter most. */
    uint32_t count;
    fed_worker worker[FED_WORKER_GROUP_WORKERS];
} fed_worker_group;

/** Append the message; only the first count workers are written. If no worker has a computes_on,
 * the layout is FED_WORKER_GROUP_LAYOUT, which every coordinator with FED_CAN_WORKER_GROUP can
 * read. */
void fed_worker_group_write(fed_writer *w, const fed_worker_group *m);

/** Read a message. FED_EVERSION: an unknown layout. FED_EFORMAT: a field has a value that the
 * comment beside it does not allow. FED_ENOMEM: out of memory. *m is set only after a whole
 * message was read. */
fed_status fed_worker_group_read(fed_reader *r, fed_worker_group *m) FED_CHECKED;

/** Return "well", "slow", "stuck", "stopped" or "dead". */
const char *fed_worker_state_name(fed_worker_state state);
#define FED_WORKER_STATES 5

FED_API_END

#endif
