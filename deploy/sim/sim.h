/* A run's parts: the coordinator process, the crowd of clients, what befalls their lines. */
#ifndef FEDSIM_SIM_H
#define FEDSIM_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "deploy/sim/options.h"
#include "deploy/sim/sim_log.h"
#include "fed/crypto.h"
#include "fed/error.h"
#include "fed/rng.h"
#include "fedclient/fedclient.h"
#include "fedserver/fedserver.h"
#include "fedtrain/data.h"

/** The coordinator: a child process that serves a directory. */
typedef struct sim_coordinator {
    const char *program;
    char directory[512];
    bool temporary;
    pid_t pid;
    int output; /* the child's standard output */
    uint16_t front_port, devices_port;
    uint32_t kills; /* survived */
    fed_pem ca;
} sim_coordinator;

/** Initialise the directory, queue the task, make `tokens` enrolment tokens (the caller's array),
 * the last one an evaluator's. */
fed_status sim_coordinator_prepare(sim_coordinator *c, const sim_options *options, size_t tokens,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Start the process and wait until it listens. */
fed_status sim_coordinator_start(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Send a signal and wait for the end. FED_EIO if it ended otherwise than asked. */
fed_status sim_coordinator_stop(sim_coordinator *c, int signal, fed_error *err) FED_CHECKED;
/** FED_OK while the process runs; else the sentence says how it ended. */
fed_status sim_coordinator_alive(sim_coordinator *c, fed_error *err) FED_CHECKED;
/** Remove a temporary directory. */
void sim_coordinator_clean(sim_coordinator *c);

/** Is client k away in a round? Exactly floor(fraction * clients) of them are, drawn from the seed.
 */
bool sim_away(uint64_t seed, uint32_t round, uint32_t clients, double fraction, uint32_t k);

struct sim_crowd;

/** A place to work at: as many turns are under way at a time as there are places. */
typedef struct sim_place {
    fedtrain_net *net;
    fed_arch arch; /* what net was made for; its text is NULL before the first task */
    size_t batch;  /* likewise */
    struct sim_place *next;
} sim_place;

/** What a transport does to its uploads. */
typedef struct sim_line {
    fedclient_transport inner;
    struct sim_client *client;
    uint32_t uploads; /* tried so far: with the client, names the dice */
} sim_line;

typedef struct sim_client {
    struct sim_crowd *crowd;
    uint32_t k;
    bool evaluates;
    bool takes_part; /* has worked at least once, so the run waits for its end; the evaluator too */
    bool finished;   /* has learnt that the task is over */
    pthread_t thread;
    bool started;
    fedclient_platform platform;
    fedclient_transport transport; /* the line's */
    sim_line line;
    fedtrain_share share;  /* what it trains on */
    uint32_t round, again; /* the last one trained in, and how often before */
    float *optimizer;      /* its state, between rounds */
    size_t optimizer_size;
    sim_place *place;            /* held during a turn */
    pthread_cond_t turn;         /* this one's place is there */
    fedclient_traffic enrolment; /* what enrolling cost, kept out of the rounds' figures */
    fedclient_traffic traffic;
    fedclient_traffic charged; /* so much of it is in the log's rounds */
    uint64_t train_cpu_us;
    uint32_t counted, refused, broken;
    uint64_t digest; /* of the final model */
    fed_error error; /* why it gave up; FED_OK if it did not */
} sim_client;

/** All clients of a run, and what they share. */
typedef struct sim_crowd {
    const sim_options *options;
    const sim_coordinator *coordinator;
    char server[64]; /* the front's URL */
    fedtrain_data train, test;
    sim_client *client; /* [options->clients + 1]; the last one evaluates */
    size_t client_count;
    atomic_int stop;

    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t changed; /* a round, the end, a kill */
    sim_place *places;      /* free ones */
    sim_client **waiting;   /* who waits for one, in no order */
    size_t waiting_count;
    fed_rng dice; /* of who comes next */
    sim_place *all_places;
    uint32_t round;     /* the newest that any client was asked to train in */
    uint32_t reported;  /* updates counted in it */
    uint32_t version;   /* the final one, once finished */
    uint32_t evaluated; /* version that the accuracy is of */
    double accuracy;
    float loss;
    bool finished;
    bool kill_due; /* the coordinator is to be killed now; no new turn begins */
    bool kill_done;
    size_t running; /* client threads that have not ended, of those that take part */
    size_t failed;
    sim_log *log;
    uint64_t evaluate_cpu_us; /* the evaluator's thread writes it, its end makes it readable */
    fed_task task;            /* as the coordinator announced it */
    size_t parameters;
} sim_crowd;

/** Load the data, deal it out, make the places. The rounds go into log. */
fed_status sim_crowd_open(sim_crowd *crowd, const sim_options *options,
                          const sim_coordinator *coordinator, sim_log *log,
                          fed_error *err) FED_CHECKED;
/** Start a thread for each client: it enrols with its token, then takes part until the task is
 * done. */
fed_status sim_crowd_start(sim_crowd *crowd, char (*token)[FEDSERVER_TOKEN],
                           fed_error *err) FED_CHECKED;
/** Ask every client to end after its turn. One that waits for the coordinator's answer ends when
 * the coordinator stops. */
void sim_crowd_stop(sim_crowd *crowd);
/** Wait until all clients have ended. */
void sim_crowd_join(sim_crowd *crowd);
/** Sleep for a while, or until something about the crowd changes. */
void sim_crowd_wait(sim_crowd *crowd, uint32_t ms);
void sim_crowd_close(sim_crowd *crowd);

/** Wait for a place. Who comes next is left to chance, as among devices of unequal speed: else the
 * same ones would come too late in every round. */
void sim_place_take(sim_client *client);
/** Give it back, if there is one. */
void sim_place_give_back(sim_client *client);
/** Give free places to who waits. Under the mutex. */
void sim_place_hand_out(sim_crowd *crowd);

/** Wrap a client's transport so that some uploads break (options->broken). */
void sim_line_open(sim_line *line, sim_client *client, fedclient_transport *outer);

#endif
