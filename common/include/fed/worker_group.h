/* What a device says of the worker group behind it: one struct, one byte layout
 * (docs/protocol.md). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_WORKER_GROUP_H
#define FED_WORKER_GROUP_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"

FED_API_BEGIN

enum {
    FED_WORKER_GROUP_LAYOUT = 1, /* the first byte of a message */
    /* likewise: each worker has its computes_on, and one names it */
    FED_WORKER_GROUP_LAYOUT_NAMED = 2,
    FED_WORKER_GROUP_WORKERS = 64,      /* most workers that a message lists */
    FED_WORKER_GROUP_BYTES = 16 * 1024, /* more than any message takes */
    FED_WORKER_GROUP_RANKS = 65536      /* most workers that a worker group has */
};
#define FED_WORKER_GROUP_NOBODY UINT32_MAX

typedef enum fed_worker_state {
    FED_WORKER_WELL = 0,
    FED_WORKER_SLOW = 1,    /* computes much longer than the others */
    FED_WORKER_STUCK = 2,   /* is heard, but its step stands while the others wait for it */
    FED_WORKER_STOPPED = 3, /* is not heard any more: stopped, or its line is down */
    FED_WORKER_DEAD = 4     /* its process is gone */
} fed_worker_state;

/** The worker of one rank. Texts are UTF-8, for people. */
typedef struct fed_worker {
    uint32_t rank; /* below the worker group's size */
    fed_worker_state state;
    uint32_t pid;            /* 0: not known */
    uint32_t waits_for;      /* the rank; FED_WORKER_GROUP_NOBODY: it waits for none */
    uint64_t step;           /* that it works on, from 0 */
    float compute_ms;        /* of the last steps each, without waiting; finite, at least 0 */
    char phase[16];          /* what it does now: "forward", "backward", "exchange" */
    char host[64];           /* "": not known */
    uint64_t sent_bytes;     /* since the worker group began */
    uint64_t received_bytes; /* likewise */
    /* what it computes on: "opencl:0 pthread-Xeon", "cuda:0 NVIDIA H100"; "": the processor */
    char computes_on[80];
} fed_worker;

/** A worker group that is one device for the coordinator. */
typedef struct fed_worker_group {
    uint64_t task;  /* that it trains; 0: none */
    uint32_t round; /* 0: none */
    uint32_t size;  /* workers that it began with; 1 to FED_WORKER_GROUP_RANKS */
    float exposed;  /* the share of a step's time that waits for the exchange: 0 to 1 */
    /* how its workers exchange gradients: "tcp", "owners", "ssgd", "3lc:s=1.75", "float32" */
    char link[16], collective[48], sync[48], codec[64], pull[64];
    char verdict[256]; /* what is wrong, a sentence for people; "": nothing */
    /* workers in the list: at most FED_WORKER_GROUP_WORKERS, ranks ascending. Of a larger worker
     * group the list has those that matter most */
    uint32_t count;
    fed_worker worker[FED_WORKER_GROUP_WORKERS];
} fed_worker_group;

/** Append the message. Only the first `count` workers are written. FED_WORKER_GROUP_LAYOUT, which
 * every coordinator with FED_CAN_WORKER_GROUP reads, where none of them names a computes_on. */
void fed_worker_group_write(fed_writer *w, const fed_worker_group *m);

/** Take a message off a reader. FED_EVERSION: a third layout; FED_EFORMAT: a value that the
 * comment beside its field does not allow. Only a message that is read whole reaches *m. */
fed_status fed_worker_group_read(fed_reader *r, fed_worker_group *m) FED_CHECKED;

/** "well", "slow", "stuck", "stopped", "dead". */
const char *fed_worker_state_name(fed_worker_state state);
#define FED_WORKER_STATES 5

FED_API_END

#endif
