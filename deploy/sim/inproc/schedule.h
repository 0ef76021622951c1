/* The scheduler: it handles the event that is due first in virtual time, or waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SCHEDULE_H
#define FEDSIM_SCHEDULE_H

#include "deploy/sim/inproc/world.h"

/** Plan the clients' first steps. The virtual time is 0. */
fed_status sim_schedule_begin(sim_world *world, fed_error *err) FED_CHECKED;
/** Continue the steps that sim_saved_load has read. */
void sim_schedule_resume(sim_world *world);
/** Run until the task is over and all clients that took part know that. FED_ECANCELED: the run was
 * stopped before. */
fed_status sim_schedule_run(sim_world *world, fed_error *err) FED_CHECKED;

#endif
