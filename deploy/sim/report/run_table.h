/* Tables of runs, as text and as HTML with the same cells. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_TABLE_H
#define FEDSIM_RUN_TABLE_H

#include "deploy/sim/report/results.h"

/** Find the keys that differ between runs, except the machine's, and those that say nothing of
 * their own in any of them (sim_scenario_idle). Returns how many. */
size_t sim_runs_differ(const sim_result *runs, size_t count, sim_key_id keys[SIM_KEYS]);

/** Name a run by a letter, "A" for the first one; after "Z" by its number from 27 on. */
const char *sim_run_letter(size_t index, char dst[24]);

void sim_table_text(const sim_result *runs, size_t count, fed_writer *w);
/** Write a table of several runs as HTML, with the keys that differ as columns. */
void sim_table_html(const sim_result *runs, size_t count, fed_writer *w);

/** Write the summary of one run: a line for each figure, with its name and value. */
void sim_summary_text(const sim_log *log, fed_writer *w);
void sim_summary_html(const sim_log *log, fed_writer *w);

#endif
