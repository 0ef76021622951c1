/* Passes: what people and programs show at the front instead of a certificate. */
#ifndef FEDSERVER_PASSES_H
#define FEDSERVER_PASSES_H

#include "fedserver/routes/router.h"

/*
 * A pass is a token of 43 characters, of which the store keeps the SHA-256. A link is good once and
 * becomes a session, which the browser keeps as a cookie. A reader's pass is a bearer token for
 * programs such as Prometheus.
 */

/** Who asks at the front. */
typedef enum fedserver_visitor {
    FEDSERVER_VISITOR_STRANGER = 0,
    FEDSERVER_VISITOR_READER = 1,  /* may read the page, the status, the devices, the metrics */
    FEDSERVER_VISITOR_OPERATOR = 2 /* and take the model */
} fedserver_visitor;

fed_status fedserver_visitor_find(fedserver *server, const fedserver_request *request,
                                  int64_t now_ms, fedserver_visitor *visitor,
                                  fed_error *err) FED_CHECKED;

/** Tell a stranger what to do: a page where one was asked for, else JSON. */
fed_status fedserver_visitor_refuse(const fedserver *server, const fedserver_request *request,
                                    fedserver_visitor visitor, fedserver_response *response,
                                    fed_error *err) FED_CHECKED;

#endif
