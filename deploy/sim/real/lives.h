/* Clients over HTTPS: one thread each. */
#ifndef FEDSIM_LIVES_H
#define FEDSIM_LIVES_H

#include "deploy/sim/crowd/sim.h"

/** Start a thread for each client: it enrols with its token, then takes part until the task is
 * done. */
fed_status sim_lives_start(sim_crowd *crowd, char (*token)[FEDSERVER_TOKEN],
                           fed_error *err) FED_CHECKED;
/** Ask every client to end after its turn. One that waits for the coordinator's answer ends when
 * the coordinator stops. */
void sim_lives_stop(sim_crowd *crowd);
/** Wait until all clients have ended. */
void sim_lives_end(sim_crowd *crowd);
/** Sleep for a while, or until something about the crowd changes. */
void sim_lives_wait(sim_crowd *crowd, uint32_t ms);
/** Give free places to who waits. Under the mutex. */
void sim_lives_hand_out(sim_crowd *crowd);

#endif
