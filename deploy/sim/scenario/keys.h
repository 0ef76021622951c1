/* The keys of a scenario: one table, which the parser, `fedsim keys` and the results all read. The
 * keys of the task come from the coordinator's table. */
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
#define FEDSERVER_TASK_KEY(id, ...) SIM_##id,
#define FEDSERVER_TASK_KEY_APART(...)
#include "fedserver/task_keys.def" /* SIM_MODEL to SIM_PHASES */
    SIM_SEED,                      /* the last one: in a grid it changes fastest */
    SIM_KEYS
} sim_key_id;

typedef enum sim_key_kind {
    SIM_TEXT,
    SIM_NUMBER,  /* of the run: from low to high */
    SIM_INTEGER, /* likewise */
    /* of the task: the coordinator says what each may be */
    SIM_TASK_TEXT,
    SIM_TASK_PATH,
    SIM_TASK_NUMBER,
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
