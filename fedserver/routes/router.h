/* From a request to the function that answers it, and the answers that several of them give. */
#ifndef FEDSERVER_ROUTER_H
#define FEDSERVER_ROUTER_H

#include <jansson.h>

#include "fedserver/routes/byte_range.h"
#include "fedserver/server.h"

/** A request that has passed the checks every one must pass. */
typedef struct fedserver_call {
    const fedserver_request *request;
    int64_t now_ms;
    fedserver_device *device; /* DEVICES: who asks; FRONT: NULL */
} fedserver_call;

/** Answers a call. The device's own faults are answers; an error means that the store, or memory,
 * has failed. *response is 200 without a body at first. */
typedef fed_status (*fedserver_route_function)(fedserver *server, const fedserver_call *call,
                                               fedserver_response *response, fed_error *err);

#define FEDSERVER_ROUTE(listener, roles, method, path, function, body)                             \
    fed_status function(fedserver *server, const fedserver_call *call,                             \
                        fedserver_response *response, fed_error *err);
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE

/** Answer an update, however it came: the body of POST /v1/update, or all its pieces. digest: of
 * the whole message. */
fed_status fedserver_update_take(fedserver *server, const fedserver_call *call, const uint8_t *body,
                                 size_t len, uint64_t digest, fedserver_response *response,
                                 fed_error *err) FED_CHECKED;

/** Most bytes that an update of the current task can have. */
uint64_t fedserver_update_limit(const fedserver *server);

/** Find the route and let it answer; count the traffic. */
fed_status fedserver_route(fedserver *server, const fedserver_request *request, int64_t now_ms,
                           fedserver_response *response, fed_error *err) FED_CHECKED;

/** Is it answered by the process that does the rounds, also where the front is another one? */
bool fedserver_route_relayed(const fedserver_request *request);

/** "token_used": the word of a refusal. */
const char *fedserver_enrolment_word(fedserver_enrolment outcome);

/** Answer with the certificate that was issued or, where outcome says so, with a refusal. */
fed_status fedserver_answer_certificate(const fedserver *server, fedserver_enrolment outcome,
                                        const fedserver_issued *issued, const fed_error *why,
                                        fedserver_response *response, fed_error *err) FED_CHECKED;

/** Answer with bytes; takes the growing writer's memory. */
fed_status fedserver_answer(fedserver_response *response, int status, const char *content_type,
                            fed_writer *bytes, fed_error *err) FED_CHECKED;

/** Answer with a file of the page, named by its path; 404 for another. */
fed_status fedserver_answer_page(fedserver_response *response, int status, const char *path,
                                 fed_error *err) FED_CHECKED;

/** Answer with a JSON value; takes the caller's reference. NULL: no memory. */
fed_status fedserver_answer_json(fedserver_response *response, int status, json_t *value,
                                 fed_error *err) FED_CHECKED;

/** Answer {"error": word, "message": ...}. A request's own fault: FED_OK unless memory runs out. */
fed_status fedserver_answer_error(fedserver_response *response, fed_error *err, int status,
                                  const char *word, const char *format, ...)
    FED_PRINTF(5, 6) FED_CHECKED;

#endif
