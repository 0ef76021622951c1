/* The keys of a scenario (keys.def): one table for the parser, `fedsim keys`, the options of a run
 * and the results. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_KEYS_H
#define FEDSIM_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "fed/error.h"

/** SIM_NAME, SIM_TRANSPORT and so on, in the order of `fedsim keys` and of a scenario that is
 * written. */
typedef enum sim_key_id {
#define SIM_KEY(id, ...)         SIM_##id,
#define SIM_KEY_APART(id, ...)   SIM_##id,
#define SIM_KEY_OF_TASK(id, ...) SIM_##id,
#include "deploy/sim/scenario/keys.def"
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
