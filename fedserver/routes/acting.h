/* Acting through the page: who may, and what an operator's function answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ACTING_H
#define FEDSERVER_ACTING_H

#include "fedserver/routes/answers.h"
#include "fedserver/server.h"

/** The most acts of all operators together in a minute. */
enum { FEDSERVER_ACTS_A_MINUTE = 60 };

/** Why nobody acts through this front's page; NULL: operators who have logged in may. */
const char *fedserver_acting_off(const fedserver *server);

/**
 * May this request act? It must come from a page of this front, as the browser says in
 * Sec-Fetch-Site or, if that is missing, in Origin; and it must show the token of its session in
 * Fed-Act (GET /v1/session). The router has checked the session. If not, *admitted is false, and
 * *response and the audit log have the reason: 403 reads_only, cross_site or act_token, 429 acts.
 */
fed_status fedserver_acting_admit(fedserver *server, const fedserver_request *request,
                                  int64_t now_ms, bool *admitted, fedserver_response *response,
                                  fed_error *err) FED_CHECKED;

/** Read the request's body, a JSON object. NULL: *response says what is wrong, or *status is an
 * error. The caller releases the object. */
json_t *fedserver_acting_body(const fedserver_request *request, fedserver_response *response,
                              fed_status *status, fed_error *err);

/** Answer for an operator's function (fedserver/operator.h) that has refused: 400, 404 or 409, with
 * its sentence. Any other status is an error, and is returned. */
fed_status fedserver_acting_refusal(fed_status status, const fed_error *why,
                                    fedserver_response *response, fed_error *err) FED_CHECKED;

#endif
