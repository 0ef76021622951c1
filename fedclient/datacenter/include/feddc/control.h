/* Faults of a worker group: members report to a failure detector, which names who failed and says
 * who goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_CONTROL_H
#define FEDDC_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "feddc/exchange.h"
#include "feddc/link.h"

FED_API_BEGIN

/*
 * A worker group has one failure detector, a thread beside the launcher, and a watch in each
 * worker. A worker does
 *
 *     feddc_watch_open(&options, &watch, &err);
 *     const char *broke = NULL;
 *     while (there are steps to do) {
 *         feddc_watch_next(watch, steps_done, broke, &group, &err);     the worker group meets
 *         ... feddc_exchange_open with group->place; feddc_watch_exchange(watch, x) ...
 *         ... bring the replicas to one step: group->completed says who is how far ...
 *         for each step: feddc_watch_at(watch, FEDDC_FORWARD, step) and so on
 *         ... a take that failed: broke = its sentence; feddc_watch_exchange(watch, NULL);
 *             feddc_exchange_close(x, false); and meet again ...
 *     }
 *     feddc_watch_close(watch, NULL);
 *
 * Peers do not judge each other: when one dies, the others leave their exchanges as well, and a
 * third one cannot tell who was first. The failure detector has a control connection to each
 * member:
 *
 *   dead      the connection ended without a goodbye
 *   stopped   no heartbeat for 2 s, but its host acknowledges what the failure detector sends:
 *             SIGSTOP, or a machine that swaps
 *   cut off   no heartbeat for 2 s, and its host acknowledges nothing: its line is down, or the
 *             host is. These two cannot be told apart
 *   stuck     it sends heartbeats, but its main thread has reported nothing for longer than
 *             max(10 s, 20 usual steps) while all others wait for it
 *   diverged  its parameters' digest differs from those of the majority
 *
 * A failure detector that was itself stopped condemns nobody for its own silence.
 *
 * Trust. Failure detector and member prove to each other that they know the worker group's secret
 * (HMAC-SHA256 over a nonce of each side). Each record after that carries a MAC of the session and
 * its number. A fresh secret of each generation, for the links, travels masked with the session's
 * key. Who was left out of a generation never learns its secret. A stranger on the port sees a
 * nonce.
 */

/** What a worker's main thread is at. */
typedef enum feddc_phase {
    FEDDC_STARTING = 0, /* reads data, makes the model, opens links. Never stuck */
    FEDDC_FORWARD = 1,
    FEDDC_BACKWARD = 2,
    FEDDC_WAITING = 3, /* for sums of other ranks; does not count as compute time */
    FEDDC_UPDATING = 4,
    FEDDC_EVALUATING = 5, /* report each batch, or others may take it for stuck */
    FEDDC_SAVING = 6,     /* a checkpoint */
    FEDDC_SYNCING = 7,    /* fetches parameters from a member that is ahead, or sends them */
    FEDDC_PHASES
} feddc_phase;

/** "backward". */
const char *feddc_phase_name(feddc_phase phase);

/** What became of a member. */
typedef enum feddc_fate {
    FEDDC_ALIVE = 0,
    FEDDC_FINISHED, /* said goodbye after its work */
    FEDDC_GAVE_UP,  /* said goodbye with a reason: an error of its own */
    FEDDC_DIED,
    FEDDC_STOPPED,
    FEDDC_CUT_OFF,
    FEDDC_STUCK,
    FEDDC_DIVERGED
} feddc_fate;

/** Who failed, where, and how. `worker` is the member's rank in the first generation: it names the
 * same process for as long as the worker group lives. */
typedef struct feddc_verdict {
    feddc_fate fate;
    uint32_t worker, generation;
    char host[64];
    uint32_t pid;
    uint32_t step;
    feddc_phase phase;
    uint32_t left;  /* members that are left */
    char text[400]; /* "worker 2 (host b, pid 4711) died at step 1203 in backward; 3 others wait
                     * for bucket 5" */
} feddc_verdict;

/* --- the failure detector --- */

typedef struct feddc_detector feddc_detector;

typedef struct feddc_detector_options {
    const char *address;   /* "host:port" to listen on; port 0: a free one */
    const uint8_t *secret; /* the worker group's, FEDDC_SECRET bytes */
    uint32_t size;         /* members that the worker group begins with */
    uint32_t min; /* go on while so many are left; 0: size, the first loss ends the worker group */
    uint32_t join_ms; /* begin with `min` members when so much time is over; 0: 60 s */
    /* Each verdict, when it is given. From the failure detector's thread, so be brief. NULL: none
     */
    void (*verdict)(void *user, const feddc_verdict *verdict);
    void *user;
} feddc_detector_options;

/** Listen, and start the failure detector's thread. Errors: FED_EINVAL an option is wrong, FED_ENET
 * the address cannot be listened on, FED_ENOMEM, FED_EIO. */
fed_status feddc_detector_open(const feddc_detector_options *options, feddc_detector **detector,
                               fed_error *err) FED_CHECKED;

/** "host:port" with the port that the failure detector listens on: what members are told. Lives as
 * long as the failure detector. */
const char *feddc_detector_address(const feddc_detector *detector);

typedef enum feddc_detector_state {
    FEDDC_MEETING = 0, /* members join, or meet again after a fault */
    FEDDC_TRAINING = 1,
    FEDDC_DONE = 2, /* all who were left have finished */
    FEDDC_ENDED = 3 /* too few are left, or never came: `why` */
} feddc_detector_state;

/** How the worker group is. */
typedef struct feddc_detector_look {
    feddc_detector_state state;
    uint32_t generation; /* from 1; 0: the first has not begun */
    uint32_t members;    /* of the first generation, numbered 0 to members - 1 */
    uint32_t alive;      /* of these: neither failed nor finished */
    uint32_t step;       /* the lowest step that a living member is at */
    uint32_t slowest;    /* the member that computes longest a step; UINT32_MAX: not known yet */
    double slowness;     /* its compute time, in those of the median member */
    char why[400];       /* the last verdicts; ENDED: why */
} feddc_detector_look;

/** Any thread. */
void feddc_detector_see(feddc_detector *detector, feddc_detector_look *look);

/** A member, for a status page. */
typedef struct feddc_member_look {
    feddc_fate fate;
    char host[64];
    char computes_on[80]; /* as in feddc_watch_options; "": the processor */
    uint32_t pid;
    uint32_t rank; /* in this generation; UINT32_MAX: it has none */
    uint32_t step;
    feddc_phase phase;
    uint32_t bucket, waits_for; /* as in feddc_exchange_state; waits_for is a worker's number */
    float compute_s, step_s;    /* mean of the last steps; 0: not known yet */
    uint32_t silent_ms;         /* since its last heartbeat */
} feddc_member_look;

/** false: there is no such worker. Any thread. */
bool feddc_detector_member(feddc_detector *detector, uint32_t worker, feddc_member_look *look);

/** Wait up to ms until the worker group is DONE or ENDED; the state then. Any thread. */
feddc_detector_state feddc_detector_wait(feddc_detector *detector, uint32_t ms);

/** End the worker group, if it lives still: members are told `why`. Any thread. */
void feddc_detector_end(feddc_detector *detector, const char *why);

/** Close the connections, end the thread, free. Members that are still there see the failure
 * detector go. NULL is allowed. */
void feddc_detector_close(feddc_detector *detector);

/* --- the member's side --- */

typedef struct feddc_watch feddc_watch;

typedef struct feddc_watch_options {
    const char *address;   /* the failure detector's */
    const uint8_t *secret; /* the worker group's, FEDDC_SECRET bytes */
    /* mpi: this rank, for the worker group has them already. Else the rank that this member
     * requests: members with a request come first, then by arrival. UINT32_MAX: none */
    uint32_t rank;
    bool listens; /* tcp: open a listener for each generation, and tell its address */
    /* what this member computes on, for people: "cuda:0 NVIDIA H100"; NULL or "": the processor */
    const char *computes_on;
    /* listens: numeric address of this machine where the others reach it; NULL: the one from which
     * it reaches the failure detector */
    const char *host;
    /* a failure detector that has been silent for so long is gone; 0: 10 s. mpi: give 2500, as the
     * failure detector lives in rank 0 */
    uint32_t patience_ms;
    /* The worker group is over for this member: called once, from the watch's thread, with the
     * sentence. mpi: print it and end the process, since the main thread may hang. NULL: none */
    void (*over)(void *user, const char *why);
    void *user;
} feddc_watch_options;

/**
 * Connect to the failure detector, prove, and start the watch's thread: a heartbeat each 250 ms.
 * Errors: FED_ENET no failure detector at that address; FED_EAUTH the failure detector does not
 * know the secret, or says that this member does not; FED_EINVAL, FED_ENOMEM, FED_EIO
 */
fed_status feddc_watch_open(const feddc_watch_options *options, feddc_watch **watch,
                            fed_error *err) FED_CHECKED;

/** A generation of the worker group. Lives until the next feddc_watch_next or feddc_watch_close. */
typedef struct feddc_worker_group {
    /* rank, size and generation; with `listens` also address, listener, secret and patience_ms.
     * Whoever opens a link with it owns the listener from then on */
    feddc_place place;
    const uint32_t *worker;    /* uint32_t[size]: the number of the member at each rank */
    const uint32_t *completed; /* uint32_t[size]: whole steps of the member at each rank */
    const char *why;           /* what ended the generation before; "" in the first */
} feddc_worker_group;

/**
 * Meet the others: returns when the next generation begins, with this member's place in it. The
 * first call waits for all to join, later ones for those who are left.
 *
 * completed  steps that this member has done: its parameters have the sums of the steps before
 *            step `completed`
 * broke      why the last exchange broke: the sentence of the call that failed; NULL in the first
 *            call
 * Errors     FED_EIO the worker group is over: the sentence is the verdict. FED_ESTATE this member
 *            was left out: the others go on without it. FED_ENET the failure detector is gone. The
 *            member must end.
 */
fed_status feddc_watch_next(feddc_watch *watch, uint32_t completed, const char *broke,
                            const feddc_worker_group **group, fed_error *err) FED_CHECKED;

/** Let the watch see this exchange, and abort it when its generation is over. NULL: no longer;
 * when this returns, the exchange may be closed. */
void feddc_watch_exchange(feddc_watch *watch, feddc_exchange *exchange);

/** The main thread is at this phase of this step. Costs a few atomic stores and one look at the
 * clock. Call it at each change, and from time to time in what takes long. Compute time is that
 * between calls, but for WAITING. One thread. */
void feddc_watch_at(feddc_watch *watch, feddc_phase phase, uint32_t step);

/** Digest of the parameters after `completed` steps; the same steps at all members. */
void feddc_watch_digest(feddc_watch *watch, uint32_t completed, uint64_t digest);

/** The generation is over, or the worker group is: leave long work outside of the exchange. Any
 * thread. */
bool feddc_watch_over(const feddc_watch *watch);

/** The failure detector's monotonic clock less this process's, in microseconds, by the sample with
 * the least round trip; that round trip, or -1: no sample yet. For traces. */
int64_t feddc_watch_clock(const feddc_watch *watch, int64_t *offset_us);

/** Say goodbye, end the thread, free. why: NULL, the work is done; else an error of this member's
 * own. NULL is allowed for watch. */
void feddc_watch_close(feddc_watch *watch, const char *why);

FED_API_END

#endif
