/* A run in one process and in virtual time: the coordinator's function is called directly. */
#ifndef FEDSIM_INPROC_H
#define FEDSIM_INPROC_H

#include <semaphore.h>

#include "deploy/sim/conditions/heap.h"
#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "deploy/sim/crowd/coordinator.h"
#include "deploy/sim/crowd/sim.h"

/*
 * How it works. Each client has a clock of its own. What comes next at it has a key in one heap:
 * its turn begins, its request arrives, its turn has ended; or, while its code runs on a thread,
 * "not before". The scheduler takes the least key: if that is an event, nothing can come before it
 * any more, and it is dealt with; if that is a client whose code runs, it is waited for. A client
 * that trains says at once how long that will take in virtual time, so all that are to train can do
 * so side by side, on as many places as there are threads, while requests are handled in the order
 * of their keys. So neither the machine's speed nor the number of threads changes anything.
 *
 * An answer leaves when its batch is committed; a batch ends where somebody has to be waited for.
 *
 * A check-in that the coordinator holds back (a long poll) is parked: the client is told to wait,
 * which ends its turn and frees its thread, and the scheduler asks again in its place. With the
 * answer its next turn begins, whose check-in is the same one, and gets that answer. To the client,
 * and in bytes and time, it is one request, as it is over HTTPS.
 *
 * The evaluator takes no virtual time: it measures beside everything else, and the next model that
 * is to be measured waits for it.
 *
 * One mutex, the crowd's, guards all of it but what belongs to a client whose code runs.
 */

typedef enum sim_stage {
    SIM_IDLE,  /* key: its next turn begins */
    SIM_HELD,  /* its check-in is parked. key: it is asked again, or goes away */
    SIM_READY, /* it may go on, once the batch is committed and a place is free. key: not before */
    SIM_RUNS,  /* its code runs. key: not before */
    SIM_ASKS,  /* key: its request arrives */
    SIM_ENDED  /* key: its turn has ended */
} sim_stage;

/** A check-in that is held back. */
typedef struct sim_held {
    bool on, answered, lost; /* lost: with the coordinator */
    uint8_t body[64];
    size_t len;
    int64_t since_us, until_us;
    uint64_t epoch; /* of the coordinator, when it was asked last */
    int64_t at_us;  /* when the answer is there */
    fedserver_response answer;
} sim_held;

typedef struct sim_actor {
    sim_client *client;
    struct sim_inproc *world;
    fedclient *fed;
    sim_stage stage;
    int64_t now_us; /* its clock */
    uint32_t step, chance, turns, failures;
    sim_link link;
    sim_speed speed;
    sim_attendance attendance;
    bool connected;
    int64_t used_us;    /* the connection, last */
    uint32_t sleeps;    /* the round that it stays away from; 0: it does not */
    bool measures;      /* evaluator: beside everything else ... */
    int64_t release_us; /* ... until then */
    uint8_t fingerprint[FED_SHA256_SIZE];
    fedclient_traffic traffic;

    /* a turn */
    struct sim_worker *worker;
    char path[160]; /* and behind its '\0' the query */
    char range[64], if_range[24];
    fed_writer body;
    fedserver_request request;
    bool unheard;    /* the line broke: nobody waits for the answer */
    fed_status fate; /* of the request: FED_OK there is an answer */
    fedserver_response answer;
    sim_held held;
    fedserver_blob *heard; /* what a check-in of this turn was answered; NULL: there was none */
    bool resumes;          /* its turn was under way when the run was stopped: what it asked ... */
    char asked[160];       /* ... is this path, again, and arrives when it would have, */
    uint64_t asked_digest; /* with this body */
    uint64_t pieces_there; /* of an update in pieces the coordinator has so much, it said last */
    uint32_t failures_before; /* the client library's count, when the turn began */
    fedclient_event event;    /* of the turn that has ended, as are these */
    fed_status status;
    fed_error error;
} sim_actor;

/** A thread for turns. */
typedef struct sim_worker {
    struct sim_inproc *world;
    pthread_t thread;
    sem_t go;         /* it has something to run, or is to end */
    sim_actor *actor; /* whose turn it runs; NULL: nobody's */
    struct sim_worker *next_idle, *next;
} sim_worker;

/** The coordinator, in this process. */
typedef struct sim_host {
    sim_coordinator coordinator;
    fedserver *server;
    bool batch;      /* one is open */
    bool killed;     /* as the options wanted */
    int64_t tick_us; /* the next one is due */
    uint64_t epoch;
    uint32_t version; /* of the newest model ... */
    bool running;     /* ... of a task that runs */
} sim_host;

typedef struct sim_inproc {
    sim_crowd *crowd;
    const sim_watch *watch;
    sim_host host;
    sim_network network;
    sim_speed speed;
    sim_presence presence;
    sim_actor *actor; /* [crowd->client_count] */
    sim_heap heap;    /* what is next */
    sim_heap ready;   /* who wants a place, READY and committed */
    uint32_t *pending;
    size_t pending_count; /* READY, not yet committed */
    int64_t now_us;       /* what is being dealt with */
    sim_worker *workers, *idle;
    uint32_t enrolled; /* so many clients, in order */
    bool direct;       /* no scheduling yet: clients enrol */
    bool stopping;
    bool settles;     /* the scheduler waits for all code, not for the least key's */
    int64_t shown_ms; /* the watcher was called last, in ... */
    uint32_t shown_round;
} sim_inproc;

/* A client's clock and key. */

/** Its clock moves on; it never moves back. */
void sim_actor_move(sim_actor *actor, int64_t us);
/** Something happens at its clock's time: that is its key now. */
void sim_actor_stand(sim_actor *actor, sim_stage stage);
/** Nothing happens before its clock's time. */
void sim_actor_expect(sim_actor *actor);
/** This thread runs its code from now on; NULL: nobody's. Its platform's clocks are its own. */
void sim_actor_enter(const sim_actor *actor);
/** Time as the coordinator has it. */
int64_t sim_unix_ms(int64_t us);

/* handover.c: the transport */

void sim_handover_open(sim_actor *actor);
/** Keep what its check-in was answered, until its turn ends; NULL: forget it. A share is taken. */
void sim_handover_keep(sim_actor *actor, fedserver_blob *answer);
/** Names the body of its request. */
uint64_t sim_handover_digest(const sim_actor *actor);
/** An answer leaves at its time: *us becomes when it is there. FED_ENET: the client has gone away
 * before; *us is when. Its bytes are counted. */
fed_status sim_handover_answer(sim_actor *actor, const fedserver_response *response, int64_t *us);
/** The coordinator's HOLD, as an answer that tells the client to wait. */
fed_status sim_handover_wait(const sim_actor *actor, uint32_t ms, fedserver_response *response,
                             fed_error *err) FED_CHECKED;

/* turns.c: threads and places */

/** Has it, or wants, a place? Then nobody knows yet what comes next at it. */
bool sim_turns_under_way(const sim_actor *actor);
/** Let those who are READY have free places. Under the mutex. */
void sim_turns_hand_out(sim_inproc *world);
/** From a client's code: its request goes out, and its place is free until the answer is there. */
fed_status sim_turns_ask(sim_actor *actor) FED_CHECKED;
/** Let all code run until it asks, or its turn ends. Under the mutex. */
void sim_turns_settle(sim_inproc *world);
/** End all threads; those that wait for an answer are cancelled first. */
void sim_turns_close(sim_inproc *world);

/* Called by the callback, on the client's thread. Returns the microseconds that it takes. */
int64_t sim_inproc_trains(sim_client *client, uint64_t samples);
void sim_inproc_measures(sim_client *client, uint32_t version);

/* host.c: the coordinator */

fed_status sim_host_open(sim_host *host, fed_error *err) FED_CHECKED;
void sim_host_close(sim_host *host);
fed_status sim_host_handle(sim_host *host, const fedserver_request *request, int64_t us,
                           fedserver_response *response, fed_error *err) FED_CHECKED;
fed_status sim_host_tick(sim_host *host, int64_t us, fed_error *err) FED_CHECKED;
fed_status sim_host_commit(sim_host *host, fed_error *err) FED_CHECKED;
/** It dies, and what was not committed with it; another one takes up its directory. */
fed_status sim_host_kill(sim_host *host, fed_error *err) FED_CHECKED;

/* held.c: parked check-ins */

/** The coordinator holds this client's check-in back. */
fed_status sim_held_park(sim_actor *actor, uint32_t ms, fed_error *err) FED_CHECKED;
/** Its time has come: it is asked again, or its client goes away. */
fed_status sim_held_due(sim_actor *actor, fed_error *err) FED_CHECKED;
/** All of them, because something has changed. */
fed_status sim_held_ask_all(sim_inproc *world, fed_error *err) FED_CHECKED;
/** The turn that was told to wait has ended, and the check-in is parked: what next? */
fed_status sim_held_settle(sim_actor *actor, fed_error *err) FED_CHECKED;
/** The coordinator is gone: so are the lines to it. */
void sim_held_lose_all(sim_inproc *world);

/* schedule.c */

/** It has nothing to do until `us`, and then until it is there. */
void sim_plan(sim_actor *actor, int64_t us);
/** How long to wait after a failure, in microseconds. */
int64_t sim_backoff_us(sim_actor *actor);

/** At the beginning of time. */
fed_status sim_schedule_begin(sim_inproc *world, fed_error *err) FED_CHECKED;
/** Take up what sim_state_load has put there. */
void sim_schedule_resume(sim_inproc *world);
/** Until the task is over, and all who took part have heard of it. */
fed_status sim_schedule_run(sim_inproc *world, fed_error *err) FED_CHECKED;
/** Something may have changed at the coordinator: a new model, free places, the end. */
fed_status sim_schedule_look(sim_inproc *world, fed_error *err) FED_CHECKED;

#endif
