/* Makes the task's JSON and the run's options from a scenario. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_TASK_FILE_H
#define FEDSIM_TASK_FILE_H

#include "deploy/sim/scenario/options.h"
#include "deploy/sim/scenario/scenario.h"

/** Write a complete scenario's task (docs/protocol.md#task), one key a line, and let the
 * coordinator's parser check it. Errors name the key's place in the scenario. */
fed_status sim_task_write(const sim_scenario *s, fed_writer *w, fed_error *err) FED_CHECKED;

/** Make the run's options from a complete scenario. The options point into the scenario. `cores` is
 * the number of the machine's cores. */
fed_status sim_options_read(const sim_scenario *s, uint32_t cores, sim_options *o,
                            fed_error *err) FED_CHECKED;

#endif
