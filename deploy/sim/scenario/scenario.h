/* A scenario: the text of every key, from a small file and from the command line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SCENARIO_H
#define FEDSIM_SCENARIO_H

#include "deploy/sim/scenario/keys.h"
#include "fed/bytes.h"

/*
 * A file has a line `key = value` for each key. A `#` at the beginning of a line or after a blank
 * begins a comment. A value with alternatives, `a | b | c`, or a range of whole numbers, `1..5`,
 * makes a grid (grid.h). Paths are relative to the current directory.
 */

enum { SIM_VALUE_LIMIT = 8192, SIM_SCENARIO_LIMIT = 1 << 20 };

/** Keys that vary together in a grid: `strategy,learning_rate = fedavg,0.05 | fedadam,0.01`. */
enum { SIM_PAIRS = 8, SIM_PAIR_KEYS = 4 };

typedef struct sim_pair {
    sim_key_id key[SIM_PAIR_KEYS];
    size_t keys;
    char *text; /* the line's value */
} sim_pair;

typedef struct sim_scenario {
    char *value[SIM_KEYS];  /* NULL: not given */
    char *origin[SIM_KEYS]; /* where the value is given: "demo.txt:7", "the command line" */
    sim_pair pair[SIM_PAIRS];
    size_t pairs;
    char *file; /* the file's path; NULL: only the command line gave keys */
} sim_scenario;

/** Read a file into a scenario that is all 0. FED_EINVAL: *err begins with the file's path. */
fed_status sim_scenario_read(const char *path, sim_scenario *s, fed_error *err) FED_CHECKED;
/** Read a text as sim_scenario_read reads a file. An error says `name` where it would say the
 * file's path. */
fed_status sim_scenario_parse(const char *name, const char *text, sim_scenario *s,
                              fed_error *err) FED_CHECKED;
/** Set a key by an argument `key=value` of the command line. It replaces the file's value. */
fed_status sim_scenario_override(sim_scenario *s, const char *argument, fed_error *err) FED_CHECKED;
fed_status sim_scenario_set(sim_scenario *s, sim_key_id id, const char *value, const char *origin,
                            fed_error *err) FED_CHECKED;
/** Return the pair that a key is in, or NULL. */
const sim_pair *sim_scenario_pair(const sim_scenario *s, sim_key_id id);
/** Fill in the keys that were not given: defaults, and values that follow from other keys. No value
 * may have alternatives any more. FED_EINVAL: a key that has no default is missing. */
fed_status sim_scenario_complete(sim_scenario *s, fed_error *err) FED_CHECKED;
/** Give the keys that are missing their defaults: a file of an older build lacks newer keys. */
fed_status sim_scenario_fill(sim_scenario *s, fed_error *err) FED_CHECKED;
/** Write a file that sim_scenario_parse reads. Keys that were not given are left out. */
void sim_scenario_write(const sim_scenario *s, fed_writer *w);
/** Copy keys and values, but no pairs. */
fed_status sim_scenario_copy(const sim_scenario *from, sim_scenario *to,
                             fed_error *err) FED_CHECKED;
/** Return the first key whose values differ; SIM_KEYS: none does. Keys about the machine, such as
 * threads, are not compared. */
sim_key_id sim_scenario_difference(const sim_scenario *a, const sim_scenario *b);
/** Return whether the key says nothing of its own about this run, because other keys decide: rounds
 * beside iterations, learning_rate beside an optimizer with lr, cohort and goal that are what they
 * would be anyway, delta without epsilon. s: complete. */
bool sim_scenario_idle(const sim_scenario *s, sim_key_id id);
/** Fail with the sentence "ORIGIN: key NAME WHY", where ORIGIN is the place of the key's value. */
fed_status sim_scenario_refuse(const sim_scenario *s, sim_key_id id, const char *why,
                               fed_error *err);
/** Read a key's value as a number. FED_EINVAL: no number, or outside keys.def's limits. */
fed_status sim_scenario_number(const sim_scenario *s, sim_key_id id, double *value,
                               fed_error *err) FED_CHECKED;
void sim_scenario_free(sim_scenario *s);

#endif
