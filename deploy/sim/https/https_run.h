/* A run over HTTPS: a coordinator process, and a thread for each client. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HTTPS_RUN_H
#define FEDSIM_HTTPS_RUN_H

#include "deploy/sim/clients/clients.h"

/** Run open clients to the end of the task. *digest: set to the digest of the coordinator's last
 * model. */
fed_status sim_https_run(sim_clients *clients, const sim_watch *watch, uint64_t *digest,
                         fed_error *err) FED_CHECKED;

#endif
