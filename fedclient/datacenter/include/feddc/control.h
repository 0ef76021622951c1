/* Faults of a worker group: members report to a failure detector, which decides who has failed and
 * which members go on. */
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
 * A worker group has one failure detector, which runs in a thread of its own. Each worker has a
 * watch, and does
 *
 *     feddc_watch_open(&options, &watch, &err);
 *     const char *broke = NULL;
 *     while (there are steps to do) {
 *         feddc_watch_next(watch, steps_done, broke, &group, &err);     the worker group meets
 *         ... feddc_exchange_open with group->place; feddc_watch_exchange(watch, x) ...
 *         ... bring the replicas to one step: group->completed has each member's step ...
 *         for each step: feddc_watch_at(watch, FEDDC_FORWARD, step) and so on
 *         ... if a take failed: broke = its error text;  feddc_watch_exchange(watch, NULL);
 *             feddc_exchange_close(x, false); and meet again ...
 *     }
 *     feddc_watch_close(watch, NULL);
 *
 * Members do not judge each other: when one dies, the others' exchanges fail as well, so a member
 * cannot tell which failed first. The failure detector has a control connection to each member and
 * gives these verdicts:
 *
 *   dead      the connection ended without a goodbye
 *   gave up   it said goodbye with an error of its own
 *   stopped   no heartbeat for 2 s, but its host acknowledges what the failure detector sends:
 *             SIGSTOP, or a machine that swaps
 *   cut off   no heartbeat for 2 s, and its host acknowledges nothing: its line is down, or the
 *             host is; or all others have long waited for it, though it sends heartbeats
 *   stuck     it sends heartbeats, but its main thread has reported nothing for a long time
 *             (at least 10 s) while others wait for it
 *   diverged  its parameters' digest differs from those of the majority
 *
 * After a failure detector was itself stopped for a while, it gives all members more time: their
 * heartbeats may still wait to be read.
 *
 * Trust. Failure detector and member prove to each other that they know the worker group's secret
 * (HMAC-SHA256 over a nonce of each side). Each later record carries a MAC, made with the
 * session's key and the record's number. Each generation has a fresh secret for its links, which
 * is sent masked with the session's key. A member that was left out of a generation never learns
 * that secret. A program that connects without the worker group's secret only gets a
 * greeting and a nonce.
 */

/** The bytes of the longest settings, with their terminating NUL. Settings are a text of lines
 * "name=value", each ended by '\n'. All members of a worker group must have the same. A name that
 * is missing has the value "". */
enum { FEDDC_SETTINGS = 1600 };

/** The phase that a worker's main thread is in. */
typedef enum feddc_phase {
    FEDDC_STARTING = 0, /* reads data, makes the model, opens links */
    FEDDC_FORWARD = 1,
    FEDDC_BACKWARD = 2,
    FEDDC_WAITING = 3, /* waits for sums of other ranks; does not count as compute time */
    FEDDC_UPDATING = 4,
    FEDDC_EVALUATING = 5, /* report each batch, else the worker may count as stuck */
    FEDDC_SAVING = 6,
    FEDDC_SYNCING = 7, /* fetches parameters from a member that is ahead, or sends them */
    FEDDC_PHASES
} feddc_phase;

/** A phase's name, such as "backward". */
const char *feddc_phase_name(feddc_phase phase);

/** The state of a member: alive, or how it ended. */
typedef enum feddc_fate {
    FEDDC_ALIVE = 0,
    FEDDC_FINISHED, /* closed its watch after its work */
    FEDDC_GAVE_UP,  /* closed its watch with an error of its own */
    FEDDC_DIED,
    FEDDC_STOPPED,
    FEDDC_CUT_OFF,
    FEDDC_STUCK,
    FEDDC_DIVERGED
} feddc_fate;

/** A verdict on a failed member. `worker` is the member's rank in the first generation, and stays
 * its number in all later ones. */
typedef struct feddc_verdict {
    feddc_fate fate;
    uint32_t worker, generation;
    char host[64];
    uint32_t pid;
    uint32_t step;
    feddc_phase phase;
    uint32_t left;  /* members that neither failed nor finished */
    char text[400]; /* "worker 2 (host b, pid 4711) died at step 1203 in backward; 3 others wait
                     * for bucket 5" */
} feddc_verdict;

typedef struct feddc_detector feddc_detector;

typedef struct feddc_detector_options {
    const char *address;   /* "host:port" to listen on; port 0: a free one */
    const uint8_t *secret; /* the worker group's secret, FEDDC_SECRET bytes */
    uint32_t size;         /* members that the worker group begins with */
    uint32_t min; /* least members to go on with; 0: size, so the first loss ends the group */
    /* After this time, begin also with fewer members, but at least `min`; 0: 60 s. A worker group
     * that has refused a member does not begin with fewer: it ends */
    uint32_t join_ms;
    /* members with other settings are refused; NULL: the first member's settings are taken */
    const char *settings;
    /* Called for each verdict in the failure detector's thread; must return soon. NULL: none */
    void (*verdict)(void *user, const feddc_verdict *verdict);
    /* Like `verdict`, when members were refused because of their settings. text is a sentence
     * about the last of them. NULL: none */
    void (*refused)(void *user, const char *text);
    void *user;
} feddc_detector_options;

/** Listen, and start the failure detector's thread. Errors: FED_EINVAL an option is wrong, FED_ENET
 * the address cannot be listened on, FED_ENOMEM, FED_EIO. */
fed_status feddc_detector_open(const feddc_detector_options *options, feddc_detector **detector,
                               fed_error *err) FED_CHECKED;

/** "host:port" of the failure detector, for members. Valid as long as the failure detector. */
const char *feddc_detector_address(const feddc_detector *detector);

typedef enum feddc_detector_state {
    FEDDC_MEETING = 0, /* members join, or meet again after a fault */
    FEDDC_TRAINING = 1,
    FEDDC_DONE = 2, /* all members that were left have finished */
    FEDDC_ENDED = 3 /* ended before the work was done; `why` has the reason */
} feddc_detector_state;

/** State of the worker group. */
typedef struct feddc_detector_look {
    feddc_detector_state state;
    uint32_t generation; /* number of the generation, from 1; 0: the first has not begun */
    uint32_t members;    /* members of the first generation, or that have joined it so far */
    uint32_t alive;      /* members that neither failed nor finished */
    uint32_t step;       /* the lowest step that a living member is at */
    uint32_t slowest; /* the member with the longest compute time per step; UINT32_MAX: unknown */
    double slowness;  /* compute time of `slowest`, divided by the median of all members */
    char why[400];    /* why the last generation ended, or (FEDDC_ENDED) the worker group */
} feddc_detector_look;

/** Fill in the worker group's state. Callable from any thread. */
void feddc_detector_see(feddc_detector *detector, feddc_detector_look *look);

/** A member, for a status page. */
typedef struct feddc_member_look {
    feddc_fate fate;
    char host[64];
    char computes_on[80]; /* the device, as in feddc_watch_options; "": the processor */
    uint32_t pid;
    uint32_t rank; /* the member's rank in this generation; UINT32_MAX: it has none */
    uint32_t step;
    feddc_phase phase;
    uint32_t bucket, waits_for; /* as in feddc_exchange_state; waits_for is a worker's number */
    float compute_s, step_s;    /* mean of the last steps; 0: not known yet */
    uint32_t silent_ms;         /* time since the member's last heartbeat */
    bool meets;                 /* the member waits for the next generation to begin */
} feddc_member_look;

/** Fill in one member's state. false: there is no such worker. Callable from any thread. */
bool feddc_detector_member(feddc_detector *detector, uint32_t worker, feddc_member_look *look);

/** Wait up to ms until the worker group is FEDDC_DONE or FEDDC_ENDED; return its state. Callable
 * from any thread. */
feddc_detector_state feddc_detector_wait(feddc_detector *detector, uint32_t ms);

/** End the worker group, unless it has ended: members are told `why`. Callable from any thread. */
void feddc_detector_end(feddc_detector *detector, const char *why);

/** Close the connections, end the thread, free. Members that have not ended then see that the
 * failure detector is gone. NULL is allowed. */
void feddc_detector_close(feddc_detector *detector);

typedef struct feddc_watch feddc_watch;

typedef struct feddc_watch_options {
    const char *address;   /* the failure detector's address */
    const uint8_t *secret; /* the worker group's secret, FEDDC_SECRET bytes */
    /* The rank that this member requests; with link mpi, its rank in MPI. Members with a request
     * come first, the others in order of arrival. UINT32_MAX: no request */
    uint32_t rank;
    const char *settings;    /* what decides how this member trains; NULL or "": not told */
    bool listens;            /* for link tcp: open a listener for each generation */
    const char *computes_on; /* shown to people: "cuda:0 NVIDIA H100"; NULL or "": the processor */
    /* With `listens`: this machine's numeric address for the others. NULL: the local address of the
     * connection to the failure detector */
    const char *host;
    /* The failure detector counts as gone when silent for this time; 0: 10 s. With link mpi give
     * 2500, because the failure detector runs in rank 0 */
    uint32_t patience_ms;
    /* Called once, in the watch's thread, when the worker group has ended for this member; why is a
     * sentence to print. With link mpi, print it and end the process: the main thread may hang in
     * MPI. NULL: none */
    void (*over)(void *user, const char *why);
    void *user;
} feddc_watch_options;

/**
 * Connect to the failure detector, prove knowledge of the secret, and start the watch's thread,
 * which sends a heartbeat every 250 ms. Errors: FED_ENET no failure detector at that address;
 * FED_EAUTH the failure detector does not know the secret, or has closed the connection;
 * FED_EINVAL, FED_ENOMEM, FED_EIO
 */
fed_status feddc_watch_open(const feddc_watch_options *options, feddc_watch **watch,
                            fed_error *err) FED_CHECKED;

/** A generation of the worker group. Valid until the next feddc_watch_next or feddc_watch_close. */
typedef struct feddc_worker_group {
    /* With `listens`, place.address, listener, secret and patience_ms are set too. The link that
     * is opened with `place` takes over the listener. */
    feddc_place place;
    const uint32_t *worker;    /* uint32_t[size]: the number of the member at each rank */
    const uint32_t *completed; /* uint32_t[size]: completed steps of the member at each rank */
    const char *why;           /* why the generation before ended; "" in the first */
} feddc_worker_group;

/**
 * Meet the others: returns when the next generation begins, with this member's place in it. The
 * first call waits until members have joined, later ones for those who are left.
 *
 * completed  steps that this member has done: its parameters have the sums of the steps before
 *            step `completed`
 * broke      why the last exchange broke: the text of the failed call's error; NULL in the first
 *            call
 * Errors     FED_EIO the worker group is over: the error's text says why. FED_ESTATE this
 *            member was left out: the others go on without it. FED_ENET the failure detector is
 *            gone. The member must end.
 */
fed_status feddc_watch_next(feddc_watch *watch, uint32_t completed, const char *broke,
                            const feddc_worker_group **group, fed_error *err) FED_CHECKED;

/** Let the watch observe this exchange, and abort it when its generation is over. NULL: the watch
 * uses no exchange any more, so the last one may be closed. */
void feddc_watch_exchange(feddc_watch *watch, feddc_exchange *exchange);

/** Report that the main thread begins this phase of this step, or is still in it. Call it at each
 * change of phase, from time to time in a long phase, and from one thread only. Compute time is the
 * time spent in forward, backward and updating. */
void feddc_watch_at(feddc_watch *watch, feddc_phase phase, uint32_t step);

/** Report the digest of the parameters after `completed` steps. All members report it after the
 * same steps. */
void feddc_watch_digest(feddc_watch *watch, uint32_t completed, uint64_t digest);

/** Return whether the generation or the worker group is over. Work that takes long should check
 * this from time to time, and stop. Callable from any thread. */
bool feddc_watch_over(const feddc_watch *watch);

/** Set *offset_us to the failure detector's monotonic clock minus this process's, in microseconds,
 * from the sample with the shortest round trip. Returns that round trip in microseconds; -1: no
 * sample. */
int64_t feddc_watch_clock(const feddc_watch *watch, int64_t *offset_us);

/** Tell the failure detector that this member leaves, end the thread, and free. why: NULL if the
 * work is done, else this member's error. NULL is allowed for watch. */
void feddc_watch_close(feddc_watch *watch, const char *why);

FED_API_END

#endif
