/* The options of a run, made from a scenario. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_OPTIONS_H
#define FEDSIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deploy/sim/scenario/keys.h"
#include "fed/bytes.h"
#include "fed/error.h"
#include "fedtrain/data.h"

typedef enum sim_transport {
    SIM_INPROC = 0, /* one process, which calls fedserver_handle; time is virtual */
    SIM_HTTPS = 1   /* a coordinator process, real connections, real time */
} sim_transport;

/** The options of a run. A scenario sets members by keys of the same name (keys.def). */
typedef struct sim_options {
    sim_transport transport;
    const char *task; /* JSON file, docs/protocol.md#task */
    const char *data;
    const char *dataset;    /* the data set's name: fedtrain_data_open */
    const char *train_part; /* the portion that clients train on; NULL: "train" */
    bool normalise;         /* normalise samples by the training set's mean and deviation */
    const char *fedserver;  /* the coordinator's program; HTTPS only */
    const char *directory;  /* the coordinator's directory; NULL: a temporary one */
    const char *model;      /* file for the final model, safetensors; NULL: it is not kept */
    const char *state;      /* directory of the state for --resume; NULL: none is kept */
    bool resume;            /* resume from `state` */
    uint32_t clients;
    uint32_t threads;        /* steps that run at a time */
    const char *device;      /* "opencl:0", "bfloat16"; NULL or "": the processor */
    const char *trainers;    /* "5,6": sockets to programs that train; NULL or "": none */
    const char *aggregator;  /* path of the socket for strategy=custom; NULL or "": none */
    const char *evaluate;    /* "test", or "clients": on what they hold back; NULL: "test" */
    uint32_t evaluate_every; /* measure every n-th model, and the last; 0: seldom.h says n */
    fedtrain_split split;    /* split of the training data among the clients */
    double offline;          /* fraction of the clients that are away in a round */
    double broken;       /* fraction of the uploads that break off midway, or lose their answer */
    double hostile;      /* fraction of the clients that add noise to what they learnt */
    double swapped;      /* fraction of the clients that have two of their labels swapped */
    bool helper;         /* a helper opens the sums of private rounds; the task names its key */
    uint32_t kill_round; /* kill the coordinator in this round and start it again; 0: never */
    uint64_t seed;       /* seed of the simulation's random numbers */
    /* Only for SIM_INPROC; NULL or "": the default of each. */
    const char *line;                  /* spec of the clients' links: network.h */
    const char *speed;                 /* spec of how fast clients train: speed.h */
    const char *presence;              /* spec of when clients are available: presence.h */
    const char *crowd;                 /* directory of clients that have enrolled: saved_crowd.h */
    uint16_t front_port, devices_port; /* for SIM_HTTPS; 0: any free port */
    /* Only for SIM_HTTPS: a coordinator that fedsim does not start, and whose task the clients
     * take. NULL or "": none. */
    const char *server, *tokens, *ca;
} sim_options;

/** Set the member of the key's name: a text member to `text`, which must outlive the options,
 * another one to `number`. Does nothing if there is no such member. */
void sim_options_set(sim_options *options, sim_key_id id, const char *text, double number);

/** Write the options that a resumed run must keep: all but the task's and the machine's keys. */
void sim_options_write(const sim_options *options, fed_writer *w);

/** Return the name of the trainer's backend for options->device; NULL: the processor. */
const char *sim_options_backend(const sim_options *options);

/** Return whether the coordinator is not fedsim's. */
bool sim_is_foreign(const sim_options *options);
/** Return whether models are measured on what the clients hold back. */
bool sim_measures_clients(const sim_options *options);
/** Return whether the device is bfloat16, on a processor that multiplies it in more steps than
 * float32. */
bool sim_options_slow_bfloat16(const sim_options *options);

/** Check the options before the run begins. */
fed_status sim_options_check(const sim_options *options, fed_error *err) FED_CHECKED;

/** Write the path of a file or folder in options->state, which is not NULL. */
void sim_options_state_path(const sim_options *options, const char *name, char *path, size_t cap);

#endif
