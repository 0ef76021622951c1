/* The failure detector's state of a worker group: members and current generation. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBERSHIP_STATE_H
#define FEDDC_MEMBERSHIP_STATE_H

#include "feddc/control.h"

enum {
    FEDDC_HEARTBEAT_MS = 250,
    FEDDC_SILENT_MS = 2000, /* a member without a heartbeat for this time is stopped or cut off */
    FEDDC_STUCK_MS = 10000, /* a main thread without reports for longer may be stuck */
    FEDDC_STUCK_STEPS = 20, /* the same limit in mean steps; the larger of the two counts */
    FEDDC_FIRST_MS = 60000, /* the same limit while a member starts or no mean step is known */
    FEDDC_COME_MS = 300000, /* a member that takes longer to ask for the next generation is stuck */
    /* after a lost connection, a verdict waits this long at most for other members' answers */
    FEDDC_ASK_MS = 100,
    FEDDC_STALL_MS = 500, /* a longer pause of a thread's own loop: its process was stopped */
    /* after a pause of FEDDC_STALL_MS, silent members get this time for a heartbeat */
    FEDDC_BACK_MS = 700,
    FEDDC_FRUITLESS = 5, /* allowed generations in a row without a lost member or a step */
    FEDDC_DIGESTS = 8,   /* digests that are remembered of each member */
    FEDDC_HOST = 64,
    FEDDC_COMPUTES = 80,
    FEDDC_ADDRESS = 128
};

#define FEDDC_NOBODY UINT32_MAX

typedef struct feddc_heartbeat {
    uint32_t step;
    uint8_t phase;              /* feddc_phase */
    uint32_t marks;             /* number of the main thread's reports so far; wraps around */
    feddc_exchange_state waits; /* waits_for is a rank */
    float compute_s, step_s;    /* mean of the last steps; 0: not known */
} feddc_heartbeat;

typedef struct feddc_membership_digest {
    uint32_t completed;
    uint64_t digest;
} feddc_membership_digest;

typedef struct feddc_membership_member {
    bool here; /* false: the slot is free */
    feddc_fate fate;
    char host[FEDDC_HOST], address[FEDDC_ADDRESS], computes_on[FEDDC_COMPUTES];
    uint32_t pid, requested, worker, rank;
    feddc_heartbeat heartbeat;
    /* times from which the member's silence and its main thread's standstill are counted */
    int64_t heard_ms, moved_ms;
    /* values of feddc_membership.events: at the last heartbeat or meet, and at the end of the
     * connection (0: it is open) */
    uint64_t heard, gone;
    int64_t gone_ms;
    bool acks; /* the member's host acknowledges what is sent to it */
    bool meets;
    uint32_t completed;
    feddc_membership_digest digest[FEDDC_DIGESTS];
    uint32_t digests; /* number of digests received in this generation */
} feddc_membership_member;

/** The records that the failure detector has to send: bits of `todo`. */
enum {
    FEDDC_SEND_ASK = 1,          /* to all members: send a heartbeat now */
    FEDDC_SEND_OVER = 2,         /* to all: this generation is over; `why` has the reason */
    FEDDC_SEND_WORKER_GROUP = 4, /* to all members with a rank: the new generation */
    FEDDC_SEND_END = 8           /* to all: the worker group has ended; `why` has the reason */
};

typedef struct feddc_membership {
    uint32_t size, min;
    int64_t join_ms;
    feddc_membership_member *member; /* [size] */
    uint32_t *slot;                  /* uint32_t[size]: the slot of each rank */
    feddc_verdict *verdict;          /* [size]: the verdicts so far, `verdicts` of them */
    uint32_t members, ranks, verdicts, generation;
    feddc_detector_state state;
    int64_t since_ms;   /* when the state last became FEDDC_MEETING or FEDDC_TRAINING */
    int64_t settled_ms; /* the last call of feddc_membership_settle, or else of _init */
    uint64_t events;
    /* most completed steps at the last generation's start; fruitless generations in a row */
    uint32_t best, fruitless;
    bool lost;     /* a member failed at the end of the last generation, or since then */
    unsigned todo; /* FEDDC_SEND_... */
    char why[400];
    char settings[FEDDC_SETTINGS]; /* what all members must have */
    bool expects;                  /* `settings` were given by feddc_membership_expect */
    uint32_t refusals;             /* number of members refused because of their settings */
    char refused[400];             /* a sentence about the last refused member */
} feddc_membership;

static inline bool feddc_membership_lives(const feddc_membership_member *m) {
    return m->here && m->fate == FEDDC_ALIVE;
}

/** Number of members that neither failed nor finished. */
static inline uint32_t feddc_membership_alive(const feddc_membership *membership) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < membership->members; i++) {
        count += feddc_membership_lives(&membership->member[i]);
    }
    return count;
}

#endif
