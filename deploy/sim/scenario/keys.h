/* The keys of a scenario (keys.def), for its parser, `fedsim keys`, a run's options and results. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_KEYS_H
#define FEDSIM_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/error.h"

/** SIM_NAME, SIM_TRANSPORT and so on, in the order of `fedsim keys` and of scenario.txt. */
typedef enum sim_key_id {
#define SIM_KEY(id, ...)         SIM_##id,
#define SIM_KEY_APART(id, ...)   SIM_##id,
#define SIM_KEY_OF_TASK(id, ...) SIM_##id,
#include "deploy/sim/scenario/keys.def"
    SIM_KEYS
} sim_key_id;

typedef enum sim_key_kind {
    SIM_TEXT,
    SIM_NUMBER,  /* a number from `low` to `high` */
    SIM_INTEGER, /* an integer from `low` to `high` */
    /* Keys of the task. The coordinator checks their values. */
    SIM_TASK_TEXT,
    SIM_TASK_PATH,
    SIM_TASK_NUMBER,
    SIM_TASK_PHASES
} sim_key_kind;

typedef struct sim_key {
    const char *name;
    sim_key_kind kind;
    const char *preset;  /* default. NULL: must be given. "": no value, or made from other keys */
    const char *meaning; /* one line, which also says what "" stands for */
    double low, high;
    bool machine; /* of this machine, not of the experiment: may change when a run is resumed */
} sim_key;

extern const sim_key sim_keys[SIM_KEYS];

/** Find a key by its name. FED_ENOTFOUND: *err names a similar key, if there is one. */
fed_status sim_key_find(const char *name, size_t len, sim_key_id *id, fed_error *err) FED_CHECKED;
/** Return whether the key goes into the task that the coordinator gets. */
bool sim_key_of_task(sim_key_id id);

#endif
