/* Check-ins that the coordinator holds back: they wait without their client's thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_PARKED_H
#define FEDSIM_PARKED_H

#include "deploy/sim/inproc/world.h"

/** The coordinator holds this client's check-in back for so long at most: park it, and tell the
 * client to wait. */
fed_status sim_park(sim_actor *actor, uint32_t ms, fed_error *err) FED_CHECKED;
/** The parked check-in is due: ask the coordinator again, or let the client go away. */
fed_status sim_parked_due(sim_actor *actor, fed_error *err) FED_CHECKED;
/** Ask the coordinator again for all parked check-ins, because something has changed. */
fed_status sim_parked_ask_all(sim_world *world, fed_error *err) FED_CHECKED;
/** The step that was told to wait has ended, and its check-in is parked: plan what comes next. */
fed_status sim_parked_settle(sim_actor *actor, fed_error *err) FED_CHECKED;
/** The coordinator was killed: all connections to it are lost. */
void sim_parked_lose_all(sim_world *world);

#endif
