/* Clients over HTTPS: one thread each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HTTPS_CLIENTS_H
#define FEDSIM_HTTPS_CLIENTS_H

#include "deploy/sim/clients/clients.h"
#include "fedserver/operator.h"

/** Start a thread for each of the first `count` clients, which enrols with its token and takes part
 * to the task's end. */
fed_status sim_https_clients_start(sim_clients *clients, size_t count,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;
/** Ask every client to end after its step, which may last until the coordinator stops. */
void sim_https_clients_stop(sim_clients *clients);
void sim_https_clients_end(sim_clients *clients);
/** Sleep for at most `ms` milliseconds, or until sim_clients.changed is signalled. */
void sim_https_clients_wait(sim_clients *clients, uint32_t ms);
/** Give free workers to clients that wait for one. The caller holds the mutex. */
void sim_https_clients_assign(sim_clients *clients);

#endif
