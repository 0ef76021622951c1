/* GET /v1/session: may this visitor act through the page, and with which token? */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/acting.h"
#include "fedserver/routes/router.h"
#include "fedserver/routes/visitors.h"

static json_t *text_or_null(const char *text) {
    return text != NULL ? json_string(text) : json_null();
}

fed_status fedserver_get_session(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    fedserver_visitor visitor = FEDSERVER_VISITOR_READER;
    char act[FED_SHA256_HEX] = "";
    const char *off = fedserver_acting_off(server);
    if (request->listener == FEDSERVER_FRONT) {
        FED_TRY(fedserver_visitor_find(server, request, call->now_ms, &visitor, err));
    }
    /* A browser shows its certificate to pages of all sites, so a certificate does not act. */
    const bool acts = off == NULL && visitor == FEDSERVER_VISITOR_OPERATOR &&
                      fedserver_visitor_act_token(request, act);
    if (off == NULL && !acts) {
        off = "to act, log in: `fedserver page` on the coordinator's machine prints a link";
    }
    return fedserver_answer_json(response, 200,
                                 json_pack("{s:b, s:o, s:o}", "acts", acts, "act_token",
                                           text_or_null(acts ? act : NULL), "why_not",
                                           text_or_null(acts ? NULL : off)),
                                 err);
}
