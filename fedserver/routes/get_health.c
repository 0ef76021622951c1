/* GET /healthz: does the coordinator serve? For load balancers, probes and `fedserver health`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

/* Counting the devices proves that the store can be read. */
fed_status fedserver_get_health(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    (void)call;
    uint64_t devices = 0;
    FED_TRY(server->store->device_count(server->db, &devices, err));
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "ok\n");
    return fedserver_answer(response, 200, "text/plain; charset=utf-8", &w, err);
}
