/* The clients of a run, and what they share, whether they run over HTTPS or in one process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CLIENTS_H
#define FEDSIM_CLIENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "deploy/sim/clients/run_progress.h"
#include "deploy/sim/clients/trainers.h"
#include "deploy/sim/conditions/lossy.h"
#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/scenario/options.h"
#include "deploy/sim/stores/client_stores.h"
#include "fed/error.h"
#include "fed/rng.h"
#include "fedclient/fedclient.h"
#include "fedtrain/personal.h"

/** A worker: the net and memory with which a step trains or measures, one step at a time. */
typedef struct sim_worker {
    fedtrain_net *net;
    fed_arch arch; /* the net's architecture */
    size_t batch;  /* most samples that net takes at a time */
    float *state;  /* float32[state_floats]: optimizer state that no later step needs */
    size_t state_floats;
    sim_trainer trainer; /* with options->trainers: the program that trains, without a net */
    struct sim_worker *next;
} sim_worker;

/* A stopped run saves the structs whose names end in _kept byte for byte (inproc/saved_run.h).
 * Their members are numbers of fixed size: no pointer, no size_t. The compiler refuses padding. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

typedef struct sim_client_kept {
    fedclient_traffic enrolment; /* traffic of the enrolment, which is in no round's figures */
    fedclient_traffic charged;   /* the traffic that is in the log's rounds already */
    uint64_t train_cpu_us;
    int64_t busy_us; /* time spent training: virtual, or CPU time */
    uint64_t steps;  /* local steps of the trainings whose updates were counted */
    uint64_t digest; /* digest of the final model */
    /* Of the newest personal model, on the client's held data: accuracy of the shared model that it
     * was made from, and its own. */
    double shared, personal; /* personal NAN: there is no personal model */
    uint64_t held;           /* samples held; 0: there is no such accuracy */
    uint32_t round, again; /* newest round trained in; number of earlier trainings in that round */
    uint32_t counted, refused;
    uint32_t last_counted;   /* newest round that counted the client's update */
    uint32_t local_steps;    /* local steps of the client's last training */
    uint32_t broken_charged; /* broken uploads that are in the log's rounds already */
    bool takes_part;         /* the run waits until this client has finished */
    bool finished;           /* has learnt that the task is over */
    bool has_model;          /* holds a model at the run's end; its digest is `digest` */
    uint8_t unused[1];
} sim_client_kept;

/** How a step has ended: the members of fedclient_event that a run needs. */
typedef struct sim_step_end {
    uint32_t outcome; /* fedclient_outcome */
    uint32_t reason;  /* fed_wait_reason, if the outcome is to wait */
    uint32_t round, version, wait_ms;
} sim_step_end;

/** The part of sim_clients that a stopped run saves. */
typedef struct sim_clients_kept {
    double cpu_s;             /* CPU seconds of the run's earlier processes */
    int64_t wall_ms;          /* from the first check-in to the stop */
    int64_t began_ms;         /* Unix time of the first check-in, real or virtual; 0: none yet */
    uint64_t running;         /* clients that take part and have not finished */
    uint64_t evaluate_cpu_us; /* the evaluator's step changes it without the mutex */
    uint64_t parameters;      /* trained parameters of the task's model */
    double accuracy;          /* NAN: the model predicts numbers, so it has a loss only */
    double test_loss;
    uint32_t evaluated; /* version of the model that accuracy and test_loss are of */
    uint32_t round;     /* the newest round that the run knows of; 0: none yet */
    uint32_t reported;  /* updates counted in that round */
    uint32_t committed; /* the newest round of the log that was committed */
    uint32_t version;   /* the final model's version, once finished */
    bool finished;
    uint8_t unused[3];
} sim_clients_kept;

#pragma GCC diagnostic pop

/** One client. sim_clients.mutex guards it, except members that only the client's own step uses. */
typedef struct sim_client {
    struct sim_clients *clients;
    uint32_t k;
    bool evaluates;
    pthread_t thread; /* used over HTTPS */
    bool started;
    fedclient_platform platform;
    fedclient_transport transport; /* sends through `lossy` */
    sim_lossy lossy;
    /* The shard of the data that the client trains on. With options->trainers only its size, which
     * the newest training has told. */
    fedtrain_share share, held;  /* held: what the task's holdout takes out of the shard */
    bool holds;                  /* it has been taken out */
    fed_rng rounding;            /* rounds the values of a private update; only its step uses it */
    sim_worker *worker;          /* the worker that the client holds; NULL: none */
    pthread_cond_t worker_ready; /* HTTPS: `worker` was set */
    fedclient_traffic traffic;
    sim_client_kept kept;
    fed_error error; /* why the client gave up; FED_OK if it did not */
} sim_client;

/** Virtual time, as the train callback needs it. A run over HTTPS has none. */
typedef struct sim_virtual_time {
    void *user;
    /** Note that client k begins to train on so many samples. Returns how many virtual microseconds
     * that takes. */
    int64_t (*trains)(void *user, uint32_t k, uint64_t samples);
    /** Note that client k begins to measure the model of that version. */
    void (*measures)(void *user, uint32_t k, uint32_t version);
} sim_virtual_time;

typedef struct sim_clients {
    const sim_options *options;
    const char *server;                   /* the front's URL */
    const char *ca;                       /* HTTPS: the CA certificate that clients trust */
    const sim_virtual_time *virtual_time; /* NULL over HTTPS, where time is real */
    sim_stores *stores;
    double before_cpu_s; /* sim_cpu_s() at the run's begin, or when kept.cpu_s was last updated */
    fedtrain_data train, test;
    sim_client *client; /* [options->clients + 1]; the last one evaluates */
    size_t client_count;
    atomic_int stop;

    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    sim_worker *workers; /* [options->threads] */
    sim_worker *free_workers;
    sim_client **waiting; /* HTTPS: clients that wait for a worker, in no order */
    size_t waiting_count;
    fed_rng rng;             /* HTTPS: draws the waiting client that gets a worker next */
    bool *away;              /* [options->clients]: who is away in round away_round */
    uint32_t away_round;     /* 0: `away` is not filled in yet */
    uint32_t rounds;         /* rounds of the task */
    uint32_t measured_every; /* models from one that is measured to the next, at least 1 */
    bool unmeasured; /* no evaluator is asked: of private layers, or by a foreign coordinator */
    char *initial;   /* a file where private layers may begin, too; NULL: there is none */
    int64_t began_wall_ms; /* monotonic time from which wall time counts; 0: no check-in yet */
    bool kill_due;         /* HTTPS: kill the coordinator now; no client gets a worker */
    size_t failed;
    sim_log *log;
    sim_clients_kept kept;
} sim_clients;

/** Load the data and make the workers. The run's rounds will be written into *log. Call
 * sim_clients_close afterwards, even after an error. */
fed_status sim_clients_load(sim_clients *clients, const sim_options *options, sim_log *log,
                            fed_error *err) FED_CHECKED;
/** Open the clients' stores and the clients, and split the data among them. */
fed_status sim_clients_open(sim_clients *clients, fed_error *err) FED_CHECKED;
void sim_clients_close(sim_clients *clients);

void sim_clients_show(sim_clients *clients, const sim_watch *watch, double virtual_s);
/** CPU seconds of this process, and of its children that have ended. */
double sim_cpu_s(void);
/** Return the error of the first client that gave up; FED_OK: no client did. */
fed_status sim_clients_failure(const sim_clients *clients, fed_error *err) FED_CHECKED;
/** Return whether options->offline keeps client k away from a round. The caller holds the mutex. */
bool sim_is_away(sim_clients *clients, uint32_t round, uint32_t k);
/** Return whether other programs train. */
bool sim_has_trainers(const sim_options *options);
/** Take the task's holdout out of each client's shard, before any client trains. */
fed_status sim_clients_hold(sim_clients *clients, double fraction, uint64_t seed,
                            fed_error *err) FED_CHECKED;
/** Return whether that version of the model is to be measured. The final model is measured whatever
 * this function returns. */
bool sim_wants_measured(const sim_clients *clients, uint32_t version);

/** Note that the client takes part. From now on the run does not end before this client does. */
void sim_client_take_part(sim_client *client);
sim_step_end sim_step_end_of(const fedclient_event *event);
/** Return whether the client has declined the task for a reason that all clients have, so that the
 * run ends. A client whose training leaves NaN or infinity is only away from the round. err: that
 * of the step. */
bool sim_step_ends_run(const fedclient_event *event, const fed_error *err);
/** Return whether the client has learnt in this step that the task is over. A client that already
 * has the final model is told to wait, with the reason FED_WAIT_FINISHED. */
bool sim_step_is_last(const sim_step_end *end);
/** Compute the digest of the client's final model, if the client has one. */
fed_status sim_client_finish(sim_client *client, fedclient *fed, fed_error *err) FED_CHECKED;

#endif
