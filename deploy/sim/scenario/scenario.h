/* A scenario: the text of every key, from a small file and from the command line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SCENARIO_H
#define FEDSIM_SCENARIO_H

#include "deploy/sim/scenario/keys.h"
#include "fed/bytes.h"

/*
 * A file has a line `key = value` for each key; what follows a `#` at the beginning of a line or
 * after a blank is a comment. A value with alternatives, `a | b | c`, or a range of whole numbers,
 * `1..5`, is a grid (grid.h). Paths are relative to the current directory.
 */

enum { SIM_VALUE_LIMIT = 8192, SIM_SCENARIO_LIMIT = 1 << 20 };

typedef struct sim_scenario {
    char *value[SIM_KEYS];  /* NULL: not given */
    char *origin[SIM_KEYS]; /* where the value is given: "demo.txt:7", "the command line" */
    char *file;             /* NULL: there was none */
} sim_scenario;

/** Read a file into a scenario that is all 0. Errors, FED_EINVAL: "FILE:LINE: ...". */
fed_status sim_scenario_read(const char *path, sim_scenario *s, fed_error *err) FED_CHECKED;
/** The same from a text that has a name. */
fed_status sim_scenario_parse(const char *name, const char *text, sim_scenario *s,
                              fed_error *err) FED_CHECKED;
/** Set a `key=value` of the command line: it replaces the file's. */
fed_status sim_scenario_override(sim_scenario *s, const char *argument, fed_error *err) FED_CHECKED;
fed_status sim_scenario_set(sim_scenario *s, sim_key_id id, const char *value, const char *origin,
                            fed_error *err) FED_CHECKED;
/** Fill in what was not given: defaults, and values that follow from others. No value may have
 * alternatives any more. FED_EINVAL: a key that has no default is missing. */
fed_status sim_scenario_complete(sim_scenario *s, fed_error *err) FED_CHECKED;
/** Write a file that sim_scenario_parse reads. Keys that were not given are left out. */
void sim_scenario_write(const sim_scenario *s, fed_writer *w);
fed_status sim_scenario_copy(const sim_scenario *from, sim_scenario *to,
                             fed_error *err) FED_CHECKED;
/** The first key whose values differ, but for those of the machine; SIM_KEYS: there is none. */
sim_key_id sim_scenario_difference(const sim_scenario *a, const sim_scenario *b);
/** Fail with a sentence about a value, which begins with the value's origin. */
fed_status sim_scenario_refuse(const sim_scenario *s, sim_key_id id, const char *why,
                               fed_error *err);
/** The value of a key as a number. FED_EINVAL: it is no number, or outside the table's limits. */
fed_status sim_scenario_number(const sim_scenario *s, sim_key_id id, double *value,
                               fed_error *err) FED_CHECKED;
void sim_scenario_free(sim_scenario *s);

#endif
