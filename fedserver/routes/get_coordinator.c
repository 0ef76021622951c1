/* GET /v1/coordinator: which of several coordinators is this one, and does it lead? */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/router.h"

fed_status fedserver_coordinator_answer(const fedserver *server, fedserver_response *response,
                                        fed_error *err) {
    const char *own = server->setup.address;
    return fedserver_answer_json(response, 200,
                                 json_pack("{s:o, s:b}", "address",
                                           own != NULL ? json_string(own) : json_null(), "leads",
                                           (int)!server->following),
                                 err);
}

fed_status fedserver_get_coordinator(fedserver *server, const fedserver_call *call,
                                     fedserver_response *response, fed_error *err) {
    (void)call;
    return fedserver_coordinator_answer(server, response, err);
}
