/* What the failure detector knows of a worker group: its members, and the generation that is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBERSHIP_STATE_H
#define FEDDC_MEMBERSHIP_STATE_H

#include "feddc/control.h"

enum {
    FEDDC_HEARTBEAT_MS = 250,
    FEDDC_SILENT_MS = 2000, /* without a heartbeat: stopped or cut off */
    FEDDC_STUCK_MS = 10000, /* without a report of the main thread, at least */
    FEDDC_STUCK_STEPS = 20, /* in usual steps */
    FEDDC_FIRST_MS = 60000, /* the same before the usual step is known */
    FEDDC_COME_MS =
        300000, /* who has not come to a meeting after that is stuck, whatever it says */
    FEDDC_ASK_MS =
        100, /* how long a death waits for a heartbeat of the others, to say what they do */
    FEDDC_STALL_MS = 500, /* without a settle: the failure detector was away, */
    FEDDC_BACK_MS = 700,  /* and who is silent has so long after it is back */
    FEDDC_FRUITLESS = 5,  /* meetings in a row without a loss and without a step */
    FEDDC_DIGESTS = 8,    /* of each member that are remembered */
    FEDDC_HOST = 64,
    FEDDC_COMPUTES = 80,
    FEDDC_ADDRESS = 128
};

#define FEDDC_NOBODY UINT32_MAX

/** A heartbeat: what a member says of itself. */
typedef struct feddc_heartbeat {
    uint32_t step;
    uint8_t phase;              /* feddc_phase */
    uint32_t marks;             /* reports of the main thread so far; wraps */
    feddc_exchange_state waits; /* waits_for is a rank */
    float compute_s, step_s;    /* mean of the last steps; 0: not known */
} feddc_heartbeat;

typedef struct feddc_membership_digest {
    uint32_t completed; /* FEDDC_NOBODY: none */
    uint64_t digest;
} feddc_membership_digest;

typedef struct feddc_membership_member {
    bool here; /* false: the slot is free */
    feddc_fate fate;
    char host[FEDDC_HOST], address[FEDDC_ADDRESS], computes_on[FEDDC_COMPUTES];
    uint32_t pid, requested, worker, rank;
    feddc_heartbeat heartbeat;
    int64_t heard_ms, moved_ms; /* the last heartbeat; the last one with new marks */
    uint64_t heard, gone; /* numbers of events: the last heartbeat, the connection's end or 0 */
    int64_t gone_ms;
    bool acks; /* its host acknowledges what is sent to it */
    bool meets;
    uint32_t completed;
    feddc_membership_digest digest[FEDDC_DIGESTS];
    uint32_t digests; /* seen in this generation */
} feddc_membership_member;

/** What the failure detector has to do. */
enum {
    FEDDC_SEND_ASK = 1,          /* all: send a heartbeat now */
    FEDDC_SEND_OVER = 2,         /* all living: this generation is over, for `why` */
    FEDDC_SEND_WORKER_GROUP = 4, /* all with a rank: the new generation */
    FEDDC_SEND_END = 8           /* all: the worker group is over, for `why` */
};

typedef struct feddc_membership {
    uint32_t size, min;
    int64_t join_ms;
    feddc_membership_member *member; /* [size] */
    uint32_t *slot;                  /* uint32_t[size]: the slot of each rank */
    feddc_verdict *verdict;          /* [size]: those given, `verdicts` of them */
    uint32_t members, ranks, verdicts, generation;
    feddc_detector_state state;
    int64_t since_ms, settled_ms; /* when state began; the last settle */
    uint64_t events;
    uint32_t best, fruitless; /* most whole steps at the last meeting */
    bool lost;                /* a member was condemned since the last meeting */
    unsigned todo;            /* FEDDC_SEND_... */
    char why[400];
} feddc_membership;

static inline bool feddc_membership_lives(const feddc_membership_member *m) {
    return m->here && m->fate == FEDDC_ALIVE;
}

/** Members that neither failed nor finished. */
static inline uint32_t feddc_membership_alive(const feddc_membership *membership) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        count += feddc_membership_lives(&membership->member[i]);
    }
    return count;
}

#endif
