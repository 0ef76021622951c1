/* The state of a run in one process and virtual time: clients, their clocks, their next events. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_WORLD_H
#define FEDSIM_WORLD_H

#include "deploy/sim/clients/clients.h"
#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "deploy/sim/inproc/heap.h"
#include "deploy/sim/inproc/host.h"
#include "deploy/sim/inproc/opener.h"
#include "fedcodec/codec.h"

/*
 * Each client has a clock of its own, and one entry in a heap. The entry is the client's next
 * event: its step begins, its request arrives at the coordinator, or its step has ended. While the
 * client's code runs on a thread, its next event is not known. The entry then has the earliest time
 * at which that event can be.
 *
 * The scheduler takes the first entry. If it is an event, no earlier one can come any more, and the
 * scheduler handles it. If it is of a client whose code runs, the scheduler waits. When a client
 * begins to train, it tells at once how long that takes in virtual time. So trainings run side by
 * side, on as many workers as there are, while requests are handled in the order of their times.
 * Neither the machine's speed nor the number of threads changes the results.
 *
 * When a client's code sends a request or its step ends, its thread becomes the scheduler, until
 * there is nothing to handle. So a client mostly goes on without a change of threads.
 *
 * The coordinator handles requests in batches. An answer leaves when its batch is committed. A
 * batch ends where the scheduler has to wait.
 *
 * A check-in that the coordinator holds back (a long poll) is parked. The client is told to wait,
 * which ends its step and frees its thread. The scheduler asks the coordinator again in the
 * client's place. Once the answer has come, the client's next step begins. That step repeats the
 * check-in, and gets the answer. Bytes and time are counted once for both check-ins, as one request
 * over HTTPS has them.
 *
 * The evaluator takes no virtual time. It measures while the run goes on, but the run waits for it
 * when the next model that is to be measured comes.
 *
 * The clients' mutex guards all members, except those of a client whose code runs.
 *
 * Files, each of which uses only files before it: heap, host, opener (the helper), world (clocks),
 * step_threads (threads and workers), inproc_transport (requests and answers), parked (parked
 * check-ins), schedule (the scheduler), saved_run (--resume), saved_crowd (clients that have
 * enrolled in an earlier run), inproc (from enrolment to the end).
 */

typedef enum sim_stage {
    SIM_IDLE,   /* no step of the client is under way */
    SIM_PARKED, /* the client's check-in is parked */
    SIM_READY,  /* the client waits for the batch's commit and a worker */
    SIM_RUNS,   /* the client's code runs */
    SIM_ASKS,   /* the client's request is due at the coordinator */
    SIM_ENDED   /* the end of the client's step is due */
} sim_stage;

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** A check-in that the coordinator holds back. A stopped run saves it. */
typedef struct sim_parked {
    int64_t since_us, until_us;
    uint64_t epoch; /* fedserver_epoch when the coordinator was asked last */
    uint64_t len;
    uint8_t body[64];
    bool on;
    bool answered; /* sim_actor.parked_answer is the answer */
    bool lost;     /* the coordinator was killed, and the connection with it */
    bool woken;    /* the coordinator is to be asked again, once the client's step has ended */
    uint8_t unused[4];
} sim_parked;

/** The part of sim_actor that a stopped run saves. */
typedef struct sim_actor_kept {
    int64_t now_us;  /* the client's clock */
    int64_t used_us; /* when the client's connection was used last */
    fedclient_traffic traffic;
    uint64_t pieces_there; /* bytes of an update in pieces that the coordinator has */
    uint64_t body_digest;  /* of a stopped run: digest of the body of the request that is due */
    sim_parked parked;
    uint64_t key;    /* fedserver_response.hold_key of the client's check-ins; 0: not known yet */
    uint32_t stage;  /* sim_stage */
    uint32_t nth;    /* events that the client has had at the time now_us */
    uint32_t chance; /* random number of this step, for sim_due */
    uint32_t steps;
    uint32_t failures;         /* failures in a row */
    uint32_t library_failures; /* of a stopped run: the client library's count of failures */
    uint32_t sleeps;           /* the round that the client stays away from; 0: none */
    uint32_t kind;             /* fed_request: kind of the client's request */
    sim_step_end end;          /* how the client's last step has ended */
    bool connected;
    bool unheard; /* the upload broke midway, so the client gets no answer */
    uint8_t unused[2];
} sim_actor_kept;

#pragma GCC diagnostic pop

/** What a hostile client of a private task was told at its last check-in (clip_ignored.h). */
typedef struct sim_told {
    fed_privacy privacy;
    uint64_t task;
    uint32_t round;
    size_t values; /* of the model; 0: nothing, or the task has no helper */
    char codec_up[FEDCODEC_SPEC];
} sim_told;

/** The scheduler's data of one client. */
typedef struct sim_actor {
    sim_client *client;
    struct sim_world *world;
    fedclient *fed;
    sim_actor_kept kept;
    sim_link link;
    sim_speed speed;
    sim_attendance attendance;
    bool measures;      /* the evaluator measures, and the run goes on meanwhile */
    int64_t release_us; /* virtual time to which the evaluator's next request moves its clock */
    uint8_t fingerprint[FED_SHA256_SIZE];

    struct sim_thread *thread;
    char path[160]; /* the query follows the '\0' */
    char range[64], if_range[24];
    fed_writer body;
    fedserver_request request;
    fed_status fate; /* how the request ended; FED_OK: there is an answer */
    fedserver_response answer;
    fedserver_response parked_answer;
    sim_told told;
    fedserver_blob *heard; /* the answer to this step's check-in; NULL: there was none */
    /* A step that was under way when the run was stopped is begun once more. It repeats the request
     * of the kind `asked`, whose body has kept.body_digest, at the same virtual time. */
    bool resumes;
    fed_request asked;
    uint32_t failures_before; /* the client library's count when the step began */
    fed_status status;
    fed_error error;
} sim_actor;

typedef struct sim_world {
    sim_clients *clients;
    const sim_watch *watch;
    sim_virtual_time virtual_time;
    sim_host host;
    sim_opener opener;
    sim_network network;
    sim_speed speed;
    sim_presence presence;
    int64_t now_us;   /* the time of the event that is being handled */
    sim_actor *actor; /* [clients->client_count] */
    sim_heap heap;
    sim_heap ready; /* clients in SIM_READY whose batch is committed: they wait for a worker */
    uint32_t *pending;
    size_t pending_count; /* clients in SIM_READY whose batch is not committed yet */
    struct sim_thread *threads, *idle;
    uint32_t enrolled; /* clients enrolled so far, in the order of k */
    bool direct;       /* clients enrol: their requests don't go through the scheduler yet */
    bool stopping;
    bool settles; /* no event is handled: the run waits until no client's code runs */
    int64_t shown_ms;
    uint32_t shown_round;

    /* Handle events on this thread, until the scheduler has to wait or the code of the client
     * `here` may go on. That client is in SIM_RUNS then, with the worker that it has kept. `here`
     * may be NULL. The caller holds the mutex, which is unlocked while the coordinator commits. */
    void (*schedule)(struct sim_world *world, sim_actor *here);
    bool scheduling;   /* a thread runs `schedule` */
    sim_actor *here;   /* the argument of the running call of `schedule` */
    fed_status status; /* not FED_OK: handling an event failed, with `error` */
    fed_error error;
} sim_world;

/** Move the client's clock on to `us`, but never back. */
void sim_actor_move(sim_actor *actor, int64_t us);
/** Set the client's stage. The client's next event is due at the time of its clock. */
void sim_actor_stand(sim_actor *actor, sim_stage stage);
/** Note that no event of the client is due before the time of its clock. */
void sim_actor_expect(sim_actor *actor);
/** Plan the client's next step for the time `us`, or for when the client is available again. */
void sim_actor_plan(sim_actor *actor, int64_t us);
/** Draw how many microseconds the client waits after a failure. Counts the failure. */
int64_t sim_actor_backoff_us(sim_actor *actor);

/** From now on this thread runs the client's code, by the client's clock; NULL: no client. */
void sim_actor_enter(const sim_actor *actor);
/** The clocks of a client's platform. */
int64_t sim_virtual_unix_ms(void *user);
int64_t sim_virtual_monotonic_ms(void *user);

#endif
