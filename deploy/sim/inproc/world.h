/* The world of a run in one process and in virtual time: its clients, their clocks, and what is
 * next. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_WORLD_H
#define FEDSIM_WORLD_H

#include "deploy/sim/clients/clients.h"
#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "deploy/sim/inproc/heap.h"
#include "deploy/sim/inproc/host.h"

/*
 * Each client has a clock of its own, and an entry in one heap for what comes next at it: its step
 * begins, its request arrives, its step has ended; or, while its code runs on a thread, "not
 * before". The scheduler takes the least entry. If that is an event, nothing can come before it any
 * more, and the scheduler handles it. If that is a client whose code runs, the scheduler waits.
 * A client that trains says at once how long that takes in virtual time. So all that train do so
 * side by side, on as many workers as there are, while requests are handled in the order of their
 * times. Neither the machine's speed nor the number of threads changes anything.
 *
 * The thread whose client's code stops is the scheduler, until there is nothing to handle. So a
 * client mostly goes on without another thread, and finds its values in the cache.
 *
 * An answer leaves when its batch is committed. A batch ends where the scheduler has to wait.
 *
 * A check-in that the coordinator holds back (a long poll) is parked: the client is told to wait,
 * which ends its step and frees its thread, and the scheduler asks again in its place. With the
 * answer its next step begins, whose check-in is the same one, and gets that answer. To the client,
 * and in bytes and time, it is one request, as it is over HTTPS.
 *
 * The evaluator takes no virtual time: it measures beside everything else, and the next model that
 * is to be measured waits for it.
 *
 * The clients' mutex guards all of it, but for what belongs to a client whose code runs.
 *
 * Files, each using those before it: heap, host, world (clocks), step_threads (threads and
 * workers), inproc_transport (requests and answers), parked (parked check-ins), schedule (the
 * scheduler), saved_run (--resume), saved_crowd (clients that have enrolled in an earlier run),
 * inproc (from enrolment to the end).
 */

typedef enum sim_stage {
    SIM_IDLE,   /* its next step is due */
    SIM_PARKED, /* its check-in is parked. Due: the coordinator is asked again, or it goes away */
    SIM_READY,  /* may go on once the batch is committed and a worker is free. Due: not before */
    SIM_RUNS,   /* its code runs. Due: not before */
    SIM_ASKS,   /* its request is due at the coordinator */
    SIM_ENDED   /* the end of its step is due */
} sim_stage;

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** A check-in that the coordinator holds back. A stopped run keeps it. */
typedef struct sim_parked {
    int64_t since_us, until_us;
    uint64_t epoch; /* of the coordinator, when it was asked last */
    uint64_t len;
    uint8_t body[64];
    bool on;
    bool answered; /* sim_actor.parked_answer is the answer */
    bool lost;     /* the coordinator was killed, and the connection with it */
    uint8_t unused[5];
} sim_parked;

/** What a stopped run keeps of a client. */
typedef struct sim_actor_kept {
    int64_t now_us;  /* its clock */
    int64_t used_us; /* when its connection was used last */
    fedclient_traffic traffic;
    uint64_t pieces_there; /* bytes of a chunked update that the coordinator had, it said last */
    uint64_t body_digest;  /* when the run is stopped: of the body of the request that is due */
    sim_parked parked;
    uint32_t stage;            /* sim_stage */
    uint32_t nth;              /* events since its clock moved */
    uint32_t chance;           /* of this step: sim_due */
    uint32_t steps;            /* begun so far */
    uint32_t failures;         /* in a row */
    uint32_t library_failures; /* when the run is stopped: the client library's count */
    uint32_t sleeps;           /* the round that it stays away from; 0: none */
    uint32_t kind;             /* fed_request: of its request */
    sim_step_end end;          /* of the step that has ended */
    bool connected;
    bool unheard; /* the connection broke: nobody waits for the answer */
    uint8_t unused[2];
} sim_actor_kept;

#pragma GCC diagnostic pop

/** What the scheduler knows of one client. */
typedef struct sim_actor {
    sim_client *client;
    struct sim_world *world;
    fedclient *fed;
    sim_actor_kept kept;
    sim_link link;
    sim_speed speed;
    sim_attendance attendance;
    bool measures; /* evaluator: it measures beside everything else, until release_us */
    int64_t release_us;
    uint8_t fingerprint[FED_SHA256_SIZE];

    /* a step */
    struct sim_thread *thread;
    char path[160]; /* after its '\0' the query */
    char range[64], if_range[24];
    fed_writer body;
    fedserver_request request;
    fed_status fate; /* of the request; FED_OK: there is an answer */
    fedserver_response answer;
    fedserver_response parked_answer;
    fedserver_blob *heard; /* the answer to this step's check-in; NULL: there was none */
    /* A step that was under way when the run was stopped is begun once more. It sends the request
     * of the kind `asked` once more, with a body of kept.body_digest, and that arrives when it
     * would have. */
    bool resumes;
    fed_request asked;
    uint32_t failures_before; /* the client library's count when the step began */
    fed_status status;        /* of the step that has ended */
    fed_error error;
} sim_actor;

typedef struct sim_world {
    sim_clients *clients;
    const sim_watch *watch;
    sim_virtual_time virtual_time;
    sim_host host;
    sim_network network;
    sim_speed speed;
    sim_presence presence;
    int64_t now_us;   /* the time of what is being handled */
    sim_actor *actor; /* [clients->client_count] */
    sim_heap heap;    /* what is next */
    sim_heap ready;   /* clients that are READY and committed: they want a worker */
    uint32_t *pending;
    size_t pending_count; /* clients that are READY, not yet committed */
    struct sim_thread *threads, *idle;
    uint32_t enrolled; /* so many clients, in order */
    bool direct;       /* no scheduling yet: clients enrol */
    bool stopping;
    bool settles;         /* the scheduler waits for all code, not only for what is due first */
    int64_t shown_ms;     /* when the watcher was called last */
    uint32_t shown_round; /* the round then */

    /* Handle what is due, on this thread, until something has to be waited for or the code of
     * `here` may go on: it RUNS then, with the worker that it has. NULL: nobody's. Under the mutex,
     * which it leaves while the coordinator commits. */
    void (*schedule)(struct sim_world *world, sim_actor *here);
    bool scheduling;   /* a thread does so */
    sim_actor *here;   /* for this client, whose request is not answered yet */
    fed_status status; /* not FED_OK: that has failed, for this reason */
    fed_error error;
} sim_world;

/** Move its clock on; never back. */
void sim_actor_move(sim_actor *actor, int64_t us);
/** Its next event, of that kind, is due at its clock's time. */
void sim_actor_stand(sim_actor *actor, sim_stage stage);
/** Nothing of it is due before its clock's time. */
void sim_actor_expect(sim_actor *actor);
/** It has nothing to do until `us`, and then until it is there: its next step is due then. */
void sim_actor_plan(sim_actor *actor, int64_t us);
/** How long it waits after a failure, in microseconds. */
int64_t sim_actor_backoff_us(sim_actor *actor);

/** From now on this thread runs its code; NULL: nobody's. The clocks below are then its own. */
void sim_actor_enter(const sim_actor *actor);
/** The clocks of a client's platform. */
int64_t sim_virtual_unix_ms(void *user);
int64_t sim_virtual_monotonic_ms(void *user);

#endif
