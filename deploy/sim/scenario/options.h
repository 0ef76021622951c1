/* What a run is asked to do: made from a scenario. */
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
    SIM_INPROC = 0, /* the coordinator's function is called directly; time is virtual */
    SIM_HTTPS = 1   /* a coordinator process, real connections, real time */
} sim_transport;

/** keys.def says which members a scenario sets by a key of the same name. */
typedef struct sim_options {
    sim_transport transport;
    const char *task;       /* JSON file, docs/protocol.md#task */
    const char *data;       /* directory with the samples */
    const char *dataset;    /* the name of their kind: fedtrain_data_open */
    const char *train_part; /* which of them clients train on; NULL: "train" */
    bool normalise;         /* samples, by mean and deviation of the training set */
    const char *fedserver;  /* the coordinator's program; HTTPS only */
    const char *directory;  /* the coordinator's; NULL: a temporary one, removed at the end */
    const char *model;      /* file for the final model, safetensors; NULL: it is not kept */
    const char *state;      /* directory for what --resume goes on from; NULL: nothing is kept */
    bool resume;            /* go on from what is there */
    uint32_t clients;
    uint32_t threads;        /* steps at a time */
    const char *device;      /* "opencl:0"; NULL or "": the processor */
    uint32_t evaluate_every; /* measure each so-many-th model, and the last; at least 1 */
    fedtrain_split split;    /* of the training data among the clients */
    double offline;          /* fraction of the clients that are away in a round */
    double broken;       /* fraction of the uploads that break off midway, or lose their answer */
    double hostile;      /* fraction of the clients that send noise instead of what they learnt */
    uint32_t kill_round; /* SIGKILL the coordinator in this round and start it again; 0: never */
    uint64_t seed;       /* of the split, of who is away, what breaks, speeds and links */
    /* INPROC only; NULL or "": none of it */
    const char *line;                  /* spec of the clients' links: network.h */
    const char *speed;                 /* spec of how fast they train: speed.h */
    const char *presence;              /* spec of when they are there: presence.h */
    const char *crowd;                 /* directory of those that have enrolled: saved_crowd.h */
    uint16_t front_port, devices_port; /* HTTPS; 0: any free one */
} sim_options;

/** Set the member that has the key's name: to the text, which must outlive the options, or to the
 * number. Does nothing if there is no such member. */
void sim_options_set(sim_options *options, sim_key_id id, const char *text, double number);

/** Write what must stay the same when a run goes on: everything except the task, and except what is
 * of the machine. */
void sim_options_write(const sim_options *options, fed_writer *w);

/** What the options' device is called among the trainer's backends; NULL: the processor. */
const char *sim_options_backend(const sim_options *options);

/** Check all that can be checked before anything is done. FED_EINVAL, FED_EIO, FED_EFORMAT. */
fed_status sim_options_check(const sim_options *options, fed_error *err) FED_CHECKED;

/** The path of a file or folder in options->state, which is not NULL. */
void sim_options_state_path(const sim_options *options, const char *name, char *path, size_t cap);

#endif
