/* The coordinator of a run in one process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HOST_H
#define FEDSIM_HOST_H

#include "deploy/sim/clients/coordinator.h"
#include "fedserver/fedserver.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** The part of sim_host that a stopped run saves. */
typedef struct sim_host_kept {
    int64_t tick_us;  /* when the next call of fedserver_tick is due */
    uint32_t version; /* version of the newest model */
    bool running;     /* whether the newest model is of a task that runs */
    uint8_t unused[3];
} sim_host_kept;

#pragma GCC diagnostic pop

typedef struct sim_host {
    sim_coordinator coordinator;
    fedserver *server;
    bool batch;     /* a batch of requests is open */
    uint64_t epoch; /* fedserver_epoch when the parked check-ins were last asked again */
    sim_host_kept kept;
} sim_host;

/** Turn virtual time into the Unix milliseconds that the coordinator and the clients see. */
int64_t sim_unix_ms(int64_t us);

/** Open the coordinator in its directory; sim_host_close closes it. Errors: see fedserver.h. */
fed_status sim_host_open(sim_host *host, fed_error *err) FED_CHECKED;
void sim_host_close(sim_host *host);
/** Handle one request, in the open batch or in a new one. `us` is the virtual time. */
fed_status sim_host_handle(sim_host *host, const fedserver_request *request, int64_t us,
                           fedserver_response *response, fed_error *err) FED_CHECKED;
fed_status sim_host_tick(sim_host *host, int64_t us, fed_error *err) FED_CHECKED;
/** Commit the batch. The batch's answers may be sent only after that. */
fed_status sim_host_commit(sim_host *host, fed_error *err) FED_CHECKED;
/** Close the coordinator without a commit, and open its directory again, as after a crash. */
fed_status sim_host_kill(sim_host *host, fed_error *err) FED_CHECKED;

#endif
