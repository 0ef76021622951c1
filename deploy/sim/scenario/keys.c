/* The keys of a scenario, and the search among them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/keys.h"

#include <string.h>

/* The kind of fedsim's key for each kind in the coordinator's table of task keys. */
#define KIND_TEXT    SIM_TASK_TEXT
#define KIND_CHOICE  SIM_TASK_TEXT
#define KIND_PATH    SIM_TASK_PATH
#define KIND_INTEGER SIM_TASK_NUMBER
#define KIND_NUMBER  SIM_TASK_NUMBER
#define KIND_SECONDS SIM_TASK_NUMBER
#define KIND_LIST    SIM_TASK_PHASES

const sim_key sim_keys[SIM_KEYS] = {
#define SIM_KEY(id, name, kind, preset, low, high, machine, meaning)                               \
    [SIM_##id] = {#name, SIM_##kind, preset, meaning, low, high, machine},
#define SIM_KEY_APART SIM_KEY
#define SIM_KEY_OF_TASK(id, name, kind, preset, meaning)                                           \
    [SIM_##id] = {#name, KIND_##kind, preset, meaning, 0, 0, false},
#include "deploy/sim/scenario/keys.def"
};

static size_t likeness(const char *a, const char *b, size_t len) {
    size_t k = 0;
    while (k < len && a[k] != '\0' && a[k] == b[k]) {
        k++;
    }
    return k;
}

fed_status sim_key_find(const char *name, size_t len, sim_key_id *id, fed_error *err) {
    sim_key_id nearest = 0;
    for (sim_key_id k = 0; k < SIM_KEYS; k++) {
        if (strlen(sim_keys[k].name) == len && memcmp(sim_keys[k].name, name, len) == 0) {
            *id = k;
            return FED_OK;
        }
        nearest =
            likeness(sim_keys[k].name, name, len) > likeness(sim_keys[nearest].name, name, len)
                ? k
                : nearest;
    }
    const bool like = likeness(sim_keys[nearest].name, name, len) >= 2;
    return fed_fail(err, FED_ENOTFOUND, "key \"%.*s\" is unknown%s%s%s; `fedsim keys` lists them",
                    len < 60 ? (int)len : 60, name, like ? "; did you mean \"" : "",
                    like ? sim_keys[nearest].name : "", like ? "\"?" : "");
}

bool sim_key_of_task(sim_key_id id) {
    return sim_keys[id].kind >= SIM_TASK_TEXT || id == SIM_SEED;
}
