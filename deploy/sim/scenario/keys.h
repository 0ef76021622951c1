/* The keys of a scenario: one table, which the parser, `fedsim keys` and the results all read. */
#ifndef FEDSIM_KEYS_H
#define FEDSIM_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/error.h"

/** In the order of `fedsim keys` and of a scenario that is written. */
typedef enum sim_key_id {
    SIM_NAME,
    SIM_TRANSPORT,
    SIM_CLIENTS,
    SIM_DATA,
    SIM_DATASET,
    SIM_TRAIN_PART,
    SIM_NORMALISE,
    SIM_SPLIT,
    SIM_ITERATIONS,
    SIM_EVALUATE_EVERY,
    SIM_THREADS,
    SIM_OFFLINE,
    SIM_BROKEN,
    SIM_HOSTILE,
    SIM_LINE,
    SIM_SPEED,
    SIM_PRESENCE,
    SIM_KILL_ROUND,
    SIM_FRONT_PORT,
    SIM_DEVICES_PORT,
    SIM_FEDSERVER,
    SIM_MODEL,
    SIM_INITIAL,
    SIM_CODEC_UP,
    SIM_CODEC_DOWN,
    SIM_SMALL_TENSOR,
    SIM_LOCAL_STEPS,
    SIM_BATCH,
    SIM_OPTIMIZER,
    SIM_LEARNING_RATE,
    SIM_STRATEGY,
    SIM_ROUNDS,
    SIM_COHORT,
    SIM_GOAL,
    SIM_MINIMUM,
    SIM_DEADLINE_S,
    SIM_STALENESS,
    SIM_DEVICE_SHARE,
    SIM_SELECTION,
    SIM_PHASES,
    SIM_SEED, /* the last one: in a grid it changes fastest */
    SIM_KEYS
} sim_key_id;

typedef enum sim_key_kind {
    SIM_TEXT,
    SIM_NUMBER,  /* of the run: from low to high */
    SIM_INTEGER, /* likewise */
    SIM_TASK_TEXT,
    SIM_TASK_NUMBER, /* the coordinator says what it may be */
    SIM_TASK_PHASES
} sim_key_kind;

typedef struct sim_key {
    const char *name;
    sim_key_kind kind;
    const char *preset;  /* NULL: must be given. "": none, or made from others */
    const char *meaning; /* one line, which also says what "" stands for */
    double low, high;
    bool machine; /* of this machine, not of the experiment: may change when a run goes on */
} sim_key;

extern const sim_key sim_keys[SIM_KEYS];

/** FED_ENOTFOUND, with the key that looks most like it. */
fed_status sim_key_find(const char *name, size_t len, sim_key_id *id, fed_error *err) FED_CHECKED;
/** Does the key go into the task that the coordinator gets? */
bool sim_key_of_task(sim_key_id id);

#endif
