/* The coordinator of a run in one process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HOST_H
#define FEDSIM_HOST_H

#include "deploy/sim/clients/coordinator.h"
#include "fedserver/fedserver.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** What a stopped run keeps of it. */
typedef struct sim_host_kept {
    int64_t tick_us;  /* when the next tick is due */
    uint32_t version; /* of the newest model */
    bool running;     /* whether the newest model is of a task that runs */
    uint8_t unused[3];
} sim_host_kept;

#pragma GCC diagnostic pop

typedef struct sim_host {
    sim_coordinator coordinator; /* its directory */
    fedserver *server;
    bool batch;     /* a batch of requests is open */
    uint64_t epoch; /* of the server, when its parked check-ins were answered last */
    sim_host_kept kept;
} sim_host;

/** Virtual time as the coordinator and the clients have it, Unix milliseconds. */
int64_t sim_unix_ms(int64_t us);

/* Open what the coordinator's directory holds. Owner: sim_host_close. Errors, also below:
 * fedserver.h. */
fed_status sim_host_open(sim_host *host, fed_error *err) FED_CHECKED;
void sim_host_close(sim_host *host);
/** Handle one request of the open batch, or of a new one. */
fed_status sim_host_handle(sim_host *host, const fedserver_request *request, int64_t us,
                           fedserver_response *response, fed_error *err) FED_CHECKED;
fed_status sim_host_tick(sim_host *host, int64_t us, fed_error *err) FED_CHECKED;
/** Commit the batch: only then may its answers leave. */
fed_status sim_host_commit(sim_host *host, fed_error *err) FED_CHECKED;
/** Drop the coordinator with what was not committed, and open another one on its directory. */
fed_status sim_host_kill(sim_host *host, fed_error *err) FED_CHECKED;

#endif
