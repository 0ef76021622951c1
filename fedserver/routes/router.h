/* Finds the function that answers a request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUTER_H
#define FEDSERVER_ROUTER_H

#include "fedserver/identity/enrolment.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/byte_range.h"
#include "fedserver/server.h"

/** A request that has passed the router's checks. */
typedef struct fedserver_call {
    const fedserver_request *request;
    int64_t now_ms;
    fedserver_device *device; /* the device that asks; NULL on the listener FEDSERVER_FRONT */
} fedserver_call;

/** A function that answers a call. A faulty request gets an answer and is no error; an error comes
 * from the store or the machine. At first *response has status 200 and no body. */
typedef fed_status (*fedserver_route_function)(fedserver *server, const fedserver_call *call,
                                               fedserver_response *response, fed_error *err);

#define FEDSERVER_ROUTE(listener, roles, method, path, function, body, ways)                       \
    fed_status function(fedserver *server, const fedserver_call *call,                             \
                        fedserver_response *response, fed_error *err);
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE

/** The answer to GET /v1/coordinator, which a follower gives by itself. */
fed_status fedserver_coordinator_answer(const fedserver *server, fedserver_response *response,
                                        fed_error *err) FED_CHECKED;

/** Answer an update, whether from POST /v1/update or from pieces. digest: of the whole message. */
fed_status fedserver_update_take(fedserver *server, const fedserver_call *call, const uint8_t *body,
                                 size_t len, uint64_t digest, fedserver_response *response,
                                 fed_error *err) FED_CHECKED;

/** Answers requests by the table of routes, and counts the traffic. For fedserver_open_with. */
extern const fedserver_routing fedserver_router;

/** Answer with the issued certificate, or with a refusal, which the audit log counts. */
fed_status fedserver_answer_certificate(fedserver *server, const fedserver_call *call,
                                        fedserver_enrolment outcome, const fedserver_issued *issued,
                                        const fed_error *why, fedserver_response *response,
                                        fed_error *err) FED_CHECKED;

#endif
