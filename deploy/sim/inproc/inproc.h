/* A run in one process and in virtual time: clients' requests are calls of fedserver_handle. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_INPROC_H
#define FEDSIM_INPROC_H

#include "deploy/sim/clients/clients.h"

/** Run open clients to the end of the task. *digest: set to the digest of the coordinator's last
 * model. */
fed_status sim_inproc_run(sim_clients *clients, const sim_watch *watch, uint64_t *digest,
                          fed_error *err) FED_CHECKED;

#endif
