/* Finds out which visitor asks at the front: by a cookie or token in the request, or by --page. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_VISITORS_H
#define FEDSERVER_VISITORS_H

#include "fedserver/server.h"

/** Name of a session's cookie. Browsers accept a name with this prefix only over TLS, and send it
 * only to this host. */
#define FEDSERVER_COOKIE "__Host-fed"

enum { FEDSERVER_VISITOR = 128 };

typedef enum fedserver_visitor {
    FEDSERVER_VISITOR_STRANGER = 0,
    FEDSERVER_VISITOR_READER = 1,  /* may read the page, the status, the devices, the metrics */
    FEDSERVER_VISITOR_OPERATOR = 2 /* may also download the model, and act (routes/acting.h) */
} fedserver_visitor;

fed_status fedserver_visitor_find(fedserver *server, const fedserver_request *request,
                                  int64_t now_ms, fedserver_visitor *visitor,
                                  fed_error *err) FED_CHECKED;

/** Did the visitor show a session's cookie or a bearer token, whether it is good or not? */
bool fedserver_visitor_shows_pass(const fedserver_request *request);

/** Write the token that the page of this session must show to act; false: the request has no
 * session's cookie. */
bool fedserver_visitor_act_token(const fedserver_request *request, char act[FED_SHA256_HEX]);

/** Write the enrolment token of a wish of this session (fedserver_token_of); false: as above. */
bool fedserver_visitor_token_of(const fedserver_request *request, const char *wish,
                                char token[FEDSERVER_TOKEN]);

/**
 * Name who asks, for the audit log: "address=192.0.2.7 session=4875ee37c7fc". A session, a bearer's
 * pass and an enrolment token are named by the first digits of their hash, and an operator's
 * certificate by its key's fingerprint.
 *
 * enrols  a bearer token of this request is an enrolment token, and a cookie does not count
 */
void fedserver_visitor_name(const fedserver_request *request, bool enrols,
                            char by[FEDSERVER_VISITOR]);

/** Refuse a visitor, and say how to log in: with the login page, or with JSON for a program. */
fed_status fedserver_visitor_refuse(const fedserver *server, const fedserver_request *request,
                                    fedserver_visitor visitor, fedserver_response *response,
                                    fed_error *err) FED_CHECKED;

#endif
