/* Check-ins that the coordinator holds back: they wait without their client's thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_PARKED_H
#define FEDSIM_PARKED_H

#include "deploy/sim/inproc/world.h"

/** Park this client's check-in for `ms` milliseconds at most, and tell the client to wait. */
fed_status sim_park(sim_actor *actor, const fedserver_response *held, fed_error *err) FED_CHECKED;
/** Handle a parked check-in that is due: ask the coordinator again, or let the client go away. */
fed_status sim_parked_due(sim_actor *actor, fed_error *err) FED_CHECKED;
/** Ask the coordinator again for all parked check-ins, because its state has changed. */
fed_status sim_parked_ask_all(sim_world *world, fed_error *err) FED_CHECKED;
/** Ask the coordinator again for the parked check-in with this hold_key, if there is one. */
fed_status sim_parked_ask(sim_world *world, uint64_t key, fed_error *err) FED_CHECKED;
/** Plan the next event of a client whose step was told to wait, and has ended. */
fed_status sim_parked_settle(sim_actor *actor, fed_error *err) FED_CHECKED;
/** Let all parked clients lose their connections, because the coordinator was killed. */
void sim_parked_lose_all(sim_world *world);

#endif
