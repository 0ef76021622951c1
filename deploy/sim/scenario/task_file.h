/* From a scenario to what a run needs: the task's JSON and the run's options. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_TASK_FILE_H
#define FEDSIM_TASK_FILE_H

#include "deploy/sim/scenario/options.h"
#include "deploy/sim/scenario/scenario.h"

/** Write a complete scenario's task (docs/protocol.md#task), a key a line, and let the
 * coordinator's own parser check it. Its errors name the origin in the scenario. */
fed_status sim_task_write(const sim_scenario *s, fed_writer *w, fed_error *err) FED_CHECKED;

/** The run's options of a complete scenario. They point into it. cores: of this machine. */
fed_status sim_options_read(const sim_scenario *s, uint32_t cores, sim_options *o,
                            fed_error *err) FED_CHECKED;

#endif
