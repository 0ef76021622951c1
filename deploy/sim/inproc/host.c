/* The coordinator of a run in one process: it handles requests in batches, and can be killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/host.h"

enum { FRONT_PORT = 10443, DEVICES_PORT = 10444 };

int64_t sim_unix_ms(int64_t us) {
    return SIM_EPOCH_MS + us / 1000;
}

fed_status sim_host_open(sim_host *host, fed_error *err) {
    FED_TRY(fedserver_open(host->coordinator.directory, NULL, &host->server, err));
    fedserver_ports(host->server, FRONT_PORT, DEVICES_PORT);
    host->epoch = 0;
    return FED_OK;
}

void sim_host_close(sim_host *host) {
    fedserver_close(host->server);
    host->server = NULL;
    host->batch = false;
}

static fed_status begin(sim_host *host, fed_error *err) {
    if (!host->batch) {
        FED_TRY(fedserver_begin(host->server, err));
        host->batch = true;
    }
    return FED_OK;
}

fed_status sim_host_tick(sim_host *host, int64_t us, fed_error *err) {
    int64_t next_ms = 0;
    FED_TRY(begin(host, err));
    FED_TRY(fedserver_tick(host->server, sim_unix_ms(us), &next_ms, err));
    int64_t next_us = (next_ms - SIM_EPOCH_MS) * 1000;
    host->kept.tick_us = next_us > us ? next_us : us + 1000;
    return FED_OK;
}

fed_status sim_host_handle(sim_host *host, const fedserver_request *request, int64_t us,
                           fedserver_response *response, fed_error *err) {
    FED_TRY(begin(host, err));
    FED_TRY(fedserver_handle(host->server, request, sim_unix_ms(us), response, err));
    return sim_host_tick(host, us, err);
}

fed_status sim_host_commit(sim_host *host, fed_error *err) {
    host->batch = false;
    return fedserver_commit(host->server, err);
}

fed_status sim_host_kill(sim_host *host, fed_error *err) {
    sim_host_close(host);
    return sim_host_open(host, err);
}
