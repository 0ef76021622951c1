/* Runs side by side: the same cells as text and as HTML. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RUN_TABLE_H
#define FEDSIM_RUN_TABLE_H

#include "deploy/sim/report/results.h"

/** Find the keys that differ between runs, but for `rounds` where `iterations` decides it. Returns
 * how many. */
size_t sim_runs_differ(const sim_result *runs, size_t count, sim_key_id keys[SIM_KEYS]);

/** "A" for the first run, "B" and so on; after "Z" a number. */
const char *sim_run_letter(size_t index, char dst[24]);

/** As text, for a terminal. */
void sim_table_text(const sim_result *runs, size_t count, fed_writer *w);
/** As HTML, with the keys that differ as columns. */
void sim_table_html(const sim_result *runs, size_t count, fed_writer *w);

/** A run alone: name and value, line by line. */
void sim_summary_text(const sim_log *log, fed_writer *w);
void sim_summary_html(const sim_log *log, fed_writer *w);

#endif
