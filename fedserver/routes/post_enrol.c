/* POST /v1/enrol: a one-time token and a certificate request in, a certificate out. */
#include "fedserver/router.h"

fed_status fedserver_post_enrol(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    fedserver_auth auth;
    fedserver_enrolment outcome;
    fedserver_issued issued;
    fed_error why = {0};
    FED_TRY(fedserver_auth_open(server, &auth, err));
    FED_TRY(fedserver_enrol(&auth, request->bearer, request->body, request->body_len, call->now_ms,
                            &outcome, &issued, &why, err));
    if (outcome == FEDSERVER_ENROLLED) {
        char name[17]; /* the start of what the device calls itself */
        fed_hex(issued.device.fingerprint, 8, name);
        fed_logf(server->log, FED_LOG_INFO, "%s %s... has enrolled",
                 fedserver_role_name(issued.device.role), name);
    }
    return fedserver_answer_certificate(server, outcome, &issued, &why, response, err);
}
