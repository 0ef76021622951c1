/* From a request to the function that answers it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUTER_H
#define FEDSERVER_ROUTER_H

#include "fedserver/identity/enrolment.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/byte_range.h"
#include "fedserver/server.h"

/** A request that has passed the checks that every request must pass. */
typedef struct fedserver_call {
    const fedserver_request *request;
    int64_t now_ms;
    fedserver_device *device; /* DEVICES: the device that asks; FRONT: NULL */
} fedserver_call;

/** Answers a call. The device's own faults are answers; an error means that the store, or memory,
 * has failed. *response is 200 without a body at first. */
typedef fed_status (*fedserver_route_function)(fedserver *server, const fedserver_call *call,
                                               fedserver_response *response, fed_error *err);

#define FEDSERVER_ROUTE(listener, roles, method, path, function, body, ways)                       \
    fed_status function(fedserver *server, const fedserver_call *call,                             \
                        fedserver_response *response, fed_error *err);
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE

/** Answer an update, however it came: the body of POST /v1/update, or all its pieces. digest: of
 * the whole message. */
fed_status fedserver_update_take(fedserver *server, const fedserver_call *call, const uint8_t *body,
                                 size_t len, uint64_t digest, fedserver_response *response,
                                 fed_error *err) FED_CHECKED;

/** Finds a request's route and lets it answer; counts the traffic. For fedserver_open_with. */
extern const fedserver_routing fedserver_router;

/** Answer with the issued certificate or, where outcome says so, with a refusal, which is noted in
 * the audit log. */
fed_status fedserver_answer_certificate(fedserver *server, const fedserver_call *call,
                                        fedserver_enrolment outcome, const fedserver_issued *issued,
                                        const fed_error *why, fedserver_response *response,
                                        fed_error *err) FED_CHECKED;

#endif
